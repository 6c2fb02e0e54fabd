//! Several threads of a guest on one WASI context: they open, close, renumber, read and write at
//! once, with any numbers of descriptors, also with those of each other.

use crate::common::setup;
use pirn_testing::campaign;

use pirn_runtime::Value;
use pirn_wasi::memory_files::{Limits, OpenOptions};
use pirn_wasi::{MemoryBase, MemoryDir, WasiCtx};
use setup::{BADF, CREATE, DIRECTORY, FOLDER, Guest, SUCCESS, Setup};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

/// Descriptor of the directory in memory; [`FOLDER`] is one of the host.
const MEMORY: i64 = 4;
const APPEND: i64 = 1;
const OUT: u32 = 64;
const ROUNDS: u64 = 2000;

/// A context with a directory of the host and one in memory.
fn context(setup: &Setup, dir: &MemoryDir) -> WasiCtx {
    setup.context(|wasi| {
        let wasi = wasi.memory_dir(dir.clone(), "/memory");
        wasi.expect("a descriptor").descriptors_max(1000)
    })
}

/// Stores a number when it is dropped, which ends the loop of another thread. A thread that panics
/// does so too, because a scope waits for its threads.
struct Ends<'a>(&'a AtomicI64, i64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Release);
    }
}

fn open_in(guest: &mut Guest, dir: i64, name: &str, how: i64) -> Result<i64, i32> {
    const READ_WRITE: i64 = 1 << 1 | 1 << 6 | 1 << 2;
    let rights = if how & DIRECTORY == 0 { READ_WRITE } else { 2 };
    guest.write(0, name.as_bytes());
    let len = name.len() as i64;
    let arguments = [dir, 0, 0, len, how, rights, 0, 0, OUT.into()];
    match guest.call("path_open", &arguments) {
        SUCCESS => Ok(guest.number(OUT).into()),
        errno => Err(errno),
    }
}

/// wasi-common looks at the kind of a descriptor, and then removes it as that kind.
#[test]
fn a_descriptor_that_changes_its_kind_is_closed() {
    // In each round, each thread waits for the other one.
    let rounds = campaign::share(ROUNDS, 10);
    for with_memory in [false, true] {
        let setup = Setup::several(2, 2);
        std::fs::create_dir(setup.folder.path().join("below")).expect("room");
        let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
        let context = match with_memory {
            true => context(&setup, &dir),
            false => setup.context(|wasi| wasi),
        };
        let (mut one, mut other) = (setup.guest_of(context.clone()), setup.guest_of(context));
        // The number of a file, of which one thread makes a directory while the other closes it.
        let shared = AtomicI64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ends_other = Ends(&shared, -1);
                for _ in 0..rounds {
                    let file = one.open("file");
                    let below = open_in(&mut one, FOLDER.into(), "below", DIRECTORY);
                    let below = below.expect("it opens");
                    shared.store(file, Release);
                    let renumbered = one.call("fd_renumber", &[below, file]);
                    while shared.load(Acquire) != 0 {
                        thread::yield_now();
                    }
                    let left = if renumbered == SUCCESS { file } else { below };
                    let closed = one.call("fd_close", &[left]);
                    assert!([SUCCESS, BADF].contains(&closed), "{closed}");
                }
            });
            scope.spawn(|| {
                let mut all = vec![];
                loop {
                    match shared.load(Acquire) {
                        0 => thread::yield_now(),
                        -1 => break,
                        file => {
                            all.push(other.try_call("fd_close", &[file]));
                            shared.store(0, Release);
                        }
                    }
                }
                // Checked here, because the other thread waits for each call.
                for closed in all {
                    assert_eq!(closed.expect("no trap"), SUCCESS);
                }
            });
        });
    }
}

