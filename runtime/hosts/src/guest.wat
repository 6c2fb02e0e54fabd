;; A guest that causes every signal that the runtime handles. Each function maps a number to one.
(module
  (import "host" "back" (func $back (param i32) (result i32)))
  (memory (export "memory") 1 256)
  (global $zero (mut i32) (i32.const 0))

  ;; the sum of n random numbers
  (func $mix (export "mix") (param $n i32) (result i32)
    (local $x i32) (local $sum i32)
    (local.set $x (i32.const 0x9e3779b9))
    (loop $next
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 13))))
      (local.set $x (i32.xor (local.get $x) (i32.shr_u (local.get $x) (i32.const 17))))
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 5))))
      (local.set $sum (i32.add (local.get $sum) (local.get $x)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))

  ;; SIGILL
  (func (export "unreachable") (param i32) (result i32) unreachable)
  ;; SIGFPE
  (func (export "divide") (param $n i32) (result i32)
    (i32.div_u (local.get $n) (global.get $zero)))
  ;; SIGSEGV
  (func (export "out_of_bounds") (param i32) (result i32)
    (i32.load (i32.shl (memory.size) (i32.const 16))))
  ;; SIGSEGV by stack overflow
  (func $deeper (export "overflow") (param $n i32) (result i32)
    (i32.add (call $deeper (local.get $n)) (global.get $zero)))
  ;; SIGURG
  (func (export "forever") (param i32) (result i32) (loop $l (br $l)) unreachable)
  ;; SIGBUS, under the tracked reset: grows by n pages, reads and writes each, and counts them
  (func (export "grow") (param $n i32) (result i32)
    (local $at i32) (local $end i32) (local $sum i32)
    (local.set $at (i32.shl (memory.grow (local.get $n)) (i32.const 16)))
    (local.set $end (i32.shl (memory.size) (i32.const 16)))
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
      (i32.store8 (local.get $at) (i32.const 1))
      (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
      (br_if $next (i32.lt_u
        (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (local.get $end))))
    (local.get $sum))

  ;; A host function, called while the guest's frames are on the stack
  (func (export "back") (param $n i32) (result i32)
    (i32.add (call $back (local.get $n)) (call $mix (local.get $n)))))
