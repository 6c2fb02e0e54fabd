//! The records of preview 1 that describe files, and the flags of its functions.

use super::abi::{DIRENT_BYTES, FDSTAT, Layout, Version};
use crate::errno::Errno;
use crate::fdflags::FdFlags;
use crate::files::{Entry, FileKind, Metadata, NewTime, NewTimes};
use core::time::Duration;

/// The right to read a file.
const RIGHT_READ: u64 = 1 << 1;
/// The right to write a file.
const RIGHT_WRITE: u64 = 1 << 6;
/// All rights.
const RIGHTS: u64 = (1 << 30) - 1;

/// The rights that a directory reports for itself: all operations on paths, `fd_readdir`, and the
/// functions that return or set its metadata. A guest always has them.
const FOLDER_RIGHTS: u64 = {
    const PATH_AND_READDIR: core::ops::RangeInclusive<u32> = 9..=18;
    let mut rights = 0;
    let mut bit = *PATH_AND_READDIR.start();
    while bit <= *PATH_AND_READDIR.end() {
        rights |= 1 << bit;
        bit += 1;
    }
    // path_filestat_set_times, fd_filestat_get, fd_filestat_set_times, path_symlink,
    // path_remove_directory, path_unlink_file.
    rights | 1 << 20 | 1 << 21 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 26
};
/// The rights that a directory reports for files in it.
const FOLDER_INHERITED: u64 = {
    // fd_datasync, fd_read, fd_seek, fd_fdstat_set_flags, fd_sync, fd_tell, fd_write, fd_advise,
    // fd_allocate, fd_filestat_get, fd_filestat_set_size, fd_filestat_set_times, poll_fd_readwrite.
    let files = 0b1_1111_1111 | 1 << 21 | 1 << 22 | 1 << 23 | 1 << 27;
    FOLDER_RIGHTS | files
};

/// `filetype`
pub(super) fn filetype(kind: FileKind) -> u8 {
    match kind {
        FileKind::Unknown | FileKind::Fifo => 0,
        FileKind::BlockDevice => 1,
        FileKind::CharacterDevice => 2,
        FileKind::Directory => 3,
        FileKind::RegularFile => 4,
        FileKind::Socket => 6,
        FileKind::SymbolicLink => 7,
    }
}

/// `fdstat`
pub(super) fn fdstat(
    (kind, flags, (reads, writes)): (FileKind, FdFlags, (bool, bool)),
) -> [u8; FDSTAT.0 as usize] {
    let rights = match kind {
        FileKind::Directory => (FOLDER_RIGHTS, FOLDER_INHERITED),
        _ => {
            let right = |is_there: bool, right: u64| if is_there { right } else { 0 };
            (right(reads, RIGHT_READ) | right(writes, RIGHT_WRITE), 0)
        }
    };
    let mut bytes = [0; FDSTAT.0 as usize];
    bytes[0] = filetype(kind);
    bytes[2..4].copy_from_slice(&flags.bits().to_le_bytes());
    bytes[8..16].copy_from_slice(&rights.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&rights.1.to_le_bytes());
    bytes
}

/// Length and alignment of a `filestat`.
pub(super) fn filestat_layout(version: Version) -> Layout {
    match version {
        Version::Preview0 => (56, 8),
        Version::Preview1 => (64, 8),
    }
}

/// `filestat`. The guest sees a time before 1970 as 0.
pub(super) fn filestat(version: Version, found: &Metadata) -> ([u8; 64], usize) {
    let mut bytes = [0; 64];
    let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    put(0, found.device);
    put(8, found.inode);
    let sizes = match version {
        Version::Preview0 => {
            // The number of links has 32 bits, beside the type.
            put(
                16,
                u64::from(u32::try_from(found.links).unwrap_or(u32::MAX)) << 32,
            );
            24
        }
        Version::Preview1 => {
            put(24, found.links);
            32
        }
    };
    put(sizes, found.size);
    let times = [found.accessed, found.modified, found.changed];
    for (at, time) in (sizes + 8..).step_by(8).zip(times) {
        put(at, time.map_or(0, |time| time.as_nanos() as u64));
    }
    bytes[16] = filetype(found.kind);
    (bytes, filestat_layout(version).0 as usize)
}

/// `dirent`, without the name that follows it.
pub(super) fn dirent(entry: &Entry, cookie: u64) -> [u8; DIRENT_BYTES] {
    let mut bytes = [0; DIRENT_BYTES];
    bytes[..8].copy_from_slice(&cookie.to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.inode.to_le_bytes());
    bytes[16..20].copy_from_slice(&(entry.name.len() as u32).to_le_bytes());
    bytes[20] = filetype(entry.kind);
    bytes
}

/// `lookupflags`: whether a symbolic link at the end of a path is followed.
///
/// # Errors
///
/// `inval` for unknown flags.
pub(super) fn follows(flags: u32) -> Result<bool, Errno> {
    match flags {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Errno::INVAL),
    }
}

/// `rights`: whether they contain the rights to read and to write.
///
/// # Errors
///
/// `inval` for unknown rights.
pub(super) fn rights(base: u64, inheriting: u64) -> Result<(bool, bool), Errno> {
    match (base | inheriting) & !RIGHTS {
        0 => Ok((base & RIGHT_READ != 0, base & RIGHT_WRITE != 0)),
        _ => Err(Errno::INVAL),
    }
}

/// `fdflags`
///
/// # Errors
///
/// `inval` for unknown flags.
pub(super) fn fdflags(flags: u32) -> Result<FdFlags, Errno> {
    FdFlags::of(flags).ok_or(Errno::INVAL)
}

/// The times that a guest sets, with `fstflags`.
///
/// # Errors
///
/// `inval` for unknown flags, and for a time that is both given and the current time.
pub(super) fn new_times(accessed: u64, modified: u64, flags: u32) -> Result<NewTimes, Errno> {
    if flags > 15 {
        return Err(Errno::INVAL);
    }
    let time = |given: u64, flags: u32| match flags & 3 {
        0 => Ok(NewTime::NoChange),
        1 => Ok(NewTime::At(Duration::from_nanos(given))),
        2 => Ok(NewTime::Now),
        _ => Err(Errno::INVAL),
    };
    Ok(NewTimes {
        accessed: time(accessed, flags)?,
        modified: time(modified, flags >> 2)?,
    })
}