/// wasi-common sets the flags of no descriptor of a guest with threads. Those of files in memory
/// can be set, whatever other threads do with other descriptors meanwhile.
#[test]
fn flags_of_an_opened_file_can_be_set_while_others_are_closed() {
    let setup = Setup::several(2, 2);
    let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
    let context = context(&setup, &dir);
    let guests = [(); 2].map(|()| setup.guest_of(context.clone()));
    thread::scope(|scope| {
        for (mut guest, name) in guests.into_iter().zip(["one", "other"]) {
            scope.spawn(move || {
                let number = open_in(&mut guest, MEMORY, name, CREATE).expect("it opens");
                for _ in 0..ROUNDS {
                    let next = open_in(&mut guest, MEMORY, name, CREATE).expect("it opens");
                    let set = guest.call("fd_fdstat_set_flags", &[next, APPEND]);
                    assert_eq!(set, SUCCESS);
                    assert_eq!(guest.call("fd_renumber", &[next, number]), SUCCESS);
                }
            });
        }
    });
    assert_eq!(dir.used_files(), 2);
}

/// Address of the bytes that a thread writes and reads.
const BYTES: u32 = 65_536;
const VECTORS: u32 = 1024;
/// Bytes of a record: less than the 64 KiB that a file moves at once.
const RECORD: u32 = 60_000;

/// Writes a record of one byte's value in `count` vectors. A call of more than 16 goes through a
/// buffer.
fn write_record(guest: &mut Guest, fd: i64, count: u32, value: u8) {
    guest.write(BYTES, &vec![value; RECORD as usize]);
    let len = RECORD / count;
    guest.vectors(VECTORS, (0..count).map(|n| (BYTES + n * len, len)));
    let arguments = [fd, VECTORS.into(), count.into(), OUT.into()];
    assert_eq!(guest.call("fd_write", &arguments), SUCCESS);
    assert_eq!(guest.number(OUT), RECORD);
}

/// The value of each record of a file.
fn records(dir: &MemoryDir, name: &str) -> Vec<u8> {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = dir.open(name, &options).expect("it is there");
    let file = file.into_file().expect("a file");
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
    let records = bytes.chunks(RECORD as usize).enumerate();
    let value = |(n, record): (usize, &[u8])| {
        assert_eq!(record, vec![record[0]; RECORD as usize], "record {n}");
        record[0]
    };
    records.map(value).collect()
}

/// As for Linux: appends do not mix, nor do writes at a position that two threads share.
#[test]
fn records_of_two_threads_stay_whole() {
    const RECORDS: u8 = 100;
    for appends in [false, true] {
        for count in [1, 16, 20, 1000] {
            let setup = Setup::several(4, 2);
            let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
            let context = context(&setup, &dir);
            let mut guests = [(); 2].map(|()| setup.guest_of(context.clone()));
            let one = open_in(&mut guests[0], MEMORY, "log", CREATE).expect("it opens");
            let mut other = one;
            if appends {
                other = open_in(&mut guests[1], MEMORY, "log", 0).expect("it opens");
                for (guest, fd) in guests.iter_mut().zip([one, other]) {
                    assert_eq!(guest.call("fd_fdstat_set_flags", &[fd, APPEND]), SUCCESS);
                }
            }
            thread::scope(|scope| {
                for ((mut guest, fd), first) in guests.into_iter().zip([one, other]).zip([0, 1]) {
                    scope.spawn(move || {
                        for n in 0..RECORDS {
                            write_record(&mut guest, fd, count, n * 2 + first);
                        }
                    });
                }
            });
            // Each once, and those of each thread in their order.
            let all = records(&dir, "log");
            for first in [0, 1] {
                let of_one = all.iter().filter(|value| **value % 2 == first);
                assert!(of_one.copied().eq((0..RECORDS).map(|n| n * 2 + first)));
            }
        }
    }
}

