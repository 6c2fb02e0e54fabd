//! Calls with vectors, paths and buffers of every size. The tests check their results, their
//! bounds, and the memory that they cost the host.

use crate::common::setup;
use pirn_runtime::{CallError, TrapCode};
use pirn_testing::allocator::{live_bytes, peak_of};
use pirn_testing::campaign::sampled;
use pirn_testing::retry::{Passed, with_fitting_limit};
use pirn_wasi::pipe::WritePipe;
use setup::{BADF, FUNCTIONS, INVAL, NAMETOOLONG, STDIN, STDOUT, SUCCESS, Setup, values};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Maximum number of bytes that one call may allocate. The host's scratch memory has 96 KiB.
const CALL_BYTES_MAX: isize = 160 << 10;

/// Runs a test with both kinds of memories of `pages` pages.
fn everywhere(pages: u32, test: impl Fn(&Setup, &str)) {
    test(&Setup::new(pages), "plain");
    test(&Setup::shared(pages), "shared");
}

/// All functions that take vectors.
const MOVERS: [&str; 6] = [
    "fd_write",
    "fd_pwrite",
    "sock_send",
    "fd_read",
    "fd_pread",
    "sock_recv",
];

/// The arguments of a function that takes vectors.
fn mover(name: &str, fd: i64, vectors: i64, count: i64, moved: i64) -> Vec<i64> {
    let mut arguments = vec![fd, vectors, count];
    match name {
        "fd_pwrite" | "fd_pread" | "sock_send" => arguments.push(0),
        "sock_recv" => arguments.extend([0, moved]),
        _ => (),
    }
    arguments.push(if name == "sock_recv" {
        moved + 4
    } else {
        moved
    });
    arguments
}

#[test]
fn millions_of_empty_vectors_allocate_little() {
    everywhere(256, |setup, kind| {
        let mut guest = setup.guest();
        let file = guest.open("file");
        let count = (256 << 16) / 8;
        guest.write(64, &[0; 4]);
        guest.write(0, &[0; 64]);
        for (name, fd) in [
            ("fd_write", file),
            ("fd_write", STDOUT.into()),
            ("fd_pwrite", file),
            ("fd_read", file),
            ("fd_read", STDIN.into()),
            ("fd_pread", file),
        ] {
            let arguments = mover(name, fd, 0, count, 1 << 20);
            let (errno, bytes) = peak_of(|| guest.call(name, &arguments));
            assert_eq!(errno, INVAL, "{kind} {name}");
            assert!(bytes <= CALL_BYTES_MAX, "{kind} {name}: {bytes} bytes");
        }
        for name in ["sock_send", "sock_recv"] {
            let arguments = mover(name, file, 0, count, 1 << 20);
            let (errno, bytes) = peak_of(|| guest.call(name, &arguments));
            assert_eq!(errno, INVAL, "{kind} {name}");
            assert!(bytes <= CALL_BYTES_MAX, "{kind} {name}: {bytes} bytes");
        }
    });
}

