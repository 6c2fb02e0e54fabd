;; A loop over a 64-bit memory: a bounds check and its mask in each iteration.
(module
  (memory i64 1)
  (func (export "run") (param $at i64) (param $left i32) (result i64) (local $sum i64)
    (loop $again
      (local.set $sum
        (i64.add (local.get $sum) (i64.load32_u offset=8 (local.get $at))))
      (local.set $at (i64.add (local.get $at) (i64.const 4)))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    (local.get $sum)))
