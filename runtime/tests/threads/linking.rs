//! Shared memories: which memories an import accepts and which it refuses, and their lifetime.

use crate::common;
use crate::common::values::{Lend as _, shared_memory};
use pirn_runtime::{
    AddrType, Caller, Group, Linker, MemoryType, PageSize, Region, SharedMemory, SharedMemoryError,
    TrapCode, TypedFunc, Value,
};

const GUEST: &str = r#"(module (import "h" "m" (memory 1 4 shared)) (import "h" "f" (func $f (result i32)))
  (export "memory" (memory 0))
  (data $d "passive")
  (func (export "get") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "set") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "size") (result i32) (memory.size))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "init") (memory.init $d (i32.const 100) (i32.const 0) (i32.const 7)))
  (func (export "copy") (memory.copy (i32.const 1000) (i32.const 0) (i32.const 2000)))
  (func (export "fill") (param i32) (memory.fill (i32.const 0) (i32.const 7) (local.get 0)))
  (func (export "host") (result i32) (call $f)))"#;

fn ty(min: u64, max: Option<u64>, shared: bool) -> MemoryType {
    MemoryType {
        address: AddrType::I32,
        page: PageSize::Large,
        min,
        max,
        shared,
    }
}

/// A linker that offers a memory and a function that checks its size.
fn linker(memory: &SharedMemory) -> Linker<()> {
    let mut linker = Linker::new();
    linker.memory("h", "m", memory).expect("the name is free");
    // The host gets no slice of a memory that other threads write to.
    let sees = |caller: Caller<'_, ()>| {
        assert_eq!(caller.memory().len(), 0);
        caller
            .shared_memory()
            .map_or(0, |memory| memory.len() as u32)
    };
    linker.func("h", "f", sees).expect("the name is free");
    linker
}

#[test]
fn instances_use_the_memories_of_their_preparation() {
    let (a, b) = (shared_memory(1, 4), shared_memory(2, 3));
    for reset in common::resets() {
        let region = Region::builder().slots(2).reset(reset).build();
        let region = region.expect("a region");
        let of_a = region
            .prepare(&common::wat(GUEST), &linker(&a))
            .expect("it fits");
        let of_b = of_a.with_memory("h", "m", &b).expect("it is one");
        let size: TypedFunc<(), u32> = of_a.func("size").expect("it is there");
        let set: TypedFunc<(u32, u32), ()> = of_a.func("set").expect("it is there");
        let get: TypedFunc<u32, u32> = of_a.func("get").expect("it is there");
        let host: TypedFunc<(), u32> = of_a.func("host").expect("it is there");
        a.write(7, &[1]).expect("it is inside");
        b.write(7, &[2]).expect("it is inside");
        // Uses the slot with one memory after the other, when it was last used by the same or
        // another preparation.
        for (prepared, memory, byte) in [
            (&of_a, &a, 1),
            (&of_b, &b, 2),
            (&of_b, &b, 2),
            (&of_a, &a, 1),
        ] {
            let mut one = prepared.try_instantiate(()).expect("a slot");
            let mut other = prepared.try_instantiate(()).expect("a slot");
            assert!(prepared.try_instantiate(()).is_err());
            assert_eq!(one.call(&get, 7).unwrap(), byte);
            one.call(&set, (8, 40 + byte)).expect("it runs");
            assert_eq!(other.call(&get, 8).unwrap(), 40 + byte);
            let pages = (memory.len() >> 16) as u32;
            assert_eq!(one.call(&size, ()).unwrap(), pages);
            assert_eq!(one.call(&host, ()).unwrap(), pages << 16);
            assert_eq!(
                (one.memory().len(), one.exported_memory("memory").is_none()),
                (0, true)
            );
            assert!(
                one.shared_memory("memory")
                    .is_some_and(|found| found.is(memory))
            );
            assert!(one.shared_memory("get").is_none() && one.shared_memory("none").is_none());
            let past = memory.len() as u32;
            let outside = one.call(&get, past).unwrap_err().to_string();
            assert!(outside.contains("out of bounds memory access"), "{outside}");
        }
        let (mut read_a, mut read_b) = ([0], [0]);
        a.read(8, &mut read_a).expect("it is inside");
        b.read(8, &mut read_b).expect("it is inside");
        assert_eq!((read_a, read_b), ([41], [42]));
    }
}

