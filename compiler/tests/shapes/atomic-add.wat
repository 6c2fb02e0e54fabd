;; An atomic addition in a shared memory, and one whose result nobody uses.
(module
  (memory 1 1 shared)
  (func (export "run") (param i32 i64) (result i64)
    (drop (i32.atomic.rmw.add (local.get 0) (i32.const 1)))
    (i64.atomic.rmw.add offset=8 (local.get 0) (local.get 1))))
