//! Pages that the kernel has moved to swap when a slot is reset. Such a page is not present, but an
//! instance has written it, and its bytes come back with the first access.

use crate::common::{self, not_run};
use pirn_runtime::{Instance, Linker, Prepared, Region};
use std::fs;

/// Size of the memory.
const BYTES: usize = 100 << 16;
/// Size of a page of the processor.
const PAGE: usize = 4096;
/// Attempts to move the pages of an instance out.
const ATTEMPTS_MAX: usize = 50;

const GUEST: &str = r#"(module
  (memory (export "memory") 100)
  (data (i32.const 70000) "image")
  (func (export "write") (param $at i32) (param $len i32)
    (memory.fill (local.get $at) (i32.const 0x5a) (local.get $len)))
  (func (export "sum") (result i32) (local $at i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
      (br_if $l (i32.lt_u
        (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 0x640000))))
    (local.get $sum)))"#;

fn initial() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    bytes[70_000..70_005].copy_from_slice(b"image");
    bytes
}

/// Number of pages of an instance's memory that are in swap (proc_pid_pagemap(5), bit 62).
fn swapped(instance: &Instance<()>) -> usize {
    let start = instance.memory().as_slice().as_ptr() as usize;
    let entries = common::pagemap(start..start + BYTES);
    let swapped = entries.iter().filter(|entry| **entry >> 62 & 1 == 1);
    swapped.count()
}

/// Has the kernel move an instance's pages out. Returns how many are in swap.
fn moved_out(instance: &mut Instance<()>, wanted: usize) -> usize {
    let mut most = 0;
    for _ in 0..ATTEMPTS_MAX {
        super::advise(instance, libc::MADV_PAGEOUT);
        most = swapped(instance);
        if most >= wanted {
            break;
        }
    }
    most
}

/// An instance writes `written` pages, and the kernel moves them out. With `again`, the instance
/// then writes half of them again. Returns the number of pages that were in swap.
fn tenant(prepared: &Prepared<()>, written: usize, again: bool) -> usize {
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    let initial = initial();
    let found = instance.memory();
    let differs = common::first_difference(found.as_slice(), &initial);
    assert_eq!(differs, None, "{written} pages were written and moved out");
    let sum = prepared.func::<(), u32>("sum").expect("it is exported");
    let expected = initial.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    assert_eq!(instance.call(&sum, ()).expect("it returns"), expected);
    let write = prepared
        .func::<(u32, u32), ()>("write")
        .expect("it is exported");
    let len = (written * PAGE) as u32;
    instance.call(&write, (0, len)).expect("inside");
    // The host writes the last page, if there is one.
    if let Some(last) = written.checked_sub(1) {
        instance.memory_mut().as_mut_slice()[last * PAGE..][..PAGE].fill(0xa5);
    }
    let moved = moved_out(&mut instance, written);
    if again {
        // Half of the pages come back. The others stay in swap until the reset.
        instance.call(&write, (0, len / 2)).expect("inside");
    }
    moved
}

#[test]
fn pages_in_swap_are_reset() {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() < 2 {
        not_run("this machine has no swap; as root, runtime/tests/pressure.sh adds some");
        return;
    }
    let module = common::wat(GUEST);
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .memory_bytes_max(BYTES)
            .reset(reset);
        let region = region.build().expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut moved = 0;
        // Few pages, the whole memory, and numbers between them, in turn.
        for written in [1, 30, BYTES / PAGE, 7, 0, 300, 64, 1] {
            for again in [false, true] {
                moved += tenant(&prepared, written, again);
            }
        }
        tenant(&prepared, 0, false);
        assert!(moved > 0, "{reset}: the kernel moved no page out");
    }
}
