//! Read-only directories: operations that change nothing work, and all others are refused.

use super::driver::{
    APPEND, CREAT, DIRECTORY, EXCL, FOLDER, FOLLOW, Guest, Host, OUT, READ, TRUNC, WRITE,
};
use super::errno::{BADF, EXIST, INVAL, ISDIR, NOENT, NOTSUP, PERM, ROFS, SUCCESS};
use pirn_wasi::WasiCtxBuilder;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The state of an unchanged file: size, links, both change times, and content.
type Look = (u64, u64, i64, i64, i64, i64, Vec<u8>);

/// Everything in a folder.
fn all(folder: &Path, found: &mut BTreeMap<PathBuf, Look>) {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    for path in paths.chain([folder.to_owned()]) {
        let at = fs::symlink_metadata(&path).expect("it is there");
        let content = match at.is_file() {
            true => fs::read(&path).expect("it is there"),
            false => vec![],
        };
        let times = match (super::IN_MEMORY, at.is_symlink()) {
            (false, _) => (at.mtime(), at.mtime_nsec(), at.ctime(), at.ctime_nsec()),
            // The driver copies what is in memory to files, without these times.
            (true, false) => (at.mtime(), at.mtime_nsec(), 0, 0),
            (true, true) => (0, 0, 0, 0),
        };
        let look = (
            at.len(),
            at.nlink(),
            times.0,
            times.1,
            times.2,
            times.3,
            content,
        );
        if at.is_dir() && path != folder {
            all(&path, found);
        }
        found.insert(path, look);
    }
}

fn look(host: &Host) -> BTreeMap<PathBuf, Look> {
    let mut found = BTreeMap::new();
    all(&host.path(""), &mut found);
    found
}

/// A directory with a file, a directory that contains a file, an empty directory, and links to the
/// file and to a missing file.
fn furnished() -> Host {
    let host = Host::new();
    host.write("file", "content");
    fs::create_dir(host.path("folder")).unwrap();
    fs::create_dir(host.path("empty")).unwrap();
    host.write("folder/below", "");
    host.write("folder/file", "content");
    fs::create_dir(host.path("folder/empty")).unwrap();
    symlink("file", host.path("link")).unwrap();
    symlink("nowhere", host.path("dangling")).unwrap();
    host
}

/// A guest with a read-only directory (descriptor 3) and a writable one (descriptor 4).
fn guest(looked_at: &Host, used: &Host) -> Guest {
    let wasi = looked_at.preopen_read_only(WasiCtxBuilder::new(), "/ro");
    Guest::new(used.preopen(wasi, "/rw").build())
}

/// Tries every changing operation in a directory that has the content of [`furnished`].
fn try_all(guest: &mut Guest, fd: i64, other: i64) {
    assert_eq!(guest.at("path_create_directory", fd, "new"), ROFS);
    assert_eq!(guest.at("path_remove_directory", fd, "empty"), ROFS);
    assert_eq!(guest.at("path_unlink_file", fd, "file"), ROFS);
    assert_eq!(guest.symlink("file", fd, "new"), ROFS);
    for name in ["path_rename", "path_link"] {
        assert_eq!(
            guest.between(name, (fd, "file"), (fd, "new")),
            ROFS,
            "{name}"
        );
        assert_eq!(
            guest.between(name, (fd, "file"), (other, "new")),
            ROFS,
            "{name}"
        );
        assert_eq!(
            guest.between(name, (other, "file"), (fd, "new")),
            ROFS,
            "{name}"
        );
    }
    let [start, len] = guest.path("file");
    for flags in [1, 2, 4, 8] {
        for lookup in [0, FOLLOW] {
            let times = [fd, lookup, start, len, 0, 0, flags];
            assert_eq!(guest.call("path_filestat_set_times", &times), ROFS);
        }
        assert_eq!(
            guest.call("fd_filestat_set_times", &[fd, 0, 0, flags]),
            ROFS
        );
    }
    // Path, open flags, rights, and the expected errno.
    let opened = [
        ("file", 0, WRITE, ROFS),
        ("file", 0, READ | WRITE, ROFS),
        ("file", TRUNC, READ, ROFS),
        ("file", TRUNC, 0, ROFS),
        ("file", CREAT, READ | WRITE, ROFS),
        ("file", CREAT | TRUNC, READ, ROFS),
        ("file", CREAT | EXCL, READ, EXIST),
        ("new", CREAT, READ, ROFS),
        ("new", CREAT | EXCL, READ, ROFS),
        ("new", CREAT, WRITE, ROFS),
        ("empty/new", CREAT, READ, ROFS),
        ("missing/new", CREAT, READ, NOENT),
        ("missing", 0, WRITE, NOENT),
        ("missing", TRUNC, READ, NOENT),
        ("empty", 0, WRITE, ISDIR),
        ("empty", CREAT | DIRECTORY, READ, INVAL),
        ("../secret", 0, WRITE, PERM),
        ("../new", CREAT, READ, PERM),
    ];
    for (path, how, rights, errno) in opened {
        let found = guest.open_at(fd, FOLLOW, path, (how, rights, 0));
        assert_eq!(found, Err(errno), "{path} {how} {rights}");
    }
    let file = guest.open_at(fd, FOLLOW, "file", (0, READ, 0)).unwrap();
    try_all_of_a_file(guest, file);
    // With the append flag, the file still cannot be written.
    let file = guest.open_at(fd, FOLLOW, "file", (CREAT, READ, 0)).unwrap();
    assert_eq!(guest.call("fd_fdstat_set_flags", &[file, APPEND]), SUCCESS);
    try_all_of_a_file(guest, file);
}

