//! Host memory that is charged to a guest. Each instance or group has one sum and one limit; the
//! tests charge exactly the limit, and one byte more.

use crate::common;
use crate::common::values::Lend as _;

use pirn_runtime::{
    CallError, Caller, Group, HostBytesError, HostError, Instance, Linker, Prepared, Region,
    TrapCode, Value,
};
use pirn_testing::allocator::live_bytes;

const LIMIT: usize = 1000;

const GUEST: &str = r#"(module
  (import "host" "hold" (func $hold (param i32)))
  (import "host" "release" (func $release (param i32)))
  (import "host" "try" (func $try (param i32) (result i32)))
  (func (export "hold") (param i32) (call $hold (local.get 0)))
  (func (export "release") (param i32) (call $release (local.get 0)))
  (func (export "try") (param i32) (result i32) (call $try (local.get 0))))"#;

fn linker() -> Linker<()> {
    let mut linker = Linker::new();
    let hold = |mut caller: Caller<'_, ()>, bytes: u32| -> Result<(), HostBytesError> {
        caller.hold_host_bytes(bytes as usize)
    };
    let release = |mut caller: Caller<'_, ()>, bytes: u32| {
        caller.release_host_bytes(bytes as usize);
    };
    // Returns 0 if the bytes are charged, otherwise the bytes that remain.
    let attempt = |mut caller: Caller<'_, ()>, bytes: u32| -> u32 {
        match caller.hold_host_bytes(bytes as usize) {
            Ok(()) => 0,
            Err(refused) => (refused.limit - refused.held) as u32,
        }
    };
    linker
        .func("host", "hold", hold)
        .and_then(|linker| linker.func("host", "release", release))
        .and_then(|linker| linker.func("host", "try", attempt))
        .expect("the names are free");
    linker
}

fn prepared(limit: usize) -> Prepared<()> {
    let region = Region::builder().slots(1).host_bytes_max(limit).build();
    let region = region.expect("a region");
    let module = common::wat(GUEST);
    region.prepare(&module, &linker()).expect("it is linked")
}

fn instance(prepared: &Prepared<()>) -> Instance<()> {
    prepared.try_instantiate(()).expect("the slot is free")
}

fn call(guest: &mut Instance<()>, name: &str, bytes: usize) -> Result<Vec<Value>, CallError> {
    guest.call_values(name, &[Value::I32(bytes as i32)])
}

