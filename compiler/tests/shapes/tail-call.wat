;; A tail call to a function with more parameters than registers.
(module
  (table (export "table") 2 funcref)
  (type $many (func (param i64 i64 i64 i64 i64 i64 i64 i64 i64) (result i64)))
  (func (export "run") (type $many)
    (return_call_indirect (type $many)
      (local.get 8) (local.get 7) (local.get 6) (local.get 5) (local.get 4)
      (local.get 3) (local.get 2) (local.get 1) (local.get 0)
      (i32.const 1))))
