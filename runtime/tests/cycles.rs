//! Many instances leak no memory, mappings or slots.

use crate::common;

use common::campaign::{sampled, share};
use pirn_runtime::{Linker, Region};

const TOUCH: &str = include_str!("../../examples/guests/touch.wat");
/// Number of cycles in a full run. A third of them suffices to detect a leak of 16 bytes per cycle.
const CYCLES: u64 = 200_000;

/// Resident bytes of the process, from `/proc/self/statm` (proc(5)).
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("it is a number of pages") * 4096
}

/// Number of mappings of the process, from `/proc/self/maps`.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .expect("/proc is mounted")
        .lines()
        .count()
}

#[test]
fn null_cycles_leak_no_memory_mappings_or_slots() {
    common::alone(null_cycles);
}

#[test]
fn guests_that_write_and_grow_leak_no_memory_or_mappings() {
    common::alone(writing_cycles);
}

fn null_cycles() {
    let module = common::wat(include_str!("../../examples/guests/null.wat"));
    let region = Region::builder().slots(4).build().expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let run = prepared.func::<(), ()>("run").expect("it is exported");
    let cycle = || {
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        instance.call(&run, ()).expect("it returns");
    };
    (0..1000).for_each(|_| cycle());
    let before = (resident(), mappings(), region.slots_free());
    (0..share(CYCLES, 5)).for_each(|_| cycle());
    let after = (resident(), mappings(), region.slots_free());
    assert!(
        after.0 < before.0 + (1 << 20),
        "resident: {before:?} {after:?}"
    );
    // Threads of the process may map a little memory; a leak would be one mapping for each cycle.
    assert!(after.1 < before.1 + 16, "mappings: {before:?} {after:?}");
    assert_eq!(after.2, before.2, "slots");
}

fn writing_cycles() {
    let module = common::wat(TOUCH);
    let grower = common::wat(
        "(module (memory 1 100) (func (export \"go\")
           (drop (memory.grow (i32.const 99)))
           (memory.fill (i32.const 0) (i32.const 7) (i32.const 6553600))))",
    );
    for reset in common::resets() {
        let region = Region::builder()
            .slots(2)
            .reset(reset)
            .build()
            .expect("a region");
        let touching = region.prepare(&module, &Linker::new()).expect("it fits");
        let growing = region.prepare(&grower, &Linker::new()).expect("it fits");
        let cycle = |pages: u32| {
            let mut touch = touching.try_instantiate(()).expect("a slot is free");
            let func = touching.func::<u32, u32>("touch").expect("it is exported");
            assert_eq!(touch.call(&func, pages).expect("it returns"), pages);
            let sum = touching.func::<u32, u32>("sum").expect("it is exported");
            assert_eq!(touch.call(&sum, 1104).expect("it returns"), 6 + pages);
            if pages.is_multiple_of(16) {
                let mut grow = growing.try_instantiate(()).expect("a slot is free");
                grow.call_values("go", &[]).expect("it returns");
            }
        };
        (0..32).for_each(cycle);
        let before = (resident(), mappings());
        // A seventh of the cycles suffices to detect a leak of 28 KiB per cycle, and all of them
        // suffice for 4 KiB.
        sampled(0..512, 7, 0).for_each(cycle);
        let after = (resident(), mappings());
        assert!(
            after.0 < before.0 + (2 << 20),
            "{reset}: resident: {before:?} {after:?}"
        );
        assert!(
            after.1 < before.1 + 16,
            "{reset}: mappings: {before:?} {after:?}"
        );
        assert_eq!(region.slots_free(), 2);
    }
}
