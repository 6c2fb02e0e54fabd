//! Memory before its first access. The guest, the host, several host threads and the kernel must
//! find the initial content. Their writes must be gone in the slot's next instance.
#![allow(
    unsafe_code,
    reason = "system calls on slices of a guest's memory, and errno"
)]

use crate::common;

use common::campaign::{sampled, share};
use core::ops::Range;
use pirn_runtime::{Instance, Linker, Module, Prepared, Region, Reset, Value};
use std::io;
use std::sync::LazyLock;

const PAGE: usize = 4096;
const WASM_PAGE: usize = 64 << 10;

/// 100 pages of 64 KiB, more than a slot tracks, with one byte in every third 4 KiB page.
fn sparse() -> (Module, Vec<u8>) {
    let mut memory = vec![0; 100 * WASM_PAGE];
    let mut data = String::new();
    for page in (0..memory.len() / PAGE).step_by(3) {
        memory[page * PAGE + 7] = (page % 255) as u8 + 1;
        data += &format!(
            "(data (i32.const {}) \"\\{:02x}\")",
            page * PAGE + 7,
            page % 255 + 1
        );
    }
    let module = format!(
        r#"(module (memory (export "memory") 100 200) {data}
          (func (export "fill") (param i32 i32)
            (memory.fill (local.get 0) (i32.const 0x5a) (local.get 1)))
          (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
          (func (export "across") (param i32) (result i64)
            (i64.store (local.get 0) (i64.const -1)) (i64.load (local.get 0)))
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))"#
    );
    (common::wat(&module), memory)
}

/// The module of [`sparse`], and its initial memory.
static SPARSE: LazyLock<(Module, Vec<u8>)> = LazyLock::new(sparse);

struct Setup {
    prepared: Prepared<()>,
    memory: &'static [u8],
}

impl Setup {
    fn new(reset: Reset) -> Self {
        let (module, memory) = &*SPARSE;
        let region = Region::builder().slots(1).reset(reset).build();
        let region = region.expect("a region");
        let prepared = region.prepare(module, &Linker::new()).expect("it fits");
        Self { prepared, memory }
    }

    fn instance(&self) -> Instance<()> {
        self.prepared.try_instantiate(()).expect("the slot is free")
    }

    /// Checks that the next instance finds its initial memory.
    fn check(&self, what: &str) {
        let instance = self.instance();
        let memory = instance.memory();
        let (found, expected) = (memory.as_slice(), self.memory);
        assert_eq!(found.len(), expected.len(), "{what}");
        if found != expected {
            let at = (0..found.len()).find(|at| found[*at] != expected[*at]);
            let at = at.expect("a byte differs");
            panic!(
                "{what}: byte {at:#x} is {}, not {}",
                found[at], expected[at]
            );
        }
    }
}

fn call(instance: &mut Instance<()>, name: &str, params: &[i32]) -> Option<Value> {
    let params: Vec<_> = params.iter().map(|param| Value::I32(*param)).collect();
    let results = instance.call_values(name, &params).ok()?;
    Some(results.first().copied().unwrap_or(Value::I32(0)))
}

#[test]
fn any_number_of_written_pages_is_reset() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        // Page counts around the number that a slot tracks, and all pages. The repeated large count
        // makes the runtime change its policy.
        for pages in [
            1, 8, 9, 1023, 1024, 1025, 1600, 1600, 1600, 1600, 3, 1600, 1,
        ] {
            let mut instance = setup.instance();
            call(&mut instance, "fill", &[0, pages * PAGE as i32]).expect("the range is in bounds");
            drop(instance);
            setup.check(&format!("{reset}, {pages} pages"));
        }
    }
}

