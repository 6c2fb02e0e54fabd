;; A call of a typed function reference that may be null.
(module
  (type $unary (func (param i32) (result i32)))
  (func (export "run") (param i32 (ref null $unary)) (result i32)
    (call_ref $unary (local.get 0) (local.get 1))))
