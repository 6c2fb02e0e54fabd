;; A guest of group.c, whose exports user.wat imports: one item of each kind but tags.
(module $maths
  (import "host" "twice" (func $twice (param i32) (result i32)))
  (memory (export "memory") 1 3)
  (table (export "table") 2 4 funcref)
  (global (export "total") (mut i64) (i64.const 0))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "twice") (param i32) (result i32) (call $twice (local.get 0)))
  (func (export "spin") (loop $again (br $again)))
  (func $fail (export "fail") unreachable))
