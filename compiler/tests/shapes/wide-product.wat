;; The product of two 64-bit numbers with all 128 bits.
(module
  (func (export "run") (param i64 i64) (result i64 i64)
    (i64.mul_wide_u (local.get 0) (local.get 1))))
