;; Reads and writes a global of the instance, such as the stack pointer of C programs.
(module
  (global $sp (mut i32) (i32.const 65536))
  (func (export "run") (param i32) (result i32)
    (global.set $sp (i32.sub (global.get $sp) (local.get 0)))
    (global.get $sp)))
