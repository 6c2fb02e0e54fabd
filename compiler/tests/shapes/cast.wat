;; A cast to a final and to an open type, and a field of the result.
(module
  (type $open (sub (struct (field i32))))
  (type $final (sub final $open (struct (field i32) (field i64))))
  (func (export "run") (param anyref) (result i64)
    (struct.get $final 1 (ref.cast (ref $final) (local.get 0))))
  (func (export "open") (param anyref) (result i32)
    (struct.get $open 0 (ref.cast (ref $open) (local.get 0)))))
