//! A guest that only calls preview 1: the test calls each function by its name with its arguments.
#![allow(dead_code, reason = "each test uses a part of it")]

use super::errno::SUCCESS;
use crate::common::setup::prepared;
use pirn_runtime::{CallError, Instance, KillSwitch, Prepared, Value};
use pirn_testing::retry::with_longer_limits;
use pirn_wasi::memory_files::{BaseLimits, FileKind, Limits, MemoryBase, MemoryDir, OpenOptions};
use pirn_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// Every function, with the types of its parameters.
const FUNCTIONS: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// Prefix of exports that call a function from the guest's code, so that a stopped call has a
/// backtrace. The other exports are the host's functions.
pub(crate) const WAITS: &str = "waits ";
/// The functions with such exports.
const WAITING: [&str; 5] = [
    "fd_read",
    "fd_write",
    "poll_oneoff",
    "sock_recv",
    "sock_accept",
];

/// Descriptor of the guest's directory.
pub(crate) const FOLDER: i64 = 3;
/// Values of `oflags`.
pub(crate) const CREAT: i64 = 1;
pub(crate) const DIRECTORY: i64 = 2;
pub(crate) const EXCL: i64 = 4;
pub(crate) const TRUNC: i64 = 8;
/// Values of `rights`.
pub(crate) const READ: i64 = 2;
pub(crate) const WRITE: i64 = 64;
/// Values of `fdflags`.
pub(crate) const APPEND: i64 = 1;
pub(crate) const NONBLOCK: i64 = 4;
/// Values of `lookupflags`.
pub(crate) const FOLLOW: i64 = 1;

/// Address of results: every result of a constant size fits.
pub(crate) const OUT: i64 = 64;
/// Addresses of paths and of a vector.
const PATH: i64 = 4096;
const OTHER_PATH: i64 = 16_384;
const VECTOR: i64 = 512;
/// Address of the bytes that are read or written.
pub(crate) const BYTES: i64 = 40_000;

/// A guest with its directory.
pub(crate) struct Guest {
    instance: Instance<WasiCtx>,
}

fn module() -> &'static Prepared<WasiCtx> {
    static PREPARED: OnceLock<Prepared<WasiCtx>> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let mut text = String::from("(module ");
        for (name, widths) in FUNCTIONS {
            let types = widths
                .chars()
                .map(|c| if c == 'I' { " i64" } else { " i32" });
            let result = if *name == "proc_exit" {
                ""
            } else {
                "(result i32)"
            };
            let ty = format!("(param{}) {result}", types.collect::<String>());
            text += &format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} {ty}))");
        }
        for (name, widths) in FUNCTIONS {
            text += &format!("(export \"{name}\" (func ${name}))");
            assert!(widths.len() < 10);
            if WAITING.contains(name) {
                let params = " i32".repeat(widths.len());
                let gets = (0..widths.len()).map(|at| format!("(local.get {at})"));
                text += &format!(
                    "(func (export \"{WAITS}{name}\") (param{params}) (result i32) (call ${name} {}))",
                    gets.collect::<String>()
                );
            }
        }
        text += "(memory (export \"memory\") 4))";
        prepared(&text, 64)
    })
}

/// A folder for a guest, with a secret file beside the guest's directory.
///
/// In the suite `preview1_memory`, the first guest gets a copy of the directory in memory, and
/// later ones the same copy. From then on, the directory shows what the copy contains.
pub(crate) struct Host {
    folder: TempDir,
    memory: OnceLock<MemoryDir>,
}

/// Replaces what a directory of the host contains by a copy of a directory in memory.
fn export(from: &MemoryDir, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("room for a directory");
    let how = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    for entry in from.read_dir(0, usize::MAX).split_off(2) {
        let path = to.join(&entry.name);
        let opened = || from.open(&entry.name, &how).expect("it is there");
        match entry.kind {
            FileKind::Directory => export(&opened().into_dir().expect("a directory"), &path),
            FileKind::Symlink => {
                let target = from.read_link(&entry.name).expect("a link");
                symlink(target, &path).expect("room for a link");
            }
            FileKind::File => {
                let file = opened().into_file().expect("a file");
                let stat = file.stat();
                let mut bytes = vec![0; stat.size_bytes as usize];
                assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
                fs::write(&path, bytes).expect("room for a file");
                let times = fs::FileTimes::new().set_accessed(stat.accessed);
                let file = fs::File::options().write(true).open(&path);
                let set = file.and_then(|file| file.set_times(times.set_modified(stat.modified)));
                set.expect("the times are set");
            }
        }
    }
    let times = fs::FileTimes::new().set_modified(from.stat().modified);
    let set = fs::File::open(to).and_then(|file| file.set_times(times));
    set.expect("the times are set");
}

