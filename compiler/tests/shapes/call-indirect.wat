;; A call through a table that the host may change: the bounds, null and type checks.
(module
  (type $unary (func (param i32) (result i32)))
  (table (export "table") 2 funcref)
  (func (export "run") (param i32 i32) (result i32)
    (call_indirect (type $unary) (local.get 0) (local.get 1))))