/// A slot that stays warm for a module must not remember the memory of an earlier instance, whose
/// preparation may be gone.
#[test]
fn long_copies_use_the_memory_of_their_preparation() {
    let module = common::wat(GUEST);
    let copied = |memory: &SharedMemory| {
        let mut byte = [0];
        memory.read(1_000, &mut byte).expect("it is inside");
        memory.write(1_000, &[0]).expect("it is inside");
        byte[0]
    };
    for reset in common::resets() {
        let region = Region::builder().slots(1).reset(reset).build();
        let region = region.expect("a region");
        for round in 0..3 {
            let (a, b) = (shared_memory(1, 4), shared_memory(2, 3));
            a.write(0, &[1 + round]).expect("it is inside");
            b.write(0, &[101 + round]).expect("it is inside");
            let of_a = region.prepare(&module, &linker(&a)).expect("it fits");
            let of_b = of_a.with_memory("h", "m", &b).expect("it is one");
            for (prepared, wanted) in [
                (&of_b, [0, 101 + round]),
                (&of_a, [1 + round, 0]),
                (&of_b, [0, 101 + round]),
            ] {
                let mut instance = prepared.try_instantiate(()).expect("a slot");
                instance.call_values("copy", &[]).expect("it runs");
                assert_eq!([copied(&a), copied(&b)], wanted, "{reset}");
            }
        }
    }
}

#[test]
fn bulk_operators_and_growth_use_the_shared_memory() {
    let memory = shared_memory(1, 4);
    let region = Region::builder().slots(1).memory_bytes_max(1 << 16).build();
    let region = region.expect("a region");
    let prepared = region.prepare(&common::wat(GUEST), &linker(&memory));
    let prepared = prepared.expect("it fits");
    let mut guest = prepared.try_instantiate(()).expect("a slot");
    let mut call = |name: &str, params: &[i32]| {
        let params: Vec<_> = params.iter().map(|n| Value::I32(*n)).collect();
        guest.call_values(name, &params)
    };
    call("init", &[]).expect("it runs");
    call("copy", &[]).expect("it runs");
    let mut read = [0; 7];
    memory.read(1_100, &mut read).expect("it is inside");
    assert_eq!(&read, b"passive");
    // The size of the slot's own memory must not be used for a memory of the host.
    assert_eq!(call("grow", &[2]).unwrap(), [Value::I32(1)]);
    assert_eq!(call("grow", &[2]).unwrap(), [Value::I32(-1)]);
    assert_eq!(memory.grow(1).expect("it is within its maximum"), 3);
    assert_eq!(call("size", &[]).unwrap(), [Value::I32(4)]);
    call("fill", &[4 << 16]).expect("it runs");
    memory.read((4 << 16) - 7, &mut read).expect("it is inside");
    assert_eq!(read, [7; 7]);
    for outside in [(4 << 16) + 1, -1] {
        assert!(call("fill", &[outside]).is_err(), "{outside}");
    }
    let error = memory.grow(1).unwrap_err().to_string();
    assert_eq!(
        error,
        "shared memory would have 5 pages, its maximum is 4; ask for less"
    );
}

#[test]
fn the_limiter_is_asked_before_a_shared_memory_grows() {
    let memory = shared_memory(1, 4);
    let mut linker = linker(&memory);
    linker.memory_limiter(|(), growth| growth.desired <= 2 << 16);
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region
        .prepare(&common::wat(GUEST), &linker)
        .expect("it fits");
    let mut guest = prepared.try_instantiate(()).expect("a slot");
    for (delta, before) in [(2, -1), (1, 1), (1, -1), (0, 2)] {
        let grown = guest.call_values("grow", &[Value::I32(delta)]).unwrap();
        assert_eq!(grown, [Value::I32(before)]);
    }
    assert_eq!(memory.len(), 2 << 16);
}

