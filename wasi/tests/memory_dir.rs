//! Files in memory behind preview 1: the short way of reads and writes against the long one, shared
//! memories, limits, and descriptors that change their meaning.

use crate::common::setup;

use pirn_runtime::{CallError, Reset};
use pirn_testing::retry::{Passed, with_fitting_limit};
use pirn_wasi::memory_files::{BaseLimits, Limits};
use pirn_wasi::{MemoryBase, MemoryDir, WasiCtxBuilder};
use setup::{BADF, CREATE, Guest, INVAL, SUCCESS, Setup};
use std::time::{Duration, UNIX_EPOCH};

/// Descriptor of the directory in memory; 3 is one of the host.
const MEMORY: i64 = 4;
const TRUNCATE: i64 = 8;
const NFILE: i32 = 41;
const NOSPC: i32 = 51;
const DQUOT: i32 = 19;
const XDEV: i32 = 75;
const PATH: u32 = 0;
const OUT: u32 = 64;
const VECTORS: u32 = 1024;
const BYTES: u32 = 65_536;

fn base() -> MemoryBase {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    builder
        .file("base", 200_000, &bytes[..], UNIX_EPOCH)
        .unwrap();
    builder.build()
}

fn guest_with(
    setup: &Setup,
    limits: Limits,
    more: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder,
) -> Guest {
    let dir = MemoryDir::new(&base(), limits);
    setup.guest_with(|wasi| more(wasi.memory_dir(dir, "/memory").expect("a descriptor")))
}

fn guest(setup: &Setup) -> Guest {
    guest_with(setup, Limits::default(), |wasi| wasi)
}

/// Rights to read, to write, and to seek.
const READ: i64 = 1 << 1;
const WRITE: i64 = 1 << 6;
const SEEK: i64 = 1 << 2;

fn try_open(guest: &mut Guest, name: &str, how: i64, flags: i64) -> Result<i64, i32> {
    open_with_rights(guest, name, how, flags, READ | WRITE | SEEK)
}

fn open_with_rights(
    guest: &mut Guest,
    name: &str,
    how: i64,
    flags: i64,
    rights: i64,
) -> Result<i64, i32> {
    guest.write(PATH, name.as_bytes());
    let len = name.len() as i64;
    let arguments = [
        MEMORY,
        0,
        PATH.into(),
        len,
        how,
        rights,
        0,
        flags,
        OUT.into(),
    ];
    match guest.call("path_open", &arguments) {
        SUCCESS => Ok(guest.number(OUT).into()),
        errno => Err(errno),
    }
}

fn open(guest: &mut Guest, name: &str) -> i64 {
    try_open(guest, name, CREATE, 0).expect("it opens")
}

/// Calls a function with `count` vectors; returns the number of bytes.
fn moved(guest: &mut Guest, name: &str, fd: i64, count: i64) -> Result<u32, i32> {
    let arguments = [fd, VECTORS.into(), count, OUT.into()];
    match guest.call(name, &arguments) {
        SUCCESS => Ok(guest.number(OUT)),
        errno => Err(errno),
    }
}

/// Writes bytes at the descriptor's position.
fn write(guest: &mut Guest, fd: i64, bytes: &[u8]) -> Result<u32, i32> {
    guest.write(BYTES, bytes);
    guest.vectors(VECTORS, [(BYTES, bytes.len() as u32)]);
    moved(guest, "fd_write", fd, 1)
}

/// Reads a file from its start.
fn contents(guest: &mut Guest, fd: i64) -> Vec<u8> {
    guest.vectors(VECTORS, [(BYTES, 300_000)]);
    let arguments = [fd, VECTORS.into(), 1, 0, OUT.into()];
    assert_eq!(guest.call("fd_pread", &arguments), SUCCESS);
    guest.read(BYTES, guest.number(OUT) as usize)
}

/// Setups with a memory of the guest's own and with a shared one.
fn setups() -> [Setup; 2] {
    [Setup::new(16), Setup::shared(16)]
}