/// Four threads use any descriptors, also those that others close or replace meanwhile. No call
/// fails in the host, and nothing is left when all descriptors are closed.
#[test]
fn threads_use_the_descriptors_of_each_other() {
    const NUMBERS: u64 = 40;
    let setup = Setup::several(4, 4);
    std::fs::create_dir(setup.folder.path().join("below")).expect("room");
    let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
    let context = setup.context(|wasi| wasi.memory_dir(dir.clone(), "/memory").expect("a number"));
    let last = AtomicI64::new(5);
    thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let mut guest = setup.guest_of(context.clone());
            let last = &last;
            scope.spawn(move || {
                let mut state = seed;
                let mut random = |below: u64| {
                    // Numerical Recipes' linear congruential generator.
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) % below
                };
                for _ in 0..ROUNDS {
                    let newest = last.load(Acquire);
                    let mut number = || (newest - random(NUMBERS) as i64).max(5);
                    let (fd, other) = (number(), number());
                    let name = format!("file{}", random(3));
                    guest.write(BYTES, &[seed as u8; 100]);
                    guest.vectors(VECTORS, [(BYTES, 100)]);
                    let (one, many) = ([fd, VECTORS.into(), 1, OUT.into()], &[fd, 0, OUT.into()]);
                    match random(10) {
                        0..4 => {
                            let place = [MEMORY, FOLDER.into()][random(2) as usize];
                            if let Ok(fd) = open_in(&mut guest, place, &name, CREATE) {
                                last.fetch_max(fd, Release);
                            }
                        }
                        4 => {
                            if let Ok(fd) = open_in(&mut guest, FOLDER.into(), "below", DIRECTORY) {
                                last.fetch_max(fd, Release);
                            }
                        }
                        5 => drop(guest.call("fd_renumber", &[fd, other])),
                        6 => drop(guest.call("fd_write", &one)),
                        7 => drop(guest.call("fd_read", &one)),
                        8 => drop(guest.call("fd_filestat_set_size", &many[..2])),
                        _ => drop(guest.call("fd_close", &[fd])),
                    }
                    // The limit of descriptors must not end the play.
                    guest.call("fd_close", &[(newest - NUMBERS as i64).max(5)]);
                }
            });
        }
    });
    let mut guest = setup.guest_of(context.clone());
    for fd in 5..=last.load(Acquire) {
        guest.call("fd_close", &[fd]);
    }
    assert_eq!(context.opened().number(), 0);
    for name in ["file0", "file1", "file2"] {
        dir.unlink(name).expect("it was made");
    }
    // The root keeps nothing: no name, no file, no extent.
    assert_eq!((dir.used_bytes(), dir.used_files()), (0, 0));
}

/// One thread grows the memory, and reads a file into each page that is new. The other writes the
/// newest page to the same file, at least once for each ten pages.
#[test]
fn a_shared_memory_grows_while_a_file_moves_bytes() {
    const PAGES: u32 = 200;
    let setup = Setup::shared_by(
        "(import \"env\" \"memory\" (memory 3 203 shared)) (export \"memory\" (memory 0))
         (func (export \"grow\") (result i32) (memory.grow (i32.const 1)))",
        2,
    );
    let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
    let context = context(&setup, &dir);
    let [mut grows, mut writes] = [(); 2].map(|()| setup.guest_of(context.clone()));
    let fd = open_in(&mut grows, MEMORY, "file", CREATE).expect("it opens");
    write_record(&mut grows, fd, 16, 7);
    let (newest, written) = (AtomicI64::new(2), AtomicI64::new(0));
    thread::scope(|scope| {
        let (newest, written) = (&newest, &written);
        scope.spawn(move || {
            let _ends_other = Ends(newest, 0);
            for n in 0..PAGES {
                while written.load(Acquire) <= i64::from(n / 10) {
                    thread::yield_now();
                }
                let grown = grows.instance.call_values("grow", &[]).expect("it grows");
                assert_eq!(grown, [Value::I32(n as i32 + 3)]);
                let start = (n + 3) << 16;
                newest.store(start.into(), Release);
                grows.vectors(VECTORS, [(start, RECORD)]);
                let arguments = [fd, VECTORS.into(), 1, 0, OUT.into()];
                assert_eq!(grows.call("fd_pread", &arguments), SUCCESS);
                assert_eq!(grows.number(OUT), RECORD);
                assert_eq!(grows.read(start, 9), [7; 9]);
            }
        });
        scope.spawn(move || {
            let _ends_other = Ends(written, i64::MAX);
            loop {
                let start = newest.load(Acquire) as u32;
                if start == 0 {
                    break;
                }
                // The first thread uses other addresses.
                writes.vectors(VECTORS + 512, [(start, RECORD)]);
                let arguments = [fd, (VECTORS + 512).into(), 1, RECORD.into(), 96];
                assert_eq!(writes.call("fd_pwrite", &arguments), SUCCESS);
                assert_eq!(writes.number(96), RECORD);
                written.fetch_add(1, Release);
            }
        });
    });
    assert_eq!(records(&dir, "file")[0], 7);
}
