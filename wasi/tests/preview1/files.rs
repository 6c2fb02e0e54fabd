//! Operations on open files: reads, writes, positions, sizes, times, flags, and descriptor numbers.

use super::driver::{APPEND, CREAT, DIRECTORY, FOLDER, Host, OUT, READ, WRITE};
use super::errno::{BADF, FBIG, INVAL, NAMETOOLONG, NOTDIR, NOTSUP, SUCCESS};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

const BOTH: i64 = READ | WRITE;
const DSYNC: i64 = 2;
const RSYNC: i64 = 8;
const SYNC: i64 = 16;

#[test]
fn only_reads_writes_and_seeks_move_the_position() {
    let host = Host::new();
    host.write("file", "0123456789");
    let mut guest = host.guest();
    let file = guest.open("file", 0, BOTH, 0).unwrap();
    let position = |guest: &mut super::driver::Guest| {
        assert_eq!(guest.call("fd_tell", &[file, OUT]), SUCCESS);
        guest.u64(OUT)
    };
    assert_eq!(guest.read(file, 3, None).unwrap(), b"012");
    assert_eq!(guest.read(file, 3, Some(8)).unwrap(), b"89");
    assert_eq!(guest.write(file, b"AB", Some(0)), Ok(2));
    assert_eq!(position(&mut guest), 3);
    assert_eq!(guest.write(file, b"C", None), Ok(1));
    assert_eq!(position(&mut guest), 4);
    // From the start (0), the current position (1) and the end (2), with the expected position.
    for (offset, whence, expected) in [(2, 0, 2), (3, 1, 5), (-4, 1, 1), (-2, 2, 8), (5, 2, 15)] {
        assert_eq!(guest.call("fd_seek", &[file, offset, whence, OUT]), SUCCESS);
        assert_eq!(guest.u64(OUT), expected);
    }
    for (offset, whence) in [(-1, 0), (-16, 1), (-11, 2), (i64::MIN, 1), (0, 3), (0, 255)] {
        let errno = guest.call("fd_seek", &[file, offset, whence, OUT]);
        assert_eq!(errno, INVAL, "{offset} {whence}");
    }
    assert_eq!(position(&mut guest), 15);
    assert_eq!(guest.read(file, 3, None).unwrap(), b"");
    assert_eq!(guest.write(file, b"!", None), Ok(1));
    assert_eq!(host.read("file"), "AB2C456789\0\0\0\0\0!");
    assert_eq!(guest.read(file, 3, Some(-1)), Err(INVAL));
    for name in ["fd_tell", "fd_fdstat_get", "fd_filestat_get"] {
        assert_eq!(guest.call(name, &[99, OUT]), BADF);
    }
    assert_eq!(guest.call("fd_seek", &[FOLDER, 0, 0, OUT]), BADF);
    assert_eq!(guest.call("fd_tell", &[FOLDER, OUT]), BADF);
}

#[test]
fn a_descriptor_has_the_rights_of_its_open() {
    let host = Host::new();
    host.write("file", "content");
    let mut guest = host.guest();
    let reads = guest.open("file", 0, READ, 0).unwrap();
    let writes = guest.open("file", 0, WRITE, 0).unwrap();
    assert_eq!(guest.write(reads, b"x", None), Err(BADF));
    assert_eq!(guest.write(reads, b"x", Some(0)), Err(BADF));
    assert_eq!(guest.read(writes, 1, None), Err(BADF));
    assert_eq!(guest.read(writes, 1, Some(0)), Err(BADF));
    assert_eq!(guest.call("fd_filestat_set_size", &[reads, 0]), INVAL);
    for (fd, rights) in [(reads, READ), (writes, WRITE)] {
        assert_eq!(guest.call("fd_fdstat_get", &[fd, OUT]), SUCCESS);
        // A regular file (4), no flags, these rights, and no inherited rights.
        assert_eq!((guest.bytes(OUT, 1), guest.u16(OUT + 2)), (vec![4], 0));
        let both = (guest.u64(OUT + 8), guest.u64(OUT + 16));
        assert_eq!(both, (rights.cast_unsigned(), 0));
        // Rights cannot be reduced later: `notsup`.
        assert_eq!(guest.call("fd_fdstat_set_rights", &[fd, 0, 0]), NOTSUP);
    }
    assert_eq!(guest.call("fd_fdstat_get", &[FOLDER, OUT]), SUCCESS);
    assert_eq!(guest.bytes(OUT, 1), [3]);
    assert_eq!(guest.call("fd_fdstat_set_rights", &[99, 0, 0]), BADF);
    assert_eq!(host.read("file"), "content");
}