/// Both ways of linking refuse a memory with other limits or another type.
#[test]
fn memories_of_another_type_are_refused() {
    let region = Region::builder().slots(1).build().expect("a region");
    let module = common::wat(GUEST);
    let fits = shared_memory(1, 4);
    let refused = |memory: &SharedMemory| {
        let error = region.prepare(&module, &linker(memory)).unwrap_err();
        let prepared = region.prepare(&module, &linker(&fits)).expect("it fits");
        let again = prepared.with_memory("h", "m", memory).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        error.to_string()
    };
    for (memory, found) in [
        (shared_memory(0, 4), "0..4"),
        (shared_memory(1, 5), "1..5"),
        (
            SharedMemory::new(&MemoryType {
                address: AddrType::I64,
                ..ty(1, Some(4), true)
            })
            .unwrap(),
            "i64 1..4",
        ),
    ] {
        assert_eq!(
            refused(&memory),
            format!(
                "import h.m is a memory of {found} pages, shared, the module wants a memory of 1..4 pages, shared; make the \
                 memory with that type"
            )
        );
    }
    // This memory reaches the required minimum only because it has grown.
    let grows = shared_memory(0, 4);
    grows.grow(1).expect("it is within its maximum");
    assert!(region.prepare(&module, &linker(&grows)).is_ok());
    let prepared = region.prepare(&module, &linker(&fits)).expect("it fits");
    for (module, name) in [("h", "n"), ("g", "m"), ("h", "f")] {
        let error = prepared.with_memory(module, name, &fits).unwrap_err();
        let wanted = format!("module imports no memory {module}.{name}; name one that it imports");
        assert_eq!(error.to_string(), wanted);
    }
    // A module that declares an unshared memory cannot import a shared one, and vice versa.
    let error = |text: &str| {
        let error = region.prepare(&common::wat(text), &linker(&fits));
        error.unwrap_err().to_string()
    };
    let found = error("(module (import \"h\" \"m\" (memory 1 4)))");
    assert!(
        found.contains(
            "is a memory of 1..4 pages, shared, the module wants a memory of 1..4 pages;"
        ),
        "{found}"
    );
    let found = error("(module (import \"h\" \"m\" (global i32)))");
    assert!(
        found.contains("is a memory of 1..4 pages, shared, the module wants a global i32"),
        "{found}"
    );
    let found = error("(module (import \"h\" \"f\" (memory 1 4 shared)))");
    assert!(
        found.contains("is a function () -> i32, the module wants a memory of 1..4 pages, shared"),
        "{found}"
    );
}

#[test]
fn shared_memories_are_created_only_from_valid_types() {
    let message = |ty| SharedMemory::new(&ty).unwrap_err().to_string();
    for unshared in [ty(1, Some(2), false), ty(1, None, true), ty(1, None, false)] {
        let wanted =
            format!("memory of {unshared} is not shared; set `shared` in its type, and a maximum");
        assert_eq!(message(unshared), wanted);
    }
    assert_eq!(
        message(ty(3, Some(2), true)),
        "shared memory would have 3 pages, its maximum is 2; ask for less"
    );
    for most in [65_536, u64::MAX] {
        assert_eq!(
            message(ty(65_536, Some(most), true)),
            "shared memory would have 65536 pages, its maximum is 65535; ask for less"
        );
    }
    // Grow to the largest possible size; no page is written.
    let most = SharedMemory::new(&ty(0, Some(u64::MAX), true)).expect("address space is free");
    let grown = most.grow(u64::MAX);
    assert!(
        matches!(grown, Err(SharedMemoryError::Limit { .. })),
        "{grown:?}"
    );
    assert!(most.is_empty() && most.cells().is_empty());
    let bytes = MemoryType {
        page: PageSize::Byte,
        ..ty(5, Some(70_000), true)
    };
    let bytes = SharedMemory::new(&bytes).expect("the system has memory");
    assert_eq!(
        (bytes.grow(65_532).expect("it fits"), bytes.len()),
        (5, 65_537)
    );
    assert!(bytes.write(65_536, &[1]).is_ok() && bytes.write(65_536, &[1, 2]).is_err());
    let mut last = [0; 2];
    assert!(bytes.read(65_535, &mut last).is_ok() && last == [0, 1]);
    for (address, code) in [
        (65_534, TrapCode::UnalignedAtomic),
        (65_536, TrapCode::MemoryOutOfBounds),
        (u64::MAX - 3, TrapCode::MemoryOutOfBounds),
    ] {
        assert_eq!(bytes.atomic_u32(address).unwrap_err().code(), code);
    }
    assert!(bytes.atomic_u32(65_532).is_ok() && bytes.atomic_u64(65_528).is_ok());
    assert!(bytes.read(u64::MAX, &mut last).is_err());
}