/// The bytes that were held, requested and permitted when a call was refused host memory.
fn refused<R: std::fmt::Debug>(result: Result<R, CallError>) -> [usize; 3] {
    match result {
        Err(CallError::Trap(trap)) => {
            assert_eq!(trap.code(), TrapCode::HostMemoryExhausted);
            assert!(!trap.backtrace().is_empty());
            let refused = trap.host_bytes().expect("the numbers are there");
            [refused.held, refused.asked, refused.limit]
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn host_bytes_are_charged_up_to_the_limit_and_one_more_traps() {
    let mut guest = instance(&prepared(LIMIT));
    assert_eq!(guest.host_bytes(), 0);
    call(&mut guest, "hold", LIMIT).expect("the limit is allowed");
    assert_eq!(guest.host_bytes(), LIMIT);
    assert_eq!(refused(call(&mut guest, "hold", 1)), [LIMIT, 1, LIMIT]);
    // The refused call charged nothing.
    assert_eq!(guest.host_bytes(), LIMIT);
    call(&mut guest, "release", 1).expect("it is held");
    call(&mut guest, "hold", 1).expect("there is room again");
    call(&mut guest, "release", LIMIT).expect("it is held");
    assert_eq!(guest.host_bytes(), 0);
    assert_eq!(
        refused(call(&mut guest, "hold", LIMIT + 1)),
        [0, LIMIT + 1, LIMIT]
    );
}

#[test]
fn sums_of_host_bytes_do_not_wrap() {
    let mut guest = instance(&prepared(usize::MAX));
    call(&mut guest, "hold", u32::MAX as usize).expect("it is allowed");
    let mut linker = Linker::new();
    linker
        .func("host", "hold", |mut caller: Caller<'_, ()>| {
            caller.hold_host_bytes(1)?;
            caller.hold_host_bytes(usize::MAX)
        })
        .expect("the name is free");
    let module = common::wat(
        r#"(module (import "host" "hold" (func $hold)) (func (export "run") (call $hold)))"#,
    );
    let region = Region::builder().slots(1).host_bytes_max(usize::MAX);
    let region = region.build().expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it is linked");
    let mut guest = instance(&prepared);
    let result = guest.call_values("run", &[]);
    assert_eq!(refused(result), [1, usize::MAX, usize::MAX]);
}

#[test]
fn a_limit_of_zero_host_bytes_is_allowed() {
    let mut guest = instance(&prepared(0));
    call(&mut guest, "hold", 0).expect("it is nothing");
    assert_eq!(refused(call(&mut guest, "hold", 1)), [0, 1, 0]);
}

#[test]
fn a_host_function_may_handle_a_refusal() {
    let mut guest = instance(&prepared(LIMIT));
    call(&mut guest, "hold", LIMIT - 10).expect("it is allowed");
    let left = call(&mut guest, "try", 11).expect("it returns");
    assert_eq!(left, [Value::I32(10)]);
    let left = call(&mut guest, "try", 10).expect("it returns");
    assert_eq!(left, [Value::I32(0)]);
}

#[test]
fn the_error_names_the_three_numbers_and_the_setting() {
    let mut guest = instance(&prepared(LIMIT));
    call(&mut guest, "hold", 400).expect("it is allowed");
    let error = call(&mut guest, "hold", 601).expect_err("it is one too many");
    assert_eq!(
        error.to_string(),
        "trap: out of host memory for the guest: guest needs 601 more bytes of host memory, it \
         holds 400 of at most 1000; raise `host_bytes_max` in hold at 0x9b"
            .replace("0x9b", &offset(&error)),
    );
    let error: HostError = HostError::from(match error {
        CallError::Trap(trap) => trap,
        other => panic!("{other}"),
    });
    assert!(error.to_string().contains("needs 601 more bytes"));
}

fn offset(error: &CallError) -> String {
    match error {
        CallError::Trap(trap) => format!("{:#x}", trap.wasm_offset().expect("it is known")),
        other => panic!("{other}"),
    }
}

#[test]
fn the_next_instance_of_a_slot_starts_with_no_host_bytes() {
    let prepared = prepared(LIMIT);
    for _ in 0..3 {
        let mut guest = instance(&prepared);
        assert_eq!(guest.host_bytes(), 0);
        call(&mut guest, "hold", LIMIT).expect("it is allowed");
        assert_eq!(guest.host_bytes(), LIMIT);
    }
    let guest = instance(&prepared);
    assert_eq!(guest.host_bytes(), 0);
}

#[test]
fn the_members_of_a_group_share_one_sum_of_host_bytes() {
    let region = Region::builder().slots(2).host_bytes_max(LIMIT).build();
    let region = region.expect("a region");
    let (module, linker) = (common::wat(GUEST), linker());
    for _ in 0..2 {
        let mut group = Group::new(&region, ());
        assert_eq!(group.host_bytes(), 0);
        let first = group.instantiate(&module, &linker).expect("it starts");
        let second = group.instantiate(&module, &linker).expect("it starts");
        let mut hold = |member, bytes| group.lend(member).call_values("hold", &[Value::I32(bytes)]);
        hold(first, 600).expect("it is allowed");
        hold(second, 400).expect("it is allowed");
        assert_eq!(refused(hold(first, 1)), [LIMIT, 1, LIMIT]);
        assert_eq!(refused(hold(second, 1)), [LIMIT, 1, LIMIT]);
        group
            .lend(second)
            .call_values("release", &[Value::I32(600)])
            .expect("the sum is the group's");
        assert_eq!(group.host_bytes(), 400);
    }
}

/// A trap does not release host bytes that the call holds.
#[test]
fn a_trap_does_not_release_host_bytes() {
    let prepared = prepared(LIMIT);
    let mut guest = instance(&prepared);
    call(&mut guest, "hold", 300).expect("it is allowed");
    refused(call(&mut guest, "hold", 701));
    assert_eq!(guest.host_bytes(), 300);
}

/// A guest that keeps exceptions in a table. An exception has many or few values, and unwinds many
/// or few frames.
fn hoarder(values: usize) -> String {
    let (params, consts) = ("i64 ".repeat(values), "(i64.const 1)".repeat(values));
    format!(
        r#"(module (tag $t (param {params})) (table $kept 20000 exnref)
      (func $deep (param i32)
        (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1)))))
        (throw $t {consts}))
      (func (export "keep") (param $at i32) (param $depth i32)
        (table.set $kept (local.get $at)
          (block $caught (result exnref)
            (try_table (catch_all_ref $caught) (call $deep (local.get $depth)))
            (unreachable))))
      (func (export "forget") (table.fill $kept (i32.const 0) (ref.null exn) (i32.const 20000)))
      (func (export "throw") (param $depth i32) (call $deep (local.get $depth))))"#
    )
}

