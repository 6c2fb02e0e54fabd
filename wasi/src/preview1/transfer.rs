//! Functions that move bytes between the guest's vectors and files, streams and sockets.
//!
//! A long transfer is made piece by piece. Between two pieces the host checks whether the guest was
//! stopped. An error after some bytes were moved is not reported: the next call reports it.

use super::abi::{FLAGS, NUMBER};
use super::call::Call;
use super::failure::{Done, Failure};
use super::memory::Memory;
use super::vectors::{Interrupted, Vectors};
use crate::descriptors::{Descriptor, OpenFile};
use crate::errno::Errno;
use crate::fdflags::FdFlags;
use crate::files::{Place, check_offset};
use crate::scratch::Scratch;
use crate::stream::{Failed, Stream};
use pirn_memory_files::MemoryFile;
use pirn_runtime::HostError;

/// Bytes that a call reads in place without asking for the size of the file: at most two pages of
/// the guest are populated for nothing.
const FEW_BYTES: usize = 4096;

/// Fails with [`Failure::Later`] if the descriptor is a source without available bytes.
pub(super) fn fd_read(call: &mut Call<'_>, fd: u32, iovs: u32, count: u32, read: u32) -> Done {
    receive(call, fd, (iovs, count), None, read)
}

pub(super) fn fd_pread(
    call: &mut Call<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    read: u32,
) -> Done {
    receive(call, fd, (iovs, count), Some(offset), read)
}

pub(super) fn fd_write(call: &mut Call<'_>, fd: u32, iovs: u32, count: u32, written: u32) -> Done {
    send(call, fd, (iovs, count), None, written)
}

pub(super) fn fd_pwrite(
    call: &mut Call<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    written: u32,
) -> Done {
    send(call, fd, (iovs, count), Some(offset), written)
}

/// Reads at an offset, or at the descriptor's position.
fn receive(
    call: &mut Call<'_>,
    fd: u32,
    (array, count): (u32, u32),
    offset: Option<u64>,
    read: u32,
) -> Done {
    call.memory.check_result(read, NUMBER)?;
    let mut vectors = Vectors::copy(&call.memory, array, count)?;
    let moved = match &*call.descriptor(fd)? {
        Descriptor::File(open) => read_file(call, open, &mut vectors, offset)?,
        Descriptor::Stream(stream) => read_stream(
            call,
            &mut vectors,
            stream.is_readable,
            |into| match offset {
                Some(offset) => Ok(stream.read_at(into, offset)?),
                None => stream.read(into),
            },
        )?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    };
    call.io.0 += moved;
    call.memory.write_u32(read, moved as u32)?;
    Ok(())
}

/// Writes at an offset, at the descriptor's position, or at the end of the file.
fn send(
    call: &mut Call<'_>,
    fd: u32,
    (array, count): (u32, u32),
    offset: Option<u64>,
    written: u32,
) -> Done {
    call.memory.check_result(written, NUMBER)?;
    let mut vectors = Vectors::copy(&call.memory, array, count)?;
    let moved = match &*call.descriptor(fd)? {
        Descriptor::File(open) => write_file(call, open, &mut vectors, offset)?,
        Descriptor::Stream(stream) => {
            write_stream(call, &mut vectors, |slices, moved| match offset {
                Some(offset) => Ok(stream.write_at(slices, offset.wrapping_add(moved))?),
                None => stream.write(slices),
            })?
        }
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    };
    call.io.1 += moved;
    call.memory.write_u32(written, moved as u32)?;
    Ok(())
}

