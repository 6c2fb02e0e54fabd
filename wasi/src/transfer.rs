//! Reads and writes of files in memory: bytes move between the guest's memory and the file, without
//! a buffer and without wasi-common.
//!
//! A call that this file does not handle goes through [`buffers`](crate::buffers), with the same
//! result: a descriptor of another kind, more than [`VECTORS_MAX`] vectors, an invalid pointer.

use crate::buffers::{CALL_BYTES_MAX, Places, parts};
use crate::guest::{Bytes, ContextOf, split};
use crate::memory_dir::{check_offset, errno};
use crate::open_files::OpenFile;
use crate::scratch::PIECE_BYTES;
use pirn_memory_files::FileError;
use pirn_runtime::{Caller, HostError, Trap};
use std::sync::Arc;
use wasi_common::file::FileAccessMode;

/// Most vectors of a call that this file handles.
const VECTORS_MAX: usize = 16;

/// The checked vectors of a call. A vector is an address and a length.
struct Vectors {
    all: [(u32, u32); VECTORS_MAX],
    count: usize,
    /// Index of the next vector, and the number of its bytes that were moved.
    next: usize,
    used: u32,
    bytes: u64,
}

/// The reason for which the transfer of a piece ended early.
enum Failed {
    File(FileError),
    Guest(Trap),
}

impl From<FileError> for Failed {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl Vectors {
    /// Copies the vectors of a call. `None` if a pointer is invalid or there are more than
    /// [`VECTORS_MAX`] vectors.
    fn copy(memory: &Bytes<'_>, places: Places) -> Option<Self> {
        let (array, count) = (places.vectors.cast_unsigned(), places.count as usize);
        let moved = places.moved.cast_unsigned();
        if count > VECTORS_MAX || !(array | moved).is_multiple_of(4) {
            return None;
        }
        memory.check(moved, 4, 4).ok()?;
        let mut copied = [0; VECTORS_MAX * 8];
        memory.read(array, &mut copied[..count * 8]).ok()?;
        let (mut all, mut bytes) = ([(0, 0); VECTORS_MAX], 0);
        for (vector, copy) in all.iter_mut().zip(copied.as_chunks().0).take(count) {
            let (start, len) = parts(copy);
            memory.check(start, len.into(), 1).ok()?;
            *vector = (start, len);
            bytes += u64::from(len);
        }
        Some(Self {
            all,
            count,
            next: 0,
            used: 0,
            bytes: bytes.min(CALL_BYTES_MAX.into()),
        })
    }

    /// Takes the next part of a vector, at most `len` bytes. Returns its address and length.
    fn take(&mut self, len: usize) -> (u32, usize) {
        while self.next < self.count {
            let (start, whole) = self.all[self.next];
            let some = ((whole - self.used) as usize).min(len);
            if some > 0 {
                let at = start + self.used;
                self.used += some as u32;
                return (at, some);
            }
            (self.next, self.used) = (self.next + 1, 0);
        }
        (0, 0)
    }

