//! Descriptors on which a guest blocks. The guest must not wait past its limits, must lose no
//! bytes, and must get the results that POSIX specifies.

use super::driver::{APPEND, BYTES, CREAT, FOLDER, Guest, Host, NONBLOCK, OUT, READ, WAITS, WRITE};
use super::errno::{AGAIN, BADF, INVAL, NOTCONN, NOTSOCK, NXIO, PIPE, SPIPE, SUCCESS};
use pirn_runtime::{CallError, KillOutcome};
use pirn_testing::process::alone;
use pirn_testing::retry::with_more_iterations;
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{Dir, WasiCtxBuilder, ambient_authority};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

/// A guest with pipes for its input and output, and their other ends.
fn piped() -> (Guest, io::PipeWriter, io::PipeReader) {
    let ((input, writer), (reader, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
    let wasi = WasiCtxBuilder::new().stdin_fd(input).stdout_fd(output);
    (Guest::new(wasi.build()), writer, reader)
}

fn is_late(error: &CallError) -> bool {
    matches!(error, CallError::Deadline(_))
}

#[test]
fn a_deadline_ends_a_wait_for_a_pipe() {
    let (mut guest, mut writer, mut reader) = piped();
    let arguments = guest.io(0, 100);
    assert!(is_late(&guest.late("fd_read", &arguments)));
    let arguments = guest.subscribe(&[(1, 0)]);
    assert!(is_late(&guest.late("poll_oneoff", &arguments)));
    let arguments = guest.subscribe(&[(1, 0), (0, 3_600_000)]);
    assert!(is_late(&guest.late("poll_oneoff", &arguments)));
    // The interrupted read loses no bytes.
    writer.write_all(b"at last").unwrap();
    assert_eq!(guest.read(0, 100, None).unwrap(), b"at last");
    // The pipe is full, so the next write blocks.
    assert_eq!(guest.write(1, &[7; 65_536], None), Ok(65_536));
    let arguments = guest.io(1, 10);
    assert!(is_late(&guest.late("fd_write", &arguments)));
    let mut all = vec![0; 65_536];
    reader.read_exact(&mut all).unwrap();
    assert!(all.iter().all(|byte| *byte == 7));
    assert_eq!(guest.write(1, b"more", None), Ok(4));
}

#[test]
fn a_blocking_write_to_a_pipe_writes_all_bytes() {
    let (mut guest, _writer, mut reader) = piped();
    let many: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = many.clone();
    let writes = thread::spawn(move || guest.write(1, &many, None));
    let mut all = vec![0; expected.len()];
    // Read in small parts, so that each write of the guest is partial.
    for part in all.chunks_mut(1000) {
        reader.read_exact(part).unwrap();
    }
    assert_eq!(writes.join().unwrap(), Ok(expected.len()));
    assert!(all == expected);
}

/// Alone in its process: a child that another test starts has all descriptors until its execve(2),
/// so that a pipe would have a reader for longer.
#[test]
fn a_waiting_guest_is_killed_or_woken_by_another_thread() {
    alone(|| {
        // A kill may come before the wait. In that case, the next one comes later.
        let mut writer = with_more_iterations(1, |yields| {
            let (mut guest, writer, _reader) = piped();
            let switch = guest.kill_switch();
            let reads = thread::spawn(move || {
                let arguments = guest.io(0, 100);
                guest.try_call(&format!("{WAITS}fd_read"), &arguments)
            });
            while !switch.is_running() {
                thread::yield_now();
            }
            (0..yields).for_each(|_| thread::yield_now());
            let met = switch.kill().expect("it runs");
            let ended = reads.join().unwrap();
            assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
            (met == KillOutcome::Host).then_some(writer)
        });
        let (mut guest, mut other, _reader) = piped();
        let switch = guest.kill_switch();
        let reads = thread::spawn(move || guest.read(0, 100, None));
        while !switch.is_running() {
            thread::yield_now();
        }
        other.write_all(b"woken").unwrap();
        assert_eq!(reads.join().unwrap().unwrap(), b"woken");
        // The killed guest's pipe has no reader left.
        assert!(writer.write_all(b"x").is_err());
    });
}

#[test]
fn nonblocking_descriptors_return_again() {
    let host = Host::new();
    host.fifo("fifo");
    let mut guest = host.guest();
    let reader = guest.open("fifo", 0, READ, NONBLOCK).unwrap();
    let mut writer = OpenOptions::new()
        .write(true)
        .open(host.path("fifo"))
        .unwrap();
    assert_eq!(guest.read(reader, 10, None), Err(AGAIN));
    assert_eq!(guest.call("fd_fdstat_get", &[reader, OUT]), SUCCESS);
    assert_eq!(guest.u16(OUT + 2), NONBLOCK as u16);
    writer.write_all(b"now").unwrap();
    assert_eq!(guest.read(reader, 10, None).unwrap(), b"now");
    // After the flag is cleared, a read blocks.
    assert_eq!(guest.call("fd_fdstat_set_flags", &[reader, 0]), SUCCESS);
    let arguments = guest.io(reader, 10);
    assert!(is_late(&guest.late("fd_read", &arguments)));
    drop(writer);
    assert_eq!(guest.read(reader, 10, None).unwrap(), b"");
}

/// Alone in its process, as the test of a kill, because it closes the last reader.
#[test]
fn opening_a_fifo_does_not_block() {
    alone(fifos_are_opened);
}

fn fifos_are_opened() {
    let host = Host::new();
    host.fifo("fifo");
    let mut guest = host.guest();
    // Setting the times must not wait either, with any flags.
    guest.put(BYTES, b"fifo");
    for follow in [0, 1] {
        let arguments = [FOLDER, follow, BYTES, 4, 5_000_000_000, 6_000_000_000, 5];
        assert_eq!(
            guest.call("path_filestat_set_times", &arguments),
            SUCCESS,
            "{follow}"
        );
    }
    let times = std::fs::metadata(host.path("fifo")).unwrap();
    let modified = times.modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_secs(), 6);
    // Like a non-blocking open(2) without a reader.
    assert_eq!(guest.open("fifo", 0, WRITE, 0), Err(NXIO));
    let reader = guest.open("fifo", 0, READ, 0).unwrap();
    let writer = guest.open("fifo", 0, WRITE, 0).unwrap();
    assert_eq!(guest.write(writer, b"to myself", None), Ok(9));
    assert_eq!(
        guest.poll(&[(1, reader), (2, writer)]),
        [(0, 0, 9, 0), (1, 0, 0, 0)]
    );
    assert_eq!(guest.read(reader, 10, None).unwrap(), b"to myself");
    let arguments = guest.io(reader, 10);
    assert!(is_late(&guest.late("fd_read", &arguments)));
    // A pipe has no position.
    assert_eq!(guest.read(reader, 1, Some(0)), Err(SPIPE));
    assert_eq!(guest.write(writer, b"x", Some(0)), Err(SPIPE));
    assert_eq!(guest.call("fd_seek", &[reader, 0, 0, OUT]), SPIPE);
    assert_eq!(guest.call("fd_tell", &[reader, OUT]), SPIPE);
    assert_eq!(guest.call("fd_advise", &[reader, 0, 0, 0]), SPIPE);
    assert_eq!(guest.call("fd_close", &[reader]), SUCCESS);
    assert_eq!(guest.write(writer, b"x", None), Err(PIPE));
    assert_eq!(guest.poll(&[(2, writer)]), [(0, PIPE as u16, 0, 0)]);
}

/// Alone in its process, as the test of a kill, because it closes the last reader.
#[test]
fn poll_reports_only_ready_descriptors() {
    alone(ready_descriptors_are_reported);
}

fn ready_descriptors_are_reported() {
    let host = Host::new();
    host.write("file", "0123456789");
    let ((input, mut writer), (reader, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
    let mut guest = host.guest_with(|wasi| {
        let wasi = wasi.stdin_fd(input).stdout_fd(output);
        wasi.stderr(WritePipe::new_in_memory())
    });
    // Of two descriptors only the ready one is reported; wasi-common reported both.
    assert_eq!(guest.poll(&[(1, 0), (2, 1)]), [(1, 0, 0, 0)]);
    assert_eq!(guest.poll(&[(1, 0), (0, 5)]), [(1, 0, 0, 0)]);
    writer.write_all(b"abc").unwrap();
    assert_eq!(guest.poll(&[(1, 0), (0, 3_600_000)]), [(0, 0, 3, 0)]);
    assert_eq!(guest.read(0, 10, None).unwrap(), b"abc");
    drop(writer);
    assert_eq!(guest.poll(&[(1, 0)]), [(0, 0, 0, 1)]);
    drop(reader);
    assert_eq!(guest.poll(&[(2, 1)]), [(0, PIPE as u16, 0, 0)]);
    // A stream in memory is always ready.
    assert_eq!(guest.poll(&[(2, 2)]), [(0, 0, 0, 0)]);
    // Files before, at and past their end.
    let file = guest.open("file", 0, READ | WRITE, 0).unwrap();
    for (position, left) in [(0, 10), (4, 6), (10, 0), (1000, 0)] {
        assert_eq!(guest.call("fd_seek", &[file, position, 0, OUT]), SUCCESS);
        assert_eq!(guest.poll(&[(1, file)]), [(0, 0, left, 0)], "{position}");
    }
    // A descriptor that cannot be polled has an event with an error; the others have theirs.
    let told = guest.poll(&[(1, 99), (1, FOLDER), (2, 2), (1, file)]);
    let badf = BADF as u16;
    assert_eq!(
        told,
        [(0, badf, 0, 0), (1, badf, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0)]
    );
    let mut errno = |tag, what| {
        let arguments = guest.subscribe(&[(tag, what), (1, file)]);
        guest.call("poll_oneoff", &arguments)
    };
    assert_eq!(errno(3, 0), INVAL);
    assert_eq!(errno(255, 0), INVAL);
    let mut arguments = guest.subscribe(&[(1, file)]);
    arguments[2] = 0;
    assert_eq!(guest.call("poll_oneoff", &arguments), INVAL);
    // An unknown clock.
    let arguments = guest.subscribe(&[(0, 0)]);
    guest.put(arguments[0] + 16, &[4]);
    assert_eq!(guest.call("poll_oneoff", &arguments), INVAL);
}

#[test]
fn streams_in_memory_are_read_and_polled() {
    let wasi = WasiCtxBuilder::new().stdin(ReadPipe::from("text"));
    let mut guest = Guest::new(wasi.build());
    assert_eq!(guest.poll(&[(1, 0), (2, 1)]), [(0, 0, 1, 0), (1, 0, 0, 0)]);
    assert_eq!(guest.read(0, 10, None).unwrap(), b"text");
    assert_eq!(guest.call("sock_shutdown", &[0, 1]), NOTSOCK);
}

/// `fd_pwrite` writes at its offset even if the append flag is set, unlike pwrite(2) on Linux.
#[test]
fn fd_pwrite_ignores_the_append_flag() {
    let host = Host::new();
    host.write("file", "0123456789");
    let mut guest = host.guest();
    let file = guest.open("file", CREAT, READ | WRITE, APPEND).unwrap();
    assert_eq!(guest.write(file, b"AB", Some(2)), Ok(2));
    assert_eq!(host.read("file"), "01AB456789");
    assert_eq!(guest.write(file, b"end", None), Ok(3));
    assert_eq!(host.read("file"), "01AB456789end");
    assert_eq!(guest.write(file, b"past", Some(15)), Ok(4));
    assert_eq!(host.read("file"), "01AB456789end\0\0past");
    assert_eq!(guest.write(file, b"", Some(0)), Ok(0));
    assert_eq!(guest.write(file, b"x", Some(-1)), Err(INVAL));
    // The append flag is still set; then the guest clears it and sets it again.
    assert_eq!(guest.call("fd_fdstat_get", &[file, OUT]), SUCCESS);
    assert_eq!(guest.u16(OUT + 2), APPEND as u16);
    assert_eq!(guest.call("fd_fdstat_set_flags", &[file, 0]), SUCCESS);
    assert_eq!(guest.call("fd_seek", &[file, 0, 0, OUT]), SUCCESS);
    assert_eq!(guest.write(file, b"start", None), Ok(5));
    assert_eq!(guest.call("fd_fdstat_set_flags", &[file, APPEND]), SUCCESS);
    assert_eq!(guest.write(file, b"!", Some(5)), Ok(1));
    assert_eq!(guest.write(file, b".", None), Ok(1));
    assert_eq!(host.read("file"), "start!6789end\0\0past.");
}

#[test]
fn sockets_send_receive_and_shut_down() {
    let ((ours, mut theirs), folder) = (UnixStream::pair().unwrap(), tempfile::tempdir().unwrap());
    let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
    let host = Host::new();
    host.write("file", "");
    let mut guest = host.guest_with(|wasi| {
        let wasi = wasi.preopened_socket(7, ours);
        wasi.preopened_socket(8, listener)
    });
    let send = |guest: &mut Guest, fd| {
        guest.put(BYTES, b"hello");
        let [fd, vector, count, out] = guest.io(fd, 5);
        guest.call("sock_send", &[fd, vector, count, 0, out])
    };
    let receive = |guest: &mut Guest, fd, how| {
        let [fd, vector, count, out] = guest.io(fd, 50);
        guest.call("sock_recv", &[fd, vector, count, how, out, out + 4])
    };
    assert_eq!(send(&mut guest, 7), SUCCESS);
    let mut bytes = [0; 5];
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    // No bytes have arrived yet.
    let [fd, vector, count, out] = guest.io(7, 50);
    let arguments = [fd, vector, count, 0, out, out + 4];
    assert!(is_late(&guest.late("sock_recv", &arguments)));
    theirs.write_all(b"welcome").unwrap();
    // Peeking (1) leaves the bytes there. The flag for waiting for all bytes (2) must not wait for
    // ever.
    for how in [1, 2] {
        assert_eq!(receive(&mut guest, 7, how), SUCCESS);
        assert_eq!(guest.bytes(BYTES, guest.u32(OUT) as usize), b"welcome");
    }
    assert_eq!(receive(&mut guest, 7, 4), INVAL);
    // No peer connects.
    assert!(is_late(&guest.late("sock_accept", &[8, 0, OUT])));
    let _caller = UnixStream::connect(folder.path().join("socket")).unwrap();
    assert_eq!(guest.call("sock_accept", &[8, APPEND, OUT]), INVAL);
    assert_eq!(guest.call("sock_accept", &[8, NONBLOCK, OUT]), SUCCESS);
    let accepted = i64::from(guest.u32(OUT));
    assert_eq!(receive(&mut guest, accepted, 0), AGAIN);
    // Operations that the kind of socket does not support.
    assert_eq!(receive(&mut guest, 8, 0), NOTCONN);
    assert_eq!(send(&mut guest, 8), NOTCONN);
    assert_eq!(guest.call("sock_accept", &[7, 0, OUT]), INVAL);
    assert_eq!(guest.call("sock_shutdown", &[7, 0]), INVAL);
    assert_eq!(guest.call("sock_shutdown", &[7, 4]), INVAL);
    assert_eq!(guest.call("sock_shutdown", &[7, 2]), SUCCESS);
    assert_eq!(theirs.read(&mut bytes).unwrap(), 0);
    assert_eq!(send(&mut guest, 7), PIPE);
    // Descriptors that are no sockets: a file, a directory, a stream in memory, and a missing one.
    let file = guest.open("file", 0, READ | WRITE, 0).unwrap();
    for (fd, errno) in [(file, NOTSOCK), (FOLDER, NOTSOCK), (0, NOTSOCK), (99, BADF)] {
        assert_eq!(guest.call("sock_shutdown", &[fd, 1]), errno, "{fd}");
        assert_eq!(guest.call("sock_accept", &[fd, 0, OUT]), errno, "{fd}");
        assert_eq!(receive(&mut guest, fd, 0), errno, "{fd}");
        assert_eq!(send(&mut guest, fd), errno, "{fd}");
    }
}

/// Several buffers of a call are one message, and one write to a pipe, as for writev(2). A
/// guest that may only read a socket cannot send.
#[test]
fn the_buffers_of_a_call_are_one_message() {
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
    let pair = || {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets")
    };
    let ((ours, theirs), (input, _sender)) = (pair(), pair());
    let wasi = WasiCtxBuilder::new().stdin_fd(input);
    let mut guest = Guest::new(wasi.preopened_socket(7, ours).build());
    guest.put(BYTES, b"hello, world");
    let vectors = [(BYTES, 5), (BYTES, 0), (BYTES + 5, 7)];
    let vectors = vectors
        .iter()
        .flat_map(|(start, len)| [*start as u32, *len]);
    let vectors: Vec<u8> = vectors.flat_map(u32::to_le_bytes).collect();
    guest.put(2000, &vectors);
    for (name, arguments) in [
        ("sock_send", &[7, 2000, 3, 0, OUT][..]),
        ("fd_write", &[7, 2000, 3, OUT]),
    ] {
        assert_eq!(guest.call(name, arguments), SUCCESS);
        assert_eq!(guest.u32(OUT), 12);
        let mut bytes = [0; 50];
        let received = recv(&theirs, &mut bytes[..], RecvFlags::DONTWAIT);
        assert_eq!(received.expect("a message").0, 12, "{name}");
        assert_eq!(&bytes[..12], b"hello, world");
    }
    assert_eq!(guest.call("sock_send", &[0, 2000, 3, 0, OUT]), BADF);
}

/// Files of proc(5) have no size, and refuse a seek to their end.
#[test]
fn files_without_a_size_are_read_and_polled() {
    let dir = Dir::open_ambient_dir("/proc/self", ambient_authority()).expect("it is there");
    let wasi = WasiCtxBuilder::new().preopened_dir_read_only(dir, "/");
    let mut guest = Guest::new(wasi.expect("the name is UTF-8").build());
    let file = guest.open("status", 0, READ, 0).expect("it opens");
    assert_eq!(guest.poll(&[(1, file)]), [(0, 0, 0, 0)]);
    let found = guest.read(file, 20_000, None).expect("it is read");
    assert!(found.starts_with(b"Name:"), "{found:?}");
}
