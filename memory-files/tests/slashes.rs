//! Paths that end in a slash, `.` or `..`: the same answers as the kernel gives on a real
//! directory.

use crate::model::file_error;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use pirn_memory_files::{BaseLimits, FileError, Limits, MemoryBase, MemoryDir, OpenOptions};
use pirn_testing::campaign::sampled;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const ENDS: [&str; 6] = ["", "/", "//", "/.", "/./", "/.."];
/// A directory, an empty one, a file, links to them, a dangling link, a loop, links whose
/// targets end in a slash, and nothing.
const NAMES: [&str; 11] = [
    "dir",
    "empty",
    "file",
    "to-dir",
    "to-file",
    "dangling",
    "loop",
    "to-nothing-slash",
    "to-file-slash",
    "nothing",
    "dir/deeper",
];

fn make(root: &Path) {
    fs::create_dir_all(root.join("dir/deeper/deepest")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("file"), "contents").unwrap();
    symlink("dir", root.join("to-dir")).unwrap();
    symlink("file", root.join("to-file")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("nothing/", root.join("to-nothing-slash")).unwrap();
    symlink("file/", root.join("to-file-slash")).unwrap();
}

/// A real directory and its copy in memory.
struct Trees {
    folder: TempDir,
    copy: MemoryDir,
}

impl Trees {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let base = MemoryBase::from_dir(&dir, &BaseLimits::default()).unwrap();
        let copy = MemoryDir::new(&base, Limits::default());
        Self { folder, copy }
    }

    /// Runs an operation on both.
    fn compare(
        &self,
        what: &str,
        real: impl Fn(&Path) -> io::Result<()>,
        memory: impl Fn(&MemoryDir) -> Result<(), FileError>,
    ) {
        let expected =
            real(self.folder.path()).map_err(|found| file_error(&found).expect("a known error"));
        assert_eq!(memory(&self.copy), expected, "{what}");
    }
}

/// Runs an operation on a fresh real directory and a fresh copy in memory.
fn compare(
    what: &str,
    real: impl Fn(&Path) -> io::Result<()>,
    memory: impl Fn(&MemoryDir) -> Result<(), FileError>,
) {
    Trees::new().compare(what, real, memory);
}

#[test]
fn paths_that_end_in_a_slash_or_dots() {
    // For the operations that change nothing.
    let unchanged = Trees::new();
    for name in NAMES {
        for end in ENDS {
            let path = format!("{name}{end}");
            let at = |root: &Path| format!("{}/{path}", root.display());
            let how = OpenOptions {
                read: true,
                ..OpenOptions::default()
            };
            let new = OpenOptions {
                write: true,
                create: true,
                ..how
            };
            let opens = |dir: &MemoryDir, how| dir.open(&path, how).map(drop);
            unchanged.compare(
                &format!("open {path}"),
                |root| fs::File::open(at(root)).map(drop),
                |dir| opens(dir, &how),
            );
            compare(
                &format!("create {path}"),
                |root| {
                    let mut options = fs::OpenOptions::new();
                    options.write(true).create(true).open(at(root)).map(drop)
                },
                |dir| opens(dir, &new),
            );
            unchanged.compare(
                &format!("stat {path}"),
                |root| fs::metadata(at(root)).map(drop),
                |dir| dir.stat_path(&path, true).map(drop),
            );
            unchanged.compare(
                &format!("lstat {path}"),
                |root| fs::symlink_metadata(at(root)).map(drop),
                |dir| dir.stat_path(&path, false).map(drop),
            );
            unchanged.compare(
                &format!("readlink {path}"),
                |root| fs::read_link(at(root)).map(drop),
                |dir| dir.read_link(&path).map(drop),
            );
            compare(
                &format!("mkdir {path}"),
                |root| fs::create_dir(at(root)),
                |dir| dir.create_dir(&path),
            );
            compare(
                &format!("rmdir {path}"),
                |root| fs::remove_dir(at(root)),
                |dir| dir.remove_dir(&path),
            );
            compare(
                &format!("unlink {path}"),
                |root| fs::remove_file(at(root)),
                |dir| dir.unlink(&path),
            );
        }
    }
}

#[test]
fn renames_and_links_of_every_pair() {
    // By default each pair has one or two of the four kinds of ends, in turn.
    let pairs = NAMES.iter().flat_map(|from| NAMES.map(|to| (from, to)));
    for (number, (from, to)) in pairs.enumerate() {
        let ends = [("", ""), ("/", ""), ("", "/"), ("/", "/")];
        for (from_end, to_end) in sampled(ends, 3, number) {
            let (from, to) = (format!("{from}{from_end}"), format!("{to}{to_end}"));
            compare(
                &format!("rename {from} {to}"),
                |root| fs::rename(root.join(&from), root.join(&to)),
                |dir| dir.rename(&from, dir, &to),
            );
        }
    }
}