    /// Copies bytes to the next parts of the vectors.
    fn give(&mut self, memory: &mut Bytes<'_>, mut bytes: &[u8]) -> Result<(), Failed> {
        while !bytes.is_empty() {
            let (at, len) = self.take(bytes.len());
            let (some, rest) = bytes.split_at(len);
            memory.write(at, some).map_err(Failed::Guest)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Copies bytes from the next parts of the vectors.
    fn fill(&mut self, memory: &Bytes<'_>, mut room: &mut [u8]) -> Result<(), Failed> {
        while !room.is_empty() {
            let (at, len) = self.take(room.len());
            let (some, rest) = room.split_at_mut(len);
            memory.read(at, some).map_err(Failed::Guest)?;
            room = rest;
        }
        Ok(())
    }
}

/// The open file of a descriptor; `None` if the file is not in memory, or the guest's rights do not
/// include `access`.
fn open_file<T>(
    caller: &mut Caller<'_, T>,
    ctx: ContextOf<T>,
    fd: i32,
    access: FileAccessMode,
) -> Option<Arc<OpenFile>> {
    let ctx = ctx(caller.data_mut());
    let open = ctx.files()?.get(fd.cast_unsigned())?;
    open.access.contains(access).then_some(open)
}

/// Reads from a file in memory, at an offset or at the descriptor's position. Returns the errno;
/// `None` if the call must go through [`buffers`](crate::buffers).
///
/// # Errors
///
/// The trap for a page that the kernel refuses.
pub(crate) fn read<T>(
    caller: &mut Caller<'_, T>,
    ctx: ContextOf<T>,
    (fd, offset): (i32, Option<i64>),
    places: Places,
) -> Result<Option<i32>, HostError> {
    let Some(open) = open_file(caller, ctx, fd, FileAccessMode::READ) else {
        return Ok(None);
    };
    let moved = move_bytes(caller, &open, offset, places, |vectors, memory, at, len| {
        let read = open
            .file
            .read_pieces_at(at, len, |bytes| vectors.give(memory, bytes));
        Ok((at, read?))
    })?;
    caller.count_io(moved.bytes, 0);
    Ok(moved.errno)
}

/// Writes to a file in memory, at an offset, at the descriptor's position, or at the file's end.
/// Returns the errno; `None` if the call must go through [`buffers`](crate::buffers).
///
/// # Errors
///
/// As [`read`].
pub(crate) fn write<T>(
    caller: &mut Caller<'_, T>,
    ctx: ContextOf<T>,
    (fd, offset): (i32, Option<i64>),
    places: Places,
) -> Result<Option<i32>, HostError> {
    let Some(open) = open_file(caller, ctx, fd, FileAccessMode::WRITE) else {
        return Ok(None);
    };
    let appends = offset.is_none() && open.appends();
    let moved = move_bytes(caller, &open, offset, places, |vectors, memory, at, len| {
        let at = (!appends).then_some(at);
        open.file
            .write_pieces(at, len, |room| vectors.fill(memory, room))
    })?;
    caller.count_io(0, moved.bytes);
    Ok(moved.errno)
}

/// The result of a call: the number of moved bytes, and the errno. Without an errno, the call must
/// go through [`buffers`](crate::buffers).
struct Moved {
    bytes: u64,
    errno: Option<i32>,
}

/// Moves the bytes of a call by `step`, [`PIECE_BYTES`] at a time. `step` moves bytes at an offset.
/// It returns the offset of the moved bytes in the file, and their number.
fn move_bytes<T>(
    caller: &mut Caller<'_, T>,
    open: &OpenFile,
    offset: Option<i64>,
    places: Places,
    mut step: impl FnMut(&mut Vectors, &mut Bytes<'_>, u64, usize) -> Result<(u64, usize), Failed>,
) -> Result<Moved, HostError> {
    let errno_only = |errno| Ok(Moved { bytes: 0, errno });
    let (mut memory, _) = split(caller);
    let Some(mut vectors) = Vectors::copy(&memory, places) else {
        return errno_only(None);
    };
    if let Some(offset) = offset
        && let Err(errno) = check_offset(offset.cast_unsigned())
    {
        return errno_only(Some(errno as i32));
    }
    let mut position = offset.is_none().then(|| open.position());
    let mut at = offset.map_or_else(
        || position.as_ref().map_or(0, |position| **position),
        i64::cast_unsigned,
    );
    let (mut moved, mut failed) = (0_u64, None);
    loop {
        let len = (vectors.bytes - moved).min(PIECE_BYTES as u64) as usize;
        match step(&mut vectors, &mut memory, at, len) {
            Ok((start, some)) => {
                at = start + some as u64;
                moved += some as u64;
                if some < len || moved == vectors.bytes {
                    break;
                }
            }
            Err(Failed::File(error)) => {
                failed = Some(errno(error) as i32);
                break;
            }
            Err(Failed::Guest(trap)) => return Err(trap.into()),
        }
        if caller.is_stopped() {
            memory = split(caller).0;
            break;
        }
        memory = split(caller).0;
    }
    if let Some(errno) = failed.filter(|_| moved == 0) {
        return errno_only(Some(errno));
    }
    if let Some(position) = &mut position
        && moved > 0
    {
        **position = at;
    }
    memory.write(places.moved.cast_unsigned(), &(moved as u32).to_le_bytes())?;
    Ok(Moved {
        bytes: moved,
        errno: Some(0),
    })
}
