;; A guest of group.c: it asks its caller. With a memory of "maths", its start writes there and
;; traps.
(module $asks
  (import "maths" "memory" (memory 1))
  (import "host" "ask" (func $ask (param i32) (result i32)))
  (global $broken (import "host" "broken") i32)
  (func (export "ask") (param i32) (result i32) (call $ask (local.get 0)))
  (func $start
    (i32.store8 (i32.const 64) (i32.const 7))
    (if (global.get $broken) (then unreachable)))
  (start $start))
