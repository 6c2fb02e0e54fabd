;; Calls the host as often as its parameter says.
;; With a host function f that returns its argument:
;; expect: calls(4) -> 10
(module
  (import "host" "f" (func $f (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "calls") (param $n i32) (result i32)
    (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (call $f (local.get $n))))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))