#[test]
fn a_call_uses_at_most_1024_vectors() {
    everywhere(2, |setup, kind| {
        for (count, expected) in [(1023, 1023), (1024, 1024), (1025, 1024), (5000, 1024)] {
            let mut guest = setup.guest();
            let file = guest.open("file");
            guest.vectors(1024, (0..count).map(|i| (60_000 + i, 1)));
            let bytes: Vec<u8> = (0..count).map(|i| i as u8).collect();
            guest.write(60_000, &bytes);
            let arguments = mover("fd_pwrite", file, 1024, count.into(), 8);
            assert_eq!(guest.call("fd_pwrite", &arguments), SUCCESS);
            assert_eq!(guest.number(8), expected, "{kind} {count}");
            guest.write(60_000, &vec![0; count as usize]);
            let arguments = mover("fd_pread", file, 1024, count.into(), 8);
            assert_eq!(guest.call("fd_pread", &arguments), SUCCESS);
            assert_eq!(guest.number(8), expected, "{kind} {count}");
            let got = guest.read(60_000, expected as usize);
            assert!(got == bytes[..expected as usize], "{kind} {count}");
            fs::remove_file(setup.folder.path().join("file")).expect("it is there");
        }
        // Empty vectors count towards the limit, and vectors past the limit are not used.
        let mut guest = setup.guest();
        guest.vectors(1024, (0..1023).map(|_| (0, 0)));
        guest.vectors(1024 + 1023 * 8, [(0, 5), (u32::MAX, u32::MAX)]);
        for (name, fd) in [("fd_write", STDOUT), ("fd_read", STDIN)] {
            let arguments = mover(name, fd.into(), 1024, 1025, 8);
            assert_eq!(guest.call(name, &arguments), SUCCESS);
            assert_eq!(guest.number(8), 5, "{kind}");
        }
        // A result of zero bytes would be mistaken for the end of the file.
        guest.vectors(1024 + 1023 * 8, [(0, 0), (0, 5)]);
        for (name, fd) in [("fd_write", STDOUT), ("fd_read", STDIN)] {
            let arguments = mover(name, fd.into(), 1024, 1025, 8);
            assert_eq!(guest.call(name, &arguments), INVAL, "{kind}");
            let arguments = mover(name, fd.into(), 1024, 1024, 8);
            assert_eq!(guest.call(name, &arguments), SUCCESS, "{kind}");
            assert_eq!(guest.number(8), 0, "{kind}");
        }
    });
}

#[test]
fn large_transfers_of_files_are_complete() {
    const LEN: u32 = 1 << 20;
    everywhere(40, |setup, kind| {
        let mut guest = setup.guest();
        let file = guest.open("file");
        let content: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
        guest.write(1 << 16, &content);
        // Parts of the host's transfer end inside vectors, and vectors end inside parts.
        let cuts = [0, 1, 65_535, 65_537, 65_537, 200_000, 900_001, LEN];
        let vectors = |to: u32| {
            let pairs = cuts.windows(2);
            pairs
                .map(move |cut| (to + cut[0], cut[1] - cut[0]))
                .collect::<Vec<_>>()
        };
        guest.vectors(1024, vectors(1 << 16));
        let arguments = mover("fd_write", file, 1024, 7, 8);
        assert_eq!(guest.call("fd_write", &arguments), SUCCESS);
        assert_eq!(guest.number(8), LEN, "{kind}");
        assert!(fs::read(setup.folder.path().join("file")).expect("it is there") == content);
        guest.write(1 << 16, &vec![0; LEN as usize]);
        guest.vectors(1024, vectors(1 << 16).into_iter().chain([(0, 1 << 20)]));
        let arguments = mover("fd_pread", file, 1024, 8, 8);
        assert_eq!(guest.call("fd_pread", &arguments), SUCCESS);
        assert_eq!(guest.number(8), LEN, "{kind}");
        assert!(guest.read(1 << 16, LEN as usize) == content, "{kind}");
        // The position has advanced to the end of the file.
        let arguments = mover("fd_read", file, 1024, 7, 8);
        assert_eq!(guest.call("fd_read", &arguments), SUCCESS);
        assert_eq!(guest.number(8), 0, "{kind}");
        // A read from a stream returns the bytes of one part, and a write takes all bytes.
        guest.vectors(1024, [(1 << 16, LEN)]);
        let arguments = mover("fd_read", STDIN.into(), 1024, 1, 8);
        assert_eq!(guest.call("fd_read", &arguments), SUCCESS);
        assert_eq!(guest.number(8), 64 << 10, "{kind}");
        let arguments = mover("fd_write", STDOUT.into(), 1024, 1, 8);
        assert_eq!(guest.call("fd_write", &arguments), SUCCESS);
        assert_eq!(guest.number(8), LEN, "{kind}");
    });
}

