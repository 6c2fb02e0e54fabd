;; A product of 64-bit numbers: digits.wat as optimisers reduce it if all upper halves are 0.
(module (memory (export "memory") 1)
  (func $multiply (export "itself") (param $to i32) (param $a i64) (param $b i64)
      (local $low i64) (local $middle i64) (local $second i64)
      (local.set $low (i64.mul
        (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.and (local.get $b) (i64.const 0xffffffff))))
      (local.set $middle (i64.add
        (i64.mul (i64.and (local.get $b) (i64.const 0xffffffff)) (i64.shr_u (local.get $a) (i64.const 32)))
        (i64.shr_u (local.get $low) (i64.const 32))))
      (local.set $second (i64.add
        (i64.and (local.get $middle) (i64.const 0xffffffff))
        (i64.mul (i64.and (local.get $a) (i64.const 0xffffffff)) (i64.shr_u (local.get $b) (i64.const 32)))))
      (i64.store offset=8 (local.get $to) (i64.add
        (i64.shr_u (local.get $second) (i64.const 32))
        (i64.add
          (i64.mul (i64.shr_u (local.get $b) (i64.const 32)) (i64.shr_u (local.get $a) (i64.const 32)))
          (i64.shr_u (local.get $middle) (i64.const 32)))))
      (i64.store (local.get $to) (i64.or
        (i64.shl (local.get $second) (i64.const 32))
        (i64.and (local.get $low) (i64.const 0xffffffff)))))
  (func (export "called") (param $to i32) (param $a i64) (param $b i64)
    (call $multiply (local.get $to) (local.get $a) (local.get $b))))
