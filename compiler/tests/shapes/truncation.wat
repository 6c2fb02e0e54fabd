;; Conversions of a float to an integer: one that traps, and one that saturates.
(module
  (func (export "run") (param f64) (result i32)
    (i32.add
      (i32.trunc_f64_s (local.get 0))
      (i32.trunc_sat_f64_u (local.get 0)))))
