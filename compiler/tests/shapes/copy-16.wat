;; Copies 16 bytes.
(module
  (memory 1)
  (func (export "run") (param i32 i32)
    (memory.copy (local.get 0) (local.get 1) (i32.const 16))))