/// Pages that are read before they are written are also restored.
#[test]
fn pages_that_were_read_before_written_are_reset() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        for round in sampled(0..3, 2, 0) {
            let mut instance = setup.instance();
            // Reads all pages.
            let is_found = instance.memory().as_slice() == setup.memory;
            assert!(is_found, "{reset}, round {round}");
            call(&mut instance, "fill", &[5000, 500_000]).expect("the range is in bounds");
            drop(instance);
            setup.check(&format!("{reset}, round {round}"));
        }
    }
}

#[test]
fn pages_used_again_after_an_idle_time_are_right() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        // Idle times up to slightly more than the time after which the runtime frees memory. Then
        // the guest uses the memory again.
        for idle in [0, 1, 3, 5, 9, 17, 40, 70] {
            let mut instance = setup.instance();
            call(&mut instance, "fill", &[0, 200 * PAGE as i32]).expect("the range is in bounds");
            drop(instance);
            for _ in 0..idle {
                let mut instance = setup.instance();
                call(&mut instance, "fill", &[0, 10]).expect("the range is in bounds");
            }
            setup.check(&format!("{reset}, idle for {idle}"));
        }
    }
}

#[test]
fn an_access_across_two_pages_works() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        let mut instance = setup.instance();
        for page in [1, 3, 4, 1599] {
            let at = page * PAGE as i32 - 3;
            assert_eq!(call(&mut instance, "across", &[at]), Some(Value::I64(-1)));
        }
        let last = setup.memory.len() as i32;
        assert_eq!(
            call(&mut instance, "across", &[last - 8]),
            Some(Value::I64(-1))
        );
        assert_eq!(
            call(&mut instance, "across", &[last - 7]),
            None,
            "one byte is outside"
        );
        drop(instance);
        setup.check(&format!("{reset}"));
    }
}

/// Grown memory is accessible at once, and not accessible to the next instance.
#[test]
fn grown_pages_are_accessible_until_the_reset() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        let end = setup.memory.len() as i32;
        for round in 0..3 {
            let mut instance = setup.instance();
            assert_eq!(
                call(&mut instance, "load", &[end]),
                None,
                "{reset}, {round}"
            );
            assert_eq!(call(&mut instance, "grow", &[1]), Some(Value::I32(100)));
            assert_eq!(call(&mut instance, "load", &[end]), Some(Value::I32(0)));
            call(&mut instance, "fill", &[end - 10, 500]).expect("the range is in bounds");
            let beyond = end + WASM_PAGE as i32;
            assert_eq!(
                call(&mut instance, "load", &[beyond]),
                None,
                "{reset}, {round}"
            );
            assert_eq!(call(&mut instance, "grow", &[99]), Some(Value::I32(101)));
            assert_eq!(call(&mut instance, "load", &[beyond]), Some(Value::I32(0)));
            drop(instance);
            setup.check(&format!("{reset}, round {round}"));
        }
    }
}

/// Writes the bytes to a pipe, or reads them from it, as a host function would do with a socket.
fn system_call(write: bool, bytes: &mut [u8]) -> io::Result<usize> {
    let mut ends = [0; 2];
    let all = vec![9_u8; bytes.len()];
    // SAFETY: the descriptors come from pipe(2), and each buffer has the length that the system
    // call gets.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let [from, to] = ends;
        let moved = if write {
            libc::write(to, bytes.as_ptr().cast(), bytes.len())
        } else {
            libc::write(to, all.as_ptr().cast(), all.len());
            libc::read(from, bytes.as_mut_ptr().cast(), bytes.len())
        };
        let error = io::Error::last_os_error();
        libc::close(from);
        libc::close(to);
        usize::try_from(moved).map_err(|_| error)
    }
}

