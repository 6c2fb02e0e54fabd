//! What runs a call of preview 1: a guest with a memory. Calls are made of names and numbers, as a
//! guest makes them, and answers are text.

use super::calls::{Bytes, Call, Slot};
use crate::preview1::driver::Guest;
use pirn_wasi::Exit;
use rustix::fs::{FsWord, statfs};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a call ended the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// `proc_exit` with a code.
    Exited(u32),
    /// By an error that is no errno.
    Trapped,
    /// The library panicked.
    Panicked,
}

/// A guest, whose library is one of two.
pub(super) trait Machine {
    fn put(&mut self, at: i64, bytes: &[u8]);
    fn bytes(&self, at: i64, len: usize) -> Vec<u8>;
    fn call(&mut self, name: &str, arguments: &[i64]) -> Result<i32, Ended>;
}

impl Machine for Guest {
    fn put(&mut self, at: i64, bytes: &[u8]) {
        Self::put(self, at, bytes);
    }

    fn bytes(&self, at: i64, len: usize) -> Vec<u8> {
        Self::bytes(self, at, len)
    }

    fn call(&mut self, name: &str, arguments: &[i64]) -> Result<i32, Ended> {
        self.try_call(name, arguments)
            .map_err(|error| match Exit::of(&error) {
                Some(exit) => Ended::Exited(exit.code),
                None => Ended::Trapped,
            })
    }
}

/// The result of a call: its errno, or the end of the guest; and what the call wrote to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) errno: Result<i32, Ended>,
    pub(super) text: String,
}

/// Addresses in the guest's memory.
const OUT: i64 = 64;
const VECTORS: i64 = 512;
const PATH: i64 = 4096;
const OTHER_PATH: i64 = 16_384;
const BYTES: i64 = 40_000;
const SUBSCRIPTIONS: i64 = 100_000;
const EVENTS: i64 = 120_000;
const ENTRIES: i64 = 130_000;

/// A descriptor that does not exist.
const NONE: i64 = 9999;
/// A later time comes from the clock during the test. Such times differ between the two sides.
const LONG_AGO_NS: u64 = 1_000_000_000_000_000_000;
const DIRECTORY: u8 = 3;

/// The type of tmpfs in statfs(2).
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Names in the order of a directory, with the cookie after each.
type Positions = Vec<(String, u64)>;

/// A listing, with a sorted text for each entry.
type Listing = (Positions, Vec<String>);

/// A guest with its descriptors and the directory that it sees.
pub(super) struct Side<M> {
    machine: M,
    folder: PathBuf,
    /// The number of each open descriptor of the calls.
    numbers: BTreeMap<Slot, i64>,
    /// The last listing.
    listed: Positions,
    is_tmpfs: bool,
    /// Whether positions in directories no longer tell the place of an entry.
    is_disordered: bool,
}

/// Paths of each file of a directory, by its number.
fn names_by_inode(folder: &Path) -> BTreeMap<u64, Vec<String>> {
    fn add(all: &mut BTreeMap<u64, Vec<String>>, path: &Path, name: &str) -> std::io::Result<()> {
        let found = path.symlink_metadata()?;
        all.entry(found.ino()).or_default().push(name.to_owned());
        if found.is_dir() {
            for entry in path.read_dir()? {
                let entry = entry?.file_name();
                let entry = entry.to_str().expect("UTF-8");
                add(all, &path.join(entry), &format!("{name}/{entry}"))?;
            }
        }
        Ok(())
    }
    let mut all = BTreeMap::new();
    add(&mut all, folder, ".").expect("the tree can be read");
    for names in all.values_mut() {
        names.sort_unstable();
    }
    all
}

/// Groups of paths that are one file.
pub(super) fn hard_links(folder: &Path) -> Vec<Vec<String>> {
    let mut groups: Vec<_> = names_by_inode(folder).into_values().collect();
    groups.retain(|names| names.len() > 1);
    groups.sort_unstable();
    groups
}

fn time(ns: u64) -> String {
    match ns {
        LONG_AGO_NS.. => "now".to_owned(),
        _ => ns.to_string(),
    }
}

impl<M: Machine> Side<M> {
    pub(super) fn new(machine: M, folder: &Path) -> Self {
        let numbers = (0..4).map(|number| (number, number as i64));
        Self {
            machine,
            folder: folder.to_owned(),
            numbers: numbers.collect(),
            listed: vec![],
            is_tmpfs: statfs(folder).is_ok_and(|found| found.f_type == TMPFS_MAGIC),
            is_disordered: false,
        }
    }

    fn number(&self, slot: Slot) -> i64 {
        self.numbers.get(&slot).copied().unwrap_or(NONE)
    }