#[test]
fn a_deadline_ends_huge_overlapping_transfers() {
    everywhere(256, |setup, kind| {
        let huge = |name: &str, fd: i32, limit| {
            let mut guest = setup.guest();
            // 16 GiB in vectors of a memory of 16 MiB.
            let vectors = (0..1024).map(|_| (0, 256 << 16));
            guest.vectors(1 << 20, vectors);
            let arguments = mover(name, fd.into(), 1 << 20, 1024, 8);
            let limited = guest.instance.deadline(limit);
            let values = values(name, &arguments);
            let (ended, bytes) = peak_of(|| limited.call_values(name, &values));
            assert!(bytes <= CALL_BYTES_MAX, "{kind} {name}: {bytes} bytes");
            ended
        };
        // A stream is read once. The read may overwrite the vectors.
        let ended = huge("fd_read", STDIN, Duration::from_secs(3600));
        assert!(ended.is_ok(), "{kind} {ended:?}");
        // On a busy machine the deadline may pass before the guest runs, or the call may return
        // before the timer fires.
        with_fitting_limit(Duration::from_millis(20), |limit| {
            match huge("fd_write", STDOUT, limit) {
                Err(CallError::Deadline(stop)) if stop.backtrace().is_empty() => Passed::TooEarly,
                Err(CallError::Deadline(_)) => Passed::Within(()),
                Ok(_) => Passed::TooLate,
                Err(error) => panic!("{kind} {error:?}"),
            }
        });
    });
}

#[test]
fn a_call_transfers_no_more_than_a_system_call() {
    let setup = Setup::new(1024);
    let mut guest = setup.guest();
    // 4 GiB of zeros to a sink: the call takes as much as read(2) and write(2) take.
    guest.vectors(1 << 20, (0..64).map(|_| (0, 1024 << 16)));
    let arguments = mover("fd_write", STDOUT.into(), 1 << 20, 64, 8);
    assert_eq!(guest.call("fd_write", &arguments), SUCCESS);
    assert_eq!(guest.number(8), 0x7fff_f000);
}

#[test]
fn vectors_out_of_bounds_trap_before_any_transfer() {
    const END: i64 = 4 << 16;
    everywhere(4, |setup, kind| {
        for name in MOVERS {
            let mut guest = setup.guest();
            let file = guest.open("file");
            fs::write(setup.folder.path().join("file"), "content").expect("room");
            guest.vectors(1024, [(100, 3), (END as u32 - 1, 1), (200, 0)]);
            guest.vectors(2048, [(100, 3), (END as u32 - 1, 2)]);
            guest.vectors(3072, [(100, 3), (u32::MAX, u32::MAX)]);
            guest.vectors(4096, [(100, 3), (END as u32 + 1, 0)]);
            guest.vectors(END as u32 - 8, [(100, 3)]);
            guest.write(100, &[1, 2, 3, 4]);
            for (vectors, count) in [
                (2048, 2),
                (3072, 2),
                (4096, 2),
                (END - 8, 2),
                (END - 8, 0x2000_0001),
                (END - 4, 1),
                (END, 1),
                (-8, 1),
                (0, -1),
                (1024, 0x2000_0000),
                (1024, -1),
            ] {
                let arguments = mover(name, file, vectors, count, 8);
                let outside = guest.is_outside(name, &arguments);
                assert!(outside, "{kind} {name} {vectors} {count}");
            }
            for moved in [END - 3, END, -4, -1] {
                let arguments = mover(name, file, 1024, 1, moved);
                assert!(guest.is_outside(name, &arguments), "{kind} {name} {moved}");
            }
            // Unaligned addresses cause an error that is not a trap, as in wasi-common.
            for (vectors, moved) in [(1025, 8), (1026, 8), (1024, 9), (1024, 10)] {
                let arguments = mover(name, file, vectors, 1, moved);
                let error = guest
                    .try_call(name, &arguments)
                    .expect_err("it is unaligned");
                assert!(
                    error.to_string().contains("is not a multiple of"),
                    "{error}"
                );
            }
            assert_eq!(guest.read(100, 4), [1, 2, 3, 4], "{kind} {name}");
            let content = fs::read(setup.folder.path().join("file")).expect("it is there");
            assert_eq!(content, b"content", "{kind} {name}");
            // Vectors at the end of the memory, and none at its end.
            for (vectors, count) in [(1024, 3), (END - 8, 1), (END, 0)] {
                guest.vectors(END as u32 - 8, [(100, 3)]);
                let arguments = mover(name, file, vectors, count, END - 16);
                let errno = guest.call(name, &arguments);
                assert_eq!(errno == SUCCESS, name.starts_with("fd_"), "{kind} {name}");
            }
            let arguments = mover(name, 99, 1024, 3, 8);
            assert_eq!(guest.call(name, &arguments), BADF, "{kind} {name}");
        }
    });
}