#[test]
fn any_number_of_vectors_moves_the_same_bytes() {
    // Calls with 16 vectors take the short way, those with 17 the long one.
    for setup in setups() {
        let mut guest = guest(&setup);
        let fd = open(&mut guest, "base");
        let expected = contents(&mut guest, fd);
        assert_eq!(expected.len(), 200_000);
        for count in [1, 2, 15, 16, 17, 40] {
            // Some vectors are empty, and they lie in the opposite order.
            let len = |n: u32| if n % 5 == 3 { 0 } else { 70_000 / count + n };
            let at = |n: u32| BYTES + (count - n) * 75_000 / count;
            guest.vectors(VECTORS, (0..count).map(|n| (at(n), len(n))));
            guest.write(BYTES, &vec![0; 80_000]);
            assert_eq!(guest.call("fd_seek", &[fd, 1000, 0, OUT.into()]), SUCCESS);
            let sum = (0..count).map(len).sum();
            assert_eq!(
                moved(&mut guest, "fd_read", fd, count.into()),
                Ok(sum),
                "{count}"
            );
            let mut from = 1000;
            for n in 0..count {
                let bytes = guest.read(at(n), len(n) as usize);
                assert_eq!(bytes, expected[from..from + bytes.len()], "{count} {n}");
                from += bytes.len();
            }
            let name = format!("copy{count}");
            let copy = open(&mut guest, &name);
            assert_eq!(moved(&mut guest, "fd_write", copy, count.into()), Ok(sum));
            assert_eq!(
                contents(&mut guest, copy),
                expected[1000..1000 + sum as usize]
            );
            guest.call("fd_close", &[copy]);
        }
    }
}

#[test]
fn invalid_pointers_end_the_call_and_change_nothing() {
    for setup in setups() {
        let mut guest = guest(&setup);
        let fd = open(&mut guest, "new");
        write(&mut guest, fd, b"before").unwrap();
        let end = 16 << 16;
        for name in ["fd_read", "fd_write"] {
            guest.vectors(VECTORS, [(BYTES, 3), (end - 2, 3)]);
            assert!(guest.is_outside(name, &[fd, VECTORS.into(), 2, OUT.into()]));
            guest.vectors(VECTORS, [(BYTES, 3)]);
            assert!(guest.is_outside(name, &[fd, VECTORS.into(), 1, (end - 3).into()]));
            assert!(guest.is_outside(name, &[fd, i64::from(end) - 4, 1, OUT.into()]));
            let misaligned = guest
                .try_call(name, &[fd, VECTORS.into(), 1, 67])
                .unwrap_err();
            assert!(
                misaligned.to_string().contains("not a multiple of 4"),
                "{misaligned}"
            );
        }
        for (name, offset) in [("fd_pread", -1), ("fd_pwrite", i64::MIN)] {
            let arguments = [fd, VECTORS.into(), 1, offset, OUT.into()];
            assert_eq!(guest.call(name, &arguments), INVAL, "{name}");
        }
        assert_eq!(contents(&mut guest, fd), b"before");
    }
}

#[test]
fn a_result_may_overlap_what_was_read() {
    let setup = Setup::new(16);
    let mut guest = guest(&setup);
    let fd = open(&mut guest, "base");
    guest.vectors(VECTORS, [(OUT - 4, 20), (VECTORS, 8)]);
    assert_eq!(moved(&mut guest, "fd_read", fd, 2), Ok(28));
    assert_eq!(guest.read(OUT - 4, 4), [0, 1, 2, 3]);
    assert_eq!(guest.read(OUT + 4, 2), [8, 9]);
}

#[test]
fn positions_and_appends_are_those_of_the_descriptor() {
    for setup in setups() {
        let mut guest = guest(&setup);
        let one = open(&mut guest, "log");
        let appends = try_open(&mut guest, "log", 0, 1).unwrap();
        assert_eq!(write(&mut guest, one, b"abc"), Ok(3));
        assert_eq!(write(&mut guest, appends, b"def"), Ok(3));
        assert_eq!(write(&mut guest, one, b"X"), Ok(1));
        assert_eq!(write(&mut guest, appends, b"g"), Ok(1));
        assert_eq!(contents(&mut guest, one), b"abcXefg");
        // The position of the appending descriptor is behind what it wrote.
        assert_eq!(moved(&mut guest, "fd_read", appends, 1), Ok(0));
        assert_eq!(guest.call("fd_seek", &[one, -2, 2, OUT.into()]), SUCCESS);
        guest.vectors(VECTORS, [(BYTES, 100)]);
        assert_eq!(moved(&mut guest, "fd_read", one, 1), Ok(2));
    }
}

