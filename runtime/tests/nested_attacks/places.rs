//! Nested calls must not corrupt the guest that waits. The nested calls here change memory, tables,
//! globals and objects, throw exceptions, and exhaust the stacks of guest and host.

use super::common::values::region;
use super::{ACT, Data, I, P, by_name, common, func, instance, linker, prepare, prepare_in};
use crate::common::values::Lend as _;
use core::fmt::Write;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Caller, Group, Linker, Region, TrapCode, TypedFunc, Value};
use std::thread;

const LEVELS: [OptLevel; 2] = [OptLevel::None, OptLevel::Speed];

/// A function that recurses until the stack overflows.
const OVERFLOWS: &str = r#"(func $overflows (export "overflows") (param i32) (result i32)
  (i32.add (call $overflows (i32.xor (local.get 0) (i32.const 0x5a5a5a5a))) (i32.const 1)))"#;

#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers have no other use for the result"
)]
fn is_overflow(ended: Result<i32, CallError>) {
    let Err(CallError::Trap(trap)) = &ended else {
        panic!("expected a trap, found {ended:?}");
    };
    assert_eq!(trap.code(), TrapCode::StackOverflow);
}

/// Makes nested calls that use the whole stack below the waiting guest.
fn uses_the_stack(caller: &mut Caller<'_, Data>) {
    for n in [0, -1] {
        is_overflow(by_name(caller, "overflows", n));
    }
}

/// Prepares a module at an optimisation level.
fn prepare_at(level: OptLevel, text: &str, region: &Region) -> P {
    let mut options = Options::default();
    options.opt_level = level;
    let prepared = region.prepare(&common::wat_with(text, &options), &linker());
    prepared.expect("the module links")
}

/// Calls `name` with a host function that makes no nested calls, and with a host function whose
/// nested calls use the rest of the stack. The results must be equal.
fn same_without(text: &str, name: &str) {
    for level in LEVELS {
        let prepared = prepare_at(level, text, &region(1));
        let mut instance = instance(&prepared, Data::new(|_, n| Ok(n ^ 0x1234)));
        let params = [Value::I32(3)];
        let wanted = instance
            .call_values(name, &params)
            .expect("the call returns");
        instance.data_mut().act = Data::new(|mut caller, n| {
            uses_the_stack(&mut caller);
            Ok(n ^ 0x1234)
        })
        .act;
        for _ in 0..2 {
            let found = instance
                .call_values(name, &params)
                .expect("the call returns");
            assert_eq!(found, wanted, "{name}");
        }
    }
}

/// A guest has more live values of each type than the processor has registers. Nested calls
/// overwrite the stack below the guest. The values must not change.
#[test]
fn values_on_the_stack_stay() {
    let mut text = format!(
        r#"(module {ACT} {OVERFLOWS} (func (export "holds") (param $n i32) (result i64 f64 v128)
          (local $i i32)"#
    );
    let all = 0..40;
    for n in all.clone() {
        write!(
            text,
            "(local $a{n} i64) (local $x{n} f64) (local $v{n} v128)"
        )
        .expect("a string accepts all writes");
    }
    text.push_str("(loop $l");
    for n in all.clone() {
        write!(
            text,
            r#"(local.set $a{n} (i64.add (i64.mul (local.get $a{n}) (i64.const 7)) (i64.extend_i32_s
                 (i32.add (local.get $n) (i32.const {n})))))
               (local.set $x{n} (f64.add (local.get $x{n}) (f64.convert_i64_s (local.get $a{n}))))
               (local.set $v{n} (i64x2.add (local.get $v{n}) (i64x2.splat (local.get $a{n}))))"#
        )
        .expect("a string accepts all writes");
    }
    text.push_str(
        r#"(local.set $n (i32.add (local.get $n) (call $act (local.get $i))))
           (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))
             (i32.const 3))))
           (i64.const 1) (f64.const 1) (v128.const i64x2 1 2)"#,
    );
    // Combine the values of each type, in the order of the results.
    let mut fold = |name: &str, ty: &str, op: &str| {
        write!(text, "(local.set ${name}0 ({op} (local.get ${name}0)))")
            .expect("a string accepts all writes");
        for n in 1..40 {
            let (one, two) = (format!("${name}0"), format!("${name}{n}"));
            let sum = format!("({ty}.add (local.get {one}) (local.get {two}))");
            write!(text, "(local.set {one} {sum})").expect("a string accepts all writes");
        }
    };
    fold("a", "i64", "i64.clz");
    fold("x", "f64", "f64.neg");
    fold("v", "i64x2", "v128.not");
    text.push_str(
        r#"drop drop drop
           (local.get $a0) (local.get $x0) (local.get $v0)))"#,
    );
    same_without(&text, "holds");
}