#[test]
fn calls_of_a_guest_with_an_empty_memory_trap_or_fail() {
    let setup = Setup::new(0);
    let mut guest = setup.guest();
    for (name, params) in FUNCTIONS {
        let arguments = vec![0; params.split(' ').count()];
        let is_outside = match name {
            // These calls access the memory and trap. The others return an errno before that.
            "fd_read" | "fd_pread" | "fd_write" | "fd_pwrite" | "sock_send" | "sock_recv" => true,
            "fd_readdir" | "fd_seek" | "fd_filestat_get" | "fd_fdstat_get" | "sock_accept" => true,
            "path_open" | "path_readlink" | "path_filestat_get" => true,
            _ => false,
        };
        if is_outside {
            assert!(guest.is_outside(name, &arguments), "{name}");
            continue;
        }
        let errno = guest.call(name, &arguments);
        let succeeds = ["random_get", "fd_close"].contains(&name);
        assert_eq!(errno == SUCCESS, succeeds, "{name}: {errno}");
    }
}

/// The result's address may be inside the buffer, which is written first.
#[test]
fn the_result_may_overlap_the_received_bytes() {
    everywhere(1, |setup, kind| {
        let mut guest = setup.guest();
        let file = guest.open("file");
        fs::write(setup.folder.path().join("file"), [9; 100]).expect("room");
        // The buffer covers the vectors, which are read first, and the result, which is written
        // last.
        guest.vectors(1024, [(1000, 100)]);
        let arguments = mover("fd_read", file, 1024, 1, 1096);
        assert_eq!(guest.call("fd_read", &arguments), SUCCESS);
        let mut expected = vec![9; 100];
        expected[96..].copy_from_slice(&100_u32.to_le_bytes());
        assert_eq!(guest.read(1000, 100), expected, "{kind}");
    });
}