fn try_all_of_a_file(guest: &mut Guest, file: i64) {
    assert_eq!(guest.read(file, 20, Some(0)).unwrap(), b"content");
    assert_eq!(guest.write(file, b"x", None), Err(BADF));
    assert_eq!(guest.write(file, b"x", Some(0)), Err(BADF));
    for size in [0, 3, 100] {
        assert_eq!(guest.call("fd_filestat_set_size", &[file, size]), ROFS);
    }
    for flags in [1, 2, 4, 8] {
        assert_eq!(
            guest.call("fd_filestat_set_times", &[file, 0, 0, flags]),
            ROFS
        );
    }
    assert_eq!(guest.call("fd_allocate", &[file, 0, 100]), NOTSUP);
    assert_eq!(guest.call("fd_sync", &[file]), SUCCESS);
    assert_eq!(guest.call("fd_close", &[file]), SUCCESS);
}

#[test]
fn changes_in_a_read_only_directory_are_refused() {
    let (host, used) = (furnished(), furnished());
    let before = look(&host);
    let mut guest = guest(&host, &used);
    try_all(&mut guest, FOLDER, 4);
    // Through a subdirectory opened with any rights, and through a link.
    for path in ["folder", "folder/.", "empty/../folder"] {
        let folder = guest.open(path, DIRECTORY, READ, 0).unwrap();
        assert_eq!(
            guest.open_at(folder, FOLLOW, "below", (0, WRITE, 0)),
            Err(ROFS)
        );
        try_all(&mut guest, folder, 4);
    }
    for (path, how) in [("link", 0), ("link", TRUNC), ("dangling", CREAT)] {
        assert_eq!(guest.open(path, how, READ | WRITE, 0), Err(ROFS), "{path}");
        assert_eq!(guest.open("dangling", 0, WRITE, 0), Err(NOENT));
    }
    // Through another descriptor number.
    let folder = guest.open("folder", DIRECTORY, READ, 0).unwrap();
    let other = guest.open("empty", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.call("fd_renumber", &[folder, other]), SUCCESS);
    try_all(&mut guest, other, 4);
    assert!(before == look(&host));
}

#[test]
fn a_read_only_directory_can_be_read() {
    let (host, used) = (furnished(), furnished());
    let mut guest = guest(&host, &used);
    assert_eq!(
        guest.call("fd_readdir", &[FOLDER, 1000, 2000, 0, OUT]),
        SUCCESS
    );
    assert!(guest.u32(OUT) > 6 * 24);
    let [start, len] = guest.path("file");
    assert_eq!(
        guest.call("path_filestat_get", &[FOLDER, 1, start, len, OUT]),
        SUCCESS
    );
    assert_eq!(guest.u64(OUT + 32), 7);
    let [start, len] = guest.path("link");
    let arguments = [FOLDER, start, len, 1000, 10, OUT];
    assert_eq!(guest.call("path_readlink", &arguments), SUCCESS);
    let file = guest.open("link", 0, READ, 0).unwrap();
    assert_eq!(guest.read(file, 10, None).unwrap(), b"content");
    assert_eq!(guest.poll(&[(1, file)]), [(0, 0, 0, 0)]);
}

/// Another directory of the same guest stays writable.
#[test]
fn a_writable_directory_next_to_a_read_only_one_stays_writable() {
    let (host, used) = (furnished(), furnished());
    let mut guest = guest(&host, &used);
    assert_eq!(guest.at("path_create_directory", 4, "new"), SUCCESS);
    assert_eq!(
        guest.between("path_rename", (4, "file"), (4, "renamed")),
        SUCCESS
    );
    let file = guest.open_at(4, 0, "renamed", (TRUNC, WRITE, 0)).unwrap();
    assert_eq!(guest.write(file, b"new", None), Ok(3));
    assert_eq!(used.read("renamed"), "new");
    assert!(used.path("new").is_dir());
}
