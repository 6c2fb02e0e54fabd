;; Throws an exception with a value, and catches it in the caller.
(module
  (tag $failed (param i32))
  (func $checked (param i32) (result i32)
    (if (i32.lt_s (local.get 0) (i32.const 0))
      (then (throw $failed (local.get 0))))
    (local.get 0))
  (func (export "run") (param i32) (result i32)
    (block $caught (result i32)
      (try_table (catch $failed $caught) (return (call $checked (local.get 0))))
      (unreachable))))
