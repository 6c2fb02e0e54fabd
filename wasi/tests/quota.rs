//! The limits of open descriptors and of bytes written to disk, at the limit and one past it.

use crate::common::setup;

use setup::{CREATE, DIRECTORY, FOLDER, Guest, SUCCESS, Setup};
use std::fs;
use std::io::Write;
use std::net::TcpStream;

const NFILE: i32 = 41;
const DQUOT: i32 = 19;
const NOENT: i32 = 44;
const EXIST: i32 = 20;
const ISDIR: i32 = 31;

/// Bytes that are charged for a new file, directory or link.
const ENTRY: u64 = 4096;

fn close(guest: &mut Guest, fd: i64) {
    assert_eq!(guest.call("fd_close", &[fd]), SUCCESS);
}

/// The limit of open descriptors, by default and as configured.
#[test]
fn open_descriptors_are_limited() {
    let setup = Setup::new(1);
    fs::create_dir(setup.folder.path().join("below")).expect("room");
    for (limit, expected) in [(None, 64), (Some(5), 5), (Some(0), 0), (Some(100), 100)] {
        let mut guest = setup.guest_with(|wasi| match limit {
            Some(limit) => wasi.descriptors_max(limit),
            None => wasi,
        });
        let mut open = vec![];
        let errno = loop {
            // Alternate between files and directories.
            let (name, flags) = [("file", CREATE), ("below", DIRECTORY)][open.len() % 2];
            match guest.try_open(name, flags) {
                Ok(fd) => open.push(fd),
                Err(errno) => break errno,
            }
        };
        assert_eq!((open.len(), errno), (expected, NFILE), "{limit:?}");
        // After a close, exactly one open succeeds.
        for fd in open.iter_mut().take(3) {
            close(&mut guest, *fd);
            *fd = guest.open("file");
            assert_eq!(guest.try_open("file", CREATE), Err(NFILE));
        }
        // A failed open counts nothing, and a refused one creates no file.
        if let Some(fd) = open.pop() {
            close(&mut guest, fd);
            for _ in 0..10 {
                assert_eq!(guest.try_open("nothing", 0), Err(NOENT));
            }
            guest.open("file");
        }
        assert_eq!(guest.try_open("another", CREATE), Err(NFILE));
        assert!(!setup.folder.path().join("another").exists());
    }
}

#[test]
fn renumbering_over_a_descriptor_closes_it() {
    let setup = Setup::new(1);
    let mut guest = setup.guest_with(|wasi| wasi.descriptors_max(2));
    let (one, other) = (guest.open("file"), guest.open("file"));
    assert_eq!(guest.try_open("file", 0), Err(NFILE));
    assert_eq!(guest.call("fd_renumber", &[one, one]), SUCCESS);
    assert_eq!(guest.try_open("file", 0), Err(NFILE));
    assert_eq!(guest.call("fd_renumber", &[one, other]), SUCCESS);
    let again = guest.open("file");
    assert_eq!(guest.try_open("file", 0), Err(NFILE));
    // Renumber over a descriptor that the host gave, which does not count. The moved descriptor
    // still counts.
    assert_eq!(guest.call("fd_renumber", &[again, 0]), SUCCESS);
    assert_eq!(guest.try_open("file", 0), Err(NFILE));
    close(&mut guest, 0);
    guest.open("file");
    // A subdirectory counts, whatever rights its open asked for. Files opened in it count too.
    close(&mut guest, other);
    fs::create_dir(setup.folder.path().join("below")).expect("room");
    let below = guest.try_open("below", DIRECTORY).expect("it opens");
    guest.write(0, b"x");
    let open = [below, 0, 0, 1, CREATE, 2, 0, 0, 64];
    assert_eq!(guest.call("path_open", &open), NFILE);
}

/// Accepted sockets count as descriptors.
#[test]
fn accepted_sockets_count_as_descriptors() {
    let setup = Setup::new(1);
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    let mut guest = setup.guest_with(|wasi| {
        wasi.descriptors_max(2)
            .disk_bytes_max(1)
            .preopened_socket(10, listener)
    });
    let mut peers: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    let mut accepted = vec![];
    for expected in [SUCCESS, SUCCESS, NFILE, NFILE] {
        assert_eq!(guest.call("sock_accept", &[10, 0, 64]), expected);
        accepted.push(i64::from(guest.number(64)));
    }
    // Sent bytes are not written to disk.
    guest.vectors(0, [(100, 50)]);
    for name in ["fd_write", "sock_send"] {
        let arguments: &[i64] = match name {
            "fd_write" => &[accepted[0], 0, 1, 64],
            _ => &[accepted[0], 0, 1, 0, 64],
        };
        assert_eq!(
            (guest.call(name, arguments), guest.number(64)),
            (SUCCESS, 50)
        );
    }
    close(&mut guest, accepted[0]);
    assert_eq!(guest.call("sock_accept", &[10, 0, 64]), SUCCESS);
    peers[2].write_all(b"still there").expect("it is accepted");
    let accepted = guest.number(64).into();
    assert_eq!(guest.call("fd_read", &[accepted, 0, 1, 64]), SUCCESS);
    assert_eq!(guest.number(64), 11);
}

/// Writes bytes, at an offset if there is one; returns the errno and the number of bytes.
fn write(guest: &mut Guest, fd: i64, len: u32, offset: Option<i64>) -> (i32, u32) {
    guest.vectors(1024, [(4096, len / 2), (4096, len - len / 2)]);
    guest.vectors(64, [(u32::MAX, 0)]);
    let errno = match offset {
        Some(offset) => guest.call("fd_pwrite", &[fd, 1024, 2, offset, 64]),
        None => guest.call("fd_write", &[fd, 1024, 2, 64]),
    };
    (errno, guest.number(64))
}

