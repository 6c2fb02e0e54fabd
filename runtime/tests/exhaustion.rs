//! If the kernel refuses a resource, the caller gets a typed error, and no slot is lost.
//!
//! Each case runs in a child process, whose limits it uses up.
#![allow(unsafe_code, reason = "this test uses up its process limits")]

mod rights;

use crate::common;

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use pirn_runtime::{
    CallError, Instance, InstantiateError, Linker, Region, RegionError, Reset, TrapCode,
};

#[test]
fn a_region_without_address_space_reports_the_bytes_it_needs() {
    common::exited_with("addresses", 0);
}

#[test]
fn instances_without_mappings_return_their_slots() {
    for reset in common::resets() {
        common::exited_with(&format!("mappings, {reset}"), 0);
    }
}

#[test]
fn an_unsupported_reset_falls_back_to_the_next() {
    if common::resets() != Reset::ALL {
        common::not_run("this machine has refused some resets already");
        return;
    }
    common::exited_with("refused", 0);
    common::exited_with("old or lying", 0);
    common::exited_with("only userfaultfd", 0);
    common::exited_with("from rewritten to tracked", 0);
}

/// Checks that a process without memory gets an error under tracked reset, where the runtime
/// supplies the pages.
fn exited_where_tracked(case: &str) {
    if Region::builder().reset(Reset::Tracked).build().is_err() {
        common::not_run("where the kernel fills pages, it kills who has no memory left");
        return;
    }
    common::exited_with(case, 0);
}

#[test]
fn a_page_without_system_memory_has_its_own_trap_code() {
    exited_where_tracked("exhausted");
}

/// If the kernel refuses a reset's system call, the runtime must clean the slot later or never
/// reuse it.
#[test]
fn a_slot_whose_reset_fails_is_clean_or_not_reused() {
    for reset in common::resets() {
        for call in ["madvise", "mprotect", "scan"] {
            common::exited_with(&format!("failing {call}, {reset}"), 0);
        }
    }
}

/// A page that an earlier instance made accessible must not stay so.
#[test]
fn a_slot_whose_reset_fails_has_the_rights_of_its_next_instance() {
    for reset in common::resets() {
        for call in ["madvise", "mprotect", "scan"] {
            common::exited_with(&format!("rights after {call}, {reset}"), 0);
        }
    }
}

#[test]
fn a_slot_whose_mapping_fails_half_way_is_not_reused() {
    if !common::resets().contains(&Reset::Scanned) {
        common::not_run("only scanned slots are mapped anew, and that does not work here");
        return;
    }
    common::exited_with("lost", 0);
}

#[test]
fn a_slot_whose_growth_cannot_be_undone_is_not_reused() {
    for reset in common::resets() {
        for memory in ["first", "second"] {
            common::exited_with(&format!("growing {memory}, {reset}"), 0);
        }
    }
}

#[test]
fn a_bulk_operation_traps_at_a_page_without_system_memory() {
    exited_where_tracked("exhausted in bulk");
}

#[test]
fn views_report_pages_without_system_memory() {
    exited_where_tracked("exhausted in views");
}

#[test]
fn a_wait_traps_at_a_page_without_system_memory() {
    exited_where_tracked("exhausted in waits");
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let case = common::case();
    match case.split_once(", ") {
        None if case == "refused" => refused(),
        None if case == "old or lying" => old_or_lying(),
        None if case == "exhausted" => exhausted(),
        None if case == "exhausted in bulk" => exhausted_in_bulk(),
        None if case == "exhausted in views" => exhausted_in_views(),
        None if case == "exhausted in waits" => exhausted_in_waits(),
        None if case == "lost" => lost(),
        None if case == "only userfaultfd" => only_userfaultfd(),
        None if case == "from rewritten to tracked" => from_rewritten_to_tracked(),
        None => addresses(),
        Some((what, name)) => {
            let reset = common::reset_named(name);
            match what.split_once(' ') {
                Some(("failing", call)) => failing(call, reset),
                Some(("rights", call)) => rights::after(call.trim_start_matches("after "), reset),
                Some(("growing", memory)) => growing(memory, reset),
                _ => mappings(reset),
            }
        }
    }
}