/// Guests wait for the host after tail calls that pass arguments on the stack. The callee has more
/// arguments than the caller, or fewer. The tail calls are direct, by reference, or of the host
/// function. Another guest function returns results on the stack. Nested calls must not change
/// these arguments and results.
#[test]
fn arguments_of_tail_calls_stay() {
    let many = 30;
    let params = "i64 ".repeat(many);
    let some: String = (0..many).map(|n| format!("(i64.const {n}) ")).collect();
    let gets: String = (0..many).map(|n| format!("(local.get {n}) ")).collect();
    let sum = format!("{gets} {}", "i64.add i64.rotl ".repeat(many / 2 - 1));
    let text = format!(
        r#"(module {ACT} {OVERFLOWS}
          (type $few (func (param i32) (result i64)))
          (type $many (func (param {params}i32) (result i64)))
          (elem declare func $many)
          (func $sum (param {params}) (result i64) {sum} i64.add)
          ;; Calls the host while the stack holds the many arguments of this function. Then makes a
          ;; tail call with few arguments.
          (func $many (type $many)
            (if (i32.eqz (local.get {many})) (then (return (call $sum {gets}))))
            (return_call $few (i32.add (i32.const -1)
              (i32.and (i32.add (call $act (local.get {many})) (i32.wrap_i64 (call $sum {gets})))
                (i32.const 0)))))
          (func $few (type $few)
            (local $n i32)
            (local.set $n (call $act (local.get 0)))
            (if (i32.lt_s (local.get 0) (i32.const 0))
              (then (return (i64.extend_i32_s (local.get $n)))))
            (if (i32.and (local.get 0) (i32.const 1))
              (then (return_call_ref $many {some} (i32.const 1) (ref.func $many))))
            (return_call $many {some} (i32.const 2)))
          (func (export "tails") (param i32) (result i64 i64 i64)
            (call $few (local.get 0)) (call $few (i32.const 2))
            (i64.add (call $few (i32.const 3)) (call $sum {some})))
          ;; The tail call of the host function replaces the frame of `$last`.
          (func $last (param {params}i32) (result i32) (return_call $act (local.get {many})))
          (func $first (param i32) (result i32)
            (return_call $last {some} (i32.add (local.get 0) (i32.const 1))))
          (func (export "lasts") (param i32) (result i32 i64)
            (i32.add (call $first (local.get 0)) (call $last {some} (i32.const 5)))
            (call $sum {some}))
          ;; Returns results on the stack.
          (func $results (param i32) (result {params}i32)
            {some} (call $act (local.get 0)))
          (func (export "results") (param i32) (result i64 i32)
            (local $n i32)
            (call $results (local.get 0))
            (local.set $n)
            (call $sum) (i32.add (local.get $n) (call $act (local.get $n)))))"#
    );
    for name in ["tails", "lasts", "results"] {
        same_without(&text, name);
    }
}

/// A function has the maximum number of parameters and results. The host calls it at many depths of
/// a 64 KiB stack. Each call must return all values, or trap.
#[test]
fn a_thousand_parameters_fit_or_trap() {
    let many = 1000;
    let types = "i64 ".repeat(many);
    let gets: String = (0..many)
        .rev()
        .map(|n| format!("(local.get {n}) "))
        .collect();
    let text = format!(
        r#"(module {ACT} {OVERFLOWS}
          (func (export "wide") (param {types}) (result {types}) {gets})
          (func $deep (export "deep") (param $depth i32) (result i32)
            (if (result i32) (local.get $depth)
              (then (i32.add (call $deep (i32.sub (local.get $depth) (i32.const 1))) (i32.const 1)))
              (else (call $act (i32.const 5))))))"#
    );
    let region = Region::builder().slots(1).stack_bytes(64 << 10).build();
    let prepared = prepare_in(&region.expect("the region is built"), &text);
    let deep = func(&prepared, "deep");
    let params: Vec<_> = (0..many as i64).map(|n| Value::I64(n * n)).collect();
    let wanted: Vec<_> = params.iter().rev().copied().collect();
    let act = move |mut caller: Caller<'_, Data>, _| {
        let note = match caller.call_values("wide", &params) {
            Ok(found) => {
                assert_eq!(found, wanted);
                1
            }
            Err(CallError::Trap(trap)) => {
                assert_eq!(trap.code(), TrapCode::StackOverflow);
                2
            }
            Err(error) => panic!("{error}"),
        };
        caller.data_mut().notes.push(note);
        Ok(0)
    };
    let mut instance = instance(&prepared, Data::new(act));
    let overflows = |depth: &i32| instance.call(&deep, *depth).is_err();
    let most = (0..)
        .step_by(16)
        .find(overflows)
        .expect("a deep guest overflows");
    instance.data_mut().notes.clear();
    for depth in (0..most - 16).step_by(5) {
        assert_eq!(
            instance.call(&deep, depth).expect("the call returns"),
            depth
        );
    }
    let notes = &instance.data().notes;
    assert!(
        notes.first() == Some(&1) && notes.last() == Some(&2),
        "{notes:?}"
    );
    assert!(
        notes.is_sorted(),
        "once a call traps, all deeper calls must trap: {notes:?}"
    );
}

