;; One exported function for each way in which a guest can trap, without parameters and results. The
;; invalid operands come from globals, so that a compiler does not know them.
;; Each line: the export, and the trap in the words of the WebAssembly specification's tests.
;; expect: unreachable -> trap: unreachable
;; expect: divide_by_zero -> trap: integer divide by zero
;; expect: remainder_by_zero -> trap: integer divide by zero
;; expect: divide_by_zero_64 -> trap: integer divide by zero
;; expect: divide_overflow -> trap: integer overflow
;; expect: divide_overflow_64 -> trap: integer overflow
;; expect: truncate_nan -> trap: invalid conversion to integer
;; expect: truncate_too_large -> trap: integer overflow
;; expect: load_out_of_bounds -> trap: out of bounds memory access
;; expect: load_across_the_end -> trap: out of bounds memory access
;; expect: load_far_out_of_bounds -> trap: out of bounds memory access
;; expect: store_out_of_bounds -> trap: out of bounds memory access
;; expect: fill_out_of_bounds -> trap: out of bounds memory access
;; expect: copy_out_of_bounds -> trap: out of bounds memory access
;; expect: init_out_of_bounds -> trap: out of bounds memory access
;; expect: table_get_out_of_bounds -> trap: out of bounds table access
;; expect: call_out_of_bounds -> trap: undefined element
;; expect: call_null -> trap: uninitialized element
;; expect: call_wrong_type -> trap: indirect call type mismatch
;; expect: stack_overflow -> trap: call stack exhausted
;; expect: stack_overflow_indirect -> trap: call stack exhausted
;; expect: nested -> trap: unreachable, in $inner called by $middle called by $outer
;; expect: fine -> returns, before and after any of the others
(module
  (type $nothing (func))
  (type $number (func (result i32)))

  (memory (export "memory") 1 1)
  (data $passive "four")
  (table $table 4 4 funcref)
  (elem (table $table) (i32.const 1) func $seven $deeper_indirect)

  (global $zero (mut i32) (i32.const 0))
  (global $zero_64 (mut i64) (i64.const 0))
  (global $minus_one (mut i32) (i32.const -1))
  (global $minus_one_64 (mut i64) (i64.const -1))
  (global $least (mut i32) (i32.const 0x80000000))
  (global $least_64 (mut i64) (i64.const 0x8000000000000000))
  (global $nan (mut f32) (f32.const nan))
  (global $large (mut f64) (f64.const 1e10))
  (global $end (mut i32) (i32.const 65536))
  (global $depth (mut i64) (i64.const 0))

  (func (export "fine")
    (drop (call_indirect $table (type $number) (i32.const 1))))

  (func (export "unreachable") unreachable)

  ;; --- arithmetic
  (func (export "divide_by_zero")
    (drop (i32.div_s (i32.const 1) (global.get $zero))))
  (func (export "remainder_by_zero")
    (drop (i32.rem_u (i32.const 1) (global.get $zero))))
  (func (export "divide_by_zero_64")
    (drop (i64.div_u (i64.const 1) (global.get $zero_64))))
  (func (export "divide_overflow")
    (drop (i32.div_s (global.get $least) (global.get $minus_one))))
  (func (export "divide_overflow_64")
    (drop (i64.div_s (global.get $least_64) (global.get $minus_one_64))))
  (func (export "truncate_nan")
    (drop (i32.trunc_f32_s (global.get $nan))))
  (func (export "truncate_too_large")
    (drop (i32.trunc_f64_s (global.get $large))))

  ;; --- memory: one page, 65536 bytes
  (func (export "load_out_of_bounds")
    (drop (i32.load8_u (global.get $end))))
  (func (export "load_across_the_end")
    (drop (i64.load offset=65529 (global.get $zero))))
  (func (export "load_far_out_of_bounds")
    (drop (i32.load offset=0xffffffff (global.get $minus_one))))
  (func (export "store_out_of_bounds")
    (i32.store (global.get $minus_one) (i32.const 1)))
  (func (export "fill_out_of_bounds")
    (memory.fill (i32.const 65535) (i32.const 1) (i32.const 2)))
  (func (export "copy_out_of_bounds")
    (memory.copy (i32.const 0) (global.get $end) (i32.const 1)))
  (func (export "init_out_of_bounds")
    (memory.init $passive (i32.const 0) (i32.const 2) (i32.const 3)))

  ;; --- tables: null, $seven, $deeper_indirect, null
  (func (export "table_get_out_of_bounds")
    (drop (table.get $table (i32.const 4))))
  (func (export "call_out_of_bounds")
    (call_indirect $table (type $nothing) (global.get $end)))
  (func (export "call_null")
    (call_indirect $table (type $nothing) (global.get $zero)))
  (func (export "call_wrong_type")
    (call_indirect $table (type $nothing) (i32.const 1)))
  (func $seven (result i32) (i32.const 7))

  ;; --- stack
  (func (export "stack_overflow") (drop (call $deeper)))
  ;; The addition after the call prevents a tail call.
  (func $deeper (result i64)
    (global.set $depth (i64.add (global.get $depth) (i64.const 1)))
    (i64.add (call $deeper) (global.get $depth)))
  (func (export "stack_overflow_indirect") (drop (call $deeper_indirect)))
  (func $deeper_indirect (result i32)
    (i32.add (call_indirect $table (type $number) (i32.const 2)) (global.get $minus_one)))

  ;; --- a backtrace with names
  (func $outer (export "nested") (call $middle) (global.set $depth (i64.const 1)))
  (func $middle (call $inner) (global.set $depth (i64.const 2)))
  (func $inner unreachable))