#[test]
fn closed_and_renumbered_descriptors_mean_nothing_else() {
    let setup = Setup::new(16);
    let mut guest = guest(&setup);
    let (a, b) = (open(&mut guest, "a"), open(&mut guest, "b"));
    write(&mut guest, a, b"a").unwrap();
    write(&mut guest, b, b"bb").unwrap();
    assert_eq!(guest.call("fd_renumber", &[a, b]), SUCCESS);
    assert_eq!(contents(&mut guest, b), b"a");
    assert_eq!(moved(&mut guest, "fd_read", a, 1), Err(BADF));
    // A file of the host takes the number of one in memory.
    let host = guest.open("host");
    assert_eq!(guest.call("fd_renumber", &[host, b]), SUCCESS);
    assert_eq!(write(&mut guest, b, b"on disk"), Ok(7));
    assert_eq!(
        std::fs::read(setup.folder.path().join("host")).unwrap(),
        b"on disk"
    );
    assert_eq!(guest.call("fd_close", &[b]), SUCCESS);
    for name in ["fd_read", "fd_write"] {
        assert_eq!(moved(&mut guest, name, b, 1), Err(BADF));
    }
    assert_eq!(guest.call("fd_renumber", &[99, MEMORY]), BADF);
    assert_eq!(guest.call("fd_close", &[b]), BADF);
    // The files are as they were left.
    let a = open(&mut guest, "a");
    assert_eq!(contents(&mut guest, a), b"a");
}

#[test]
fn the_limit_of_bytes_cuts_a_write_short() {
    let limits = Limits {
        bytes_max: 300_000,
        files_max: 3,
    };
    let setup = Setup::new(16);
    let mut guest = guest_with(&setup, limits, |wasi| wasi.disk_bytes_max(4096));
    let fd = open(&mut guest, "a");
    let bytes = vec![1; 200_000];
    assert_eq!(write(&mut guest, fd, &bytes), Ok(200_000));
    let some = write(&mut guest, fd, &bytes).unwrap();
    assert!((1..200_000).contains(&some), "{some}");
    assert_eq!(write(&mut guest, fd, &bytes), Err(NOSPC));
    assert_eq!(guest.call("fd_filestat_set_size", &[fd, 0]), SUCCESS);
    assert_eq!(write(&mut guest, fd, b"x"), Ok(1));
    open(&mut guest, "b");
    open(&mut guest, "c");
    assert_eq!(try_open(&mut guest, "d", CREATE, 0), Err(NOSPC));
    // What is written to disk has the other limit.
    let host = guest.open("host");
    assert_eq!(write(&mut guest, host, b"x"), Err(DQUOT));
}

#[test]
fn open_files_in_memory_count_as_descriptors() {
    let setup = Setup::new(16);
    let mut guest = guest_with(&setup, Limits::default(), |wasi| wasi.descriptors_max(2));
    let one = open(&mut guest, "a");
    open(&mut guest, "a");
    assert_eq!(try_open(&mut guest, "a", 0, 0), Err(NFILE));
    assert_eq!(guest.call("fd_close", &[one]), SUCCESS);
    assert!(try_open(&mut guest, "a", 0, 0).is_ok());
}

#[test]
fn a_file_does_not_move_between_memory_and_the_host() {
    let setup = Setup::new(16);
    let mut guest = guest(&setup);
    open(&mut guest, "file");
    guest.open("host");
    guest.write(PATH, b"file");
    guest.write(PATH + 8, b"host");
    for name in ["path_rename", "path_link"] {
        let (memory, host) = ([MEMORY, 0, 4], [3, 8, 4]);
        let flags = if name == "path_link" { &[0][..] } else { &[] };
        for (from, to) in [(memory, host), (host, memory)] {
            let arguments = [&from[..1], flags, &from[1..], &to[..]].concat();
            assert_eq!(guest.call(name, &arguments), XDEV, "{name}");
        }
    }
}