/// A file that accepts few bytes in each call.
struct Reluctant(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Reluctant {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let some = &bytes[..bytes.len().min(7)];
        self.0.lock().expect("no panic").extend(some);
        Ok(some.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Small writes go directly from the guest's memory, others through the host's scratch memory.
/// Bytes and results must be equal on both sides of each bound, wherever the result is written.
#[test]
fn direct_and_copied_writes_send_equal_bytes() {
    everywhere(4, |setup, kind| {
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let file = |len: u32| [(1 << 16, len)].to_vec();
        let pieces =
            |count: u32, len: u32| (0..count).map(|i| ((1 << 16) + i * len, len)).collect();
        let cases = [
            (pieces(16, 5), 8),
            (pieces(17, 5), 8),
            (file(64 << 10), 8),
            (file((64 << 10) + 1), 8),
            (vec![], 8),
            (vec![(1 << 16, 0), (1 << 16, 3), (1 << 16, 0)], 8),
            // The result overwrites the first vector, the last vector, and the bytes.
            (pieces(3, 9), 1024),
            (pieces(3, 9), 1024 + 20),
            (pieces(3, 9), (1 << 16) - 4),
            (pieces(3, 9), 1 << 16),
            (pieces(3, 9), (1 << 16) + 24),
            (pieces(3, 9), (1 << 16) + 28),
        ];
        for (vectors, moved) in sampled(cases, 2, kind.len()) {
            let output = Arc::new(Mutex::new(vec![]));
            let reluctant = Box::new(WritePipe::new(Reluctant(Arc::clone(&output))));
            let mut guest = setup.guest_with(|ctx| ctx.stdout(reluctant));
            guest.write(1 << 16, &bytes);
            let sum: u32 = vectors.iter().map(|(_, len)| len).sum();
            let len = vectors.len() as i64;
            guest.vectors(1024, vectors.clone());
            let arguments = mover("fd_write", STDOUT.into(), 1024, len, moved);
            assert_eq!(guest.call("fd_write", &arguments), SUCCESS);
            let case = format!("{kind} {vectors:?} {moved}");
            assert_eq!(guest.number(moved as u32), sum, "{case}");
            let expected: Vec<u8> = vectors
                .iter()
                .flat_map(|(start, len)| &bytes[*start as usize - (1 << 16)..][..*len as usize])
                .copied()
                .collect();
            assert!(*output.lock().expect("no panic") == expected, "{case}");
        }
    });
}

/// The array of vectors must be in bounds, even if it is empty.
#[test]
fn an_array_of_vectors_must_be_in_bounds() {
    everywhere(1, |setup, kind| {
        let mut guest = setup.guest();
        for name in ["fd_write", "fd_read"] {
            for (array, is_outside) in
                [(0xffff_fff0, true), ((1 << 16) + 4, true), (1 << 16, false)]
            {
                let arguments = mover(name, STDOUT.into(), array, 0, 8);
                assert_eq!(
                    guest.is_outside(name, &arguments),
                    is_outside,
                    "{kind} {name} {array}"
                );
            }
        }
    });
}

#[test]
fn concurrently_changed_vectors_are_read_once() {
    let setup = Setup::shared(2);
    let mut guest = setup.guest();
    let shared = setup.shared.clone().expect("it is shared");
    let done = AtomicBool::new(false);
    /// Ends the other thread if this one panics, because a scope waits for its threads.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let ends_other = Ends(&done);
        scope.spawn(|| {
            let vector = shared.atomic_u64(1024).expect("it is inside");
            // In bounds, out of bounds, empty, and at the end.
            let vectors: [(u64, u64); 4] = [(0, 100), (0xffff_ffff, 8), (5, 0), ((2 << 16) - 1, 1)];
            for (start, len) in vectors.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                vector.store(start | len << 32, Ordering::Relaxed);
            }
        });
        let mut ends = [0; 2];
        // Until the calls have met vectors of both kinds. The scheduler may leave one of them there
        // for many calls.
        for i in 0.. {
            if i >= 20_000 && ends.iter().all(|number| *number > 0) {
                break;
            }
            let (name, fd) = [("fd_write", STDOUT), ("fd_read", STDIN)][i % 2];
            let arguments = mover(name, fd.into(), 1024, 1, 8);
            match guest.try_call(name, &arguments) {
                Ok(errno) => {
                    assert_eq!(errno, SUCCESS);
                    // A copy of shared memory may be torn: the address of one vector with the
                    // length of another.
                    let moved = guest.number(8);
                    assert!([0, 1, 8, 100].contains(&moved), "{moved}");
                    ends[0] += 1;
                }
                Err(CallError::Trap(trap)) => {
                    assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
                    ends[1] += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        drop(ends_other);
    });
}

#[test]
fn paths_that_are_too_long_are_not_read() {
    const TOO_LONG: i64 = 4097;
    everywhere(1, |setup, kind| {
        let mut guest = setup.guest();
        fs::write(setup.folder.path().join("in"), "").expect("room");
        // The longest path that the kernel accepts, with its terminating zero.
        let path = "./".repeat(2046) + "in";
        guest.write(100, path.as_bytes());
        let open = |path: i64, len: i64| [3, 0, path, len, 0, 2, 0, 0, 64];
        assert_eq!(path.len(), 4094);
        assert_eq!(guest.call("path_open", &open(100, 4094)), SUCCESS, "{kind}");
        // A path of this length is read from memory, and the kernel refuses it.
        assert!(guest.is_outside("path_open", &open(65_000, 4096)), "{kind}");
        guest.write(100, &b"./".repeat(2048));
        assert_eq!(
            guest.call("path_open", &open(100, 4096)),
            NAMETOOLONG,
            "{kind}"
        );
        for (path, len) in [
            (100, TOO_LONG),
            (65_000, TOO_LONG),
            (-1, -1),
            (0, 0x7fff_ffff),
        ] {
            for (name, arguments) in [
                ("path_open", open(path, len).to_vec()),
                ("path_readlink", vec![3, path, len, 0, 10, 64]),
                ("path_rename", vec![3, 100, 2, 3, path, len]),
                ("path_rename", vec![3, path, len, 3, 100, 2]),
                ("path_symlink", vec![path, len, 3, 100, 2]),
            ] {
                let (errno, bytes) = peak_of(|| guest.call(name, &arguments));
                assert_eq!(errno, NAMETOOLONG, "{kind} {name} {path} {len}");
                assert!(bytes <= CALL_BYTES_MAX, "{kind} {name}: {bytes} bytes");
            }
        }
    });
}

#[test]
fn buffers_of_any_size_are_filled_with_the_available_bytes() {
    everywhere(64, |setup, kind| {
        let len: i64 = (64 << 16) - 65_536;
        let mut guest = setup.guest();
        let path = setup.folder.path();
        std::os::unix::fs::symlink("somewhere", path.join("link")).expect("a link");
        guest.write(0, b"link");
        let arguments = [3, 0, 4, 65_536, len, 64];
        let (errno, bytes) = peak_of(|| guest.call("path_readlink", &arguments));
        assert_eq!((errno, guest.number(64)), (SUCCESS, 9), "{kind}");
        assert_eq!(guest.read(65_536, 10), b"somewhere\0", "{kind}");
        assert!(bytes <= CALL_BYTES_MAX, "{kind}: {bytes} bytes");
        let arguments = [3, 0, 4, 65_536, 4, 64];
        assert_eq!(guest.call("path_readlink", &arguments), SUCCESS);
        assert_eq!(guest.number(64), 4, "{kind}");

        let (errno, bytes) = peak_of(|| guest.call("fd_prestat_dir_name", &[3, 70_000, len]));
        assert_eq!(errno, SUCCESS, "{kind}");
        assert_eq!(guest.read(70_000, 2), b"/\0", "{kind}");
        assert!(bytes <= CALL_BYTES_MAX, "{kind}: {bytes} bytes");
        let errno = guest.call("fd_prestat_dir_name", &[3, 70_000, 0]);
        assert_eq!(errno, NAMETOOLONG, "{kind}");

        let (errno, bytes) = peak_of(|| guest.call("random_get", &[65_536, len]));
        assert_eq!(errno, SUCCESS, "{kind}");
        assert!(bytes <= CALL_BYTES_MAX, "{kind}: {bytes} bytes");
        let random = guest.read(65_536, len as usize);
        let zeros = random.iter().filter(|byte| **byte == 0).count() as i64;
        assert!(zeros < len / 100, "{kind}: {zeros} of {len} are zero");
        assert_eq!(guest.read(65_535, 1), [0], "{kind}");
    });
}

/// The names in directory entries, and the cookie after the last complete entry.
fn names(bytes: &[u8]) -> (Vec<String>, i64) {
    let (mut names, mut cookie, mut at) = (vec![], 0, 0);
    while bytes.len() - at >= 24 {
        let next = i64::from_le_bytes(bytes[at..][..8].try_into().expect("8 bytes"));
        let len = u32::from_le_bytes(bytes[at + 16..][..4].try_into().expect("4 bytes"));
        let Some(name) = bytes[at + 24..].get(..len as usize) else {
            break;
        };
        names.push(String::from_utf8(name.to_vec()).expect("a name"));
        (cookie, at) = (next, at + 24 + len as usize);
    }
    (names, cookie)
}

#[test]
fn a_large_directory_is_read_completely() {
    let setup = Setup::new(32);
    let mut expected = BTreeSet::from([".".to_owned(), "..".to_owned()]);
    for i in 0..5000 {
        let name = format!("{i}{}", "x".repeat(i % 60));
        fs::write(setup.folder.path().join(&name), "").expect("room for a file");
        expected.insert(name);
    }
    // Buffers of several sizes: larger than the directory, of its exact size, one byte less,
    // several parts, and small ones.
    let all = expected.iter().map(|name| 24 + name.len()).sum::<usize>() as i64;
    for len in [1 << 20, all, all - 1, 150_000, 64 << 10, 4096, 300] {
        let mut guest = setup.guest();
        let (mut found, mut cookie) = (vec![], 0);
        loop {
            let arguments = [3, 65_536, len, cookie, 64];
            let (errno, bytes) = peak_of(|| guest.call("fd_readdir", &arguments));
            assert_eq!(errno, SUCCESS, "{len}");
            assert!(bytes <= 2 * CALL_BYTES_MAX, "{bytes} bytes");
            let used = guest.number(64);
            assert!(i64::from(used) <= len);
            let (some, next) = names(&guest.read(65_536, used as usize));
            found.extend(some);
            cookie = next;
            if i64::from(used) < len {
                break;
            }
        }
        assert_eq!(found.len(), expected.len(), "{len}");
        assert_eq!(
            found.into_iter().collect::<BTreeSet<_>>(),
            expected,
            "{len}"
        );
    }
}

/// Removing entries while reading a directory must not skip any.
#[test]
fn a_guest_can_remove_all_entries_while_reading() {
    let setup = Setup::new(2);
    for i in 0..700 {
        fs::write(setup.folder.path().join(format!("{i}")), "").expect("room for a file");
    }
    let mut guest = setup.guest();
    let mut cookie = 0;
    loop {
        assert_eq!(
            guest.call("fd_readdir", &[3, 65_536, 500, cookie, 64]),
            SUCCESS
        );
        let used = guest.number(64);
        let (some, next) = names(&guest.read(65_536, used as usize));
        for name in some.iter().filter(|name| !name.starts_with('.')) {
            guest.write(1024, name.as_bytes());
            let arguments = [3, 1024, name.len() as i64];
            assert_eq!(guest.call("path_unlink_file", &arguments), SUCCESS);
        }
        if used < 500 {
            break;
        }
        cookie = next;
    }
    assert_eq!(
        fs::read_dir(setup.folder.path())
            .expect("it is there")
            .count(),
        0
    );
}

#[test]
fn a_descriptor_takes_less_than_a_kilobyte() {
    const DIRECTORY: i64 = 2;
    let setup = Setup::new(1);
    fs::create_dir(setup.folder.path().join("below")).expect("room");
    let mut guest = setup.guest();
    guest.open("file");
    let before = live_bytes();
    for i in 0..63 {
        match i % 2 {
            0 => guest.open("file"),
            _ => guest.try_open("below", DIRECTORY).expect("it opens"),
        };
    }
    let bytes = live_bytes() - before;
    assert!(bytes <= 63 << 10, "{bytes}");
    // After all descriptors are closed, only the context's table remains allocated.
    for fd in 5..67 {
        assert_eq!(guest.call("fd_close", &[fd]), SUCCESS, "{fd}");
    }
    let left = live_bytes() - before;
    assert!(left < bytes / 2, "{left} of {bytes}");
}

#[test]
fn transferred_bytes_are_counted() {
    everywhere(32, |setup, kind| {
        let mut guest = setup.guest();
        let file = guest.open("file");
        guest.vectors(1024, [(4096, 100_000), (4096, 1)]);
        for (name, fd) in [
            ("fd_write", file),
            ("fd_pwrite", file),
            ("fd_write", STDOUT.into()),
        ] {
            assert_eq!(guest.call(name, &mover(name, fd, 1024, 2, 8)), SUCCESS);
        }
        // One byte more than the file has, and one part of a stream.
        assert_eq!(
            guest.call("fd_pread", &mover("fd_pread", file, 1024, 2, 8)),
            SUCCESS
        );
        let read = mover("fd_read", STDIN.into(), 1024, 2, 8);
        assert_eq!(guest.call("fd_read", &read), SUCCESS);
        let usage = guest.instance.usage();
        assert_eq!(usage.bytes_written, 3 * 100_001, "{kind}");
        assert_eq!(usage.bytes_read, 100_001 + (64 << 10), "{kind}");
    });
}
