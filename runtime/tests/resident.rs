//! One large request leaves memory resident. The runtime must free that memory while small requests
//! follow.

use crate::common;

use pirn_runtime::{Linker, Region, Reset};

/// Resident KiB of this process (proc_pid_statm(5)).
fn resident_kib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("the second number");
    pages.parse::<usize>().expect("a number") * 4
}

#[test]
fn resident_memory_of_a_large_request_is_freed() {
    common::alone(large_requests);
}

fn large_requests() {
    let module = common::wat(
        r#"(module (memory 70)
          (func (export "fill") (param i32)
            (memory.fill (i32.const 0) (i32.const 1) (local.get 0))))"#,
    );
    for reset in common::resets() {
        let region = Region::builder().slots(1).reset(reset).build();
        let prepared = region
            .expect("a region")
            .prepare(&module, &Linker::new())
            .expect("it fits");
        let fill = prepared.func::<u32, ()>("fill").expect("it is exported");
        let request = |bytes: u32| {
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            instance.call(&fill, bytes).expect("the range is in bounds");
        };
        request(4096);
        let before = resident_kib();
        request(1024 * 4096);
        let large = resident_kib();
        (0..10).for_each(|_| request(4096));
        let after = resident_kib();
        if matches!(reset, Reset::Tracked | Reset::Scanned) {
            assert!(large > before + 3000, "{reset}: {before}, {large}");
        }
        assert!(after < before + 1000, "{reset}: {before}, {large}, {after}");
    }
}