/// A nested call changes memory, tables, globals and objects. The waiting guest uses them next and
/// must see the changes.
#[test]
fn the_waiting_guest_sees_what_a_nested_call_did() {
    let text = format!(
        r#"(module {ACT}
          (type $f (func (param i32) (result i32)))
          (type $s (struct (field (mut i32)) (field (mut (ref null $s)))))
          (type $a (array (mut i64)))
          (memory (export "memory") 1 9)
          (table $t 2 40 funcref) (elem (table $t) (i32.const 0) func $one $one)
          (global $g (mut i64) (i64.const 5)) (global $list (mut (ref null $s)) (ref.null $s))
          (data $d "passive")
          (func $one (type $f) (i32.const 1))
          (func $two (type $f) (i32.const 2))
          (elem declare func $two)
          (func $changes (export "changes") (param i32) (result i32)
            (local $last i32)
            (drop (memory.grow (i32.const 2)))
            (i32.store8 (i32.const 0x2ffff) (i32.const 77))
            (i32.store8 (i32.const 3) (i32.const 78))
            (local.set $last (table.grow $t (ref.func $two) (i32.const 3)))
            (table.set $t (i32.const 0) (ref.func $two))
            (global.set $g (i64.mul (global.get $g) (i64.const 11)))
            (global.set $list (struct.new $s (local.get 0) (global.get $list)))
            (drop (array.new $a (i64.const -1) (i32.const 5000)))
            (data.drop $d)
            (local.get $last))
          (func (export "run") (param i32) (result i32 i32 i32 i32 i64 i64 i32 i32)
            (local $before i64) (local $own (ref $s)) (local $words (ref $a)) (local $last i32)
            (local.set $before (i64.add (global.get $g) (i64.load (i32.const 0))))
            (drop (call_indirect $t (type $f) (i32.const 0) (i32.const 0)))
            (memory.init $d (i32.const 100) (i32.const 0) (i32.const 7))
            (local.set $own (struct.new $s (i32.const 41) (ref.null $s)))
            (local.set $words (array.new $a (i64.const 3) (i32.const 100)))
            (local.set $last (call $act (local.get 0)))
            (i32.load8_u (i32.const 0x2ffff))
            (i32.load8_u (i32.const 3))
            (call_indirect $t (type $f) (i32.const 0) (i32.const 0))
            (call_indirect $t (type $f) (i32.const 0) (local.get $last))
            (global.get $g)
            (i64.add (local.get $before)
              (i64.add (array.get $a (local.get $words) (i32.const 99))
                (i64.extend_i32_s (struct.get $s 0 (local.get $own)))))
            (i32.add (struct.get $s 0 (global.get $list))
              (struct.get $s 0 (struct.new $s (i32.const 1000) (local.get $own))))
            (memory.size))
          ;; The second `memory.init` traps, because the nested call has dropped the segment.
          (func (export "init") (param i32) (result i32)
            (memory.init $d (i32.const 100) (i32.const 0) (i32.const 7))
            (drop (call $act (local.get 0)))
            (memory.init $d (i32.const 100) (i32.const 0) (i32.const 7))
            (i32.const 0)))"#
    );
    for level in LEVELS {
        let region = Region::builder().slots(1).memories(2).build();
        let prepared = prepare_at(level, &text, &region.expect("the region is built"));
        let act = |mut caller: Caller<'_, Data>, n| Ok(by_name(&mut caller, "changes", n)?);
        let mut first = instance(&prepared, Data::new(act));
        let found = first.call_values("run", &[Value::I32(9)]);
        let wanted = [
            Value::I32(77),
            Value::I32(78),
            Value::I32(2),
            Value::I32(2),
            Value::I64(55),
            Value::I64(5 + 3 + 41),
            Value::I32(1009),
            Value::I32(3),
        ];
        assert_eq!(found.expect("the call returns"), wanted);
        drop(first);
        let mut second = instance(&prepared, Data::new(act));
        let ended = second.call_values("init", &[Value::I32(9)]);
        let Err(CallError::Trap(trap)) = ended else {
            panic!("expected a trap, found {ended:?}");
        };
        assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
    }
}