#[test]
fn reads_and_writes_are_counted() {
    let setup = Setup::new(16);
    let mut guest = guest(&setup);
    let fd = open(&mut guest, "base");
    contents(&mut guest, fd);
    write(&mut guest, fd, &[1; 1000]).unwrap();
    let usage = guest.instance.usage();
    assert_eq!((usage.bytes_read, usage.bytes_written), (200_000, 1000));
}

/// The host may write a file that it opens to truncate. A guest needs the right to write it.
#[test]
fn rights_are_the_same_for_any_number_of_vectors() {
    for setup in setups() {
        let mut guest = guest(&setup);
        for (how, rights, name) in [
            (CREATE | TRUNCATE, READ, "fd_write"),
            (CREATE, READ, "fd_write"),
            (CREATE, WRITE, "fd_read"),
        ] {
            let fd = open_with_rights(&mut guest, "file", how, 0, rights).expect("it opens");
            for count in [1, 16, 17] {
                guest.vectors(VECTORS, (0..count as u32).map(|n| (BYTES + n, 1)));
                assert_eq!(
                    moved(&mut guest, name, fd, count),
                    Err(BADF),
                    "{name} {count}"
                );
                if name == "fd_write" {
                    let arguments = [fd, VECTORS.into(), count, 0, OUT.into()];
                    assert_eq!(guest.call("fd_pwrite", &arguments), BADF);
                }
            }
            let all = open(&mut guest, "file");
            assert_eq!(contents(&mut guest, all), b"");
        }
    }
}

/// A guest may rename each entry that it sees, so that it has another place in the directory.
#[test]
fn a_listing_ends_while_its_entries_are_renamed() {
    let setup = Setup::new(16);
    let mut guest = guest(&setup);
    for name in ["a", "b", "c"] {
        open(&mut guest, name);
    }
    let (mut cookie, mut seen) = (0, 0);
    loop {
        // Room for one entry.
        let arguments = [MEMORY, BYTES.into(), 24 + 8, cookie, OUT.into()];
        assert_eq!(guest.call("fd_readdir", &arguments), SUCCESS);
        if guest.number(OUT) < 24 {
            break;
        }
        let head = guest.read(BYTES, 24);
        cookie = i64::from_le_bytes(head[..8].try_into().unwrap());
        let len = u32::from_le_bytes(head[16..20].try_into().unwrap());
        let name = guest.read(BYTES + 24, len as usize);
        seen += 1;
        assert!(seen < 100, "{:?}", String::from_utf8_lossy(&name));
        if name != *b"." && name != *b".." && name != *b"base" {
            guest.write(PATH, &name);
            guest.write(PATH + 32, format!("new{seen:04}").as_bytes());
            let arguments = [MEMORY, PATH.into(), len.into(), MEMORY, 32, 7];
            assert_eq!(guest.call("path_rename", &arguments), SUCCESS);
        }
    }
    // The next listing has all entries again.
    let arguments = [MEMORY, BYTES.into(), 1000, 0, OUT.into()];
    assert_eq!(guest.call("fd_readdir", &arguments), SUCCESS);
    let all = guest.read(BYTES, guest.number(OUT) as usize);
    let count = |name: &[u8]| all.windows(name.len()).filter(|part| *part == name).count();
    assert_eq!((count(b"new"), count(b"base")), (3, 1));
}

