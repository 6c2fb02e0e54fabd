;; The fuel of functions, for `runtime/tests/fuel.rs`. A line `;; NAME ARGUMENTS... uses N` says
;; that a call of that function consumes N; a trailing `, traps: MESSAGE` says that it traps. Every
;; call is made in a new instance.
(module
  (type $none (func))
  (memory 1 2)
  (table $t 8 10 funcref)
  (elem (i32.const 0) func $one)
  (elem $passive func $one $one $one)
  (data $bytes "0123456789abcdef")

  ;; one uses 1
  (func $one (export "one") (drop (i32.const 7)))

  ;; nothing uses 0
  (func (export "nothing"))

  ;; free uses 0
  (func (export "free") nop (block (loop nop)) nop)

  ;; Two operands and the addition.
  ;; add 1 2 uses 3
  (func (export "add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1)))

  ;; global uses 3
  (global $g (mut i32) (i32.const 0))
  (func (export "global") (global.set $g (i32.const 1)) (drop (global.get $g)))

  ;; select 0 uses 4
  (func (export "select") (param i32) (result i32)
    (select (i32.const 1) (i32.const 2) (local.get 0)))

  ;; Only one arm is executed.
  ;; either 1 uses 3
  ;; either 0 uses 5
  (func (export "either") (param i32) (result i32)
    (if (result i32) (local.get 0)
      (then (i32.const 1))
      (else (i32.add (i32.const 2) (i32.const 3)))))

  ;; when 0 uses 2
  ;; when 1 uses 5
  (func (export "when") (param i32)
    (if (local.get 0) (then (drop (i32.add (i32.const 1) (i32.const 2))))))

  ;; The code after a branch is not executed.
  ;; past uses 1
  (func (export "past")
    (block (br 0) (drop (i32.add (i32.const 1) (i32.const 2))) (unreachable)))

  ;; early 1 uses 4
  ;; early 0 uses 3
  (func (export "early") (param i32) (result i32)
    (if (local.get 0) (then (return (i32.const 1))))
    (i32.const 2))

  ;; out 1 uses 3
  ;; out 0 uses 4
  (func (export "out") (param i32) (result i32)
    (i32.const 1)
    (br_if 0 (local.get 0))
    (drop)
    (i32.const 2))

  ;; The operand and the `br_table`, and the code between the ends of the blocks.
  ;; table 0 uses 4
  ;; table 1 uses 3
  ;; table 2 uses 2
  ;; table 9 uses 2
  (func (export "table") (param i32)
    (block $c (block $b (block $a
      (br_table $a $b $c (local.get 0)))
      (drop (i32.const 1)))
      (drop (i32.const 1))))

  ;; Five operators in each iteration.
  ;; loop 1 uses 5
  ;; loop 3 uses 15
  ;; loop 1000 uses 5000
  (func (export "loop") (param i32)
    (loop (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))

  ;; One operator before the loop, and five in each iteration.
  ;; carried 3 uses 16
  (func (export "carried") (param i32) (result i32)
    (local.get 0)
    (loop (param i32) (result i32)
      (i32.sub (i32.const 1))
      (local.tee 0)
      (br_if 0 (local.get 0))))

  ;; Seven in each iteration of the outer loop, and five in each of the inner one.
  ;; nested 2 3 uses 44
  (func (export "nested") (param i32 i32)
    (local i32)
    (loop $outer
      (local.set 2 (local.get 1))
      (loop $inner
        (br_if $inner (local.tee 2 (i32.sub (local.get 2) (i32.const 1)))))
      (br_if $outer (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))

  ;; The call, and the operator of the callee.
  ;; direct uses 2
  (func (export "direct") (call $one))

  ;; indirect 0 uses 3
  ;; indirect 1 uses 2, traps: uninitialized element
  ;; indirect 8 uses 2, traps: undefined element
  (func (export "indirect") (param i32) (call_indirect $t (type $none) (local.get 0)))

  ;; mismatch uses 3, traps: indirect call type mismatch
  (func (export "mismatch")
    (drop (call_indirect $t (param i32) (result i32) (i32.const 1) (i32.const 0))))

  ;; Tail calls: no operator is executed after the return.
  ;; tail uses 2
  (func (export "tail") (return_call $one))
  ;; tail-indirect 0 uses 3
  ;; tail-indirect 1 uses 2, traps: uninitialized element
  ;; tail-indirect 8 uses 2, traps: undefined element
  (func (export "tail-indirect") (param i32) (return_call_indirect $t (type $none) (local.get 0)))
  ;; The reference, the call, and the operator of the callee.
  ;; reference uses 3
  (func (export "reference") (call_ref $none (ref.func $one)))
  ;; tail-reference uses 3
  (func (export "tail-reference") (return_call_ref $none (ref.func $one)))
  ;; null-reference uses 2, traps: null function reference
  (func (export "null-reference") (call_ref $none (ref.null $none)))
  ;; non-null uses 2, traps: null reference
  (func (export "non-null") (drop (ref.as_non_null (ref.null func))))
  ;; on-null uses 2
  (func (export "on-null")
    (block (br_on_null 0 (ref.null func)) (drop) (drop (i32.const 1))))
  ;; on-non-null uses 3
  (func (export "on-non-null")
    (drop (block (result (ref $none)) (br_on_non_null 0 (ref.null $none)) (ref.func $one))))

  ;; Six operators in each step, and two in the last one.
  ;; countdown 0 uses 2
  ;; countdown 4 uses 26
  (func $countdown (export "countdown") (param i32)
    (if (local.get 0) (then (return_call $countdown (i32.sub (local.get 0) (i32.const 1))))))

  ;; Eight operators in each step, and three in the last one.
  ;; factorial 0 uses 3
  ;; factorial 4 uses 35
  (func $factorial (export "factorial") (param i32) (result i32)
    (if (result i32) (local.get 0)
      (then (i32.mul (local.get 0)
        (call $factorial (i32.sub (local.get 0) (i32.const 1)))))
      (else (i32.const 1))))

  ;; The trapping operator counts, and nothing after it.
  ;; stop uses 2, traps: unreachable
  (func (export "stop") (drop (i32.const 1)) (unreachable))
  ;; divide 0 uses 4, traps: integer divide by zero
  ;; divide 1 uses 6
  (func (export "divide") (param i32)
    (drop (i32.add (i32.const 1) (i32.div_s (i32.const 5) (local.get 0))))
    (drop (i32.const 1)))
  ;; callee uses 3, traps: unreachable
  (func (export "callee") (call $stop) (drop (i32.const 1)))
  (func $stop (drop (i32.const 1)) (unreachable))

  ;; A trap by a signal reports the fuel stored last: at a function, an iteration or a call.
  ;; outside uses 0, traps: out of bounds memory access
  (func (export "outside") (drop (i32.load (i32.const -1))))
  ;; outside-after 3 uses 24, traps: out of bounds memory access
  (func (export "outside-after") (param i32)
    (local.set 0 (local.get 0))
    (loop
      (drop (i32.load (i32.sub (i32.const 0) (i32.eq (local.get 0) (i32.const 1)))))
      (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
  ;; outside-call uses 2, traps: out of bounds memory access
  (func (export "outside-call") (call $one) (drop (i32.load (i32.const -1))))

  ;; Each 8 bytes of memory cost 1 more, and so does each table element.
  ;; fill 0 uses 4
  ;; fill 7 uses 4
  ;; fill 8 uses 5
  ;; fill 65536 uses 8196
  ;; fill 65537 uses 8196, traps: out of bounds memory access
  ;; fill -1 uses 536870915, traps: out of bounds memory access
  (func (export "fill") (param i32)
    (memory.fill (i32.const 0) (i32.const 1) (local.get 0)))
  ;; copy 800 uses 104
  (func (export "copy") (param i32)
    (memory.copy (i32.const 0) (i32.const 1024) (local.get 0)))
  ;; init 16 uses 6
  (func (export "init") (param i32)
    (memory.init $bytes (i32.const 0) (i32.const 0) (local.get 0)))
  ;; dropped uses 2
  (func (export "dropped") (data.drop $bytes) (elem.drop $passive))
  ;; tfill 8 uses 12
  ;; tfill 9 uses 13, traps: out of bounds table access
  (func (export "tfill") (param i32)
    (table.fill $t (i32.const 0) (ref.null func) (local.get 0)))
  ;; tcopy 3 uses 7
  (func (export "tcopy") (param i32)
    (table.copy $t $t (i32.const 4) (i32.const 0) (local.get 0)))
  ;; tinit 3 uses 7
  (func (export "tinit") (param i32)
    (table.init $t $passive (i32.const 4) (i32.const 0) (local.get 0)))

  ;; Growth costs the elements that it fills: none for a memory, the new ones for a table.
  ;; grow 1 uses 2
  ;; grow 2 uses 2
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  ;; tgrow 0 uses 3
  ;; tgrow 2 uses 5
  ;; tgrow 3 uses 3
  ;; tgrow -1 uses 3
  (func (export "tgrow") (param i32) (result i32)
    (table.grow $t (ref.null func) (local.get 0)))

  ;; wide uses 6
  (func (export "wide") (result i64 i64)
    (i64.add128 (i64.mul_wide_u (i64.const 1) (i64.const 2)) (i64.const 3) (i64.const 4)))
  ;; wider uses 8
  (func (export "wider") (result i64 i64) (local i64)
    (i64.sub128 (i64.const -1) (i64.const 2) (i64.const 3) (i64.const 4))
    drop drop (i64.const 5) nop (local.get 0) i64.mul_wide_s)

  ;; vector uses 4
  (func (export "vector") (result i32)
    (i32x4.extract_lane 0 (i32x4.add (v128.const i32x4 1 2 3 4) (v128.const i32x4 1 2 3 4))))

  ;; A throw costs the operators executed before it, wherever it is caught.
  (tag $thrown)
  (func $throws (drop (i32.add (i32.const 1) (i32.const 2))) (throw $thrown))
  ;; catches uses 6
  (func (export "catches")
    (block (try_table (catch $thrown 0) (call $throws) (drop (i32.const 1))))
    (drop (i32.const 1)))
  ;; legacy uses 6
  (func (export "legacy")
    try call $throws i32.const 1 drop catch $thrown i32.const 1 drop end)
  ;; delegates uses 7
  (func (export "delegates")
    try try call $throws delegate 0 i32.const 1 drop catch_all i32.const 1 i32.const 1 drop drop end))
