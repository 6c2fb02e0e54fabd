;; A call through a table that nothing changes: a dispatch table.
(module
  (type $unary (func (param i32) (result i32)))
  (table funcref (elem $one $two $three))
  (func (export "run") (param i32 i32) (result i32)
    (call_indirect (type $unary) (local.get 0) (local.get 1)))
  (func $one (type $unary) (i32.add (local.get 0) (i32.const 1)))
  (func $two (type $unary) (i32.mul (local.get 0) (local.get 0)))
  (func $three (type $unary) (i32.clz (local.get 0))))