/// A guest waits in an exception handler that holds many values of its exception. Nested calls
/// throw, catch and keep other exceptions. The values must not change.
#[test]
fn the_values_of_a_caught_exception_stay() {
    let text = format!(
        r#"(module {ACT}
          (tag $t (param i64 i64 i64 i64 i64 i64 v128 f64))
          (tag $u (param i32))
          (func $throws (param i64)
            (throw $t (local.get 0) (i64.const 2) (i64.const 3) (i64.const 4) (i64.const 5)
              (i64.const 6) (v128.const i64x2 7 8) (f64.const 0.5)))
          (func $run (export "run") (param $n i32) (result i32)
            (local $f f64) (local $v v128) (local $e exnref)
            (block $caught (result i64 i64 i64 i64 i64 i64 v128 f64 exnref)
              (try_table (catch_ref $t $caught) (call $throws (i64.extend_i32_s (local.get $n))))
              unreachable)
            (local.set $e) (local.set $f) (local.set $v)
            ;; The first six values stay on the operand stack while the host runs.
            (drop (call $act (local.get $n)))
            i64.add i64.add i64.add i64.add i64.add
            i32.wrap_i64
            (i32.add (i32.wrap_i64 (i64x2.extract_lane 1 (local.get $v))))
            (i32.add (i32.trunc_f64_s (f64.mul (local.get $f) (f64.const 200))))
            ;; The exception still has the same values.
            (block $again (result i64 i64 i64 i64 i64 i64 v128 f64)
              (try_table (catch $t $again) (throw_ref (local.get $e)))
              unreachable)
            drop drop
            i64.add i64.add i64.add i64.add i64.add
            i32.wrap_i64
            i32.add)
          (func (export "legacy") (param $n i32) (result i32)
            try (result i32)
              (call $throws (i64.extend_i32_s (local.get $n))) (i32.const 0)
            catch $t
              (drop) (drop)
              (drop (call $act (local.get $n)))
              i64.add i64.add i64.add i64.add i64.add i32.wrap_i64
            end)
          (func (export "rethrows") (param $n i32) (result i32)
            try (result i32)
              try (result i32)
                (call $throws (i64.extend_i32_s (local.get $n))) (i32.const 0)
              catch_all
                (drop (call $act (local.get $n)))
                rethrow 0
              end
            catch $t
              (drop) (drop) i64.add i64.add i64.add i64.add i64.add i32.wrap_i64
            end)
          (func (export "uncaught") (param i32) (result i32)
            (call $throws (i64.const 90)) (i32.const 0))
          (func (export "others") (param $n i32) (result i32) (local $kept exnref)
            (loop $l
              (block $caught (result i32 exnref)
                (try_table (catch_ref $u $caught) (throw $u (local.get $n)))
                unreachable)
              (local.set $kept) drop
              (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (i32.const 7)))"#
    );
    for level in LEVELS {
        let prepared = prepare_at(level, &text, &region(1));
        let data = Data::new(|mut caller, n| {
            if n > 0 {
                assert_eq!(by_name(&mut caller, "run", n - 1)?, 2 * (n - 1 + 20) + 108);
                assert_eq!(by_name(&mut caller, "legacy", n - 1)?, n - 1 + 20);
                assert_eq!(by_name(&mut caller, "rethrows", n - 1)?, n - 1 + 20);
            }
            let error =
                by_name(&mut caller, "uncaught", n).expect_err("no handler catches the exception");
            let CallError::Exception(exception) = error else {
                panic!("expected an exception, found {error:?}");
            };
            assert_eq!(exception.values()[0], Value::I64(90));
            by_name(&mut caller, "others", 100)?;
            Ok(0)
        });
        let mut instance = instance(&prepared, data);
        for name in ["legacy", "rethrows"] {
            let called = instance.call(&func(&prepared, name), 2);
            assert_eq!(called.expect("the call returns"), 22);
        }
        let called = instance.call(&func(&prepared, "run"), 2);
        assert_eq!(called.expect("the call returns"), 2 * 22 + 108);
    }
}

/// A guest keeps exceptions in its frames. Nested calls create more exceptions than the runtime can
/// hold, so the runtime must free some. It may free the exceptions of ended calls, but not those of
/// the waiting guest. This must also hold if another member of a group throws.
#[test]
fn exceptions_are_kept_as_long_as_a_frame_refers_to_them() {
    let keeps = |import: &str, throw: &str| {
        format!(
            r#"(module {import}
              (func $catches (param $n i32) (result exnref)
                (block $caught (result exnref)
                  (try_table (catch_all_ref $caught) {throw})
                  unreachable))
              ;; Keeps one exception at each depth, calls the host, and then rethrows each
              ;; exception.
              (func $keeps (export "keeps") (param $n i32) (result i32)
                (local $kept exnref) (local $sum i32)
                (local.set $kept (call $catches (local.get $n)))
                (local.set $sum (if (result i32) (i32.and (local.get $n) (i32.const 63))
                  (then (call $keeps (i32.sub (local.get $n) (i32.const 1))))
                  (else (call $act (local.get $n)))))
                (block $again (result i32)
                  (try_table (catch $t $again) (throw_ref (local.get $kept)))
                  unreachable)
                (i32.add (local.get $sum)))
              (func (export "wastes") (param $n i32) (result i32)
                (loop $l
                  (drop (call $catches (local.get $n)))
                  (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (i32.const 0)))"#
        )
    };
    let tag = r#"(tag $t (export "t") (param i32))"#;
    let text = keeps(&format!("{ACT} {tag}"), "(throw $t (local.get $n))");
    let depth = |mut caller: Caller<'_, Data>, n: i32| {
        // Each nested call uses the next 64 numbers.
        if n < 64 * 6 {
            return Ok(by_name(&mut caller, "keeps", n + 64 + 63)?);
        }
        Ok(by_name(&mut caller, "wastes", 20_000)?)
    };
    let prepared = prepare(&text);
    let mut one = instance(&prepared, Data::new(depth));
    let wanted: i32 = (0..64 * 7).sum();
    let called = one.call(&func(&prepared, "keeps"), 63);
    assert_eq!(called.expect("the call returns"), wanted);
    // Each host function creates garbage and then makes a nested call, until the guest exceeds its
    // limit of host memory and traps. The runtime must free all exceptions after the calls have
    // ended.
    one.data_mut().act = Data::new(|mut caller, n| {
        by_name(&mut caller, "wastes", 20_000)?;
        Ok(by_name(&mut caller, "keeps", n + 64 + 63)?)
    })
    .act;
    for _ in 0..3 {
        let ended = one.call(&func(&prepared, "keeps"), 63);
        let Err(CallError::Trap(trap)) = ended else {
            panic!("expected a trap, found {ended:?}");
        };
        assert_eq!(trap.code(), TrapCode::HostMemoryExhausted);
        let called = one.call(&func(&prepared, "wastes"), 50_000);
        assert_eq!(called.expect("the call returns"), 0);
    }
    // In a group, the first member owns the exceptions of all members. The host calls the second
    // member.
    let owner =
        format!(r#"(module {tag} (func (export "throw") (param i32) (throw $t (local.get 0))))"#);
    let imports = format!(
        r#"(import "owner" "t" (tag $t (param i32)))
           (import "owner" "throw" (func $throw (param i32))) {ACT}"#
    );
    let user = keeps(&imports, "(call $throw (local.get $n))");
    let mut linker = Linker::<()>::new();
    linker
        .func("h", "act", |mut caller: Caller<'_, ()>, n: i32| {
            let wastes: TypedFunc<i32, i32> = caller.func("wastes")?;
            let keeps: TypedFunc<i32, i32> = caller.func("keeps")?;
            match n {
                n if n < 64 * 6 => caller.call(&keeps, n + 64 + 63),
                _ => caller.call(&wastes, 20_000),
            }
        })
        .expect("the name is free");
    let region = region(2);
    let mut group = Group::new(&region, ());
    let owner = group.instantiate(&common::wat(&owner), &linker);
    group.name("owner", owner.expect("the module links"));
    let user = group.instantiate(&common::wat(&user), &linker);
    let called = group
        .lend(user.expect("the module links"))
        .call_values("keeps", &[Value::I32(63)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(wanted)]);
}

/// Prepares a guest that recurses through the host.
fn recursive(limit: u32, stack_bytes: usize) -> (super::P, TypedFunc<i32, i32>) {
    let region = Region::builder()
        .slots(1)
        .stack_bytes(stack_bytes)
        .nested_calls_max(limit);
    let text = format!(
        r#"(module {ACT} (func (export "run") (param i32) (result i32)
          (i32.add (call $act (local.get 0)) (i32.const 1))))"#
    );
    let prepared = prepare_in(&region.build().expect("the region is built"), &text);
    let run = func(&prepared, "run");
    (prepared, run)
}

