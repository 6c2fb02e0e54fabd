;; Overflows its stack. expect: 502
(module (memory (export "memory") 1)
  (func $deeper (param i32) (result i32)
    (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (local.get 0)))
  (func (export "_start") (drop (call $deeper (i32.const 0)))))
