;; The least a guest can be: what is left of a cycle when the guest does nothing.
;; expect: run() -> nothing
(module
  (func (export "run")))
