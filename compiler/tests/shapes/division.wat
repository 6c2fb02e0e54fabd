;; A signed division and a remainder, with the checks of both.
(module
  (func (export "run") (param i32 i32) (result i32)
    (i32.add
      (i32.div_s (local.get 0) (local.get 1))
      (i32.rem_s (local.get 0) (local.get 1)))))