#[test]
fn written_bytes_are_limited() {
    let setup = Setup::new(32);
    fs::write(setup.folder.path().join("file"), "").expect("room");
    let len = || {
        let metadata = fs::metadata(setup.folder.path().join("file"));
        metadata.expect("it is there").len()
    };
    let nothing = u32::MAX;
    let mut guest = setup.guest_with(|wasi| wasi.disk_bytes_max(1000));
    let file = guest.open("file");
    assert_eq!(write(&mut guest, file, 0, None), (SUCCESS, 0));
    assert_eq!(write(&mut guest, file, 999, None), (SUCCESS, 999));
    // A short write first, and then none.
    assert_eq!(write(&mut guest, file, 2, None), (SUCCESS, 1));
    assert_eq!(write(&mut guest, file, 1, None), (DQUOT, nothing));
    assert_eq!(write(&mut guest, file, 0, None), (SUCCESS, 0));
    assert_eq!(write(&mut guest, file, 1, Some(0)), (DQUOT, nothing));
    // Truncating the file returns no bytes to the quota.
    assert_eq!(guest.call("fd_filestat_set_size", &[file, 0]), SUCCESS);
    assert_eq!(write(&mut guest, file, 1, None), (DQUOT, nothing));
    assert_eq!(guest.call("fd_filestat_set_size", &[file, 1]), DQUOT);
    assert_eq!(len(), 0);
    // Standard output is not charged to the disk quota.
    assert_eq!(write(&mut guest, 1, 5000, None), (SUCCESS, 5000));
    drop(guest);

    // Charges larger writes in parts, overwritten bytes, and growth by `set_size`.
    let mut guest = setup.guest_with(|wasi| wasi.disk_bytes_max(300_000));
    let file = guest.open("file");
    assert_eq!(write(&mut guest, file, 100_000, None), (SUCCESS, 100_000));
    assert_eq!(
        write(&mut guest, file, 100_000, Some(0)),
        (SUCCESS, 100_000)
    );
    assert_eq!(guest.call("fd_filestat_set_size", &[file, 200_001]), DQUOT);
    assert_eq!(
        guest.call("fd_filestat_set_size", &[file, 110_000]),
        SUCCESS
    );
    assert_eq!(write(&mut guest, file, 100_000, Some(0)), (SUCCESS, 90_000));
    assert_eq!(write(&mut guest, file, 1, Some(0)), (DQUOT, nothing));
    assert_eq!(len(), 110_000);
    drop(guest);

    // A context without a limit.
    let mut guest = setup.guest();
    let file = guest.open("file");
    for _ in 0..10 {
        assert_eq!(
            write(&mut guest, file, 1 << 20, Some(0)),
            (SUCCESS, 1 << 20)
        );
    }
}

/// Created files, directories and links are charged to the disk quota.
#[test]
fn created_entries_are_charged_to_the_quota() {
    let setup = Setup::new(1);
    let mut guest = setup.guest_with(|wasi| wasi.disk_bytes_max(4 * ENTRY + ENTRY - 1));
    guest.write(100, b"1234");
    let folder = i64::from(FOLDER);
    let make = |guest: &mut Guest, at: i64| guest.call("path_create_directory", &[folder, at, 1]);
    assert_eq!(make(&mut guest, 100), SUCCESS);
    // A failed creation is not charged, nor is opening an existing file.
    assert_eq!(make(&mut guest, 100), EXIST);
    assert_eq!(guest.try_open("1", CREATE), Err(ISDIR));
    let file = guest.open("file");
    for _ in 0..10 {
        let again = guest.open("file");
        close(&mut guest, again);
    }
    guest.write(200, b"file");
    let link = [folder, 0, 200, 4, folder, 101, 1];
    assert_eq!(guest.call("path_link", &link), SUCCESS);
    let link = [200, 4, folder, 102, 1];
    assert_eq!(guest.call("path_symlink", &link), SUCCESS);
    // A rename is not charged.
    assert_eq!(
        guest.call("path_rename", &[folder, 101, 1, folder, 103, 1]),
        SUCCESS
    );
    assert_eq!(
        guest.call("path_rename", &[folder, 103, 1, folder, 101, 1]),
        SUCCESS
    );
    // The quota has one byte less than another entry takes.
    assert_eq!(make(&mut guest, 103), DQUOT);
    assert_eq!(guest.call("path_symlink", &[200, 4, folder, 103, 1]), DQUOT);
    let link = [folder, 0, 200, 4, folder, 103, 1];
    assert_eq!(guest.call("path_link", &link), DQUOT);
    assert_eq!(guest.try_open("4", CREATE), Err(DQUOT));
    assert_eq!(
        guest.call("path_remove_directory", &[folder, 100, 1]),
        SUCCESS
    );
    assert_eq!(make(&mut guest, 100), DQUOT);
    // The remaining bytes may still be written.
    assert_eq!(
        write(&mut guest, file, ENTRY as u32, None).1,
        ENTRY as u32 - 1
    );
    let mut entries = vec![];
    for entry in fs::read_dir(setup.folder.path()).expect("it is there") {
        entries.push(entry.expect("an entry").file_name());
    }
    entries.sort();
    assert_eq!(entries, ["2", "3", "file"]);
}
