;; Reads, changes and writes back fields of a C structure.
(module
  (memory 1)
  (func (export "run") (param i32 i32)
    (i32.store offset=4 (local.get 0)
      (i32.add (i32.load offset=4 (local.get 0)) (local.get 1)))
    (i32.store8 offset=8 (local.get 0) (i32.const 7))
    (i64.store offset=16 (local.get 0) (i64.extend_i32_s (local.get 1)))))
