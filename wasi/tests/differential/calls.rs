//! Random calls of preview 1.

use crate::preview1::driver::{READ, WRITE};
use core::fmt;
use pirn_testing::random::Random;

/// A descriptor of the calls: 0 to 3 are those that a guest has at first. Calls give a slot to each
/// descriptor that they open; each side has a number for it.
pub(super) type Slot = usize;

/// A path, which need not be UTF-8.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A path, with the directory that it is relative to.
pub(super) type At = (Slot, Bytes);

/// A call of a function of preview 1, or, for listings, several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Open {
        slot: Slot,
        dir: Slot,
        lookup: i64,
        path: Bytes,
        how: i64,
        rights: i64,
        flags: i64,
    },
    Close(Slot),
    Renumber(Slot, Slot),
    Read {
        fd: Slot,
        lens: Vec<u32>,
        at: Option<i64>,
    },
    Write {
        fd: Slot,
        bytes: String,
        at: Option<i64>,
    },
    Seek {
        fd: Slot,
        offset: i64,
        whence: i64,
    },
    /// A function of a descriptor and numbers.
    OfDescriptor {
        name: &'static str,
        fd: Slot,
        more: Vec<i64>,
    },
    PrestatName {
        fd: Slot,
        len: i64,
    },
    /// A function of one path.
    OfPath {
        name: &'static str,
        dir: Slot,
        path: Bytes,
    },
    Stat {
        dir: Slot,
        lookup: i64,
        path: Bytes,
    },
    SetTimes {
        dir: Slot,
        lookup: i64,
        path: Bytes,
        times: [i64; 2],
        flags: i64,
    },
    Rename {
        from: At,
        to: At,
    },
    Link {
        lookup: i64,
        from: At,
        to: At,
    },
    Symlink {
        target: Bytes,
        dir: Slot,
        path: Bytes,
    },
    ReadLink {
        dir: Slot,
        path: Bytes,
        len: i64,
    },
    /// Lists a directory in pieces of `len` bytes.
    List {
        fd: Slot,
        len: u32,
    },
    /// Lists a directory from a position that the last listing gave.
    ListAgain {
        fd: Slot,
        nth: usize,
    },
    /// Subscriptions: a clock (0) with nanoseconds, or a slot to read (1) or write (2).
    Poll(Vec<(u8, u64)>),
    /// A function without descriptors and paths.
    Process {
        name: &'static str,
        arguments: Vec<i64>,
    },
}

impl Call {
    /// Whether the call may change files or descriptors, also if it fails on one side only.
    pub(super) fn changes(&self) -> bool {
        !matches!(
            self,
            Self::PrestatName { .. }
                | Self::Stat { .. }
                | Self::ReadLink { .. }
                | Self::List { .. }
                | Self::ListAgain { .. }
                | Self::Poll(_)
                | Self::Process { .. }
        )
    }

    /// The paths of the call, without the target of a symbolic link.
    pub(super) fn paths(&self) -> Vec<&Bytes> {
        match self {
            Self::Rename { from, to } | Self::Link { from, to, .. } => vec![&from.1, &to.1],
            Self::Open { path, .. }
            | Self::OfPath { path, .. }
            | Self::Stat { path, .. }
            | Self::SetTimes { path, .. }
            | Self::Symlink { path, .. }
            | Self::ReadLink { path, .. } => vec![path],
            _ => vec![],
        }
    }
}

/// Rights to read and write.
pub(super) const BOTH: i64 = READ | WRITE;

/// Opens a path of the guest's directory as the first descriptor, slot 4.
pub(super) fn open(path: &str, how: i64, rights: i64, flags: i64) -> Call {
    Call::Open {
        slot: 4,
        dir: 3,
        lookup: 1,
        path: Bytes(path.into()),
        how,
        rights,
        flags,
    }
}

/// Opens a path to read, without following a link at its end.
pub(super) fn open_last(path: &str, how: i64) -> Call {
    Call::Open {
        slot: 4,
        dir: 3,
        lookup: 0,
        path: Bytes(path.into()),
        how,
        rights: READ,
        flags: 0,
    }
}

