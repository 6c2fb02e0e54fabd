//! Operations on paths: create, open, rename and remove. No path may lead outside the guest's
//! directory.

use super::driver::{CREAT, DIRECTORY, EXCL, FOLDER, FOLLOW, Host, OUT, READ, TRUNC, WRITE};
use super::errno::{
    BADF, EXIST, ILSEQ, INVAL, ISDIR, LOOP, NAMETOOLONG, NOENT, NOTDIR, NOTEMPTY, PERM, SUCCESS,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn open_flags_are_respected() {
    let host = Host::new();
    host.write("file", "content");
    fs::create_dir(host.path("folder")).unwrap();
    symlink("file", host.path("link")).unwrap();
    let mut guest = host.guest();
    let both = READ | WRITE;
    // Path, open flags, rights, whether links are followed, and the expected errno.
    for (path, how, rights, lookup, errno) in [
        ("missing", 0, READ, 1, NOENT),
        ("missing/below", CREAT, both, 1, NOENT),
        ("file/below", 0, READ, 1, NOTDIR),
        ("file/", 0, READ, 1, NOTDIR),
        ("file", DIRECTORY, READ, 1, NOTDIR),
        ("file", CREAT | EXCL, both, 1, EXIST),
        ("link", CREAT | EXCL, both, 1, EXIST),
        ("folder", 0, WRITE, 1, ISDIR),
        ("folder", 0, both, 1, ISDIR),
        ("folder", CREAT | DIRECTORY, READ, 1, INVAL),
        ("folder", TRUNC | DIRECTORY, READ, 1, INVAL),
        ("folder", EXCL | DIRECTORY, READ, 1, INVAL),
        ("link", 0, READ, 0, LOOP),
        ("", 0, READ, 1, NOENT),
        ("file", 16, READ, 1, INVAL),
        ("file", 0, READ, 2, INVAL),
        ("file", 0, -1, 1, INVAL),
    ] {
        let found = guest.open_at(FOLDER, lookup, path, (how, rights, 0));
        assert_eq!(found, Err(errno), "{path} {how} {rights} {lookup}");
    }
    assert_eq!(guest.open("file", 0, READ, 32), Err(INVAL));
    assert_eq!(guest.open(b"a\0b", 0, READ, 0), Err(INVAL));
    assert_eq!(guest.open(b"\xff", 0, READ, 0), Err(ILSEQ));
    assert_eq!(guest.open("n".repeat(256), 0, READ, 0), Err(NAMETOOLONG));
    assert_eq!(guest.open("n".repeat(255), 0, READ, 0), Err(NOENT));
    assert_eq!(guest.open("a/".repeat(2100), 0, READ, 0), Err(NAMETOOLONG));
    assert_eq!(guest.open_at(99, 0, "file", (0, READ, 0)), Err(BADF));
    assert_eq!(guest.open_at(1, 0, "file", (0, READ, 0)), Err(NOTDIR));
    let file = guest.open("file", TRUNC, both, 0).unwrap();
    assert_eq!(host.read("file"), "");
    assert_eq!(guest.write(file, b"new", None), Ok(3));
    let file = guest.open("made", CREAT | EXCL, both, 0).unwrap();
    assert_eq!(guest.write(file, b"made", None), Ok(4));
    assert_eq!(host.read("made"), "made");
    // Opens by a link, without rights, and a directory next to other descriptors.
    let file = guest.open("link", 0, READ, 0).unwrap();
    assert_eq!(guest.read(file, 10, None).unwrap(), b"new");
    let file = guest.open("file", 0, 0, 0).unwrap();
    assert_eq!(guest.read(file, 10, None), Err(BADF));
    assert_eq!(guest.write(file, b"x", None), Err(BADF));
    let folder = guest.open("folder", DIRECTORY, READ, 0).unwrap();
    assert_eq!(guest.read(folder, 10, None), Err(BADF));
    let below = guest
        .open_at(folder, 0, "below", (CREAT, WRITE, 0))
        .unwrap();
    assert_eq!(guest.write(below, b"below", None), Ok(5));
    assert_eq!(host.read("folder/below"), "below");
}

#[test]
fn directories_are_created_and_removed() {
    let host = Host::new();
    host.write("file", "");
    let mut guest = host.guest();
    let (make, remove, unlink) = (
        "path_create_directory",
        "path_remove_directory",
        "path_unlink_file",
    );
    assert_eq!(guest.at(make, FOLDER, "folder"), SUCCESS);
    assert_eq!(guest.at(make, FOLDER, "folder"), EXIST);
    assert_eq!(guest.at(make, FOLDER, "file"), EXIST);
    assert_eq!(guest.at(make, FOLDER, "missing/new"), NOENT);
    assert_eq!(guest.at(make, FOLDER, "file/new"), NOTDIR);
    assert_eq!(guest.at(make, FOLDER, "folder/below/"), SUCCESS);
    assert_eq!(guest.at(remove, FOLDER, "folder"), NOTEMPTY);
    assert_eq!(guest.at(remove, FOLDER, "file"), NOTDIR);
    assert_eq!(guest.at(remove, FOLDER, "missing"), NOENT);
    assert_eq!(guest.at(remove, FOLDER, "folder/below"), SUCCESS);
    assert_eq!(guest.at(unlink, FOLDER, "folder"), ISDIR);
    assert_eq!(guest.at(unlink, FOLDER, "missing"), NOENT);
    assert_eq!(guest.at(unlink, FOLDER, "file/"), NOTDIR);
    assert_eq!(guest.at(remove, FOLDER, "folder"), SUCCESS);
    assert_eq!(guest.at(unlink, FOLDER, "file"), SUCCESS);
    assert_eq!(fs::read_dir(host.path("")).unwrap().count(), 0);
    for name in [make, remove, unlink] {
        assert_eq!(guest.at(name, 99, "x"), BADF);
        assert_eq!(guest.at(name, 1, "x"), BADF);
        assert_eq!(guest.at(name, FOLDER, ""), NOENT);
        assert_eq!(guest.at(name, FOLDER, b"\xff"), ILSEQ);
    }
}

#[test]
fn links_are_created_read_and_removed() {
    let host = Host::new();
    host.write("file", "content");
    fs::create_dir(host.path("folder")).unwrap();
    let mut guest = host.guest();
    assert_eq!(guest.symlink("file", FOLDER, "link"), SUCCESS);
    assert_eq!(guest.symlink("file", FOLDER, "link"), EXIST);
    assert_eq!(guest.symlink("nowhere", FOLDER, "dangling"), SUCCESS);
    assert_eq!(guest.symlink("", FOLDER, "empty"), NOENT);
    // A link to an absolute path is not created at all.
    assert_eq!(guest.symlink("/etc", FOLDER, "absolute"), PERM);
    let read = |guest: &mut super::driver::Guest, path: &str, len| {
        let [start, path_len] = guest.path(path);
        let errno = guest.call("path_readlink", &[FOLDER, start, path_len, 1000, len, OUT]);
        (errno, guest.bytes(1000, guest.u32(OUT) as usize))
    };
    assert_eq!(read(&mut guest, "link", 100), (SUCCESS, b"file".to_vec()));
    // The result is truncated, as by readlink(2).
    assert_eq!(read(&mut guest, "link", 2), (SUCCESS, b"fi".to_vec()));
    assert_eq!(read(&mut guest, "link", 0), (SUCCESS, vec![]));
    assert_eq!(read(&mut guest, "file", 100).0, INVAL);
    assert_eq!(read(&mut guest, "missing", 100).0, NOENT);
    // Hard links: to files and to a symbolic link itself, but not to directories or through a
    // symbolic link.
    assert_eq!(
        guest.between("path_link", (FOLDER, "file"), (FOLDER, "folder/hard")),
        SUCCESS
    );
    assert_eq!(host.read("folder/hard"), "content");
    assert_eq!(
        guest.between("path_link", (FOLDER, "file"), (FOLDER, "link")),
        EXIST
    );
    assert_eq!(
        guest.between("path_link", (FOLDER, "missing"), (FOLDER, "new")),
        NOENT
    );
    assert_eq!(
        guest.between("path_link", (FOLDER, "folder"), (FOLDER, "new")),
        PERM
    );
    assert_eq!(
        guest.between("path_link", (FOLDER, "link"), (FOLDER, "second")),
        SUCCESS
    );
    assert_eq!(
        fs::read_link(host.path("second")).unwrap(),
        Path::new("file")
    );
    // wasi-common does not follow symbolic links here.
    let ([old, old_len], [new, new_len]) = (guest.path("link"), guest.other_path("third"));
    let follow = [FOLDER, FOLLOW, old, old_len, FOLDER, new, new_len];
    assert_eq!(guest.call("path_link", &follow), INVAL);
    // Unlinking removes the link and not its target.
    assert_eq!(guest.at("path_unlink_file", FOLDER, "link"), SUCCESS);
    assert_eq!(host.read("file"), "content");
}

/// An open descriptor keeps its file after its name is replaced or removed.
#[test]
fn open_files_survive_replacement_and_removal() {
    let host = Host::new();
    host.write("old", "old");
    host.write("new", "new");
    for folder in ["empty", "full", "full/below"] {
        fs::create_dir(host.path(folder)).unwrap();
    }
    let mut guest = host.guest();
    let file = guest.open("old", 0, READ | WRITE, 0).unwrap();
    let rename = |guest: &mut super::driver::Guest, from, to| {
        guest.between("path_rename", (FOLDER, from), (FOLDER, to))
    };
    assert_eq!(rename(&mut guest, "new", "old"), SUCCESS);
    assert_eq!(host.read("old"), "new");
    assert_eq!(guest.read(file, 10, None).unwrap(), b"old");
    assert_eq!(guest.write(file, b"!", None), Ok(1));
    assert_eq!(guest.call("fd_filestat_get", &[file, OUT]), SUCCESS);
    // No links, four bytes.
    assert_eq!((guest.u64(OUT + 24), guest.u64(OUT + 32)), (0, 4));
    assert_eq!(host.read("old"), "new");
    assert_eq!(rename(&mut guest, "old", "old"), SUCCESS);
    assert_eq!(rename(&mut guest, "missing", "x"), NOENT);
    assert_eq!(rename(&mut guest, "old", "missing/x"), NOENT);
    assert_eq!(rename(&mut guest, "old", "empty"), ISDIR);
    assert_eq!(rename(&mut guest, "empty", "old"), NOTDIR);
    assert_eq!(rename(&mut guest, "empty", "full"), NOTEMPTY);
    assert_eq!(rename(&mut guest, "full", "full/below/x"), INVAL);
    assert_eq!(rename(&mut guest, "full", "empty"), SUCCESS);
    assert!(host.path("empty/below").is_dir());
    assert_eq!(
        guest.between("path_rename", (FOLDER, "old"), (99, "x")),
        BADF
    );
    assert_eq!(
        guest.between("path_rename", (1, "old"), (FOLDER, "x")),
        BADF
    );
    // Nothing can be created in a directory that is open but removed.
    let folder = guest.open("empty/below", DIRECTORY, READ, 0).unwrap();
    assert_eq!(
        guest.at("path_remove_directory", FOLDER, "empty/below"),
        SUCCESS
    );
    assert_eq!(guest.open_at(folder, 0, "x", (CREAT, WRITE, 0)), Err(NOENT));
}

/// Paths that lead outside the directory, by the links and directories in it.
const OUTSIDE: [&str; 12] = [
    "..",
    "../secret",
    "folder/../../secret",
    "/etc/passwd",
    "/",
    "up",
    "up/secret",
    "folder/up/secret",
    "to_secret",
    "root/etc/passwd",
    "by_way",
    "./././../secret",
];

#[test]
fn no_path_leads_outside() {
    let host = Host::new();
    fs::create_dir(host.path("folder")).unwrap();
    host.write("file", "");
    for (to, name) in [
        ("..", "up"),
        ("../..", "folder/up"),
        ("../secret", "to_secret"),
        ("/", "root"),
        ("folder/../../secret", "by_way"),
    ] {
        symlink(to, host.path(name)).unwrap();
    }
    let mut guest = host.guest();
    for path in OUTSIDE {
        for (how, rights) in [
            (0, READ),
            (CREAT, READ | WRITE),
            (TRUNC, WRITE),
            (DIRECTORY, READ),
        ] {
            let found = guest.open(path, how, rights, 0);
            assert_eq!(found, Err(PERM), "{path} {how} {rights}");
        }
        let [start, len] = guest.path(path);
        let stat = [FOLDER, FOLLOW, start, len, OUT];
        assert_eq!(guest.call("path_filestat_get", &stat), PERM, "{path}");
        let times = [FOLDER, FOLLOW, start, len, 0, 0, 2];
        assert_eq!(
            guest.call("path_filestat_set_times", &times),
            PERM,
            "{path}"
        );
        if path.contains('/') && path != "/" {
            let made = format!("{path}/../new");
            assert_ne!(
                guest.at("path_create_directory", FOLDER, &made),
                SUCCESS,
                "{path}"
            );
        }
    }
    for path in [
        "../new",
        "up/new",
        "folder/../../new",
        "/tmp/new",
        "folder/up/new",
    ] {
        assert_eq!(
            guest.at("path_create_directory", FOLDER, path),
            PERM,
            "{path}"
        );
        assert_eq!(guest.symlink("file", FOLDER, path), PERM, "{path}");
        assert_eq!(
            guest.open(path, CREAT | EXCL, WRITE, 0),
            Err(PERM),
            "{path}"
        );
        for name in ["path_rename", "path_link"] {
            assert_eq!(
                guest.between(name, (FOLDER, "file"), (FOLDER, path)),
                PERM,
                "{path}"
            );
        }
    }
    for path in ["../secret", "up/secret", "folder/up/secret"] {
        assert_eq!(guest.at("path_unlink_file", FOLDER, path), PERM, "{path}");
        assert_eq!(
            guest.at("path_remove_directory", FOLDER, path),
            PERM,
            "{path}"
        );
        for name in ["path_rename", "path_link"] {
            assert_eq!(
                guest.between(name, (FOLDER, path), (FOLDER, "mine")),
                PERM,
                "{path}"
            );
        }
    }
    // A descriptor of a subdirectory gives no access to its parent.
    let folder = guest.open("folder", DIRECTORY, READ, 0).unwrap();
    assert_eq!(
        guest.open_at(folder, FOLLOW, "../file", (0, READ, 0)),
        Err(PERM)
    );
    // The guest's own link to the outside must not lead there, whether or not its creation
    // succeeds.
    for (index, to) in ["..", "../secret", "folder/../.."].into_iter().enumerate() {
        let name = format!("own{index}");
        if guest.symlink(to, FOLDER, &name) == SUCCESS {
            assert_eq!(guest.open(&name, 0, READ, 0), Err(PERM), "{to}");
        }
    }
    // Paths that stay inside may contain `..`.
    assert!(guest.open("folder/../file", 0, READ, 0).is_ok());
    let beside: Vec<_> = fs::read_dir(host.outside()).unwrap().collect();
    assert_eq!(beside.len(), 2);
    assert_eq!(
        fs::read_to_string(host.outside().join("secret")).unwrap(),
        "secret"
    );
}

#[test]
fn loops_of_symbolic_links_are_refused() {
    let host = Host::new();
    symlink("loop", host.path("loop")).unwrap();
    symlink("b", host.path("a")).unwrap();
    symlink("a", host.path("b")).unwrap();
    // Chains of links at the kernel's limit, and one longer.
    host.write("0", "reached");
    for number in 1..=41 {
        let to = (number - 1).to_string();
        symlink(to, host.path(&number.to_string())).unwrap();
    }
    let mut guest = host.guest();
    for path in ["loop", "a", "loop/below", "a/b/c", "41"] {
        assert_eq!(guest.open(path, 0, READ, 0), Err(LOOP), "{path}");
        let [start, len] = guest.path(path);
        assert_eq!(
            guest.call("path_filestat_get", &[FOLDER, FOLLOW, start, len, OUT]),
            LOOP
        );
    }
    assert!(guest.open("40", 0, READ, 0).is_ok());
    // The status of the link itself.
    let [start, len] = guest.path("loop");
    assert_eq!(
        guest.call("path_filestat_get", &[FOLDER, 0, start, len, OUT]),
        SUCCESS
    );
    assert_eq!(guest.bytes(OUT + 16, 1), [7]);
}

/// Names and inode numbers of a directory's entries, read in chunks of `bytes` bytes.
fn entries(guest: &mut super::driver::Guest, fd: i64, bytes: i64) -> Vec<(String, u64)> {
    let (mut found, mut cookie) = (vec![], 0);
    loop {
        let arguments = [fd, 1000, bytes, cookie, OUT];
        assert_eq!(guest.call("fd_readdir", &arguments), SUCCESS);
        let used = i64::from(guest.u32(OUT));
        let mut at = 1000;
        while at + 24 <= 1000 + used {
            let len = i64::from(guest.u32(at + 16));
            if at + 24 + len > 1000 + used {
                break;
            }
            let name = guest.bytes(at + 24, len as usize);
            cookie = guest.u64(at).cast_signed();
            found.push((String::from_utf8(name).unwrap(), guest.u64(at + 8)));
            at += 24 + len;
        }
        assert!(at > 1000 || used < bytes, "an entry fits");
        if used < bytes {
            return found;
        }
    }
}

#[test]
fn directories_are_read_in_chunks_of_any_size() {
    let host = Host::new();
    let mut expected = vec![".".to_owned(), "..".to_owned()];
    for number in 0..50 {
        let name = format!("file {number} {}", "x".repeat(number));
        host.write(&name, "");
        expected.push(name);
    }
    expected.sort();
    let mut guest = host.guest();
    for bytes in [100, 101, 123, 1000, 30_000] {
        let mut found = entries(&mut guest, FOLDER, bytes);
        found.sort();
        let names: Vec<_> = found.iter().map(|(name, _)| name).collect();
        assert!(
            names.iter().eq(&expected.iter().collect::<Vec<_>>()),
            "{bytes}: {names:?}"
        );
        // The parent directory is reported with the directory's own number.
        assert_eq!(found[0].1, found[1].1);
    }
    assert_eq!(
        guest.call("fd_readdir", &[FOLDER, 1000, 0, 0, OUT]),
        SUCCESS
    );
    assert_eq!(guest.u32(OUT), 0);
    assert_eq!(
        guest.call("fd_readdir", &[FOLDER, 1000, 100, -1, OUT]),
        INVAL
    );
    assert_eq!(guest.call("fd_readdir", &[1, 1000, 100, 0, OUT]), BADF);
    assert_eq!(guest.call("fd_readdir", &[99, 1000, 100, 0, OUT]), BADF);
}

#[test]
fn removal_while_reading_a_directory_skips_no_entry() {
    let host = Host::new();
    for number in 0..60 {
        host.write(&format!("file{number}"), "");
    }
    let mut guest = host.guest();
    let (mut removed, mut cookie) = (0, 0);
    loop {
        // Room for about three entries.
        assert_eq!(
            guest.call("fd_readdir", &[FOLDER, 1000, 100, cookie, OUT]),
            SUCCESS
        );
        let used = i64::from(guest.u32(OUT));
        let mut at = 1000;
        while at + 24 <= 1000 + used {
            let len = i64::from(guest.u32(at + 16));
            if at + 24 + len > 1000 + used {
                break;
            }
            let name = guest.bytes(at + 24, len as usize);
            cookie = guest.u64(at).cast_signed();
            at += 24 + len;
            if name.starts_with(b"file") {
                assert_eq!(guest.at("path_unlink_file", FOLDER, name), SUCCESS);
                removed += 1;
            }
        }
        if used < 100 {
            break;
        }
    }
    assert_eq!(removed, 60);
    assert_eq!(fs::read_dir(host.path("")).unwrap().count(), 0);
}