/// The number of bytes of the host's stack between the first and the last of `levels` nested calls.
fn host_stack(levels: i32) -> usize {
    let (prepared, run) = recursive(levels as u32, 64 << 20);
    let call = move || {
        let act = move |mut caller: Caller<'_, Data>, n: i32| {
            let here = 0_u8;
            let at = (&raw const here).addr();
            if n == 0 || n == levels {
                caller.data_mut().notes.push((at >> 4) as i32);
            }
            match n {
                0 => Ok(0),
                n => Ok(caller.call(&run, n - 1)?),
            }
        };
        let mut instance: I = instance(&prepared, Data::new(act));
        let found = instance.call(&run, levels);
        assert_eq!(found.expect("the call returns"), levels + 1);
        let notes = &instance.data().notes;
        (notes[0].wrapping_sub(notes[1]) as usize) << 4
    };
    let builder = thread::Builder::new().stack_size(256 << 20);
    let called = builder.spawn(call).expect("the thread starts");
    called.join().expect("the thread does not panic")
}

/// One nested call must use at most 16 KiB of the host's stack, even in a build without
/// optimisation. The test prints the numbers for the documentation of `nested_calls_max`.
#[test]
fn a_level_uses_little_of_the_hosts_stack() {
    for levels in [32, 10_000] {
        let bytes = host_stack(levels);
        println!("{levels} levels: {} bytes each", bytes / levels as usize);
        assert!(
            bytes / levels as usize <= 16 << 10,
            "{levels} levels use {bytes} bytes"
        );
    }
}

