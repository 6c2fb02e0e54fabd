;; Allocates a structure of the garbage-collected heap.
(module
  (type $pair (struct (field i32) (field (mut i64))))
  (func (export "run") (param i32 i64) (result (ref $pair))
    (struct.new $pair (local.get 0) (local.get 1))))
