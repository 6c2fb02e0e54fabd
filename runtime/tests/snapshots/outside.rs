//! Writes to a mapped image, and changes of its pages, that do not come from a guest: by system
//! calls, by other processes, by advice to the kernel, and around a fork. The next instance finds
//! the image.

#![allow(
    unsafe_code,
    reason = "a test that makes system calls on its own memory"
)]

use super::common;
use super::common::setup::{child, ended_well, fork, limit_run_time};
use super::mapped::{MEMORY_BYTES, call, wanted, warm};
use crate::common::first_difference;
use core::ffi::c_void;
use pirn_runtime::{Instance, Linker, Reset};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;

const PAGE: usize = 4096;

/// Advice to the kernel. The first three keep all contents (madvise(2)).
const ADVICE: [i32; 5] = [
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    25, // MADV_COLLAPSE
    libc::MADV_POPULATE_READ,
    libc::MADV_POPULATE_WRITE,
];

#[test]
fn what_others_do_to_a_mapped_image_is_undone() {
    for reset in common::resets() {
        common::exited_with(&format!("outside {reset}"), 0);
    }
}

/// What happens to the memory of an instance, which some guest calls surround.
type Attack = fn(&mut Instance<()>);

const ATTACKS: [(&str, Attack); 9] = [
    ("read into populated pages", |instance| {
        let mut zeros = File::open("/dev/zero").expect("it exists");
        for at in [0, 5 * PAGE - 7, MEMORY_BYTES - 3 * PAGE] {
            let mut memory = instance.memory_mut();
            let part = memory.slice_mut(at as u32, 2 * PAGE as u32);
            zeros
                .read_exact(part.expect("it is in the memory"))
                .expect("the pages are there");
        }
    }),
    ("read into pages that are not populated", |instance| {
        let mut zeros = File::open("/dev/zero").expect("it exists");
        let mut memory = instance.memory_mut();
        let part = &mut memory.as_mut_slice()[40 * PAGE..60 * PAGE];
        // Under most resets the kernel may write there.
        let _ = zeros.read_exact(part);
    }),
    ("process_vm_writev", |instance| {
        let bytes = [0x77_u8; 100];
        for at in [7 * PAGE, 8 * PAGE - 50, 300 * PAGE] {
            let to = instance.memory_mut().as_mut_slice()[at..].as_mut_ptr();
            let local = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(),
                iov_len: bytes.len(),
            };
            let remote = libc::iovec {
                iov_base: to.cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: both ranges are bytes of this process; the second one lies in the memory,
            // which is borrowed mutably.
            unsafe {
                libc::process_vm_writev(
                    libc::getpid(),
                    &raw const local,
                    1,
                    &raw const remote,
                    1,
                    0,
                )
            };
        }
    }),
    ("/proc/self/mem", |instance| {
        let file = File::options().write(true).open("/proc/self/mem");
        let Ok(file) = file else { return };
        for at in [9 * PAGE, 11 * PAGE - 50, 500 * PAGE] {
            let to = instance.memory_mut().as_mut_slice()[at..].as_mut_ptr() as u64;
            let _ = file.write_at(&[0x66; 100], to);
        }
    }),
    ("advice", |instance| {
        for advice in ADVICE {
            let memory = instance.memory_mut().as_mut_slice().as_mut_ptr();
            // SAFETY: this advice changes no contents.
            unsafe { libc::madvise(memory.cast(), MEMORY_BYTES, advice) };
            call(instance, "store", &[(advice as usize * 20 * PAGE) as i32]);
        }
    }),
    ("soft-dirty bits are cleared", |_| {
        let _ = fs::write("/proc/self/clear_refs", "4");
        let _ = fs::write("/proc/self/clear_refs", "1");
    }),
    ("compaction", |_| {
        let _ = fs::write("/proc/sys/vm/compact_memory", "1");
    }),
    ("a child that writes", |instance| {
        let pid = fork();
        if pid == 0 {
            child(AssertUnwindSafe(|| {
                // The child may not use the instance under every reset; it has the memory anyway.
                let memory = instance.memory_mut();
                let _ = memory.len();
            }));
        }
        ended_well(pid);
    }),
    ("a child that lives on", |instance| {
        // The child still shares pages when the parent writes and ends.
        let mut ends = [0; 2];
        // SAFETY: pipe(2) writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let pid = fork();
        if pid == 0 {
            let mut byte = 0_u8;
            // SAFETY: the descriptors are those of the pipe; `byte` has one byte.
            unsafe {
                libc::close(ends[1]);
                libc::read(ends[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
        }
        for page in (0..2000).step_by(7) {
            call(instance, "store", &[(page * PAGE) as i32]);
        }
        // SAFETY: the descriptors are those of the pipe.
        unsafe {
            libc::close(ends[1]);
            libc::close(ends[0]);
        }
        ended_well(pid);
    }),
];

/// In a child process of its own: see [`case`](super::case).
pub(super) fn attacks(reset: Reset) {
    limit_run_time();
    // Pages of the process may be merged with equal ones (PR_SET_MEMORY_MERGE).
    // SAFETY: prctl(2) takes no pointers here.
    unsafe { libc::prctl(67, 1, 0, 0, 0) };
    let wanted = wanted();
    let mut region = super::mapped::region(reset);
    let mut prepared = warm(&region);
    for round in 0..3 {
        for (name, attack) in ATTACKS {
            // In a fresh region no page of the image is present.
            if round == 0 {
                region = super::mapped::region(reset);
                prepared = region
                    .prepare(prepared.module(), &Linker::new())
                    .expect("it links");
            }
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            if round > 0 {
                let memory = instance.memory();
                let found = memory.as_slice();
                assert!(
                    found == wanted,
                    "{name} {reset:?} {round}: {:?}",
                    first_difference(found, &wanted)
                );
            }
            // Some pages are listed, some only read, and some are missing.
            for page in [5, 41, 42, 300, 501] {
                call(&mut instance, "store", &[page * PAGE as i32]);
            }
            attack(&mut instance);
            for page in [6, 9, 43, 300, 502, 1999, 2559] {
                call(&mut instance, "store", &[page * PAGE as i32]);
            }
            if round == 1 {
                call(&mut instance, "grow", &[]);
            }
            drop(instance);
            let instance = prepared.try_instantiate(()).expect("a slot is free");
            let memory = instance.memory();
            let found = memory.as_slice();
            assert!(
                found == wanted,
                "after {name} {reset:?} {round}: {:?}",
                first_difference(found, &wanted)
            );
        }
    }
    assert_eq!(
        region.describe().resets_failed(),
        0,
        "{}",
        io::Error::last_os_error()
    );
}
