;; A loop over a 32-bit memory: guard pages replace the bounds check.
(module
  (memory 1)
  (func (export "run") (param $at i32) (param $left i32) (result i64) (local $sum i64)
    (loop $again
      (local.set $sum
        (i64.add (local.get $sum) (i64.load32_u offset=8 (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    (local.get $sum)))
