;; How the host enters a guest, and how a guest leaves to a host function.
(module
  (import "host" "add" (func $add (param i32 i64) (result i64)))
  (func (export "run") (param i32 f64) (result i64)
    (call $add (local.get 0) (i64.trunc_sat_f64_s (local.get 1)))))
