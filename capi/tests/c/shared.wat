;; The guest of shared.c: counts and waits in a shared memory.
(module $shared
  (import "host" "memory" (memory 1 3 shared))
  (import "host" "global" (global $global i32))
  (func (export "add") (param i32) (result i32) (local $n i32)
    (loop $again
      (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 1)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $n) (local.get 0))))
    (global.get $global))
  ;; 0 if it was woken, 1 if the number is another one.
  (func (export "wait") (param i32) (result i32)
    (memory.atomic.wait32 (i32.const 16) (local.get 0) (i64.const -1)))
  (func (export "load") (param i32) (result i32) (i32.atomic.load (local.get 0))))
