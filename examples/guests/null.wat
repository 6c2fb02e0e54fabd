;; The smallest guest: it measures the cost of a cycle without work of the guest.
;; expect: run() -> nothing
(module
  (func (export "run")))
