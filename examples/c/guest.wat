;; The guest of the examples in C, C++, Python and Go.
(module $guest
  (import "host" "log" (func $log (param i32 i32)))
  (import "host" "square" (func $square (param i32) (result i32)))
  (import "host" "fetch" (func $fetch (param i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 16) "hello from the guest")
  (global $calls (mut i32) (i32.const 0))
  (global (export "limit") (mut i64) (i64.const 7))

  (func (export "greet") (call $log (i32.const 16) (i32.const 20)))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "twice") (param i32) (result i32)
    (i32.mul (call $square (local.get 0)) (i32.const 2)))
  ;; Several values, of all kinds of numbers.
  (func (export "swap") (param i64 f64) (result f64 i64) (local.get 1) (local.get 0))
  ;; Asks the host twice, and adds the answers.
  (func (export "sum_of_two") (param i32) (result i64)
    (i64.add (call $fetch (local.get 0)) (call $fetch (i32.add (local.get 0) (i32.const 1)))))
  (func (export "count") (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (global.get $calls))
  (func (export "forever") (loop $again (br $again)))
  (func $divide (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1)))
  (func (export "average") (param i32 i32) (result i32) (call $divide (local.get 0) (local.get 1)))
  (func (export "poke") (param i32 i32) (i32.store (local.get 0) (local.get 1))))
