;; Stores a product of 128-bit numbers. Comparisons find the carries, as in LLVM's expansion.
(module (memory (export "memory") 1)
  (func $multiply (export "itself") (param $to i32) (param $a i64) (param $a_high i64) (param $b i64) (param $b_high i64)
      (local $low i64) (local $crossed i64) (local $middle i64) (local $sum i64)
      (local.set $low (i64.mul
        (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.and (local.get $b) (i64.const 0xffffffff))))
      (local.set $crossed (i64.mul
        (i64.and (local.get $b) (i64.const 0xffffffff)) (i64.shr_u (local.get $a) (i64.const 32))))
      (local.set $middle (i64.add (local.get $crossed) (i64.mul
        (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.shr_u (local.get $b) (i64.const 32)))))
      (i64.store (local.get $to) (local.tee $sum
        (i64.add (local.get $low) (i64.shl (local.get $middle) (i64.const 32)))))
      (i64.store offset=8 (local.get $to) (i64.add
        (i64.add
          (i64.add (i64.mul (local.get $a_high) (local.get $b)) (i64.mul (local.get $b_high) (local.get $a)))
          (i64.extend_i32_u (i64.gt_u (local.get $low) (local.get $sum))))
        (i64.add
          (i64.mul (i64.shr_u (local.get $b) (i64.const 32)) (i64.shr_u (local.get $a) (i64.const 32)))
          (i64.or
            (i64.shr_u (local.get $middle) (i64.const 32))
            (i64.shl (i64.extend_i32_u (i64.lt_u (local.get $middle) (local.get $crossed)))
              (i64.const 32)))))))
  (func (export "called") (param $to i32) (param $a i64) (param $a_high i64) (param $b i64) (param $b_high i64)
    (call $multiply (local.get $to) (local.get $a) (local.get $a_high)
      (local.get $b) (local.get $b_high)))
  (func (export "narrow") (param $to i32) (param $a i64) (param $a_high i64) (param $b i64) (param $b_high i64)
    (call $multiply (local.get $to) (local.get $a) (i64.const 0)
      (local.get $b) (i64.const 0))))
