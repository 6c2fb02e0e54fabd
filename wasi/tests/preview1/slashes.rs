//! Paths and targets of links that end in a slash. No such path leads outside, with openat2(2), by
//! which the kernel keeps paths in a directory, and without it, where a library walks each path.

use super::driver::{CREAT, DIRECTORY, FOLDER, Host, OUT, READ, TRUNC, WRITE};
use super::errno::SUCCESS;
use pirn_testing::process::{ENOSYS, SYS_openat2, exited_with, refuse};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

/// Links in the guest's directory: the target and the name.
const LINKS: [(&str, &str); 9] = [
    ("..", "up"),
    ("../", "up_slash"),
    ("up_slash/", "chain"),
    ("chain/", "chain2"),
    ("/", "root"),
    ("../beside/", "beside"),
    ("beside/", "to_beside"),
    ("folder/../../", "by_way"),
    ("by_way/.", "by_dot"),
];

/// The type of a symbolic link in preview 1.
const SYMBOLIC_LINK: u8 = 7;

/// All ends of a path that name the directory itself.
const ENDS: [&str; 5] = ["/", "//", "/.", "/./", "/.//"];

fn has_openat2(folder: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let (mode, resolve) = (Mode::empty(), ResolveFlags::empty());
    openat2(CWD, folder, OFlags::DIRECTORY, mode, resolve).is_ok()
}

/// Names in a directory, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Checks that what lies beside the guest's directory is as it was.
fn check_outside(host: &Host, what: &str) {
    assert_eq!(
        names(host.outside()),
        ["beside", "inside", "secret"],
        "{what}"
    );
    assert_eq!(names(&host.outside().join("beside")), ["file"], "{what}");
    for name in ["secret", "beside/file"] {
        let found = fs::read_to_string(host.outside().join(name)).unwrap();
        assert_eq!(found, "secret", "{what}");
    }
}

/// When what lies beside the guest's directory was changed, which is in the past.
fn modified(host: &Host) -> Vec<SystemTime> {
    let outside = host.outside();
    let paths = [
        outside.to_owned(),
        outside.join("beside"),
        outside.join("secret"),
    ];
    let times = paths.map(|path| fs::metadata(path).unwrap().modified().unwrap());
    times.to_vec()
}

fn host() -> Host {
    let host = Host::new();
    fs::create_dir(host.outside().join("beside")).unwrap();
    fs::write(host.outside().join("beside/file"), "secret").unwrap();
    fs::create_dir(host.path("folder")).unwrap();
    host.write("file", "");
    let past = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    for folder in [host.outside().join("beside"), host.outside().to_owned()] {
        let folder = fs::File::open(folder).unwrap();
        folder.set_times(past).unwrap();
    }
    for (target, name) in LINKS {
        symlink(target, host.path(name)).unwrap();
    }
    host
}

/// No function reaches what the links name, by any path and with or without following a last link.
fn none_leads_outside() {
    let host = host();
    let before = modified(&host);
    let mut guest = host.guest();
    let ends = || ENDS.into_iter().chain(["", "/..", "/../"]);
    for (_, name) in LINKS {
        for end in ends() {
            let path = format!("{name}{end}");
            for lookup in [0, 1] {
                for (how, rights) in [(0, READ), (DIRECTORY, READ), (CREAT, WRITE), (TRUNC, WRITE)]
                {
                    let found = guest.open_at(FOLDER, lookup, &path, (how, rights, 0));
                    assert!(found.is_err(), "{path} {lookup} {how}");
                }
                let [start, len] = guest.path(&path);
                let stat = guest.call("path_filestat_get", &[FOLDER, lookup, start, len, OUT]);
                // The link itself is in the directory, and may be told of.
                if stat == SUCCESS {
                    let kind = guest.bytes(OUT + 16, 1);
                    assert_eq!((lookup, kind), (0, vec![SYMBOLIC_LINK]), "{path}");
                }
                let times = [FOLDER, lookup, start, len, 0, 0, 8];
                let set = guest.call("path_filestat_set_times", &times);
                assert!(set != SUCCESS || lookup == 0, "{path}");
                assert_eq!(modified(&host), before, "{path} {lookup}");
            }
            for below in ["secret", "file", "new"] {
                let path = format!("{path}/{below}");
                for lookup in [0, 1] {
                    let found = guest.open_at(FOLDER, lookup, &path, (CREAT, READ | WRITE, 0));
                    assert!(found.is_err(), "{path}");
                }
                for name in ["path_create_directory", "path_unlink_file"] {
                    assert_ne!(guest.at(name, FOLDER, &path), SUCCESS, "{name} {path}");
                }
                for name in ["path_rename", "path_link"] {
                    let [in_, out] = [(FOLDER, "file"), (FOLDER, &*path)];
                    assert_ne!(guest.between(name, in_, out), SUCCESS, "{name} {path}");
                    let mine = (FOLDER, "mine");
                    assert_ne!(guest.between(name, out, mine), SUCCESS, "{name} {path}");
                }
                assert_ne!(guest.symlink("file", FOLDER, &path), SUCCESS, "{path}");
                check_outside(&host, &path);
            }
        }
    }
    // These may change the link itself, and never what it names.
    for end in ENDS {
        for (_, name) in LINKS {
            let host = self::host();
            let mut guest = host.guest();
            let path = format!("{name}{end}");
            for to in ["mine", "mine/", "folder/mine/"] {
                guest.between("path_rename", (FOLDER, &path), (FOLDER, to));
                guest.between("path_link", (FOLDER, &path), (FOLDER, to));
                check_outside(&host, &path);
                for lookup in [0, 1] {
                    let found = guest.open_at(FOLDER, lookup, to, (0, READ, 0));
                    assert!(found.is_err(), "{path} {to}");
                }
            }
            guest.between("path_rename", (FOLDER, "folder"), (FOLDER, &path));
            guest.between("path_rename", (FOLDER, "file"), (FOLDER, &path));
            for name in [
                "path_unlink_file",
                "path_remove_directory",
                "path_create_directory",
            ] {
                guest.at(name, FOLDER, &path);
            }
            check_outside(&host, &path);
        }
    }
}

#[test]
fn no_path_with_a_slash_at_its_end_leads_outside() {
    none_leads_outside();
}

#[test]
fn no_path_with_a_slash_at_its_end_leads_outside_without_openat2() {
    exited_with("slashes without openat2", 0);
}

/// In a child process: the kernel has no openat2(2).
pub(super) fn without_openat2() {
    refuse(SYS_openat2, None, ENOSYS);
    assert!(!has_openat2(Path::new("/")));
    none_leads_outside();
}
