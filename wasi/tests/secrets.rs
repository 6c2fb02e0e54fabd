//! Bytes that one guest sends or receives must not reach the next guest on the thread, in a buffer,
//! a result or padding.

use crate::common::setup;

use setup::{BADF, FOLDER, Guest, SUCCESS, Setup};
use std::fs;

/// The bytes that the first guest sends, one byte in each of two runs, and the byte that fills the
/// next guest's memory. A time or an inode number may contain the sent byte of one run. It does not
/// contain the sent bytes of both runs at the same address.
const SECRETS: [u8; 2] = [0xaa, 0x55];
const BLANK: u8 = 0x11;

/// A guest that sends as many bytes as the host's scratch memory holds.
fn leaves_secrets(setup: &Setup, secret: u8) {
    let mut guest = setup.guest();
    guest.write(65_536, &[secret; 65_536]);
    guest.vectors(1024, [(65_536, 65_536)]);
    assert_eq!(guest.call("fd_write", &[1, 1024, 1, 64]), SUCCESS);
    assert_eq!(guest.number(64), 65_536);
}

/// A guest whose memory is filled with one byte, so that foreign bytes stand out.
fn next(setup: &Setup, secret: u8) -> Guest {
    leaves_secrets(setup, secret);
    let mut guest = setup.guest();
    guest.write(0, &[BLANK; 3 << 16]);
    guest.write(1024, b"link");
    guest
}

#[test]
fn the_next_guest_of_a_thread_finds_no_foreign_bytes() {
    let folder = i64::from(FOLDER);
    // Results and buffers are at 65,536.
    let calls: [(&str, &[i64], i32); 13] = [
        ("path_filestat_get", &[folder, 0, 1024, 4, 65_536], SUCCESS),
        ("path_filestat_get", &[folder, 0, 1024, 3, 65_536], 44),
        ("fd_filestat_get", &[folder, 65_536], SUCCESS),
        ("fd_fdstat_get", &[folder, 65_536], SUCCESS),
        ("fd_fdstat_get", &[99, 65_536], BADF),
        (
            "path_readlink",
            &[folder, 1024, 4, 65_536, 65_536, 64],
            SUCCESS,
        ),
        ("fd_prestat_dir_name", &[folder, 65_536, 65_536], SUCCESS),
        ("fd_readdir", &[folder, 65_536, 65_536, 0, 64], SUCCESS),
        ("fd_readdir", &[folder, 65_536, 23, 0, 64], SUCCESS),
        ("fd_readdir", &[folder, 65_536, 50, 0, 64], SUCCESS),
        ("poll_oneoff", &[2048, 65_536, 2, 64], SUCCESS),
        ("fd_read", &[4, 3072, 1, 64], SUCCESS),
        ("fd_pread", &[4, 3072, 1, 2, 64], SUCCESS),
    ];
    for (setup, kind) in [(Setup::new(3), "plain"), (Setup::shared(3), "shared")] {
        fs::write(setup.folder.path().join("file"), "little").expect("room");
        let link = setup.folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", link).expect("a link");
        for (name, arguments, expected) in calls {
            let found = SECRETS.map(|secret| {
                let mut guest = next(&setup, secret);
                if name.ends_with("read") {
                    assert_eq!(guest.open("file"), 4);
                    leaves_secrets(&Setup::new(3), secret);
                }
                // Write two subscriptions to clocks that have expired, and a vector.
                guest.write(2048, &[0; 96]);
                guest.vectors(3072, [(65_536, 65_536)]);
                let errno = guest.call(name, arguments);
                assert_eq!(errno, expected, "{kind} {name}");
                guest.read(0, 3 << 16)
            });
            let mut pairs = found[0].iter().zip(&found[1]);
            let at = pairs.position(|(one, other)| [*one, *other] == SECRETS);
            assert_eq!(at, None, "{kind} {name} {arguments:?}");
        }
    }
}

/// Padding in an event must not contain bytes of another guest.
#[test]
fn padding_of_events_has_no_foreign_bytes() {
    let setup = Setup::new(3);
    fs::write(setup.folder.path().join("file"), "little").expect("room");
    let mut guest = next(&setup, SECRETS[0]);
    let file = guest.open("file");
    leaves_secrets(&Setup::new(3), SECRETS[0]);
    // A subscription to read a file, which is always ready.
    let mut subscription = [0; 48];
    subscription[8] = 1;
    subscription[16] = file as u8;
    guest.write(2048, &subscription);
    assert_eq!(guest.call("poll_oneoff", &[2048, 65_536, 1, 64]), SUCCESS);
    assert_eq!(guest.number(64), 1);
    let event = guest.read(65_536, 32);
    assert_eq!(
        (&event[11..16], &event[26..]),
        (&[0; 5][..], &[0; 6][..]),
        "{event:x?}"
    );
}