#[test]
fn descriptor_flags_are_set_and_reported() {
    let host = Host::new();
    let mut guest = host.guest();
    let flags = |guest: &mut super::driver::Guest, file| {
        assert_eq!(guest.call("fd_fdstat_get", &[file, OUT]), SUCCESS);
        i64::from(guest.u16(OUT + 2))
    };
    for (asked, told) in [
        (0, 0),
        (APPEND, APPEND),
        (4, 4),
        // The host has one flag for all three.
        (DSYNC, DSYNC | RSYNC | SYNC),
        (SYNC, DSYNC | RSYNC | SYNC),
        (RSYNC, DSYNC | RSYNC | SYNC),
    ] {
        let file = guest.open("file", CREAT, BOTH, asked).unwrap();
        assert_eq!(flags(&mut guest, file), told, "{asked}");
        assert_eq!(guest.write(file, b"x", None), Ok(1));
    }
    let file = guest.open("file", 0, BOTH, 0).unwrap();
    for set in [APPEND, 4, APPEND | 4, 0] {
        assert_eq!(guest.call("fd_fdstat_set_flags", &[file, set]), SUCCESS);
        assert_eq!(flags(&mut guest, file), set);
    }
    // The other flags of an open file cannot be set, as with fcntl(2).
    for set in [DSYNC, RSYNC, SYNC, 32, -1] {
        assert_eq!(
            guest.call("fd_fdstat_set_flags", &[file, set]),
            INVAL,
            "{set}"
        );
    }
    assert_eq!(guest.call("fd_fdstat_set_flags", &[FOLDER, 0]), BADF);
    assert_eq!(guest.call("fd_fdstat_set_flags", &[99, 0]), BADF);
}

#[test]
fn file_sizes_are_set_and_reported() {
    let host = Host::new();
    host.write("file", "content");
    let mut guest = host.guest();
    let file = guest.open("file", 0, BOTH, 0).unwrap();
    for (size, expected) in [(3, "con"), (5, "con\0\0"), (0, "")] {
        assert_eq!(guest.call("fd_filestat_set_size", &[file, size]), SUCCESS);
        assert_eq!(host.read("file"), expected);
        assert_eq!(guest.call("fd_filestat_get", &[file, OUT]), SUCCESS);
        assert_eq!(guest.u64(OUT + 32), expected.len() as u64);
    }
    for (size, errnos) in [(-1, [INVAL, FBIG]), (i64::MIN, [INVAL, FBIG])] {
        let errno = guest.call("fd_filestat_set_size", &[file, size]);
        assert!(errnos.contains(&errno), "{errno}");
    }
    assert_eq!(guest.call("fd_filestat_set_size", &[FOLDER, 0]), BADF);
    // Space cannot be allocated: `notsup`.
    assert_eq!(guest.call("fd_allocate", &[file, 0, 10]), NOTSUP);
    assert_eq!(guest.call("fd_allocate", &[99, 0, 10]), BADF);
    for advice in 0..6 {
        assert_eq!(guest.call("fd_advise", &[file, 0, 10, advice]), SUCCESS);
    }
    assert_eq!(guest.call("fd_advise", &[file, 0, 10, 6]), INVAL);
    assert_eq!(guest.call("fd_advise", &[99, 0, 10, 0]), BADF);
    for name in ["fd_sync", "fd_datasync"] {
        assert_eq!(guest.call(name, &[file]), SUCCESS);
        assert_eq!(guest.call(name, &[99]), BADF);
        assert_eq!(guest.call(name, &[FOLDER]), BADF);
    }
}

#[test]
fn file_times_are_set_to_a_given_or_the_current_time() {
    let host = Host::new();
    host.write("file", "");
    let mut guest = host.guest();
    let file = guest.open("file", 0, BOTH, 0).unwrap();
    let [start, len] = guest.path("file");
    let times = || {
        let at = fs::metadata(host.path("file")).unwrap();
        (at.accessed().unwrap(), at.modified().unwrap())
    };
    let at = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    for (index, name) in ["fd_filestat_set_times", "path_filestat_set_times"]
        .iter()
        .enumerate()
    {
        let mut set = |accessed, modified, flags| match index {
            0 => guest.call(name, &[file, accessed, modified, flags]),
            _ => guest.call(name, &[FOLDER, 1, start, len, accessed, modified, flags]),
        };
        assert_eq!(set(1_000_000_007, 2_000_000_009, 1 | 4), SUCCESS);
        assert_eq!(times(), (at(1_000_000_007), at(2_000_000_009)));
        // Sets one of the two times, and then neither.
        assert_eq!(set(3_000_000_000, 5, 1), SUCCESS);
        assert_eq!(set(5, 5, 0), SUCCESS);
        assert_eq!(times(), (at(3_000_000_000), at(2_000_000_009)));
        assert_eq!(set(5, 5, 8), SUCCESS);
        assert!(times().0 == at(3_000_000_000) && times().1 > at(1 << 60));
        assert_eq!(set(5, 5, 2), SUCCESS);
        assert!(times().0 > at(1 << 60));
        // Flags that ask for a given time and the current time at once, and unknown flags.
        for flags in [1 | 2, 4 | 8, 15, 16] {
            assert_eq!(set(5, 5, flags), INVAL, "{flags}");
        }
    }
    assert_eq!(guest.call("fd_filestat_get", &[file, OUT]), SUCCESS);
    let told = [guest.u64(OUT + 40), guest.u64(OUT + 48)].map(at);
    assert_eq!((told[0], told[1]), times());
    assert_eq!(
        guest.call("fd_filestat_set_times", &[FOLDER, 7, 7, 5]),
        SUCCESS
    );
    assert_eq!(
        fs::metadata(host.path("")).unwrap().modified().unwrap(),
        at(7)
    );
    assert_eq!(guest.call("fd_filestat_set_times", &[99, 7, 7, 5]), BADF);
}

