//! Paths of preview 1 against Linux: each call of `pirn_testing::paths`, over a directory of the
//! host and over a directory in memory.

use crate::preview1::driver::{
    APPEND, CREAT, DIRECTORY, EXCL, FOLDER, Guest, OUT, READ, TRUNC, WRITE,
};
use crate::preview1::errno::SUCCESS;
use pirn_testing::paths::{
    Access, Answer, Call, Files, How, INTENDED, MEMORY_FILES_HAVE_NO_MODE, TOUCHED_S, Tree, calls,
    compare, entry, make, of_directory, of_preview1,
};
use pirn_testing::process::{ENOSYS, SYS_openat2, exited_with, refuse};
use pirn_wasi::memory_files::{BaseLimits, FileKind, Limits, MemoryBase, OpenOptions};
use pirn_wasi::{Dir, MemoryDir, WasiCtxBuilder, ambient_authority};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Types of files in preview 1.
const IS_DIRECTORY: u8 = 3;
const IS_LINK: u8 = 7;
/// Address of the target of a link.
const TARGET: i64 = 1000;
/// Sets both times to given times.
const BOTH_TIMES: i64 = 1 | 4;

/// A guest whose directory is `folder`, or a copy of it in memory.
struct Preview1 {
    folder: PathBuf,
    memory: Option<MemoryDir>,
    is_in_memory: bool,
    guest: Option<Guest>,
}

impl Preview1 {
    fn new(folder: &Path, is_in_memory: bool) -> Self {
        Self {
            folder: folder.join("preview1"),
            memory: None,
            is_in_memory,
            guest: None,
        }
    }

    /// The status at [`OUT`].
    fn stat(guest: &Guest) -> String {
        let [kind] = guest.bytes(OUT + 16, 1)[..] else {
            unreachable!("one byte is read")
        };
        let (links, size) = (guest.u64(OUT + 24), guest.u64(OUT + 32));
        match kind {
            IS_DIRECTORY => "directory".to_owned(),
            IS_LINK => format!("link of {size} bytes"),
            _ => format!("file of {size} bytes, {links} links"),
        }
    }

    fn open(guest: &mut Guest, how: How, path: &str) -> Result<String, i32> {
        let sum = |all: &[(bool, i64)]| {
            all.iter()
                .map(|(is_set, flag)| i64::from(*is_set) * flag)
                .sum()
        };
        let flags = sum(&[
            (how.creates, CREAT),
            (how.is_exclusive, EXCL),
            (how.truncates, TRUNC),
            (how.is_directory, DIRECTORY),
        ]);
        let rights = match how.access {
            Access::Read => READ,
            Access::Write => WRITE,
            Access::Both => READ | WRITE,
        };
        let appends = sum(&[(how.appends, APPEND)]);
        let fd = guest.open_at(FOLDER, how.follows.into(), path, (flags, rights, appends))?;
        assert_eq!(guest.call("fd_filestat_get", &[fd, OUT]), SUCCESS);
        let mut found = Self::stat(guest);
        if found.starts_with("file") {
            if how.access.reads() {
                let bytes = guest.read(fd, 16, Some(0))?;
                found += &String::from_utf8_lossy(&bytes);
            }
            if how.access.writes() {
                assert_eq!(guest.write(fd, b"+", None)?, 1);
            }
        }
        assert_eq!(guest.call("fd_close", &[fd]), SUCCESS);
        Ok(found)
    }

