;; A branch by a table of four places.
(module
  (func (export "run") (param i32 i32) (result i32)
    (block $default
      (block $three
        (block $two
          (block $one
            (br_table $one $two $three $default (local.get 0)))
          (return (i32.add (local.get 1) (i32.const 11))))
        (return (i32.xor (local.get 1) (i32.const 22))))
      (return (i32.mul (local.get 1) (i32.const 33))))
    (i32.rotl (local.get 1) (i32.const 4))))