    fn u32(&self, at: i64) -> u32 {
        let bytes = self.machine.bytes(at, 4).try_into();
        u32::from_le_bytes(bytes.expect("four bytes"))
    }

    fn u64(&self, at: i64) -> u64 {
        let bytes = self.machine.bytes(at, 8).try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    }

    fn path(&mut self, path: &Bytes) -> [i64; 2] {
        self.machine.put(PATH, &path.0);
        [PATH, path.0.len() as i64]
    }

    fn other_path(&mut self, path: &Bytes) -> [i64; 2] {
        self.machine.put(OTHER_PATH, &path.0);
        [OTHER_PATH, path.0.len() as i64]
    }

    /// Writes vectors of buffers that follow each other; returns their address and number.
    fn vectors(&mut self, lens: &[u32]) -> [i64; 2] {
        let mut at = BYTES as u32;
        for (index, len) in (0..).zip(lens) {
            let words = [at, *len].map(u32::to_le_bytes);
            self.machine.put(VECTORS + index * 8, words.as_flattened());
            at += len;
        }
        [VECTORS, lens.len() as i64]
    }

    /// The status of a file. Its number is told by the names that it has in the directory.
    fn filestat(&self) -> String {
        let names = names_by_inode(&self.folder);
        let names = names.get(&self.u64(OUT + 8)).cloned().unwrap_or_default();
        let kind = self.machine.bytes(OUT + 16, 1)[0];
        let size = match kind {
            DIRECTORY => 0,
            _ => self.u64(OUT + 32),
        };
        let times = [40, 48].map(|at| time(self.u64(OUT + at)));
        let links = self.u64(OUT + 24);
        format!("kind {kind}, {links} links, {size} bytes, times {times:?}, {names:?}")
    }

    fn fdstat(&self) -> String {
        let [kind, _, low, high] = self.machine.bytes(OUT, 4)[..] else {
            unreachable!("four bytes are read")
        };
        let rights = [8, 16].map(|at| self.u64(OUT + at));
        format!(
            "kind {kind}, flags {}, rights {rights:x?}",
            u16::from_le_bytes([low, high])
        )
    }

    /// Reads the entries from a cookie on, in pieces of `len` bytes. The error is the errno, or the
    /// end of the guest.
    fn entries(
        &mut self,
        fd: i64,
        len: u32,
        mut cookie: u64,
    ) -> Result<Listing, Result<i32, Ended>> {
        let inodes = names_by_inode(&self.folder);
        let (mut names, mut texts) = (vec![], vec![]);
        loop {
            let arguments = [fd, ENTRIES, len.into(), cookie.cast_signed(), OUT];
            let errno = self.machine.call("fd_readdir", &arguments);
            if errno != Ok(0) {
                return Err(errno);
            }
            let used = i64::from(self.u32(OUT));
            let (mut at, end) = (ENTRIES, ENTRIES + used);
            let before = names.len();
            while at + 24 <= end {
                let name_len = i64::from(self.u32(at + 16));
                if at + 24 + name_len > end {
                    break;
                }
                let name = self.machine.bytes(at + 24, name_len as usize);
                let name = String::from_utf8(name).expect("UTF-8");
                cookie = self.u64(at);
                let kind = self.machine.bytes(at + 20, 1)[0];
                let paths = inodes.get(&self.u64(at + 8));
                let paths = match &*name {
                    "." | ".." => String::new(),
                    _ => format!("{paths:?}"),
                };
                texts.push(format!("{name} of kind {kind} {paths}"));
                names.push((name, cookie));
                at += 24 + name_len;
            }
            if used < i64::from(len) {
                texts.sort_unstable();
                return Ok((names, texts));
            }
            assert!(names.len() > before, "an entry fits");
            assert!(names.len() < 1000, "a listing ends");
        }
    }

    /// Lists a directory from a position of the last listing: that after the `nth` name of the
    /// alphabet. The text is empty if the entries that are still there follow, each once, and no
    /// entry from before the position.
    fn list_again(&mut self, fd: i64, nth: usize) -> Answer {
        let mut names: Vec<_> = self.listed.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        let mut answer = Answer {
            errno: Ok(0),
            text: String::new(),
        };
        let Some(name) = names.get(nth % names.len().max(1)) else {
            return answer;
        };
        let position = self.listed.iter().position(|(listed, _)| listed == name);
        let position = position.expect("it is listed");
        let both = self
            .entries(fd, 4096, self.listed[position].1)
            .and_then(|rest| Ok((rest.0, self.entries(fd, 4096, 0)?.0)));
        match both {
            Ok((rest, all)) => {
                let count = |all: &[(String, u64)], name: &str| {
                    all.iter().filter(|(found, _)| found == name).count()
                };
                for (index, (name, _)) in self.listed.iter().enumerate() {
                    let expected = match index > position {
                        true => count(&all, name),
                        false => 0,
                    };
                    let found = count(&rest, name);
                    if found != expected {
                        answer.text += &format!("{name} {found} times, not {expected}; ");
                    }
                }
            }
            Err(errno) => answer.errno = errno,
        }
        answer
    }