/// System calls on slices of untouched memory must not fail.
#[test]
fn system_calls_accept_slices_of_untouched_memory() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        for (at, len) in [(0, 1), (4096, 4096), (100_000, 20_000), (6_553_599, 1)] {
            let mut instance = setup.instance();
            let mut memory = instance.memory_mut();
            let copy = memory.slice(at, len).expect("it is inside").to_vec();
            assert_eq!(copy, setup.memory[at as usize..][..len as usize]);
            drop(instance);
            let mut instance = setup.instance();
            let sent = {
                let memory = instance.memory();
                let bytes = memory.slice(at, len).expect("it is inside");
                // SAFETY: write(2) only reads the bytes.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(bytes.as_ptr().cast_mut(), bytes.len())
                };
                system_call(true, bytes).expect("the kernel reads")
            };
            assert_eq!(sent, len as usize, "{reset}");
            memory = instance.memory_mut();
            let bytes = memory.slice_mut(at, len).expect("it is inside");
            let got = system_call(false, bytes).expect("the kernel writes");
            assert_eq!(got, len as usize, "{reset}");
            assert!(bytes.iter().all(|byte| *byte == 9), "{reset}");
            drop(instance);
            setup.check(&format!("{reset}, {len} bytes at {at}"));
        }
        let mut instance = setup.instance();
        let end = setup.memory.len() as u32;
        let mut memory = instance.memory_mut();
        assert_eq!(
            memory.slice_mut(end, 0).expect("nothing is inside").len(),
            0
        );
        memory
            .slice_mut(end - 1, 2)
            .expect_err("one byte is outside");
        memory.slice(u32::MAX, u32::MAX).expect_err("it is outside");
    }
}

#[test]
fn host_threads_touch_one_memory_concurrently() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        for round in 0..5 {
            let mut instance = setup.instance();
            // All threads read the same pages at once; then each writes to its part of each page.
            std::thread::scope(|scope| {
                let (memory, expected) = (instance.memory(), setup.memory);
                for _ in 0..2 {
                    scope.spawn(move || assert!(memory.as_slice() == expected));
                }
            });
            let mut memory = instance.memory_mut();
            let mut parts: Vec<_> = memory.as_mut_slice()[..1200 * PAGE]
                .chunks_mut(PAGE / 2)
                .collect();
            let (mut even, mut odd): (Vec<_>, Vec<_>) = (vec![], vec![]);
            while let (Some(one), Some(other)) = (parts.pop(), parts.pop()) {
                even.push(one);
                odd.push(other);
            }
            std::thread::scope(|scope| {
                for parts in [even, odd] {
                    scope.spawn(|| parts.into_iter().for_each(|part| part[round] = 0xee));
                }
            });
            drop(instance);
            setup.check(&format!("{reset}, round {round}"));
        }
    }
}

#[test]
fn an_instance_outlives_every_handle_of_its_region() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        let mut instance = setup.instance();
        let Setup { prepared, memory } = setup;
        drop(prepared);
        // These pages have not been touched before.
        call(&mut instance, "fill", &[0, 100]).expect("the range is in bounds");
        assert!(
            instance.memory().as_slice()[100..] == memory[100..],
            "{reset}"
        );
    }
}

#[test]
fn touching_memory_preserves_errno() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        let instance = setup.instance();
        let memory = instance.memory();
        let bytes = memory.as_slice();
        for at in (0..bytes.len()).step_by(PAGE) {
            // SAFETY: `__errno_location` returns a valid pointer to this thread's errno(3).
            let errno = unsafe {
                *libc::__errno_location() = 1234;
                std::hint::black_box(bytes[at]);
                *libc::__errno_location()
            };
            assert_eq!(errno, 1234, "{reset}");
        }
    }
}

#[test]
fn regions_are_created_and_dropped_while_others_run() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        std::thread::scope(|scope| {
            let comes = scope.spawn(|| {
                for _ in 0..share(30, 3) {
                    let other = Setup::new(reset);
                    let mut instance = other.instance();
                    call(&mut instance, "fill", &[0, 30_000]).expect("the range is in bounds");
                }
            });
            while !comes.is_finished() {
                let mut instance = setup.instance();
                call(&mut instance, "fill", &[0, 1600 * PAGE as i32]).expect("it is inside");
                drop(instance);
                setup.check(&format!("{reset}"));
            }
        });
    }
}