impl Host {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(folder.path().join("inside")).expect("room for a directory");
        fs::write(folder.path().join("secret"), "secret").expect("room for a file");
        let memory = OnceLock::new();
        Self { folder, memory }
    }

    /// A path in the guest's directory, or in a copy of it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let inside = self.folder.path().join("inside");
        if let Some(dir) = self.memory.get() {
            export(dir, &inside);
        }
        inside.join(name)
    }

    /// The folder that contains the guest's directory.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("room for a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it is there")
    }

    pub(crate) fn fifo(&self, name: &str) {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, self.path(name), FileType::Fifo, mode, 0).expect("room for a FIFO");
    }

    pub(crate) fn dir(&self) -> Dir {
        Dir::open_ambient_dir(self.path(""), ambient_authority()).expect("it is there")
    }

    /// A guest with all rights in its directory.
    pub(crate) fn guest(&self) -> Guest {
        self.guest_with(|wasi| wasi)
    }

    pub(crate) fn guest_with(&self, more: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder) -> Guest {
        let wasi = self.preopen(WasiCtxBuilder::new(), "/inside");
        Guest::new(more(wasi).build())
    }

    /// Gives a guest the directory.
    pub(crate) fn preopen(&self, wasi: WasiCtxBuilder, name: &str) -> WasiCtxBuilder {
        let wasi = match super::IN_MEMORY {
            true => wasi.memory_dir(self.memory().clone(), name),
            false => wasi.preopened_dir(self.dir(), name),
        };
        wasi.expect("a descriptor")
    }

    /// Gives a guest the directory, to read only.
    pub(crate) fn preopen_read_only(&self, wasi: WasiCtxBuilder, name: &str) -> WasiCtxBuilder {
        let wasi = match super::IN_MEMORY {
            true => wasi.memory_dir(self.memory().clone().read_only(), name),
            false => wasi.preopened_dir_read_only(self.dir(), name),
        };
        wasi.expect("a descriptor")
    }

    /// The copy of the directory in memory.
    fn memory(&self) -> &MemoryDir {
        self.memory.get_or_init(|| {
            let base = MemoryBase::from_dir(&self.dir(), &BaseLimits::default());
            MemoryDir::new(&base.expect("a base"), Limits::default())
        })
    }
}

impl Guest {
    pub(crate) fn new(wasi: WasiCtx) -> Self {
        let instance = module().instantiate(wasi).expect("a slot");
        Self { instance }
    }

    pub(crate) fn kill_switch(&mut self) -> KillSwitch {
        self.instance.kill_switch()
    }

    fn values(name: &str, arguments: &[i64]) -> Vec<Value> {
        let name = name.strip_prefix(WAITS).unwrap_or(name);
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let (_, widths) = found.expect("a function of preview 1");
        assert_eq!(widths.len(), arguments.len(), "{name}");
        let pairs = widths.chars().zip(arguments);
        pairs
            .map(|(width, argument)| match width {
                'I' => Value::I64(*argument),
                _ => Value::I32(*argument as i32),
            })
            .collect()
    }

    /// Calls a function; returns its errno.
    pub(crate) fn call(&mut self, name: &str, arguments: &[i64]) -> i32 {
        let result = self.try_call(name, arguments);
        result.unwrap_or_else(|error| panic!("{name}{arguments:?}: {error}"))
    }

    pub(crate) fn try_call(&mut self, name: &str, arguments: &[i64]) -> Result<i32, CallError> {
        let values = Self::values(name, arguments);
        let results = self.instance.call_values(name, &values)?;
        let [Value::I32(errno)] = results[..] else {
            panic!("{name} gives {results:?}");
        };
        Ok(errno)
    }

    /// Calls a function that must be ended by a deadline while it waits.
    pub(crate) fn late(&mut self, name: &str, arguments: &[i64]) -> CallError {
        let values = Self::values(name, arguments);
        let name = format!("{WAITS}{name}");
        with_longer_limits(Duration::from_millis(10), |limit| {
            let result = self.instance.deadline(limit).call_values(&name, &values);
            match result.expect_err("it waits for ever") {
                // The deadline passed before the guest ran.
                CallError::Deadline(stop) if stop.backtrace().is_empty() => None,
                error => Some(error),
            }
        })
    }

    pub(crate) fn put(&mut self, at: i64, bytes: &[u8]) {
        let written = self.instance.memory_mut().write(at as u32, bytes);
        written.expect("it is inside");
    }

    pub(crate) fn bytes(&self, at: i64, len: usize) -> Vec<u8> {
        let memory = self.instance.memory();
        memory
            .slice(at as u32, len as u32)
            .expect("it is inside")
            .to_vec()
    }

    pub(crate) fn u32(&self, at: i64) -> u32 {
        self.instance
            .memory()
            .read_u32(at as u32)
            .expect("it is inside")
    }