fn addresses() {
    larger_than_the_machine();
    common::limit(libc::RLIMIT_AS, 64 << 30);
    Region::builder()
        .slots(4)
        .build()
        .expect("16 GiB of addresses are free");
    match Region::builder().slots(100).build() {
        Err(
            error @ RegionError::AddressSpace {
                slots: 100, gib, ..
            },
        ) => {
            assert!(gib >= 400);
            let line = error.to_string();
            assert!(
                line.contains("of address space for 100 slots: ") && line.contains("lower `slots`"),
                "{line}"
            );
            assert!(!line.contains('\n'));
        }
        other => panic!("{other:?}"),
    }
}

/// Two regions, each of which needs most of the address space.
fn larger_than_the_machine() {
    let build = || Region::builder().slots(30_000).build();
    for _ in 0..2 {
        let first = build().expect("128 TiB of addresses are free");
        let line = build()
            .expect_err("another 128 TiB are not free")
            .to_string();
        assert!(
            line.contains(" GiB of address space for 30000 slots: Cannot allocate memory")
                && line.contains("lower `slots`"),
            "{line}"
        );
        assert_eq!(first.slots_free(), 30_000);
    }
}

fn exhausted() {
    const UFFDIO_COPY: u32 = 0xc028_aa03;
    let module = common::wat(
        "(module (memory (export \"memory\") 3) (data (i32.const 5) \"image\")
           (func (export \"store\") (param i32) (i32.store8 (local.get 0) (i32.const 1))))",
    );
    let region = Region::builder().slots(1).reset(Reset::Tracked).build();
    let region = region.expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let store = prepared.func::<u32, ()>("store").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    instance.call(&store, 0).expect("there is memory");
    common::refuse(libc::SYS_ioctl, Some(UFFDIO_COPY), libc::ENOMEM);
    for _ in 0..3 {
        instance.call(&store, 1).expect("the page is there");
        let error = instance.call(&store, 70_000).expect_err("there is none");
        match &error {
            CallError::Trap(trap) => assert_eq!(trap.code(), TrapCode::MemoryExhausted),
            other => panic!("{other}"),
        }
        let line = error.to_string();
        assert!(
            line.contains("the system has no memory for a page"),
            "{line}"
        );
        let error = instance.call(&store, 3 << 16).expect_err("it is outside");
        assert!(error.to_string().contains("out of bounds"), "{error}");
        drop(instance);
        instance = prepared.try_instantiate(()).expect("the slot is free");
        let memory = instance.memory();
        assert_eq!(&memory.as_slice()[..12], b"\0\0\0\0\0image\0\0");
    }
}

fn exhausted_in_bulk() {
    const UFFDIO_COPY: u32 = 0xc028_aa03;
    let module = common::wat(
        "(module (memory (export \"memory\") 3) (data (i32.const 5) \"image\")
           (func $copy (export \"copy\") (param i32 i32 i32)
             (memory.copy (local.get 0) (local.get 1) (local.get 2)))
           (func $fill (export \"fill\") (param i32 i32 i32)
             (memory.fill (local.get 0) (local.get 1) (local.get 2)))
           (func $cfew (export \"cfew\") (param i32 i32 i32)
             (memory.copy (local.get 0) (local.get 1) (i32.const 100)))
           (func $ffew (export \"ffew\") (param i32 i32 i32)
             (memory.fill (local.get 0) (local.get 1) (i32.const 100))))",
    );
    let region = Region::builder().slots(1).reset(Reset::Tracked).build();
    let region = region.expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let func = |name: &str| prepared.func::<(u32, u32, u32), ()>(name).expect("there");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    // The first page is present before the kernel refuses.
    instance
        .call(&func("fill"), (0, 7, 1))
        .expect("there is memory");
    common::refuse(libc::SYS_ioctl, Some(UFFDIO_COPY), libc::ENOMEM);
    for (name, a, b, n) in [
        ("copy", 4000, 1000, 500),
        ("copy", 1000, 70_000, 33),
        ("copy", 4090, 100, 12),
        ("copy", 4095, 100, 2),
        ("copy", 70_000, 69_900, 1000),
        ("copy", 3000, 3600, 600),
        ("fill", 4000, 1, 1000),
        ("fill", 70_000, 1, 1),
        ("fill", 4090, 1, 20),
        ("fill", 4096, 1, 190_000),
        ("fill", 0, 1, 190_000),
        ("copy", 0, 4096, 180_000),
        ("copy", 4096, 0, 180_000),
        ("cfew", 4050, 0, 100),
        ("cfew", 0, 4050, 100),
        ("ffew", 4050, 3, 100),
        ("ffew", 70_000, 3, 100),
    ] {
        let error = instance
            .call(&func(name), (a, b, n))
            .expect_err("there is none");
        match &error {
            CallError::Trap(trap) => {
                assert_eq!(trap.code(), TrapCode::MemoryExhausted, "{name} {a} {b} {n}");
                let names: Vec<_> = trap
                    .backtrace()
                    .iter()
                    .map(|f| f.func_name().map(str::to_owned))
                    .collect();
                assert_eq!(names, [Some(name.to_owned())], "{name} {a} {b} {n}");
                eprintln!("{name} {a} {b} {n}: {:?}", trap.wasm_offset());
            }
            other => panic!("{other}"),
        }
        // The instance stays usable, as after any trap.
        instance
            .call(&func("copy"), (100, 101, 300))
            .expect("the page is there");
        let error = instance
            .call(&func("copy"), (3 << 16, 0, 1))
            .expect_err("outside");
        assert!(error.to_string().contains("out of bounds"), "{error}");
    }
    drop(instance);
    let instance = prepared.try_instantiate(()).expect("the slot is free");
    assert_eq!(&instance.memory().as_slice()[..12], b"\0\0\0\0\0image\0\0");
}

/// A guest waits at an address whose page the kernel refuses. The runtime reads that address to
/// decide whether to wait.
fn exhausted_in_waits() {
    const UFFDIO_COPY: u32 = 0xc028_aa03;
    let module = common::wat(
        "(module (memory (export \"memory\") 3 3 shared)
           (func (export \"32\") (param i32) (result i32)
             (memory.atomic.wait32 (local.get 0) (i32.const 1) (i64.const 0)))
           (func (export \"64\") (param i32) (result i32)
             (memory.atomic.wait64 (local.get 0) (i64.const 1) (i64.const 0))))",
    );
    let region = Region::builder().slots(1).reset(Reset::Tracked).build();
    let region = region.expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    let [wait32, wait64] = ["32", "64"].map(|name| prepared.func::<u32, i32>(name).expect("there"));
    assert_eq!(instance.call(&wait32, 64).expect("it is there"), 1);
    common::refuse(libc::SYS_ioctl, Some(UFFDIO_COPY), libc::ENOMEM);
    for (wait, address) in [(&wait32, 70_000), (&wait64, 140_000)] {
        match instance.call(wait, address).expect_err("there is none") {
            CallError::Trap(trap) => assert_eq!(trap.code(), TrapCode::MemoryExhausted),
            other => panic!("{other}"),
        }
        // Where the page is present, the wait returns "not equal".
        assert_eq!(instance.call(wait, 64).expect("it is there"), 1);
    }
}

/// Each checked method of a memory view returns an error for a page that the kernel refuses. The
/// next instance finds a clean memory.
fn exhausted_in_views() {
    const UFFDIO_COPY: u32 = 0xc028_aa03;
    let module =
        common::wat("(module (memory (export \"memory\") 9) (data (i32.const 5) \"image\"))");
    let region = Region::builder().slots(1).reset(Reset::Tracked).build();
    let region = region.expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    let mut memory = instance.memory_mut();
    // `populate` makes 16 pages writable with few ioctls; one more page is read.
    memory.populate(4096, 16 * 4096).expect("there is memory");
    assert_eq!(memory.read_u32(0).expect("there is memory"), 0);
    common::refuse(libc::SYS_ioctl, Some(UFFDIO_COPY), libc::ENOMEM);
    let end = 17 * 4096;
    memory
        .write(4096, &[7; 16 * 4096])
        .expect("pages are there");
    memory
        .write(4095, &[1; 2])
        .expect("a page that was read can be written");
    assert_eq!(
        memory.read_u64(end - 8).expect("it is there"),
        u64::MAX / 255 * 7
    );
    for (at, len) in [
        (end, 1),
        (end - 1, 2),
        (8192, end),
        (end + 4095, 2),
        (0, 9 << 16),
    ] {
        let mut buffer = vec![1; len as usize];
        for (what, error) in [
            ("slice", memory.slice(at, len).map(drop)),
            ("slice_mut", memory.slice_mut(at, len).map(drop)),
            ("populate", memory.populate(at, len)),
            ("read", memory.read(at, &mut buffer)),
            ("write", memory.write(at, &vec![1; len as usize])),
            (
                "write_prefix",
                memory
                    .write_prefix(at, len, &vec![1; len as usize])
                    .map(drop),
            ),
            ("read_u32", memory.read_u32(end - 2).map(drop)),
            ("read_u64", memory.read_u64(end).map(drop)),
            ("write_u32", memory.write_u32(end - 1, 1)),
            ("write_u64", memory.write_u64(end + 4096, 1)),
        ] {
            let error = error.expect_err("there is no memory");
            assert_eq!(error.code(), TrapCode::MemoryExhausted, "{what} {at} {len}");
        }
        assert!(buffer.iter().all(|byte| *byte == 1), "nothing is copied");
        memory.write_prefix(end - 1, 9, &[7]).expect("it is there");
    }
    assert_eq!(
        memory.read_u64(end - 8).expect("it is there"),
        u64::MAX / 255 * 7
    );
    for at in [9 << 16, (9 << 16) - 1] {
        let error = memory.populate(at, 2).expect_err("it is outside");
        assert_eq!(error.code(), TrapCode::MemoryOutOfBounds);
    }
    drop(instance);
    let instance = prepared.try_instantiate(()).expect("the slot is free");
    let memory = instance.memory();
    let found = &memory.as_slice()[..end as usize];
    assert!(found[..10] == *b"\0\0\0\0\0image" && found[10..].iter().all(|byte| *byte == 0));
}

/// Makes the kernel refuse a system call that resets need.
fn refuse_reset(call: &str) {
    match call {
        "madvise" => common::refuse(libc::SYS_madvise, None, libc::ENOMEM),
        "mprotect" => common::refuse(libc::SYS_mprotect, None, libc::ENOMEM),
        _ => common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::ENOMEM),
    }
}

/// The system call without which a reset fails.
fn needed(reset: Reset) -> &'static str {
    match reset {
        Reset::Tracked => "mprotect",
        Reset::Scanned => "scan",
        _ => "madvise",
    }
}

/// An instance writes and grows. Then the kernel refuses a system call that the slot's reset may
/// need.
fn failing(call: &str, reset: Reset) {
    let module = common::wat(
        "(module (memory (export \"memory\") 3 9) (data (i32.const 70000) \"image\")
           (func (export \"load\") (param i32) (result i32) (i32.load8_u (local.get 0)))
           (func (export \"grow\") (result i32) (memory.grow (i32.const 2))))",
    );
    let mut expected = vec![0; 3 << 16];
    expected[70_000..70_005].copy_from_slice(b"image");
    let region = Region::builder()
        .slots(1)
        .memory_bytes_max(9 << 16)
        .reset(reset);
    let region = region.build().expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let load = prepared.func::<u32, u32>("load").expect("it is exported");
    let grow = prepared.func::<(), i32>("grow").expect("it is exported");
    let tenant = |fresh: bool| -> Result<(), InstantiateError> {
        let mut instance = prepared.try_instantiate(())?;
        assert!(instance.memory().as_slice() == expected, "{call}, {reset}");
        instance.call(&load, 3 << 16).expect_err("it is outside");
        let grown = instance.call(&grow, ()).expect("no trap");
        assert!(grown == 3 || (grown == -1 && !fresh), "{grown}");
        let mut memory = instance.memory_mut();
        let memory = memory.as_mut_slice();
        assert!(
            memory[3 << 16..].iter().all(|byte| *byte == 0),
            "{call}, {reset}"
        );
        memory.fill(0x5a);
        Ok(())
    };
    tenant(true).expect("the first instance is made");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    instance.call(&grow, ()).expect("no trap");
    instance.memory_mut().as_mut_slice().fill(0xa5);
    refuse_reset(call);
    drop(instance);
    let description = region.describe();
    if call == needed(reset) {
        assert_eq!(description.resets_failed(), 1, "{description}");
        // If mprotect(2) is refused, the runtime cannot protect the pages again, and the slot is
        // lost.
        let end = match call {
            "mprotect" => "; 1 resets failed; 1 slots lost",
            _ => "; 1 resets failed",
        };
        assert!(description.to_string().ends_with(end), "{description}");
    }
    for _ in 0..3 {
        match tenant(false) {
            Ok(()) => {}
            Err(error) => {
                let line = error.to_string();
                let expected = match region.describe().slots_lost() {
                    0 => "the system gives no memory for a slot",
                    // This attempt itself may have made the runtime give up the slot.
                    _ if line.starts_with("the system gives") => {
                        "the system gives no memory for a slot"
                    }
                    _ => "the system refused to restore the memory of all 1 slots of the region",
                };
                assert!(line.starts_with(expected), "{line}");
            }
        }
        let lost = region.describe().slots_lost() as usize;
        assert_eq!(region.slots_free() + lost, 1, "{call}, {reset}");
    }
}

/// The kernel refuses to grow a memory, and also refuses to undo a partial change.
fn growing(memory: &str, reset: Reset) {
    let module = common::wat(
        "(module (memory 1 9) (memory 1 9)
           (func (export \"first\") (result i32) (memory.grow 0 (i32.const 2)))
           (func (export \"second\") (result i32) (memory.grow 1 (i32.const 2))))",
    );
    let region = Region::builder().slots(2).memories(2).reset(reset);
    let region = region.build().expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let grow = prepared.func::<(), i32>(memory).expect("it is exported");
    let mut grows = prepared.try_instantiate(()).expect("a slot is free");
    // The slot of `rests` is prepared before the kernel refuses.
    let rests = prepared.try_instantiate(()).expect("a slot is free");
    common::refuse(libc::SYS_mprotect, None, libc::ENOMEM);
    assert_eq!(grows.call(&grow, ()).expect("no trap"), -1);
    assert_eq!(region.describe().slots_lost(), 0, "it is in use");
    drop(rests);
    assert_eq!(region.slots_free(), 1);
    drop(grows);
    let description = region.describe();
    assert_eq!(description.slots_lost(), 1, "{description}");
    assert_eq!(region.slots_free(), 1, "{description}");
    assert_eq!(description.resets_failed(), 0, "{description}");
    let _instance = prepared
        .try_instantiate(())
        .expect("the other slot is free");
    let error = prepared.try_instantiate(()).expect_err("no other is");
    assert!(matches!(error, InstantiateError::Full { .. }), "{error}");
}

const PAGEMAP_SCAN: u32 = 0xc060_6610;

/// Modules for which tracked reset is unsuitable, on a kernel that supports no other reset.
fn only_userfaultfd() {
    common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::EPERM);
    let dense = "a".repeat(5 << 20);
    for data in ["image", &dense] {
        let module = common::wat(&format!(
            "(module (memory (export \"memory\") 100) (data (i32.const 5) \"{data}\"))"
        ));
        let region = Region::builder().slots(1).build().expect("a region");
        assert_eq!(region.describe().reset(), Reset::Tracked);
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits");
        for round in 0..6 {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            let mut memory = instance.memory_mut();
            let (image, rest) = memory.as_mut_slice()[5..].split_at_mut(data.len());
            assert!(
                image == data.as_bytes() && rest.iter().all(|byte| *byte == 0),
                "{round}"
            );
            image.fill(1);
            rest.fill(2);
        }
    }
}

/// The kernel refuses to map a module's image over another module's image, so the slot's content is
/// unknown.
fn lost() {
    let region = Region::builder().slots(2).reset(Reset::Scanned);
    let region = region.build().expect("a region");
    let [first, second] = ["image", "other"].map(|data| {
        let module = common::wat(&format!(
            "(module (memory (export \"memory\") 1) (data (i32.const 5) \"{data}\"))"
        ));
        region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits")
    });
    let holds = |instance: &Instance<()>, data: &[u8]| instance.memory().as_slice()[5..10] == *data;
    // Both slots hold the first module's image.
    let both = [(); 2].map(|()| first.try_instantiate(()).expect("a slot is free"));
    assert!(both.iter().all(|instance| holds(instance, b"image")));
    drop(both);
    common::refuse(libc::SYS_mmap, None, libc::ENOMEM);
    for lost in 1..=2 {
        let error = second.try_instantiate(()).expect_err("it cannot be mapped");
        let line = error.to_string();
        assert!(
            line.starts_with("the system gives no memory for a slot"),
            "{line}"
        );
        assert_eq!(region.describe().slots_lost(), lost);
        assert_eq!(region.slots_free(), 2 - lost as usize);
        // The other slot still works.
        if lost == 1 {
            let instance = first.try_instantiate(()).expect("a slot is free");
            assert!(holds(&instance, b"image"));
        }
    }
    let lost = |error: InstantiateError| {
        assert!(
            matches!(error, InstantiateError::Lost { slots: 2 }),
            "{error}"
        );
    };
    for prepared in [&first, &second] {
        lost(prepared.try_instantiate(()).expect_err("no slot is left"));
        lost(prepared.instantiate(()).expect_err("no slot becomes free"));
        let waits = prepared.instantiate_timeout((), Duration::MAX);
        lost(waits.expect_err("no slot becomes free"));
        let mut waits = pin!(prepared.instantiate_async(()));
        let polled = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = polled else {
            panic!("{polled:?}");
        };
        lost(error);
    }
}

/// A module without tracking leaves pages resident. The runtime must not take these pages for
/// tracked pages of the next module.
fn from_rewritten_to_tracked() {
    common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::EPERM);
    // This guest starts without memory and grows past the pages that a slot can track, so the
    // runtime soon stops tracking its module.
    let wide = common::wat(
        "(module (memory (export \"memory\") 0)
           (func (export \"grow\") (result i32) (memory.grow (i32.const 100))))",
    );
    let small =
        common::wat("(module (memory (export \"memory\") 1) (data (i32.const 5) \"image\"))");
    let region = Region::builder().slots(1).build().expect("a region");
    assert_eq!(region.describe().reset(), Reset::Tracked);
    let linker = Linker::<()>::new();
    let wide = region.prepare(&wide, &linker).expect("it fits");
    let grow = wide.func::<(), i32>("grow").expect("it is exported");
    for _ in 0..6 {
        let mut instance = wide.try_instantiate(()).expect("the slot is free");
        assert_eq!(instance.call(&grow, ()).expect("it returns"), 0);
        instance.memory_mut().as_mut_slice().fill(0x5a);
    }
    let small = region.prepare(&small, &linker).expect("it fits");
    let mut initial = vec![0; 65536];
    initial[5..10].copy_from_slice(b"image");
    for tenant in 0..3 {
        let mut instance = small.try_instantiate(()).expect("the slot is free");
        let mut memory = instance.memory_mut();
        assert!(memory.as_slice() == initial, "{tenant}");
        memory.as_mut_slice().fill(0xa5);
    }
}

fn refused() {
    let module =
        common::wat("(module (memory (export \"memory\") 1) (data (i32.const 5) \"image\"))");
    let described = |wanted: Reset| {
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits");
        for _ in 0..3 {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            let mut memory = instance.memory_mut();
            assert_eq!(&memory.as_slice()[..12], b"\0\0\0\0\0image\0\0");
            memory.as_mut_slice().fill(7);
        }
        let description = region.describe();
        assert_eq!(description.reset(), wanted, "{description}");
        description.to_string()
    };
    let line = |reset| {
        let error = Region::builder().slots(1).reset(reset).build();
        error.expect_err("it is refused").to_string()
    };
    let all = described(Reset::Tracked);
    assert!(all.ends_with("reset tracked"), "{all}");
    common::refuse(libc::SYS_userfaultfd, None, libc::EPERM);
    let why = "tracked does not work: Operation not permitted (os error 1)";
    assert!(described(Reset::Scanned).contains(why));
    let error = line(Reset::Tracked);
    assert!(
        error.starts_with("reset tracked does not work on this machine: Operation not permitted")
            && error.ends_with("use `Reset::Auto`"),
        "{error}"
    );
    common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::EPERM);
    let description = described(Reset::Rewritten);
    assert!(
        description.contains("scanned does not work: Operation"),
        "{description}"
    );
    assert!(line(Reset::Scanned).starts_with("reset scanned does not work on this machine"));
}

/// A kernel without userfaultfd, and a kernel whose page scan reports success but finds nothing.
fn old_or_lying() {
    let described = |wanted: Reset| {
        let description = Region::builder().slots(1).build().expect("a region");
        let description = description.describe();
        assert_eq!(description.reset(), wanted, "{description}");
        description.to_string()
    };
    common::refuse(libc::SYS_userfaultfd, None, libc::ENOSYS);
    let why = "tracked does not work: Function not implemented (os error 38)";
    assert!(described(Reset::Scanned).contains(why));
    // The ioctl returns 0 and changes nothing.
    common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), 0);
    let description = described(Reset::Rewritten);
    let why = "scanned does not work: PAGEMAP_SCAN makes no progress";
    assert!(description.contains(why), "{description}");
    // An older kernel returns ENOTTY for an unknown ioctl. The errno of the newest seccomp filter
    // wins.
    common::refuse(libc::SYS_ioctl, Some(PAGEMAP_SCAN), libc::ENOTTY);
    let error = Region::builder().slots(1).reset(Reset::Scanned).build();
    let line = error.expect_err("it is refused").to_string();
    assert_eq!(
        line,
        "reset scanned does not work on this machine: Inappropriate ioctl for device (os error 25); \
         use `Reset::Auto`"
    );
}

/// Uses up nearly all mappings of the process, and then fills the region with instances.
fn mappings(reset: Reset) {
    let module = common::wat(
        "(module (memory (export \"memory\") 1 3) (data (i32.const 5) \"image\")
           (func (export \"grow\") (result i32) (memory.grow (i32.const 1))))",
    );
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("/proc is mounted");
    let most: usize = most.trim().parse().expect("it is a number");
    const SLOTS: u32 = 4000;
    let region = Region::builder()
        .slots(SLOTS)
        .memory_bytes_max(3 << 16)
        .reset(reset)
        .build();
    let region = region.expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let grow = prepared.func::<(), i32>("grow").expect("it is exported");
    let mut instances = Vec::with_capacity(SLOTS as usize);
    // Each second page gets other access rights, and so becomes a mapping of its own.
    let page = 4096;
    let wanted = most.saturating_sub(2000);
    // SAFETY: `start` is a fresh mapping that nothing else uses.
    unsafe {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(
            std::ptr::null_mut(),
            wanted * page,
            libc::PROT_NONE,
            kind,
            -1,
            0,
        );
        assert_ne!(start, libc::MAP_FAILED);
        for n in (0..wanted).step_by(2) {
            let at = start.wrapping_byte_add(n * page);
            assert_eq!(libc::mprotect(at, page, libc::PROT_READ), 0);
        }
    }
    let error = loop {
        match prepared.try_instantiate(()) {
            Ok(mut instance) => {
                // `memory.grow` returns -1 to the guest when there is no mapping left.
                let grown = instance.call(&grow, ()).expect("no trap");
                assert!(grown == 1 || grown == -1, "{grown}");
                instances.push(instance);
            }
            Err(error) => break error,
        }
        assert!(
            instances.len() < SLOTS as usize,
            "the limit is reached earlier"
        );
    };
    assert!(matches!(error, InstantiateError::System { .. }), "{error}");
    // Stack 1 MiB, tables 2 MiB, instance data 512 KiB, memory 64 KiB.
    assert_eq!(
        error.to_string(),
        "the system gives no memory for a slot with 3648 KiB of writable memory: Cannot allocate \
         memory (os error 12); raise `ulimit -d` or `vm.max_map_count`, or lower the sizes of the \
         region's slots"
    );
    assert!(
        std::error::Error::source(&error).is_none(),
        "the message already includes the source"
    );
    // Live instances stay usable, and dropped ones return their slots.
    let free = |live: usize| SLOTS as usize - live - region.describe().slots_lost() as usize;
    assert_eq!(region.slots_free(), free(instances.len()));
    let half = instances.len() / 2;
    instances.truncate(half);
    assert_eq!(region.slots_free(), free(half));
    for _ in 0..half / 2 {
        let instance = prepared.try_instantiate(()).expect("there is room again");
        assert_eq!(
            instance.memory().slice(5, 5).expect("it is there"),
            b"image"
        );
        assert_eq!(instance.memory().len(), 1 << 16);
        instances.push(instance);
    }
    drop(instances);
    assert_eq!(region.slots_free(), free(0));
    assert!(region.describe().slots_lost() <= 1, "{}", region.describe());
}
