;; A load from a 64-bit memory behind a mask of the program, which makes a check superfluous.
(module
  (memory i64 1)
  (func (export "run") (param i64) (result i32)
    (i32.load8_u offset=16 (i64.and (local.get 0) (i64.const 0x3ff)))))