/// The second member imports the memory that the first exports. The memory belongs to the host or
/// to the first member's slot.
#[test]
fn members_of_a_group_reexport_shared_memories() {
    let memory = shared_memory(1, 4);
    let region = Region::builder().slots(3).build().expect("a region");
    let mut group = Group::new(&region, ());
    let linker = linker(&memory);
    let first = group
        .instantiate(&common::wat(GUEST), &linker)
        .expect("it fits");
    group.name("first", first);
    let second = r#"(module (import "first" "memory" (memory 1 4 shared)) (export "m" (memory 0))
      (func (export "grow") (result i32) (memory.grow (i32.const 1)))
      (func (export "outside") (result i32) (i32.atomic.load (i32.const 0x20000))))"#;
    let second = group
        .instantiate(&common::wat(second), &linker)
        .expect("it fits");
    assert!(
        group
            .at(second)
            .shared_memory("m")
            .is_some_and(|found| found.is(&memory))
    );
    assert!(group.at(second).exported_memory("m").is_none());
    assert_eq!(group.at(second).memory().len(), 0);
    let grown = group
        .lend(second)
        .call_values("grow", &[])
        .expect("it runs");
    assert_eq!((grown, memory.len()), (vec![Value::I32(1)], 2 << 16));
    let outside = group
        .lend(second)
        .call_values("outside", &[])
        .unwrap_err()
        .to_string();
    assert!(outside.contains("out of bounds memory access"), "{outside}");
    // A shared memory of a slot behaves like any other memory.
    let owner = "(module (memory (export \"m\") 1 2 shared))";
    let owner = group
        .instantiate(&common::wat(owner), &linker)
        .expect("it fits");
    assert!(group.at(owner).shared_memory("m").is_none());
    assert_eq!(
        group
            .at(owner)
            .exported_memory("m")
            .map(|memory| memory.len()),
        Some(1 << 16)
    );
}

/// A memory lives until its last user is dropped.
#[test]
fn the_last_user_of_a_memory_frees_it() {
    let region = Region::builder().slots(1).build().expect("a region");
    let (memory, other) = (shared_memory(1, 4), shared_memory(1, 4));
    let linked = region
        .prepare(&common::wat(GUEST), &linker(&memory))
        .expect("it fits");
    let given = linked.with_memory("h", "m", &other).expect("it is one");
    let mut guest = given.try_instantiate(()).expect("a slot");
    drop((memory, other, linked, given));
    guest
        .call_values("set", &[Value::I32(5), Value::I32(6)])
        .expect("it runs");
    let got = guest.call_values("get", &[Value::I32(5)]).expect("it runs");
    assert_eq!(got, [Value::I32(6)]);
    assert!(guest.call_values("get", &[Value::I32(1 << 16)]).is_err());
    let kept = guest.shared_memory("memory").expect("it is there").clone();
    drop(guest);
    let mut byte = [0];
    kept.read(5, &mut byte).expect("it is inside");
    assert_eq!(byte, [6]);
}