#[test]
fn change_times_and_times_before_the_epoch_are_reported() {
    let host = Host::new();
    host.write("file", "");
    let old = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    let opened = fs::File::options().write(true).open(host.path("file"));
    opened.unwrap().set_times(times).unwrap();
    let found = fs::metadata(host.path("file")).unwrap();
    let changed = found.ctime() as u64 * 1_000_000_000 + found.ctime_nsec() as u64;
    let mut guest = host.guest();
    let file = guest.open("file", 0, READ, 0).unwrap();
    let [start, len] = guest.path("file");
    for arguments in [&[file, OUT][..], &[FOLDER, 0, start, len, OUT]] {
        let name = if arguments.len() == 2 {
            "fd_filestat_get"
        } else {
            "path_filestat_get"
        };
        guest.put(OUT + 40, &[1; 24]);
        assert_eq!(guest.call(name, arguments), SUCCESS);
        let told = [40, 48, 56].map(|at| guest.u64(OUT + at));
        if super::IN_MEMORY {
            // The copy in memory is newer, and has numbers of its own.
            assert_eq!(told[..2], [0, 0], "{name}");
            assert!(told[2] >= changed / 1_000_000_000 * 1_000_000_000, "{name}");
            continue;
        }
        assert_eq!(told, [0, 0, changed], "{name}");
        // Device, inode number, type, links.
        assert_eq!(
            (guest.u64(OUT), guest.u64(OUT + 8)),
            (found.dev(), found.ino())
        );
        assert_eq!(
            (guest.bytes(OUT + 16, 1), guest.u64(OUT + 24)),
            (vec![4], 1)
        );
    }
    // A stream in memory has none of these.
    guest.put(OUT, &[1; 64]);
    assert_eq!(guest.call("fd_filestat_get", &[1, OUT]), SUCCESS);
    assert_eq!([32, 40, 48, 56].map(|at| guest.u64(OUT + at)), [0; 4]);
}

#[test]
fn descriptors_are_closed_and_renumbered() {
    let host = Host::new();
    host.write("a", "a");
    host.write("b", "b");
    let mut guest = host.guest();
    let a = guest.open("a", 0, READ, 0).unwrap();
    let b = guest.open("b", 0, READ, 0).unwrap();
    assert_eq!(guest.call("fd_renumber", &[a, b]), SUCCESS);
    assert_eq!(guest.read(b, 10, None).unwrap(), b"a");
    assert_eq!(guest.read(a, 10, None), Err(BADF));
    assert_eq!(guest.call("fd_renumber", &[a, b]), BADF);
    assert_eq!(guest.call("fd_renumber", &[b, a]), BADF);
    // Renumbering a descriptor to itself changes nothing.
    assert_eq!(guest.call("fd_renumber", &[b, b]), SUCCESS);
    assert_eq!(guest.read(b, 10, Some(0)).unwrap(), b"a");
    assert_eq!(guest.call("fd_close", &[b]), SUCCESS);
    assert_eq!(guest.call("fd_close", &[b]), BADF);
    // The descriptors that the guest got at its start can be closed too.
    for fd in [0, FOLDER] {
        assert_eq!(guest.call("fd_close", &[fd]), SUCCESS);
        assert_eq!(guest.call("fd_fdstat_get", &[fd, OUT]), BADF);
    }
}

#[test]
fn preopened_directories_have_names() {
    let host = Host::new();
    fs::create_dir(host.path("folder")).unwrap();
    let mut guest = host.guest();
    assert_eq!(guest.call("fd_prestat_get", &[FOLDER, OUT]), SUCCESS);
    assert_eq!((guest.bytes(OUT, 1), guest.u32(OUT + 4)), (vec![0], 7));
    assert_eq!(
        guest.call("fd_prestat_dir_name", &[FOLDER, 1000, 7]),
        SUCCESS
    );
    assert_eq!(guest.bytes(1000, 8), b"/inside\0");
    assert_eq!(
        guest.call("fd_prestat_dir_name", &[FOLDER, 1000, 6]),
        NAMETOOLONG
    );
    // C libraries call this until it fails.
    for fd in [FOLDER + 1, 0, 99] {
        assert_eq!(guest.call("fd_prestat_get", &[fd, OUT]), BADF);
    }
    assert_eq!(guest.call("fd_prestat_dir_name", &[0, 1000, 7]), NOTDIR);
    let below = guest.open("folder", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.call("fd_prestat_get", &[below, OUT]), NOTSUP);
    assert_eq!(guest.call("fd_prestat_dir_name", &[below, 1000, 7]), NOTSUP);
}
