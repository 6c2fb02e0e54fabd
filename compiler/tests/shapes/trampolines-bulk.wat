;; Copies and fills of any length.
(module
  (memory 1)
  (func (export "run") (param i32 i32 i32)
    (memory.copy (local.get 0) (local.get 1) (local.get 2))
    (memory.fill (local.get 0) (local.get 1) (local.get 2))))
