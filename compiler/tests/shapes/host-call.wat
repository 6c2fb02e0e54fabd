;; A call of a host function, from the guest's side.
(module
  (import "host" "add" (func $add (param i32 i64) (result i64)))
  (func (export "run") (param i32) (result i64)
    (i64.add (call $add (local.get 0) (i64.const 5)) (i64.const 1))))