pub(super) fn link(from: &str, to: &str) -> Call {
    Call::Link {
        lookup: 0,
        from: (3, Bytes(from.into())),
        to: (3, Bytes(to.into())),
    }
}

pub(super) fn read(fd: Slot, lens: &[u32], at: Option<i64>) -> Call {
    Call::Read {
        fd,
        lens: lens.to_vec(),
        at,
    }
}

pub(super) fn write(fd: Slot, bytes: &str, at: Option<i64>) -> Call {
    Call::Write {
        fd,
        bytes: bytes.to_owned(),
        at,
    }
}

pub(super) fn seek(fd: Slot, offset: i64, whence: i64) -> Call {
    Call::Seek { fd, offset, whence }
}

pub(super) fn of_path(name: &'static str, path: &str) -> Call {
    Call::OfPath {
        name,
        dir: 3,
        path: Bytes(path.into()),
    }
}

pub(super) fn process(name: &'static str, arguments: &[i64]) -> Call {
    Call::Process {
        name,
        arguments: arguments.to_vec(),
    }
}

/// Names in the tree that a sequence begins with, and some more.
const NAMES: [&str; 14] = [
    "a", "b", "c", "d", "d/a", "d/b", "e", "e/c", "to-a", "to-d", "to-d/a", "to-none", "loop", "f",
];

/// Paths that lead outside, or are no names.
const STRANGE: [&[u8]; 14] = [
    b"",
    b".",
    b"..",
    b"/",
    b"/a",
    b"../x",
    b"d/../../x",
    b"up",
    b"up/x",
    b"root",
    b"a\0b",
    b"\xff",
    b"./a",
    b"d/../a",
];

