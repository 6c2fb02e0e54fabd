;; One call with arguments and a result.
;; expect: add(2, 3) -> 5
;; expect: add(2147483647, 1) -> -2147483648
(module
  (func (export "add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1))))