/// Each instance finds its grown memory zero, and nothing accessible past it.
#[test]
fn grown_memory_is_zero_and_ends_at_its_size() {
    for reset in common::resets() {
        let setup = Setup::new(reset);
        let end = setup.memory.len();
        // The last counts exceed the pages that a slot tracks.
        for (round, pages) in [3, 1, 5, 0, 2, 8, 8, 1, 30, 1, 0, 0, 0, 0, 0, 4, 90, 5]
            .into_iter()
            .enumerate()
        {
            let mut instance = setup.instance();
            let first = [end as i32, (end + 8 * WASM_PAGE) as i32];
            for at in first {
                assert_eq!(
                    call(&mut instance, "load", &[at]),
                    None,
                    "{reset}, round {round}"
                );
            }
            assert_eq!(call(&mut instance, "grow", &[pages]), Some(Value::I32(100)));
            let grown = pages as usize * WASM_PAGE;
            let memory = instance.memory();
            let new = &memory.as_slice()[end..];
            assert_eq!(new.len(), grown);
            // In some rounds the first access is a read, in the others a write.
            if round % 2 == 0 {
                assert!(new.iter().all(|byte| *byte == 0), "{reset}, round {round}");
            }
            let beyond = (end + grown) as i32;
            assert_eq!(
                call(&mut instance, "load", &[beyond]),
                None,
                "{reset}, round {round}"
            );
            // Writes to all but the last page, and to the end of the initial memory.
            let len = (grown + 10).saturating_sub(PAGE);
            call(&mut instance, "fill", &[end as i32 - 10, len as i32]).expect("it is inside");
            drop(instance);
            setup.check(&format!("{reset}, round {round}"));
        }
    }
}

/// The mapping that contains an address, and its flags (proc_pid_smaps(5)).
fn mapping(address: usize) -> (Range<usize>, String) {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let mut found = 0..0;
    for line in smaps.lines() {
        let first = line.split(' ').next().expect("a line has a first word");
        let bounds = first.split_once('-').map(|(start, end)| {
            [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap_or(0))
        });
        if let Some([start, end]) = bounds {
            found = start..end;
        } else if found.contains(&address) && first == "VmFlags:" {
            return (found, line.to_owned());
        }
    }
    panic!("no mapping contains {address:#x}");
}

/// While the grown part of a tracked memory is open, it is a mapping of its own, whose protection
/// mprotect(2) changes. It is one also after modules with other initial sizes had the slot.
#[test]
fn the_grown_part_of_a_tracked_memory_is_a_mapping_of_its_own() {
    if !common::resets().contains(&Reset::Tracked) {
        return;
    }
    let module = |initial: u32| {
        common::wat(&format!(
            r#"(module (memory (export "memory") {initial})
              (func (export "grow") (drop (memory.grow (i32.const 8)))
                (i32.store (i32.const {}) (i32.const 1))))"#,
            (initial + 7) * 65536
        ))
    };
    let region = Region::builder().slots(1).reset(Reset::Tracked).build();
    let region = region.expect("a region");
    for initial in [2, 5, 2, 1] {
        let module = module(initial);
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let grow = prepared.func::<(), ()>("grow").expect("it is exported");
        for cycle in 0..3 {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            instance.call(&grow, ()).expect("it returns");
            // The first instance of a module only makes the mapping.
            if cycle == 0 {
                continue;
            }
            let start = instance
                .memory()
                .slice(0, 1)
                .expect("it is in bounds")
                .as_ptr();
            let grown = start.addr() + initial as usize * 65536;
            let ((part, flags), (before, _)) = (mapping(grown), mapping(start.addr()));
            assert_eq!(part.start, grown, "{initial}: {part:x?}");
            assert_eq!(before.end, grown, "{initial}: {before:x?}");
            assert!(flags.contains(" rr"), "{initial}: {flags}");
        }
    }
}