/// One hour, which no test waits for.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Makes calls at random.
pub(super) struct Maker {
    random: Random,
    next: Slot,
    files: Vec<Slot>,
    dirs: Vec<Slot>,
    /// The directory of the last listing.
    listed: Slot,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            next: 4,
            files: vec![],
            dirs: vec![3],
            listed: 3,
        }
    }

    /// Notes what an opened descriptor is.
    pub(super) fn opened(&mut self, slot: Slot, is_dir: bool) {
        match is_dir {
            true => self.dirs.push(slot),
            false => self.files.push(slot),
        }
    }

    /// Notes that a descriptor is gone.
    pub(super) fn closed(&mut self, slot: Slot) {
        self.files.retain(|file| *file != slot);
        self.dirs.retain(|dir| *dir != slot);
    }

    /// Notes that a descriptor has the number of another.
    pub(super) fn renumbered(&mut self, from: Slot, to: Slot) {
        let is_dir = self.dirs.contains(&from);
        self.closed(from);
        self.closed(to);
        self.opened(to, is_dir);
    }

    /// Whether a thing happens that happens once in `n` times.
    fn one_of(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize].clone()
    }

    /// Any descriptor, open or not.
    fn any(&mut self) -> Slot {
        self.random.below(self.next as u64 + 2) as Slot
    }

    fn file(&mut self) -> Slot {
        if self.files.is_empty() || self.one_of(20) {
            return self.any();
        }
        let files = self.files.clone();
        self.pick(&files)
    }

    fn dir(&mut self) -> Slot {
        if self.dirs.is_empty() || self.one_of(40) {
            return self.any();
        }
        match self.one_of(3) {
            true => {
                let dirs = self.dirs.clone();
                self.pick(&dirs)
            }
            false => 3,
        }
    }

    fn path(&mut self) -> Bytes {
        if self.one_of(25) {
            return Bytes(self.pick(&STRANGE).to_vec());
        }
        let name = self.pick(&NAMES);
        let path = match self.random.below(60) {
            0 => format!("{name}/"),
            1 => format!("{name}/."),
            2 => format!("{name}/.."),
            3 => format!("{name}//"),
            4 => format!("./{name}"),
            5 => format!("d/../{name}"),
            6 => format!("{name}/{}", "x".repeat(256)),
            _ => name.to_owned(),
        };
        Bytes(path.into_bytes())
    }

    fn at(&mut self) -> At {
        (self.dir(), self.path())
    }

    fn lookup(&mut self) -> i64 {
        match self.random.below(50) {
            0 => 2,
            n => (n % 2) as i64,
        }
    }

    fn offset(&mut self) -> i64 {
        let near = self.random.below(20) as i64;
        self.pick(&[0, near, near, near, 5000, -1, -3, i64::MAX, i64::MIN])
    }

    /// Flags of which each of the first `bits` is set once in `rarely` times; or an unknown one.
    fn flags(&mut self, bits: i64, rarely: u64) -> i64 {
        if self.one_of(100) {
            return 1 << bits;
        }
        (0..bits)
            .filter(|_| self.one_of(rarely))
            .map(|bit| 1 << bit)
            .sum()
    }

    fn times(&mut self) -> ([i64; 2], i64) {
        let mut time = || self.pick(&[0, 1, 999_999_999, 1_000_000_000, 123_456_789_012_345_678]);
        ([time(), time()], self.flags(4, 3))
    }

    fn open(&mut self) -> Call {
        self.next += 1;
        let other = 1 << self.random.below(30);
        Call::Open {
            slot: self.next - 1,
            dir: self.dir(),
            lookup: self.lookup(),
            path: self.path(),
            how: match self.random.below(8) {
                0 => 0,
                1..6 => 1,
                _ => self.flags(4, 5),
            },
            rights: self.pick(&[READ, WRITE, BOTH, BOTH, BOTH, BOTH, 0, other]),
            // Synchronous files, which wasi-common does not open, are rare.
            flags: match self.random.below(40) {
                0 => self.flags(5, 3),
                1..12 => self.flags(5, 3) & (1 | 4),
                _ => 0,
            },
        }
    }

    fn of_descriptor(&mut self) -> Call {
        let (name, more): (_, Vec<i64>) = match self.random.below(18) {
            0 => (
                "fd_advise",
                vec![self.offset(), self.offset(), self.random.below(7) as i64],
            ),
            1 => ("fd_allocate", vec![self.offset(), self.offset()]),
            // Waits for the disk, so is rare.
            2 if self.one_of(20) => ("fd_datasync", vec![]),
            3 if self.one_of(20) => ("fd_sync", vec![]),
            2..7 => ("fd_fdstat_get", vec![]),
            7 => ("fd_fdstat_set_flags", vec![self.flags(5, 6)]),
            8 => ("fd_fdstat_set_flags", vec![self.random.below(2) as i64 * 4]),
            9 => (
                "fd_fdstat_set_rights",
                vec![self.flags(29, 3), self.flags(29, 3)],
            ),
            10 => {
                let size = self.random.below(30) as i64;
                (
                    "fd_filestat_set_size",
                    vec![self.pick(&[size, size, 5000, -1, i64::MAX])],
                )
            }
            11 => {
                let ([accessed, modified], flags) = self.times();
                ("fd_filestat_set_times", vec![accessed, modified, flags])
            }
            12 => ("fd_prestat_get", vec![]),
            13..15 => ("fd_tell", vec![]),
            _ => ("fd_filestat_get", vec![]),
        };
        let fd = match self.one_of(5) {
            true => self.dir(),
            false => self.file(),
        };
        Call::OfDescriptor { name, fd, more }
    }

    fn of_path(&mut self) -> Call {
        let name = match self.random.below(5) {
            0..2 => "path_create_directory",
            2 => "path_remove_directory",
            _ => "path_unlink_file",
        };
        let (dir, path) = self.at();
        Call::OfPath { name, dir, path }
    }

    fn poll(&mut self) -> Call {
        // With a descriptor that is ready, a clock must be far away: whether it has expired, too,
        // would depend on the time.
        let clock = self.pick(&[0, 0, 1, HOUR_NS]);
        Call::Poll(match self.random.below(12) {
            0 => vec![(0, 0)],
            1 => vec![(0, clock), (0, 0)],
            2 => vec![],
            3 => vec![(2, self.any() as u64), (0, HOUR_NS)],
            4 => vec![(1, 1), (2, self.file() as u64)],
            _ => {
                let file = (1 + self.random.below(2) as u8, self.file() as u64);
                let other = (1 + self.random.below(2) as u8, self.file() as u64);
                self.pick(&[vec![file], vec![file, other], vec![file, (0, HOUR_NS)]])
            }
        })
    }

    fn process(&mut self) -> Call {
        let out = 64;
        let (name, arguments) = match self.random.below(12) {
            0 if self.one_of(3) => ("proc_exit", vec![self.pick(&[0, 1, 125, 126, 255, -1])]),
            1 => ("proc_raise", vec![self.random.below(33) as i64]),
            2 => ("sched_yield", vec![]),
            3 => ("random_get", vec![40_000, self.random.below(100) as i64]),
            4..6 => ("clock_res_get", vec![self.random.below(6) as i64, out]),
            6..8 => ("clock_time_get", vec![self.random.below(6) as i64, 0, out]),
            8 => ("sock_accept", vec![self.random.below(5) as i64, 0, out]),
            9 => (
                "sock_shutdown",
                vec![self.random.below(5) as i64, self.random.below(5) as i64],
            ),
            10 => (
                "sock_recv",
                vec![self.random.below(5) as i64, 512, 0, 0, out, out + 8],
            ),
            _ => (
                "sock_send",
                vec![self.random.below(5) as i64, 512, 0, 0, out],
            ),
        };
        Call::Process { name, arguments }
    }

    /// The next call.
    pub(super) fn call(&mut self) -> Call {
        match self.random.below(100) {
            0..20 => self.open(),
            20..63 if self.files.is_empty() && !self.one_of(8) => self.open(),
            20..24 => Call::Close(self.file()),
            // Without the guest's directory, little follows.
            24 => match self.dir() {
                3 if !self.one_of(30) => self.open(),
                dir => Call::Close(dir),
            },
            25..27 => Call::Renumber(self.file(), self.file()),
            27..34 => {
                let len = self.random.below(30) as u32;
                Call::Read {
                    fd: self.file(),
                    lens: match self.random.below(20) {
                        0 => vec![2, len],
                        1 => vec![0, len],
                        2 => vec![],
                        _ => vec![len],
                    },
                    at: self.one_of(2).then(|| self.offset()),
                }
            }
            34..45 => {
                let bytes = "abcdefghijklmnopqrstuvwxyz";
                let len = self.random.below(1 + bytes.len() as u64) as usize;
                Call::Write {
                    fd: self.file(),
                    bytes: bytes[..len].to_owned(),
                    at: self.one_of(3).then(|| self.offset()),
                }
            }
            45..50 => Call::Seek {
                fd: self.file(),
                offset: self.offset(),
                whence: self.pick(&[0, 1, 2, 0, 1, 2, 3]),
            },
            50..63 => self.of_descriptor(),
            63 => Call::PrestatName {
                fd: self.pick(&[3, 3, 3, 0, 4]),
                len: self.pick(&[0, 3, 6, 7, 90]),
            },
            64..70 => self.of_path(),
            70..74 => {
                let (dir, path) = self.at();
                Call::Stat {
                    dir,
                    lookup: self.lookup(),
                    path,
                }
            }
            74..77 => {
                let ((dir, path), (times, flags)) = (self.at(), self.times());
                Call::SetTimes {
                    dir,
                    lookup: self.lookup(),
                    path,
                    times,
                    flags,
                }
            }
            77..82 => Call::Rename {
                from: self.at(),
                to: self.at(),
            },
            82..85 => Call::Link {
                lookup: match self.one_of(10) {
                    true => self.lookup(),
                    false => 0,
                },
                from: self.at(),
                to: self.at(),
            },
            85..88 => {
                let (dir, path) = self.at();
                Call::Symlink {
                    target: self.path(),
                    dir,
                    path,
                }
            }
            88..90 => {
                let (dir, path) = self.at();
                Call::ReadLink {
                    dir,
                    path,
                    len: self.pick(&[0, 1, 100]),
                }
            }
            90..93 => {
                self.listed = self.dir();
                Call::List {
                    fd: self.listed,
                    len: self.pick(&[40, 100, 4096]),
                }
            }
            93..95 => Call::ListAgain {
                fd: self.listed,
                nth: self.random.below(20) as usize,
            },
            95..98 => self.poll(),
            _ => self.process(),
        }
    }
}