    pub(crate) fn u64(&self, at: i64) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    pub(crate) fn u16(&self, at: i64) -> u16 {
        self.u32(at & !3).to_le_bytes()[(at & 3) as usize..][..2]
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u16::from(*byte))
    }

    /// Writes a path to memory; returns its address and length.
    pub(crate) fn path(&mut self, path: impl AsRef<[u8]>) -> [i64; 2] {
        self.put(PATH, path.as_ref());
        [PATH, path.as_ref().len() as i64]
    }

    pub(crate) fn other_path(&mut self, path: impl AsRef<[u8]>) -> [i64; 2] {
        self.put(OTHER_PATH, path.as_ref());
        [OTHER_PATH, path.as_ref().len() as i64]
    }

    /// Calls a function that takes a directory and one path.
    pub(crate) fn at(&mut self, name: &str, fd: i64, path: impl AsRef<[u8]>) -> i32 {
        let [start, len] = self.path(path);
        self.call(name, &[fd, start, len])
    }

    /// Calls `path_rename` or `path_link` with two paths.
    pub(crate) fn between(&mut self, name: &str, from: (i64, &str), to: (i64, &str)) -> i32 {
        let [old, old_len] = self.path(from.1);
        let [new, new_len] = self.other_path(to.1);
        match name {
            "path_link" => self.call(name, &[from.0, 0, old, old_len, to.0, new, new_len]),
            _ => self.call(name, &[from.0, old, old_len, to.0, new, new_len]),
        }
    }

    pub(crate) fn symlink(&mut self, to: &str, fd: i64, path: &str) -> i32 {
        let [old, old_len] = self.path(to);
        let [new, new_len] = self.other_path(path);
        self.call("path_symlink", &[old, old_len, fd, new, new_len])
    }

    /// Opens a path, following a link at its end.
    pub(crate) fn open(
        &mut self,
        path: impl AsRef<[u8]>,
        how: i64,
        rights: i64,
        flags: i64,
    ) -> Result<i64, i32> {
        self.open_at(FOLDER, FOLLOW, path, (how, rights, flags))
    }

    pub(crate) fn open_at(
        &mut self,
        fd: i64,
        lookup: i64,
        path: impl AsRef<[u8]>,
        (how, rights, flags): (i64, i64, i64),
    ) -> Result<i64, i32> {
        let [start, len] = self.path(path);
        let arguments = [fd, lookup, start, len, how, rights, rights, flags, OUT];
        match self.call("path_open", &arguments) {
            SUCCESS => Ok(self.u32(OUT).into()),
            errno => Err(errno),
        }
    }

    fn vector(&mut self, len: usize) {
        let words = [BYTES as u32, len as u32].map(u32::to_le_bytes);
        self.put(VECTOR, words.as_flattened());
    }

    /// Reads, at an offset if there is one.
    pub(crate) fn read(&mut self, fd: i64, len: usize, at: Option<i64>) -> Result<Vec<u8>, i32> {
        self.vector(len);
        let errno = match at {
            Some(at) => self.call("fd_pread", &[fd, VECTOR, 1, at, OUT]),
            None => self.call("fd_read", &[fd, VECTOR, 1, OUT]),
        };
        match errno {
            SUCCESS => Ok(self.bytes(BYTES, self.u32(OUT) as usize)),
            errno => Err(errno),
        }
    }

    /// Writes, at an offset if there is one.
    pub(crate) fn write(&mut self, fd: i64, bytes: &[u8], at: Option<i64>) -> Result<usize, i32> {
        self.put(BYTES, bytes);
        self.vector(bytes.len());
        let errno = match at {
            Some(at) => self.call("fd_pwrite", &[fd, VECTOR, 1, at, OUT]),
            None => self.call("fd_write", &[fd, VECTOR, 1, OUT]),
        };
        match errno {
            SUCCESS => Ok(self.u32(OUT) as usize),
            errno => Err(errno),
        }
    }

    /// Arguments of a read or write with one vector of `len` bytes.
    pub(crate) fn io(&mut self, fd: i64, len: usize) -> [i64; 4] {
        self.vector(len);
        [fd, VECTOR, 1, OUT]
    }

    /// Writes subscriptions: to a descriptor for reading (1) or writing (2), or to a clock (0) with
    /// milliseconds. Each has its index as userdata. Returns the arguments of `poll_oneoff`.
    pub(crate) fn subscribe(&mut self, all: &[(u8, i64)]) -> [i64; 4] {
        const SUBSCRIPTIONS: i64 = 100_000;
        for (index, (tag, what)) in all.iter().enumerate() {
            let mut bytes = [0; 48];
            bytes[0] = index as u8;
            bytes[8] = *tag;
            if *tag == 0 {
                bytes[16] = 1;
                bytes[24..32].copy_from_slice(&(what * 1_000_000).to_le_bytes());
            } else {
                bytes[16..20].copy_from_slice(&(*what as u32).to_le_bytes());
            }
            self.put(SUBSCRIPTIONS + index as i64 * 48, &bytes);
        }
        [SUBSCRIPTIONS, 120_000, all.len() as i64, OUT]
    }

    /// Polls; returns userdata, errno, number of bytes and flags of each event.
    pub(crate) fn poll(&mut self, all: &[(u8, i64)]) -> Vec<(u64, u16, u64, u16)> {
        let arguments = self.subscribe(all);
        assert_eq!(self.call("poll_oneoff", &arguments), SUCCESS);
        let event = |index| {
            let at = arguments[1] + i64::from(index) * 32;
            (
                self.u64(at),
                self.u16(at + 8),
                self.u64(at + 16),
                self.u16(at + 24),
            )
        };
        (0..self.u32(OUT)).map(event).collect()
    }
}