    /// Forgets the positions of names that a call may have made: such a name may be a new entry, in
    /// another place.
    ///
    /// On tmpfs, forgets all positions of sequences that rename: Linux moves an entry that replaces
    /// another to the front of its directory, but not its position. A listing from there repeats
    /// entries.
    fn forget(&mut self, call: &Call) {
        self.is_disordered |= self.is_tmpfs && matches!(call, Call::Rename { .. });
        if self.is_disordered {
            self.listed.clear();
        }
        let Some(made) = call.paths().pop().filter(|_| call.changes()) else {
            return;
        };
        let made = String::from_utf8_lossy(&made.0);
        let made = made.split('/').rfind(|part| !["", "."].contains(part));
        // The second is the target of a link.
        self.listed
            .retain(|(name, _)| Some(&**name) != made && name != "none");
    }

    /// Runs a call.
    pub(super) fn run(&mut self, call: &Call) -> Answer {
        let (name, arguments) = match self.arguments(call) {
            Ok(made) => made,
            Err(answer) => return answer,
        };
        let errno = self.machine.call(name, &arguments);
        self.forget(call);
        let text = match errno {
            Ok(0) => self.text(call),
            _ => String::new(),
        };
        Answer { errno, text }
    }

    /// The name and the arguments of a call; or the answer, if it takes more than one call.
    fn arguments(&mut self, call: &Call) -> Result<(&'static str, Vec<i64>), Answer> {
        Ok(match call {
            Call::Open {
                dir,
                lookup,
                path,
                how,
                rights,
                flags,
                ..
            } => {
                let [start, len] = self.path(path);
                let fd = self.number(*dir);
                let arguments = [fd, *lookup, start, len, *how, *rights, *rights, *flags, OUT];
                ("path_open", arguments.to_vec())
            }
            Call::Close(fd) => ("fd_close", vec![self.number(*fd)]),
            Call::Renumber(from, to) => ("fd_renumber", vec![self.number(*from), self.number(*to)]),
            Call::Read { fd, lens, at } => {
                let [vectors, count] = self.vectors(lens);
                self.machine.put(BYTES, &[b'.'; 100]);
                match at {
                    Some(at) => ("fd_pread", vec![self.number(*fd), vectors, count, *at, OUT]),
                    None => ("fd_read", vec![self.number(*fd), vectors, count, OUT]),
                }
            }
            Call::Write { fd, bytes, at } => {
                self.machine.put(BYTES, bytes.as_bytes());
                let half = bytes.len() as u32 / 2;
                let [vectors, count] = self.vectors(&[half, bytes.len() as u32 - half]);
                match at {
                    Some(at) => (
                        "fd_pwrite",
                        vec![self.number(*fd), vectors, count, *at, OUT],
                    ),
                    None => ("fd_write", vec![self.number(*fd), vectors, count, OUT]),
                }
            }
            Call::Seek { fd, offset, whence } => {
                ("fd_seek", vec![self.number(*fd), *offset, *whence, OUT])
            }
            Call::OfDescriptor { name, fd, more } => {
                let mut arguments = vec![self.number(*fd)];
                arguments.extend(more);
                if [
                    "fd_tell",
                    "fd_filestat_get",
                    "fd_fdstat_get",
                    "fd_prestat_get",
                ]
                .contains(name)
                {
                    arguments.push(OUT);
                }
                (name, arguments)
            }
            Call::PrestatName { fd, len } => {
                self.machine.put(BYTES, &[b'.'; 100]);
                ("fd_prestat_dir_name", vec![self.number(*fd), BYTES, *len])
            }
            Call::OfPath { name, dir, path } => {
                let [start, len] = self.path(path);
                (name, vec![self.number(*dir), start, len])
            }
            Call::Stat { dir, lookup, path } => {
                let [start, len] = self.path(path);
                let arguments = vec![self.number(*dir), *lookup, start, len, OUT];
                ("path_filestat_get", arguments)
            }
            Call::SetTimes {
                dir,
                lookup,
                path,
                times: [accessed, modified],
                flags,
            } => {
                let [start, len] = self.path(path);
                let fd = self.number(*dir);
                let arguments = vec![fd, *lookup, start, len, *accessed, *modified, *flags];
                ("path_filestat_set_times", arguments)
            }
            Call::Rename { from, to } => {
                let ([old, old_len], [new, new_len]) = (self.path(&from.1), self.other_path(&to.1));
                let (from, to) = (self.number(from.0), self.number(to.0));
                ("path_rename", vec![from, old, old_len, to, new, new_len])
            }
            Call::Link { lookup, from, to } => {
                let ([old, old_len], [new, new_len]) = (self.path(&from.1), self.other_path(&to.1));
                let (from, to) = (self.number(from.0), self.number(to.0));
                (
                    "path_link",
                    vec![from, *lookup, old, old_len, to, new, new_len],
                )
            }
            Call::Symlink { target, dir, path } => {
                let ([old, old_len], [new, new_len]) = (self.path(target), self.other_path(path));
                (
                    "path_symlink",
                    vec![old, old_len, self.number(*dir), new, new_len],
                )
            }
            Call::ReadLink { dir, path, len } => {
                let [start, path_len] = self.path(path);
                let fd = self.number(*dir);
                ("path_readlink", vec![fd, start, path_len, BYTES, *len, OUT])
            }
            Call::List { fd, len } => {
                let listed = self.entries(self.number(*fd), *len, 0);
                let (errno, text) = match listed {
                    Ok((names, texts)) => {
                        if !self.is_disordered {
                            self.listed = names;
                        }
                        (Ok(0), texts.join("; "))
                    }
                    Err(errno) => (errno, String::new()),
                };
                return Err(Answer { errno, text });
            }
            Call::ListAgain { fd, nth } => return Err(self.list_again(self.number(*fd), *nth)),
            Call::Poll(subscriptions) => {
                for (index, (tag, what)) in (0..).zip(subscriptions) {
                    let mut bytes = [0; 48];
                    bytes[0] = index as u8;
                    bytes[8] = *tag;
                    if *tag == 0 {
                        bytes[16] = 1;
                        bytes[24..32].copy_from_slice(&what.to_le_bytes());
                    } else {
                        let number = self.number(*what as Slot) as u32;
                        bytes[16..20].copy_from_slice(&number.to_le_bytes());
                    }
                    self.machine.put(SUBSCRIPTIONS + index * 48, &bytes);
                }
                let count = subscriptions.len() as i64;
                ("poll_oneoff", vec![SUBSCRIPTIONS, EVENTS, count, OUT])
            }
            Call::Process { name, arguments } => (name, arguments.clone()),
        })
    }

