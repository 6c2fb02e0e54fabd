//! Access rights after a failed reset. An instance has made pages accessible, and the kernel
//! refuses the system call by which its slot is cleaned. In whatever slot the next instance is,
//! pages past the end of its memories must be inaccessible, and pages below it fresh.

use crate::common;
use pirn_runtime::{CallError, Instance, InstantiateError, Linker, Region, Reset, TrapCode, Value};
use std::fs;
use std::ops::Range;

const PAGE: usize = 1 << 16;
/// Most pages of the first and of the second memory.
const MAX: [usize; 2] = [9, 5];

/// Pages with which the memories of three modules begin. Only the first module grows them.
const MODULES: [[usize; 2]; 3] = [[2, 1], [1, 2], [0, 1]];

fn text([first, second]: [usize; 2]) -> String {
    let data = match first {
        0 => "",
        _ => r#"(data (i32.const 5) "image")"#,
    };
    format!(
        r#"(module
          (memory $a (export "0") {first} {}) (memory $b (export "1") {second} {}) {data}
          (func (export "load0") (param i32) (result i32) (i32.load8_u $a (local.get 0)))
          (func (export "load1") (param i32) (result i32) (i32.load8_u $b (local.get 0)))
          (func (export "grow0") (param i32) (result i32) (memory.grow $a (local.get 0)))
          (func (export "grow1") (param i32) (result i32) (memory.grow $b (local.get 0))))"#,
        MAX[0], MAX[1]
    )
}

/// The part of 4 GiB from an address on that has any access right, as offsets, and whether its
/// pages may only be read and written.
fn accessible(base: usize) -> (Vec<Range<usize>>, bool) {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let (mut ranges, mut plain) = (Vec::<Range<usize>>::new(), true);
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').expect("a range and its rights");
        let (start, end) = range.split_once('-').expect("two addresses");
        let [start, end] =
            [start, end].map(|address| usize::from_str_radix(address, 16).expect("an address"));
        let [start, end] = [start, end].map(|address| address.clamp(base, base + (4 << 30)) - base);
        if start == end || rest.starts_with("---") {
            continue;
        }
        plain &= rest.starts_with("rw-p");
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    (ranges, plain)
}

/// Number of pages of a range that are present or in swap (proc_pid_pagemap(5)).
fn present(range: Range<usize>) -> usize {
    let entries = common::pagemap(range);
    entries.iter().filter(|entry| **entry >> 62 != 0).count()
}

/// Checks the rights of both memories of an instance, and what its guest can load.
fn check(
    instance: &mut Instance<()>,
    bases: [usize; 2],
    pages: [usize; 2],
    (reset, what): (Reset, &str),
) {
    for (number, pages) in pages.into_iter().enumerate() {
        let (base, bytes) = (bases[number], pages * PAGE);
        let memory = instance.exported_memory(&number.to_string());
        let memory = memory.expect("it is exported");
        assert_eq!(memory.len(), bytes, "{what}, memory {number}");
        assert!(bytes == 0 || memory.as_slice().as_ptr() as usize == base);
        let (found, plain) = accessible(base);
        assert!(plain, "{what}, memory {number}");
        let reaches = |end: usize| match end {
            0 => found.is_empty(),
            end => found.iter().eq(&Some(0..end)),
        };
        // Of tracked slots, the part that was accessible from the start stays so. Pages past the
        // size are missing there, and touching a missing page is a trap.
        let tracked = reset == Reset::Tracked && number == 0;
        let first = MODULES.map(|pages| pages[0] * PAGE);
        let widest = first
            .into_iter()
            .find(|first| *first > bytes && tracked && reaches(*first));
        assert!(
            reaches(bytes) || widest.is_some(),
            "{what}, memory {number}: {found:?}"
        );
        if let Some(end) = widest {
            assert_eq!(present(base + bytes..base + end), 0, "{what}");
        }
        for at in (bytes..MAX[number] * PAGE)
            .step_by(4096)
            .chain([1 << 31, usize::MAX >> 32])
        {
            let at = Value::I32((at as u32).cast_signed());
            let loaded = instance.call_values(&format!("load{number}"), &[at]);
            let Err(CallError::Trap(trap)) = loaded else {
                panic!("{what}, memory {number}: {loaded:?}");
            };
            assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
        }
    }
}

/// Checks that an instance finds its own initial bytes.
fn check_fresh(instance: &Instance<()>, pages: [usize; 2], what: &str) {
    for (number, pages) in pages.into_iter().enumerate() {
        let mut expected = vec![0; pages * PAGE];
        if number == 0 && pages > 0 {
            expected[5..10].copy_from_slice(b"image");
        }
        let memory = instance.exported_memory(&number.to_string());
        let found = memory.expect("it is exported");
        let differs = common::first_difference(found.as_slice(), &expected);
        assert_eq!(differs, None, "{what}, memory {number}");
    }
}

/// Grows both memories to their maximum and writes to each byte.
fn fill(instance: &mut Instance<()>, pages: [usize; 2], byte: u8) {
    for (number, pages) in pages.into_iter().enumerate() {
        let more = Value::I32((MAX[number] - pages) as i32);
        let grown = instance.call_values(&format!("grow{number}"), &[more]);
        assert_eq!(grown.expect("it grows"), [Value::I32(pages as i32)]);
        let memory = instance.exported_memory_mut(&number.to_string());
        memory.expect("it is exported").as_mut_slice().fill(byte);
    }
}

/// The kernel refuses a system call of the thread that drops an instance. Other threads then use
/// the slot, for which the kernel refuses nothing.
pub(super) fn after(call: &str, reset: Reset) {
    let region = Region::builder()
        .slots(1)
        .memories(2)
        .memory_bytes_max(MAX[0] * PAGE)
        .reset(reset);
    let region = region.build().expect("a region");
    let prepared = MODULES.map(|pages| {
        let module = common::wat(&text(pages));
        let linker = Linker::<()>::new();
        region.prepare(&module, &linker).expect("it fits")
    });
    let what = format!("{call}, {reset}");
    for before in [0, 1, 2] {
        // The slot has been used, so that its reset need not map it first.
        drop(prepared[before].try_instantiate(()).expect("it is free"));
        let mut instance = prepared[0].try_instantiate(()).expect("it is free");
        fill(&mut instance, MODULES[0], 0xa5);
        // The region has one slot, so all instances have these addresses.
        let bases = ["0", "1"].map(|name| {
            let memory = instance.exported_memory(name).expect("it is exported");
            memory.as_slice().as_ptr() as usize
        });
        check(&mut instance, bases, MAX, (reset, &what));
        let failed = region.describe().resets_failed();
        std::thread::scope(|scope| {
            let dropped = scope.spawn(|| {
                super::refuse_reset(call);
                drop(instance);
            });
            dropped.join().expect("no panic");
        });
        let has_failed = region.describe().resets_failed() > failed;
        assert!(has_failed || super::needed(reset) != call, "{what}");
        for next in [1, 2, 0] {
            match prepared[next].try_instantiate(()) {
                Ok(mut instance) => {
                    check_fresh(&instance, MODULES[next], &what);
                    check(&mut instance, bases, MODULES[next], (reset, &what));
                    assert_eq!(region.describe().slots_lost(), 0, "{what}");
                }
                Err(InstantiateError::Lost { slots: 1 }) => {
                    assert_eq!(region.describe().slots_lost(), 1, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        if region.describe().slots_lost() == 1 {
            assert_eq!(region.slots_free(), 0, "{what}");
            assert_eq!(call, "mprotect", "{what}");
            return;
        }
    }
}