/// The default maximum of nested calls must fit on a thread with a stack of 512 KiB.
#[test]
fn the_default_number_of_levels_fits_on_a_small_thread() {
    let (prepared, run) = recursive(32, 1 << 20);
    let call = move || {
        let act = move |mut caller: Caller<'_, Data>, n: i32| match caller.call(&run, n + 1) {
            Ok(n) => Ok(n),
            Err(CallError::Invalid(_)) => Ok(n),
            Err(error) => Err(error.into()),
        };
        let mut instance = instance(&prepared, Data::new(act));
        let found = instance.call(&run, 0);
        assert_eq!(found.expect("the call returns"), 32 + 33);
    };
    let builder = thread::Builder::new().stack_size(512 << 10);
    let called = builder.spawn(call).expect("the thread starts");
    called.join().expect("the thread does not panic");
}

/// The guest's stack overflows before the guest reaches the limit of nested calls. The innermost
/// call must trap, and the runtime must restore the host's stack.
#[test]
fn a_guest_whose_stack_ends_first_traps() {
    let (prepared, run) = recursive(100_000, 64 << 10);
    let act = move |mut caller: Caller<'_, Data>, n: i32| match caller.call(&run, n + 1) {
        Ok(n) => Ok(n),
        Err(CallError::Trap(trap)) => {
            assert_eq!(trap.code(), TrapCode::StackOverflow);
            Ok(n)
        }
        Err(error) => Err(error.into()),
    };
    let call = move || {
        let mut instance = instance(&prepared, Data::new(act));
        for _ in 0..3 {
            let levels = instance.call(&run, 0).expect("the call returns");
            assert!(levels > 200, "only {levels} levels");
        }
    };
    let builder = thread::Builder::new().stack_size(64 << 20);
    let called = builder.spawn(call).expect("the thread starts");
    called.join().expect("the thread does not panic");
}
