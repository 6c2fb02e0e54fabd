//! Waiting, and the functions that threads of the host call at the same time. Miri runs these tests
//! too, and finds data races, references that alias, and accesses outside of the memory.
//!
//! # Safety
//!
//! The tests read cells only while no thread writes to them.
#![allow(unsafe_code)]

use super::*;
use core::sync::atomic::Ordering::{Acquire, Release};
use pirn_format::types::{AddrType, PageSize};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A memory that begins with one page.
fn memory_up_to(max: u64) -> SharedMemory {
    let ty = MemoryType {
        address: AddrType::I32,
        page: PageSize::Large,
        min: 1,
        max: Some(max),
        shared: true,
    };
    SharedMemory::new(&ty).expect("the system has address space")
}

fn memory() -> SharedMemory {
    memory_up_to(1)
}

/// Number of times that a thread repeats its accesses: few under Miri, which is a thousand times
/// slower.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };

/// Three threads copy the same 27 bytes at the same time, at an address where no word begins.
#[test]
fn threads_copy_the_same_bytes() {
    const AT: u64 = 13;
    let memory = memory();
    thread::scope(|scope| {
        for value in [1, 2] {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    memory.write(AT, &[value; 27]).expect("inside");
                }
            });
        }
        let mut bytes = [0; 27];
        for _ in 0..ROUNDS {
            memory.read(AT, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte <= 2), "{bytes:?}");
        }
    });
    let mut around = [9; 29];
    memory.read(AT - 1, &mut around).expect("inside");
    assert_eq!((around[0], around[28]), (0, 0));
    assert!(around[1..28].iter().all(|byte| [1, 2].contains(byte)));
}

/// A thread that finds a number of `atomic_u32` also finds all that was written before that number:
/// bytes, words and cells, at any address.
#[test]
fn an_atomic_number_orders_accesses_of_every_size() {
    const FLAG: u64 = 4096;
    let memory = memory();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS as u32 {
                let flag = memory.atomic_u32(FLAG).expect("aligned");
                while flag.load(Acquire) != 2 * (round - 1) {
                    thread::yield_now();
                }
                memory.write(3, &[round as u8; 30]).expect("inside");
                memory.write_u32(61, round).expect("inside");
                let wide = memory.atomic_u64(72).expect("aligned");
                wide.store(round.into(), Relaxed);
                flag.store(2 * round - 1, Release);
            }
        });
        for round in 1..=ROUNDS as u32 {
            let flag = memory.atomic_u32(FLAG).expect("aligned");
            while flag.load(Acquire) != 2 * round - 1 {
                thread::yield_now();
            }
            let mut bytes = [0; 30];
            memory.read(3, &mut bytes).expect("inside");
            assert_eq!(bytes, [round as u8; 30]);
            for address in 3..33 {
                assert_eq!(memory.read_u8(address).expect("inside"), round as u8);
            }
            assert_eq!(memory.read_u32(61).expect("inside"), round);
            let halves = [72, 76].map(|at| memory.atomic_u32(at).expect("aligned").load(Relaxed));
            assert_eq!(halves, [round, 0]);
            let cells = memory.cells();
            assert_eq!(cells.len(), 65_536);
            // SAFETY: the writer waits until the flag is even.
            let cell = |at: usize| unsafe { *cells[at].get() };
            assert_eq!([2, 3, 32, 33].map(cell), [0, round as u8, round as u8, 0]);
            flag.store(2 * round, Release);
        }
    });
}

/// A thread that finds a new size may access all bytes below it.
#[test]
fn a_memory_grows_while_another_thread_uses_it() {
    const MAX: u64 = 3;
    let memory = memory_up_to(MAX);
    let page = WASM_PAGE_BYTES;
    thread::scope(|scope| {
        for _ in 0..2 {
            // The threads ask for more pages than the maximum allows.
            scope.spawn(|| while memory.grow(1).is_ok() {});
        }
        loop {
            let len = memory.len() as u64;
            assert!(len.is_multiple_of(page) && (1..=MAX).contains(&(len / page)));
            memory.write_u64(len - 9, u64::MAX).expect("inside");
            assert_eq!(memory.read_u64(len - 9).expect("inside"), u64::MAX);
            assert_eq!(memory.read_u8(len - 1).expect("inside"), 0);
            if len == MAX * page {
                break;
            }
            thread::yield_now();
        }
    });
    assert!(matches!(
        memory.grow(1),
        Err(SharedMemoryError::Limit { pages: 4, max: 3 })
    ));
}

#[test]
fn accesses_past_the_end_touch_nothing() {
    let memory = memory_up_to(2);
    let end = WASM_PAGE_BYTES;
    for (at, len) in [
        (end, 1),
        (end - 1, 2),
        (end - 7, 8),
        (u64::MAX, 1),
        (u64::MAX - 3, 8),
        (u64::from(u32::MAX) + 1, 1),
    ] {
        let mut bytes = vec![7; len];
        let error = memory.read(at, &mut bytes).expect_err("outside");
        assert_eq!(error.code(), TrapCode::MemoryOutOfBounds, "{at} {len}");
        assert_eq!(bytes, vec![7; len]);
        let error = memory.write(at, &bytes).expect_err("outside");
        assert_eq!(error.code(), TrapCode::MemoryOutOfBounds, "{at} {len}");
        memory.notify(at, 1).expect_err("outside or unaligned");
    }
    assert!(memory.atomic_u32(end - 4).is_ok() && memory.atomic_u64(end - 8).is_ok());
    for at in [end - 3, end, u64::MAX - 3] {
        assert!(memory.atomic_u32(at).is_err() && memory.atomic_u64(at).is_err());
    }
    // An access of no bytes is allowed at the end of the memory, and not after the end.
    memory.read(end, &mut []).expect("empty");
    memory.read(end + 1, &mut []).expect_err("outside");
    let mut all = vec![1; end as usize];
    memory.read(0, &mut all).expect("inside");
    assert!(all.iter().all(|byte| *byte == 0));
}

#[test]
fn waking_takes_no_lock_without_waiters() {
    let memory = memory();
    let wakes_nobody = || {
        let _locked = memory.waiting();
        let (memory, (sender, woken)) = (memory.clone(), mpsc::channel());
        thread::spawn(move || sender.send(memory.wake(8, 1)));
        assert_eq!(woken.recv_timeout(Duration::from_secs(20)), Ok(0));
    };
    wakes_nobody();
    assert_eq!(memory.begin_waiting(8, || false), None);
    wakes_nobody();
    let published = || memory.0.locks.waiters_len.load(Relaxed);
    let key = memory.begin_waiting(8, || published() == 1);
    let key = key.expect("the entry is published before the number is looked at");
    assert!(memory.end_waiting(&key).is_some());
    wakes_nobody();
    let key = memory.begin_waiting(8, || true).expect("it waits");
    assert_eq!((memory.wake(16, 1), memory.wake(8, 1)), (0, 1));
    assert!(memory.end_waiting(&key).is_none());
    wakes_nobody();
}

#[test]
fn locks_share_no_cache_line_with_the_descriptor() {
    let line = |offset: usize| offset / 128;
    let last = offset_of!(Shared, desc) + size_of::<Desc>() - 1;
    let locks = offset_of!(Shared, locks)..offset_of!(Shared, locks) + size_of::<Locks>();
    assert!(line(locks.start) > line(last) || line(locks.end - 1) < line(last));
    assert_eq!((align_of::<Shared>(), locks.start % 128), (128, 0));
}