/// Moves the bytes of a call by `step`, a piece at a time. `step` moves the bytes of a piece at an
/// offset; it returns their number, and the offset after them. Returns the number of all bytes.
///
/// The offset is `offset`, or the descriptor's position, which the bytes then move.
fn move_bytes(
    call: &mut Call<'_>,
    open: &OpenFile,
    vectors: &mut Vectors,
    offset: Option<u64>,
    mut step: impl FnMut(&mut Call<'_>, &mut Vectors, u64) -> Done<(usize, u64)>,
) -> Done<u64> {
    let mut position = match offset {
        Some(offset) => {
            check_offset(offset)?;
            None
        }
        None => Some(open.position()),
    };
    let mut at = position.as_deref().copied().or(offset).unwrap_or(0);
    let mut moved = 0;
    loop {
        let len = vectors.piece();
        match step(call, vectors, at) {
            Ok((some, end)) => {
                moved += some as u64;
                at = end;
                if some < len || vectors.left() == 0 || call.is_stopped() {
                    break;
                }
            }
            Err(Failure::Errno(_)) if moved > 0 => break,
            Err(failure) => return Err(failure),
        }
    }
    if let Some(position) = &mut position
        && moved > 0
    {
        **position = at;
    }
    Ok(moved)
}

fn read_file(
    call: &mut Call<'_>,
    open: &OpenFile,
    vectors: &mut Vectors,
    offset: Option<u64>,
) -> Done<u64> {
    let file = &open.file;
    if !file.is_readable {
        return Err(Errno::BADF.into());
    }
    move_bytes(call, open, vectors, offset, |call, vectors, at| {
        let read = match file.in_memory() {
            Some(memory_file) => read_memory_file(call, memory_file, vectors, at)?,
            None => read_host_file(call, open, vectors, at)?,
        };
        Ok((read, at + read as u64))
    })
}

/// Reads a piece of a file in memory: the bytes go from the file to the guest.
fn read_memory_file(
    call: &mut Call<'_>,
    file: &MemoryFile,
    vectors: &mut Vectors,
    at: u64,
) -> Done<usize> {
    let read = file.read_pieces_at(at, vectors.piece(), |bytes| {
        let given = vectors.give(&mut call.memory, bytes);
        given.map_err(Interrupted::Guest)
    });
    Ok(read?)
}

/// Reads a piece of a file of the host. A piece for one buffer goes from the kernel to the guest.
fn read_host_file(
    call: &mut Call<'_>,
    open: &OpenFile,
    vectors: &mut Vectors,
    at: u64,
) -> Done<usize> {
    let file = &open.file;
    if let (Memory::Plain(memory), Some((start, len))) = (&mut call.memory, vectors.single()) {
        let some = match len {
            0..=FEW_BYTES => len as u64,
            // Do not populate pages behind the end of the file. Files of proc(5) have no size.
            _ => file.size()?.saturating_sub(at).min(len as u64),
        };
        if some > 0 {
            let read = file.read_at(memory.slice_mut(start, some as u32)?, at)?;
            vectors.advance(read);
            return Ok(read);
        }
    }
    let mut scratch = Scratch::take();
    let piece = scratch.piece(vectors.piece());
    let read = file.read_at(piece, at)?;
    vectors.give(&mut call.memory, &piece[..read])?;
    Ok(read)
}

fn write_file(
    call: &mut Call<'_>,
    open: &OpenFile,
    vectors: &mut Vectors,
    offset: Option<u64>,
) -> Done<u64> {
    let file = &open.file;
    if !file.is_writable {
        return Err(Errno::BADF.into());
    }
    let appends = offset.is_none() && open.flags().contains(FdFlags::APPEND);
    move_bytes(call, open, vectors, offset, |call, vectors, at| {
        if let Some(memory_file) = file.in_memory() {
            let start = (!appends).then_some(at);
            let written = memory_file.write_pieces(start, vectors.piece(), |room| {
                let filled = vectors.fill(&call.memory, room);
                filled.map_err(Interrupted::Guest)
            });
            let (start, written) = written?;
            return Ok((written, start + written as u64));
        }
        let place = match appends {
            true => Place::End,
            false => Place::At(at),
        };
        let written = vectors.gather(&call.memory, |slices| file.write(slices, place))?;
        let (written, end) = written?;
        vectors.advance(written);
        Ok((written, end))
    })
}

/// Receives one piece from a stream: the next piece may not arrive soon. Reads no stream for no
/// bytes.
fn read_stream(
    call: &mut Call<'_>,
    vectors: &mut Vectors,
    is_readable: bool,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, Failed>,
) -> Done<u64> {
    if !is_readable {
        return Err(Errno::BADF.into());
    }
    if vectors.left() == 0 {
        return Ok(0);
    }
    let mut scratch = Scratch::take();
    let piece = scratch.piece(vectors.piece());
    let read = call.when_ready(|| read(&mut *piece))?;
    check_moved(read, piece.len())?;
    vectors.give(&mut call.memory, &piece[..read])?;
    Ok(read as u64)
}

/// Sends the bytes of the vectors to a stream, by `write`, which gets the number of bytes that were
/// sent before. Ends when the stream has taken all bytes, takes no byte of a piece, or fails; also
/// if the guest is stopped.
///
/// If the stream takes only part of a piece, the rest is sent again. A blocking stream thus waits
/// for all bytes, as write(2) says; a nonblocking stream returns `again`.
fn write_stream(
    call: &mut Call<'_>,
    vectors: &mut Vectors,
    mut write: impl FnMut(&[std::io::IoSlice<'_>], u64) -> Result<usize, Failed>,
) -> Done<u64> {
    let mut moved = 0;
    loop {
        if call.is_stopped() {
            return Err(Errno::AGAIN.into());
        }
        let len = vectors.piece();
        let written = vectors.gather(&call.memory, |slices| {
            call.when_ready(|| write(slices, moved))
        })?;
        let written = match written {
            Ok(written) => written,
            Err(_) if moved > 0 => return Ok(moved),
            Err(failure) => return Err(failure),
        };
        check_moved(written, len)?;
        vectors.advance(written);
        moved += written as u64;
        if written == 0 || vectors.left() == 0 || call.is_stopped() {
            return Ok(moved);
        }
    }
}

/// Refuses the number of transferred bytes if it exceeds the buffer. A stream of the embedder may
/// report a wrong number.
fn check_moved(moved: usize, len: usize) -> Result<(), HostError> {
    match moved <= len {
        true => Ok(()),
        false => Err(HostError::message(format!(
            "a stream reported {moved} bytes, its buffer has {len}; correct that implementation \
             of Read or Write"
        ))),
    }
}

/// `riflags`: leave the bytes in the socket.
const PEEK: u32 = 1;
/// `riflags`: wait for all bytes. Ignored: with MSG_WAITALL the kernel would block the thread. A
/// short result is allowed, as after a signal.
const WAIT_ALL: u32 = 2;

pub(super) fn sock_recv(
    call: &mut Call<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    how: u32,
    received: u32,
    flags: u32,
) -> Done {
    call.memory.check_result(received, NUMBER)?;
    call.memory.check_result(flags, FLAGS)?;
    let mut vectors = Vectors::copy(&call.memory, iovs, count)?;
    if how & !(PEEK | WAIT_ALL) != 0 {
        return Err(Errno::INVAL.into());
    }
    let descriptor = call.descriptor(fd)?;
    let socket = descriptor.socket()?;
    let moved = read_stream(call, &mut vectors, socket.is_readable, |into| {
        socket.receive(into, how & PEEK != 0)
    })?;
    call.io.0 += moved;
    call.memory.write_u32(received, moved as u32)?;
    call.memory.write(flags, &[0; FLAGS.0 as usize])?;
    Ok(())
}

/// Preview 1 has no flags for this function.
pub(super) fn sock_send(
    call: &mut Call<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    _flags: u32,
    sent: u32,
) -> Done {
    call.memory.check_result(sent, NUMBER)?;
    let mut vectors = Vectors::copy(&call.memory, iovs, count)?;
    let descriptor = call.descriptor(fd)?;
    let socket: &Stream = descriptor.socket()?;
    let moved = write_stream(call, &mut vectors, |slices, _| socket.send(slices))?;
    call.io.1 += moved;
    call.memory.write_u32(sent, moved as u32)?;
    Ok(())
}