/// What can be done at the limit of bytes, and what cannot.
#[test]
fn a_full_directory_gives_back_what_is_freed() {
    let limits = Limits {
        bytes_max: 200_000,
        files_max: 4,
    };
    let dir = MemoryDir::new(&MemoryBase::empty(), limits);
    let setup = Setup::new(16);
    let mut guest = setup.guest_with(|wasi| wasi.memory_dir(dir.clone(), "/").expect("room"));
    let (a, b) = (open(&mut guest, "a"), open(&mut guest, "b"));
    let appends = try_open(&mut guest, "a", 0, 1).expect("it opens");
    let fill = |guest: &mut Guest, fd: i64| {
        let mut sum = 0;
        while let Ok(some) = write(guest, fd, &[7; 10_000]) {
            assert!(some > 0);
            sum += some;
            assert!(dir.used_bytes() <= limits.bytes_max);
        }
        sum
    };
    let full = fill(&mut guest, a);
    assert!(full > 100_000, "{full}");
    // A write past a hole, an append, a new name and a symbolic link need bytes.
    for (fd, size) in [(a, 1 << 30), (appends, full.into())] {
        assert_eq!(guest.call("fd_filestat_set_size", &[a, size]), SUCCESS);
        assert_eq!(guest.call("fd_seek", &[a, 0, 2, OUT.into()]), SUCCESS);
        assert_eq!(write(&mut guest, fd, &[1; 10_000]), Err(NOSPC));
    }
    let long = "l".repeat(200);
    let rename = |guest: &mut Guest, from: &str, to: &str| {
        guest.write(PATH, from.as_bytes());
        guest.write(PATH + 256, to.as_bytes());
        let lens = (from.len() as i64, to.len() as i64);
        let arguments = [MEMORY, PATH.into(), lens.0, MEMORY, 256, lens.1];
        guest.call("path_rename", &arguments)
    };
    let symlink = |guest: &mut Guest| {
        guest.write(PATH, b"targetlink");
        guest.call("path_symlink", &[PATH.into(), 6, MEMORY, 6, 4])
    };
    let big = "b".repeat(255);
    // Fewer bytes than a name costs are left.
    fill(&mut guest, b);
    assert_eq!(rename(&mut guest, "a", &big), NOSPC);
    assert_eq!(symlink(&mut guest), NOSPC);
    assert_eq!(try_open(&mut guest, &long, CREATE, 0), Err(NOSPC));
    // To overwrite costs nothing, nor does a rename to a name that exists, which frees its file.
    assert_eq!(guest.call("fd_seek", &[a, 0, 0, OUT.into()]), SUCCESS);
    assert_eq!(write(&mut guest, a, &[9; 100]), Ok(100));
    let before = dir.used_bytes();
    assert_eq!(rename(&mut guest, "a", "b"), SUCCESS);
    assert!(dir.used_bytes() < before);
    // The open file that lost its name keeps its bytes until it is closed.
    assert_eq!(dir.used_files(), 2);
    assert_eq!(guest.call("fd_close", &[b]), SUCCESS);
    assert_eq!(dir.used_files(), 1);
    // Cut to one byte, all but one extent is free again, and as much fits as at first.
    assert_eq!(guest.call("fd_filestat_set_size", &[a, 1]), SUCCESS);
    assert!(dir.used_bytes() < 3000, "{}", dir.used_bytes());
    assert_eq!(guest.call("fd_filestat_set_size", &[a, 0]), SUCCESS);
    assert_eq!(fill(&mut guest, appends), full);
    assert_eq!(guest.call("fd_filestat_set_size", &[a, 0]), SUCCESS);
    // Three more files, of which one is a link; then no more.
    assert_eq!(symlink(&mut guest), SUCCESS);
    open(&mut guest, "c");
    open(&mut guest, "d");
    assert_eq!(try_open(&mut guest, "e", CREATE, 0), Err(NOSPC));
    for (name, left) in [("link", 3), ("b", 3), ("c", 3), ("d", 3)] {
        dir.unlink(name).expect("it exists");
        assert_eq!(dir.used_files(), left, "open files count: {name}");
    }
    drop(guest);
    assert_eq!((dir.used_bytes(), dir.used_files()), (0, 0));
}

