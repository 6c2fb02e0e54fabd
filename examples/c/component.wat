;; The component of the examples `component`: it adds up a list of items, whose prices it asks for.
(component
  (import "example:shop/prices" (instance $prices
    (export "price" (func (param "name" string) (result (option u32))))))
  (core module $libc
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next)
      (global.set $next (i32.and (i32.const -8)
        (i32.add (i32.const 7) (i32.add (global.get $next) (local.get 3)))))))
  (core instance $libc (instantiate $libc))
  (core func $price (canon lower (func $prices "price") (memory (core memory $libc "memory"))
    (realloc (core func $libc "realloc"))))
  (core module $shop
    (import "libc" "memory" (memory 1))
    (import "prices" "price" (func $price (param i32 i32 i32)))
    ;; An item is 12 bytes: the address and the length of its name, and a count.
    (func (export "total") (param $item i32) (param $items i32) (result i32) (local $sum i32)
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $items)))
        (call $price (i32.load (local.get $item)) (i32.load offset=4 (local.get $item))
          (i32.const 16))
        (if (i32.eqz (i32.load8_u (i32.const 16)))
          (then ;; There is no price: the error is the name.
            (i32.store8 (i32.const 32) (i32.const 1))
            (i32.store (i32.const 36) (i32.load (local.get $item)))
            (i32.store (i32.const 40) (i32.load offset=4 (local.get $item)))
            (return (i32.const 32))))
        (local.set $sum (i32.add (local.get $sum)
          (i32.mul (i32.load offset=8 (local.get $item)) (i32.load (i32.const 20)))))
        (local.set $item (i32.add (local.get $item) (i32.const 12)))
        (local.set $items (i32.sub (local.get $items) (i32.const 1)))
        (br $next)))
      (i32.store8 (i32.const 32) (i32.const 0))
      (i32.store (i32.const 36) (local.get $sum))
      (i32.const 32)))
  (core instance $i (instantiate $shop (with "libc" (instance $libc))
    (with "prices" (instance (export "price" (func $price))))))
  (type $item' (record (field "name" string) (field "count" u32)))
  (export $item "item" (type $item'))
  (func (export "total") (param "items" (list $item)) (result (result u32 (error string)))
    (canon lift (core func $i "total") (memory (core memory $libc "memory"))
      (realloc (core func $libc "realloc")))))
