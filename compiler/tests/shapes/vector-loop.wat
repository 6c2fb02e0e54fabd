;; A loop of vector operators: a dot product of 16-bit numbers.
(module
  (memory 1)
  (func (export "run") (param $left i32) (param $right i32) (param $count i32) (result v128)
    (local $sum v128)
    (loop $again
      (local.set $sum
        (i32x4.add (local.get $sum)
          (i32x4.dot_i16x8_s (v128.load (local.get $left)) (v128.load (local.get $right)))))
      (local.set $left (i32.add (local.get $left) (i32.const 16)))
      (local.set $right (i32.add (local.get $right) (i32.const 16)))
      (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (local.get $sum)))
