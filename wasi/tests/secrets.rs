//! Bytes that a guest sent or received must not appear in a buffer, result or padding of the next
//! guest on the thread.

#[path = "common/house.rs"]
mod house;

use house::{BADF, FOLDER, Guest, House, SUCCESS};
use std::fs;

/// The byte that the first guest sends, and the byte that fills the second guest's memory.
const SECRET: u8 = 0xaa;
const BLANK: u8 = 0x11;

/// A guest that sends as many bytes as the host's scratch memory holds.
fn leaves_secrets(house: &House) {
    let mut guest = house.guest();
    guest.write(65_536, &[SECRET; 65_536]);
    guest.vectors(1024, [(65_536, 65_536)]);
    assert_eq!(guest.call("fd_write", &[1, 1024, 1, 64]), SUCCESS);
    assert_eq!(guest.number(64), 65_536);
}

/// A guest that can detect foreign bytes in its memory.
fn next(house: &House) -> Guest {
    leaves_secrets(house);
    let mut guest = house.guest();
    guest.write(0, &[BLANK; 3 << 16]);
    guest.write(1024, b"link");
    guest
}

#[test]
fn the_next_guest_of_the_thread_finds_nothing() {
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
    for (house, kind) in [(House::new(3), "plain"), (House::shared(3), "shared")] {
        fs::write(house.folder.path().join("file"), "little").expect("room");
        let link = house.folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", link).expect("a link");
        for (name, arguments, expected) in calls {
            let mut guest = next(&house);
            if name.ends_with("read") {
                assert_eq!(guest.open("file"), 4);
                leaves_secrets(&House::new(3));
            }
            // Two expired clocks, and a vector.
            guest.write(2048, &[0; 96]);
            guest.vectors(3072, [(65_536, 65_536)]);
            let errno = guest.call(name, arguments);
            assert_eq!(errno, expected, "{kind} {name}");
            let found = guest.read(0, 3 << 16);
            let at = found.iter().position(|byte| *byte == SECRET);
            assert_eq!(at, None, "{kind} {name} {arguments:?}");
        }
    }
}

/// Padding in an event must not contain bytes of another guest.
#[test]
fn events_of_files_have_no_padding_of_others() {
    let house = House::new(3);
    fs::write(house.folder.path().join("file"), "little").expect("room");
    let mut guest = next(&house);
    let file = guest.open("file");
    leaves_secrets(&House::new(3));
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
