;; An element of an array: the null and bounds checks.
(module
  (type $bytes (array (mut i8)))
  (func (export "run") (param (ref null $bytes) i32) (result i32)
    (array.get_u $bytes (local.get 0) (local.get 1))))