/// An instance with a limit of host memory, which creates many exceptions.
fn hoards(text: &str, limit: usize) -> Instance<()> {
    let region = Region::builder().slots(1).host_bytes_max(limit).build();
    let region = region.expect("a region");
    let module = common::wat(text);
    let prepared = region.prepare(&module, &Linker::new());
    instance(&prepared.expect("it is linked"))
}

/// Keeps exceptions until the runtime refuses one or `most` are kept. Returns the count, the
/// charged host bytes, and the refusal.
fn keep(
    guest: &mut Instance<()>,
    depth: i32,
    most: i32,
) -> (i32, usize, Result<Vec<Value>, CallError>) {
    for at in 0..most {
        let held = guest.host_bytes();
        let kept = guest.call_values("keep", &[at, depth].map(Value::I32));
        if kept.is_err() {
            return (at, held, kept);
        }
    }
    (most, guest.host_bytes(), Ok(vec![]))
}

#[test]
fn live_exceptions_are_charged_up_to_the_limit() {
    for (values, depth) in [(0, 0), (1, 3), (20, 0), (4, 60), (300, 70)] {
        let text = hoarder(values);
        let mut guest = hoards(&text, 64 << 10);
        let before = live_bytes();
        let (most, held, result) = keep(&mut guest, depth, 20_000);
        let live = (live_bytes() - before) as usize;
        let [at_refusal, asked, limit] = refused(result);
        assert!(held <= limit && at_refusal + asked > limit, "{values}");
        // The charged bytes equal the host's allocations for the exceptions, except for a constant.
        assert!(
            live <= guest.host_bytes() + 4096,
            "{values}: {live}, {held}"
        );
        assert!(held <= live + 4096 + 1024, "{values}: {live}, {held}");
        drop(guest);
        // A limit of exactly the charged bytes suffices, and a limit of one byte less does not.
        let mut guest = hoards(&text, held);
        let (kept, _, _) = keep(&mut guest, depth, most);
        assert_eq!(kept, most, "{values}");
        drop(guest);
        let mut guest = hoards(&text, held / 2);
        let (kept, _, result) = keep(&mut guest, depth, most);
        assert!(kept < most, "{values}");
        refused(result);
        // After the guest drops its references, it can keep as many again.
        guest.call_values("forget", &[]).expect("it returns");
        let (again, _, _) = keep(&mut guest, depth, kept);
        assert_eq!(again, kept, "{values}");
    }
}

#[test]
fn unreachable_exceptions_are_uncharged() {
    let mut guest = hoards(&hoarder(20), 64 << 10);
    for n in 0..5000 {
        let kept = guest.call_values("keep", &[n % 8, 20].map(Value::I32));
        kept.expect("there is room");
    }
}

#[test]
fn values_of_an_uncaught_exception_are_charged_until_its_report() {
    let values = 500;
    for (limit, fits) in [(16 * values, true), (16 * values - 1, false)] {
        let mut guest = hoards(&hoarder(values), limit);
        for _ in 0..3 {
            let result = guest.call_values("throw", &[Value::I32(2)]);
            match result {
                Err(CallError::Exception(thrown)) if fits => {
                    assert_eq!(thrown.values().len(), values);
                }
                other if !fits => {
                    assert_eq!(refused(other), [0, 16 * values, limit]);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(guest.host_bytes(), 0);
        }
    }
}

#[test]
fn references_of_element_segments_are_charged() {
    let items = "(item (array.new_default $a (i32.const 1)))".repeat(100);
    let text =
        format!("(module (type $a (array i8)) (elem (ref $a) {items}) (elem (ref $a) {items}))");
    let module = common::wat(&text);
    let needed = 2 * (100 * 8 + 24);
    for (limit, fits) in [(needed, true), (needed - 1, false)] {
        let region = Region::builder().memories(2).host_bytes_max(limit).build();
        let region = region.expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new());
        match prepared.expect("it is linked").try_instantiate(()) {
            Ok(guest) if fits => assert_eq!(guest.host_bytes(), needed),
            Err(error) if !fits => {
                let error = error.to_string();
                assert!(error.contains("raise `host_bytes_max`"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