    /// What a successful call wrote to memory, and its effect on the descriptors.
    fn text(&mut self, call: &Call) -> String {
        match call {
            Call::Open { slot, .. } => {
                let number = i64::from(self.u32(OUT));
                self.numbers.insert(*slot, number);
                let errno = self.machine.call("fd_fdstat_get", &[number, OUT]);
                format!("{errno:?} {}", self.fdstat())
            }
            Call::Close(slot) => {
                self.numbers.remove(slot);
                String::new()
            }
            Call::Renumber(from, to) => {
                if from != to {
                    self.numbers.remove(from);
                }
                String::new()
            }
            Call::Read { .. } => {
                let bytes = self.machine.bytes(BYTES, 100);
                format!("{} {}", self.u32(OUT), String::from_utf8_lossy(&bytes))
            }
            Call::Write { fd, .. } => {
                let written = self.u32(OUT);
                let errno = self
                    .machine
                    .call("fd_filestat_get", &[self.number(*fd), OUT]);
                format!("{written}, {errno:?}, {} bytes", self.u64(OUT + 32))
            }
            Call::Seek { .. }
            | Call::OfDescriptor {
                name: "fd_tell", ..
            } => self.u64(OUT).to_string(),
            Call::Stat { .. }
            | Call::OfDescriptor {
                name: "fd_filestat_get",
                ..
            } => self.filestat(),
            Call::OfDescriptor {
                name: "fd_fdstat_get",
                ..
            } => self.fdstat(),
            Call::OfDescriptor {
                name: "fd_prestat_get",
                ..
            } => {
                format!("{} {}", self.u32(OUT) & 0xff, self.u32(OUT + 4))
            }
            Call::PrestatName { .. } => {
                String::from_utf8_lossy(&self.machine.bytes(BYTES, 100)).into_owned()
            }
            Call::ReadLink { .. } => {
                let bytes = self.machine.bytes(BYTES, self.u32(OUT) as usize);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Call::Poll(_) => {
                let event = |index| {
                    let at = EVENTS + i64::from(index) * 32;
                    let head = self.u32(at + 8);
                    let (errno, kind) = (head & 0xffff, head >> 16 & 0xff);
                    let flags = self.u32(at + 24) & 0xffff;
                    let (index, bytes) = (self.u64(at), self.u64(at + 16));
                    format!("{index}: errno {errno}, kind {kind}, {bytes} bytes, flags {flags}")
                };
                let mut events: Vec<_> = (0..self.u32(OUT)).map(event).collect();
                events.sort_unstable();
                events.join("; ")
            }
            _ => String::new(),
        }
    }
}