    fn answer(&mut self, call: &Call) -> Result<String, i32> {
        let guest = self.guest.as_mut().expect("there is a guest");
        let done = |errno| match errno {
            SUCCESS => Ok(String::new()),
            errno => Err(errno),
        };
        match call {
            Call::Open { how, path } => Self::open(guest, *how, path),
            Call::CreateDirectory(path) => done(guest.at("path_create_directory", FOLDER, path)),
            Call::RemoveDirectory(path) => done(guest.at("path_remove_directory", FOLDER, path)),
            Call::Unlink(path) => done(guest.at("path_unlink_file", FOLDER, path)),
            Call::Rename(from, to) => {
                done(guest.between("path_rename", (FOLDER, from), (FOLDER, to)))
            }
            Call::Link { follow, from, to } => {
                let ([old, old_len], [new, new_len]) = (guest.path(from), guest.other_path(to));
                let follow = i64::from(*follow);
                let arguments = [FOLDER, follow, old, old_len, FOLDER, new, new_len];
                done(guest.call("path_link", &arguments))?;
                done(guest.call("path_filestat_get", &[FOLDER, 0, new, new_len, OUT]))?;
                Ok(Self::stat(guest))
            }
            Call::Symlink { target, path } => done(guest.symlink(target, FOLDER, path)),
            Call::ReadLink(path) => {
                let [start, len] = guest.path(path);
                let arguments = [FOLDER, start, len, TARGET, 100, OUT];
                done(guest.call("path_readlink", &arguments))?;
                let target = guest.bytes(TARGET, guest.u32(OUT) as usize);
                Ok(String::from_utf8(target).expect("UTF-8"))
            }
            Call::Stat { follow, path } => {
                let [start, len] = guest.path(path);
                let arguments = [FOLDER, i64::from(*follow), start, len, OUT];
                done(guest.call("path_filestat_get", &arguments))?;
                Ok(Self::stat(guest))
            }
            Call::SetTimes { follow, path } => {
                let [start, len] = guest.path(path);
                let time_ns = TOUCHED_S.cast_signed() * 1_000_000_000;
                let follow = i64::from(*follow);
                let arguments = [FOLDER, follow, start, len, time_ns, time_ns, BOTH_TIMES];
                done(guest.call("path_filestat_set_times", &arguments))
            }
        }
    }
}

impl Files for Preview1 {
    fn renew(&mut self) {
        self.guest = None;
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir(&self.folder).expect("room for a directory");
        make(&self.folder);
        let dir = Dir::open_ambient_dir(&self.folder, ambient_authority()).expect("it is there");
        let wasi = WasiCtxBuilder::new();
        let wasi = if self.is_in_memory {
            let base = MemoryBase::from_dir(&dir, &BaseLimits::default()).expect("it is small");
            let memory = MemoryDir::new(&base, Limits::default());
            self.memory = Some(memory.clone());
            wasi.memory_dir(memory, "/")
        } else {
            wasi.preopened_dir(dir, "/")
        };
        self.guest = Some(Guest::new(wasi.expect("a descriptor").build()));
    }

    fn call(&mut self, call: &Call) -> Answer {
        self.answer(call).map_err(of_preview1)
    }

    fn tree(&mut self) -> Tree {
        match &self.memory {
            Some(dir) => of_memory(dir),
            None => of_directory(&self.folder),
        }
    }
}

/// What a directory in memory contains.
fn of_memory(root: &MemoryDir) -> Tree {
    fn add(tree: &mut Tree, root: &MemoryDir, path: &str) {
        let how = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let opened = || root.open(path, &how).expect("it is there");
        let found = root.stat_path(path, false).expect("it is there");
        let kind = match found.kind {
            FileKind::Directory => {
                let dir = opened().into_dir().expect("a directory");
                for below in dir.read_dir(0, usize::MAX).split_off(2) {
                    let below = match path {
                        "." => below.name,
                        _ => format!("{path}/{}", below.name),
                    };
                    add(tree, root, &below);
                }
                "directory".to_owned()
            }
            FileKind::Symlink => format!("link to {}", root.read_link(path).expect("a link")),
            FileKind::File => {
                let mut bytes = vec![0; found.size_bytes as usize];
                let file = opened().into_file().expect("a file");
                assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
                format!("file {:?}", String::from_utf8(bytes).expect("UTF-8"))
            }
        };
        let modified = found
            .modified
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let entry = entry(&kind, MEMORY_FILES_HAVE_NO_MODE, modified.as_secs());
        tree.insert(path.to_owned(), entry);
    }
    let mut tree = Tree::new();
    add(&mut tree, root, ".");
    tree
}

fn check(is_in_memory: bool) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut files = Preview1::new(folder.path(), is_in_memory);
    compare(folder.path(), &mut files, calls(), &INTENDED);
}

#[test]
fn directories_of_the_host_answer_as_linux() {
    check(false);
}

#[test]
fn directories_of_the_host_answer_as_linux_without_openat2() {
    exited_with("without openat2", 0);
}

/// Not a test: a child process runs this function. The kernel has no openat2(2).
#[test]
#[ignore = "run by another test, in a process of its own"]
fn case() {
    assert_eq!(pirn_testing::process::case(), "without openat2");
    refuse(SYS_openat2, None, ENOSYS);
    check(false);
}

#[test]
fn directories_in_memory_answer_as_linux() {
    check(true);
}
