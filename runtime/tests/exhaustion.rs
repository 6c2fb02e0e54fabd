//! What the kernel refuses comes back as a typed error, and no slot is lost by it.
//!
//! Each case runs in a process of its own, whose limits it uses up.
#![allow(unsafe_code, reason = "a test that uses up the limits of its process")]

mod common;

use pirn_runtime::{InstantiateError, Linker, Region, RegionError, Reset};
use std::process::Command;

const CASE: &str = "PIRN_TEST_CASE";

fn in_a_process_of_its_own(case: &str) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args(["--exact", "case", "--ignored", "--nocapture"])
        .env(CASE, case);
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{case}: {:?} {said}",
        output.status
    );
}

#[test]
fn a_region_that_finds_no_addresses_says_how_many_it_wanted() {
    in_a_process_of_its_own("addresses");
}

#[test]
fn instances_that_find_no_mappings_give_their_slots_back() {
    for reset in common::resets() {
        in_a_process_of_its_own(&format!("mappings, {reset}"));
    }
}

/// Not a test: what the processes do.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    let case = std::env::var(CASE).expect("the other tests say which");
    match case.split_once(", ") {
        None => addresses(),
        Some((_, name)) => {
            let reset = Reset::ALL
                .into_iter()
                .find(|reset| reset.to_string() == name);
            mappings(reset.expect("the other tests know the names"));
        }
    }
}

fn addresses() {
    let limit = libc::rlimit {
        rlim_cur: 64 << 30,
        rlim_max: 64 << 30,
    };
    assert_eq!(
        // SAFETY: a limit for this process.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) },
        0
    );
    Region::builder()
        .slots(4)
        .build()
        .expect("16 GiB of addresses are there");
    match Region::builder().slots(100).build() {
        Err(
            error @ RegionError::AddressSpace {
                slots: 100, gib, ..
            },
        ) => {
            assert!(gib >= 400);
            let line = error.to_string();
            assert!(
                line.contains("for 100 slots are refused") && line.contains("lower `slots`"),
                "{line}"
            );
            assert!(!line.contains('\n'));
        }
        other => panic!("{other:?}"),
    }
}

/// Uses up nearly all mappings of the process, as many slots do, and then all with instances.
fn mappings(reset: Reset) {
    let module = common::wat(
        "(module (memory (export \"memory\") 1 3) (data (i32.const 5) \"image\")
           (func (export \"grow\") (result i32) (memory.grow (i32.const 1))))",
    );
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux has it");
    let most: usize = most.trim().parse().expect("it is a number");
    const SLOTS: u32 = 4000;
    let region = Region::builder()
        .slots(SLOTS)
        .memory_max(3 << 16)
        .reset(reset)
        .build();
    let region = region.expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let grow = prepared.func::<(), i32>("grow").expect("it is exported");
    let mut instances = Vec::with_capacity(SLOTS as usize);
    // Every second page with other rights is a mapping of its own.
    let page = 4096;
    let wanted = most.saturating_sub(2000);
    // SAFETY: a fresh mapping, of which nothing is used.
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
                // Growing is refused where there is no mapping, and the guest is told.
                let grown = instance.call(&grow, ()).expect("no trap");
                assert!(grown == 1 || grown == -1, "{grown}");
                instances.push(instance);
            }
            Err(error) => break error,
        }
        assert!(
            instances.len() < SLOTS as usize,
            "the limit is reached before"
        );
    };
    assert!(matches!(error, InstantiateError::System(_)), "{error}");
    let line = error.to_string();
    assert!(
        line.starts_with("the system gives no memory for a slot"),
        "{line}"
    );
    // Those that are there live on, and those that go give back what they had.
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