/// An instance ends with files open. The next one in its slot has none of them, and none is left.
#[test]
fn nothing_is_left_of_an_instance_that_ends_with_open_files() {
    let dir = MemoryDir::new(&base(), Limits::default());
    let setup = Setup::new(16);
    let root = dir.used_bytes();
    for round in 0..50 {
        let mut guest = setup.guest_with(|wasi| wasi.memory_dir(dir.clone(), "/").expect("room"));
        assert_eq!(moved(&mut guest, "fd_read", MEMORY + 1, 1), Err(BADF));
        let fd = open(&mut guest, "new");
        write(&mut guest, fd, &[round; 100_000]).unwrap();
        try_open(&mut guest, "new", 0, 1).unwrap();
        dir.unlink("new").unwrap();
        assert_eq!(contents(&mut guest, fd), vec![round; 100_000]);
        // Some end by a trap in a call on the file.
        if round % 2 == 0 {
            let end = 16 << 16;
            guest.vectors(VECTORS, [(BYTES, 3), (end - 2, 3)]);
            assert!(guest.is_outside("fd_write", &[fd, VECTORS.into(), 2, OUT.into()]));
        }
        assert_eq!(dir.used_files(), 1);
        drop(guest);
        assert_eq!((dir.used_bytes(), dir.used_files()), (root, 0), "{round}");
    }
    // Each has its own tree, if it is given one.
    for _ in 0..3 {
        let mut guest = guest(&setup);
        assert!(try_open(&mut guest, "new", 0, 0).is_err());
        let fd = open(&mut guest, "new");
        write(&mut guest, fd, b"private").unwrap();
    }
}

/// A deadline ends a write of many bytes, of which a part is in the file. The file stays usable.
#[test]
fn a_deadline_ends_a_long_write() {
    const ALL: u32 = 480 << 20;
    let limits = Limits {
        bytes_max: 512 << 20,
        ..Limits::default()
    };
    let dir = MemoryDir::new(&MemoryBase::empty(), limits);
    let setup = Setup::new(16 * 32);
    let with_dir = || setup.guest_with(|wasi| wasi.memory_dir(dir.clone(), "/").expect("room"));
    for count in [16, 17, 30] {
        with_fitting_limit(Duration::from_millis(2), |limit| {
            let mut guest = with_dir();
            let fd = open(&mut guest, "file");
            // Each vector has a large part of the memory of 32 MiB.
            guest.vectors(VECTORS, (0..count).map(|_| (BYTES, ALL / count)));
            let arguments = [fd, VECTORS.into(), count.into(), OUT.into()];
            let arguments = setup::values("fd_write", &arguments);
            let limited = guest.instance.deadline(limit);
            let ended = limited.call_values("fd_write", &arguments);
            drop(guest);
            let size = dir.stat_path("file", true).unwrap().size_bytes;
            // The next guest finds the file, and no lock is held.
            let mut guest = with_dir();
            let fd = open(&mut guest, "file");
            assert_eq!(write(&mut guest, fd, b"again"), Ok(5));
            drop(guest);
            dir.unlink("file").unwrap();
            assert_eq!((dir.used_bytes(), dir.used_files()), (0, 0));
            match ended {
                Err(CallError::Deadline(_)) if size == 0 => Passed::TooEarly,
                Err(CallError::Deadline(_)) if size < u64::from(ALL / count * count) => {
                    Passed::Within(())
                }
                Err(CallError::Deadline(_)) | Ok(_) => Passed::TooLate,
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// Calls touch pages of the guest's memory for the first time while the file is locked, whatever
/// the reset has to do then.
#[test]
fn pages_are_touched_first_by_reads_and_writes() {
    let module = setup::guest("(memory (export \"memory\") 16)\n");
    for reset in Reset::ALL {
        let Some(setup) = Setup::reset_by(&module, reset) else {
            eprintln!("NOT RUN: this kernel has no reset {reset}");
            continue;
        };
        for _ in 0..3 {
            let mut guest = guest(&setup);
            let fd = open(&mut guest, "base");
            let zeros = open(&mut guest, "zeros");
            for (first, count) in [(2, 16), (9, 17)] {
                let at = |n: u32| (first * 65_536 / 2) + n * 5000;
                guest.vectors(VECTORS, (0..count).map(|n| (at(n), 5000)));
                let sum = count * 5000;
                assert_eq!(moved(&mut guest, "fd_write", zeros, count.into()), Ok(sum));
                guest.call("fd_seek", &[fd, 0, 0, OUT.into()]);
                guest.vectors(VECTORS, (0..count).map(|n| (at(n) + 400_000, 5000)));
                assert_eq!(moved(&mut guest, "fd_read", fd, count.into()), Ok(sum));
            }
            assert!(contents(&mut guest, zeros).iter().all(|byte| *byte == 0));
            assert_eq!(contents(&mut guest, fd).len(), 200_000);
        }
    }
}
