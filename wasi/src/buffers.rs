//! Calls that send from, or receive into, the guest's I/O vectors.
//!
//! A call uses at most [`VECTORS_MAX`] vectors, and copies up to [`PIECE_BYTES`] bytes at a time
//! through [`Scratch`] memory. Most calls that send have few bytes in few vectors. For these,
//! wasi-common reads the guest's memory in place. A call that receives always uses scratch memory.
//! All pointers are checked before any byte is sent, received or written to the guest.

use crate::errno::{AGAIN, INVAL};
use crate::guest::{Bytes, ContextOf, split};
use crate::scratch::{PIECE_BYTES, Scratch};
use crate::wait;
use pirn_runtime::{Caller, HostError};
use wasi_common::WasiCtx;
use wiggle::GuestMemory;

/// Most vectors that a call uses (Linux's `IOV_MAX`, readv(2)).
///
/// Later vectors are neither sent nor filled. The result is the number of transferred bytes. If the
/// used vectors have no bytes, a result of 0 would look like the end of a file. The errno is then
/// `inval`, as for readv(2).
pub(crate) const VECTORS_MAX: u32 = 1024;
/// Most bytes that a call transfers; a Linux system call has the same limit (read(2)).
pub(crate) const CALL_BYTES_MAX: u32 = 0x7fff_f000;

/// Most vectors of a call that runs in place: wasi-common allocates about 32 bytes for each vector.
const VECTORS_IN_PLACE_MAX: u32 = 16;

/// Pointers of a call: to its vectors and to its results. The pointers are offsets in the guest's
/// memory. For wasi-common they are offsets in the scratch memory, unless the call runs in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Address of the vectors.
    pub(crate) vectors: i32,
    /// Number of vectors.
    pub(crate) count: i32,
    /// Address of the 32-bit number of bytes sent or received.
    pub(crate) moved: i32,
    /// Address of the 16-bit flags that a call such as `sock_recv` writes; `None` for calls without
    /// flags.
    pub(crate) flags: Option<i32>,
}

/// The vectors of a call, copied from the guest, and the position after the transferred bytes.
struct Vectors {
    /// Offset of the copy in the scratch memory.
    at: usize,
    count: usize,
    /// Whether the guest passed more vectors than the call uses.
    is_cut: bool,
    /// Index of the next vector, and the number of its bytes that were transferred.
    next: usize,
    used: u32,
}

impl Vectors {
    /// Copies the vectors of a call. Checks that the array and every buffer lie in the guest's
    /// memory.
    fn copy(
        scratch: &mut Scratch,
        memory: &Bytes<'_>,
        array: u32,
        count: u32,
    ) -> Result<Self, HostError> {
        memory.check(array, u64::from(count) * 8, 4)?;
        let is_cut = count > VECTORS_MAX;
        let count = count.min(VECTORS_MAX) as usize;
        let at = scratch.reserve(count * 8);
        let copy = scratch.range(at, count * 8);
        memory.read(array, copy)?;
        for vector in copy.as_chunks().0 {
            let (start, len) = parts(vector);
            memory.check(start, len.into(), 1)?;
        }
        let (next, used) = (0, 0);
        Ok(Self {
            at,
            count,
            is_cut,
            next,
            used,
        })
    }

    /// The vectors, and the scratch memory after them.
    fn split<'a>(&self, scratch: &'a mut Scratch) -> (&'a [[u8; 8]], &'a mut [u8]) {
        let (vectors, behind) = scratch.bytes()[self.at..].split_at_mut(self.count * 8);
        (vectors.as_chunks().0, behind)
    }

    /// Calls `visit` for the next bytes in the guest's vectors, at most `bytes_max` bytes. `visit`
    /// gets an address, a length, and the sum of the earlier lengths. Returns the number of visited
    /// bytes.
    fn visit(
        &self,
        vectors: &[[u8; 8]],
        bytes_max: usize,
        mut visit: impl FnMut(u32, usize, usize) -> Result<(), HostError>,
    ) -> Result<usize, HostError> {
        let (mut sum, mut used) = (0, self.used);
        for vector in &vectors[self.next..] {
            if sum == bytes_max {
                break;
            }
            let (start, len) = parts(vector);
            let some = ((len - used) as usize).min(bytes_max - sum);
            if some > 0 {
                visit(start + used, some, sum)?;
            }
            sum += some;
            used = 0;
        }
        Ok(sum)
    }

    /// Marks `bytes` bytes as transferred, and returns whether bytes are left.
    fn advance(&mut self, scratch: &mut Scratch, bytes: usize) -> bool {
        let mut left = bytes;
        while self.next < self.count {
            let len = scratch.number(self.at + self.next * 8 + 4);
            let rest = (len - self.used) as usize;
            if left < rest {
                self.used += left as u32;
                return true;
            }
            left -= rest;
            (self.next, self.used) = (self.next + 1, 0);
        }
        false
    }
}

/// Address and length of a vector.
pub(crate) fn parts(vector: &[u8; 8]) -> (u32, u32) {
    let number = u64::from_le_bytes(*vector);
    (number as u32, (number >> 32) as u32)
}

/// Refuses the number of transferred bytes if it exceeds the buffer. A file that the embedder
/// implements may report a wrong number.
fn check_moved(moved: usize, len: usize) -> Result<(), HostError> {
    match moved <= len {
        true => Ok(()),
        false => Err(HostError::message(format!(
            "a file reported {moved} bytes, its buffer has {len}; correct that implementation of \
             WasiFile"
        ))),
    }
}

/// The state of a call that goes through the scratch memory.
struct Transfer {
    scratch: Scratch,
    vectors: Vectors,
    places: Places,
    /// Bytes transferred so far.
    moved: u32,
}

impl Transfer {
    /// Checks the pointers of a call and copies its vectors.
    fn new(memory: &Bytes<'_>, places: Places) -> Result<Self, HostError> {
        let mut scratch = Scratch::take();
        let vector = scratch.reserve(8);
        let here = Places {
            vectors: vector as i32,
            count: 0,
            moved: scratch.answer(memory, places.moved, (4, 4))?,
            flags: match places.flags {
                Some(flags) => Some(scratch.answer(memory, flags, (2, 2))?),
                None => None,
            },
        };
        let (array, count) = (places.vectors.cast_unsigned(), places.count.cast_unsigned());
        let vectors = Vectors::copy(&mut scratch, memory, array, count)?;
        let piece = scratch.reserve(PIECE_BYTES);
        scratch.set_number(vector, piece as u32);
        Ok(Self {
            scratch,
            vectors,
            places: here,
            moved: 0,
        })
    }

    /// Whether the used vectors have no bytes, but the guest passed more vectors.
    fn is_refused(&mut self) -> bool {
        let (vectors, _) = self.vectors.split(&mut self.scratch);
        self.vectors.is_cut && vectors.iter().all(|vector| parts(vector).1 == 0)
    }

    /// Most bytes of the next piece.
    fn piece_max(&self) -> usize {
        PIECE_BYTES.min((CALL_BYTES_MAX - self.moved) as usize)
    }

    /// Calls wasi-common with a piece of `len` bytes. Returns the number of bytes transferred, or
    /// the errno.
    fn call(
        &mut self,
        len: usize,
        call: impl FnOnce(&mut GuestMemory<'_>, Places, u32) -> Result<i32, HostError>,
    ) -> Result<Result<usize, i32>, HostError> {
        let vector = self.places.vectors as usize;
        self.scratch.set_number(vector + 4, len as u32);
        self.places.count = i32::from(len > 0);
        match call(&mut self.scratch.memory(), self.places, self.moved)? {
            0 => (),
            errno => return Ok(Err(errno)),
        }
        let moved = self.scratch.number(self.places.moved as usize) as usize;
        check_moved(moved, len)?;
        self.moved += moved as u32;
        Ok(Ok(moved))
    }

    /// Writes the number of transferred bytes to the guest. Returns the errno only if no byte was
    /// transferred.
    fn end(mut self, memory: &mut Bytes<'_>, errno: i32) -> Result<i32, HostError> {
        if errno != 0 && self.moved == 0 {
            return Ok(errno);
        }
        let (place, moved) = (self.places.moved as usize, self.moved);
        self.scratch.set_number(place, moved);
        self.scratch.give(memory)?;
        Ok(0)
    }
}

/// Populates all memory that a call in place reads and writes. Returns the number of bytes to send.
///
/// Returns `None` if the call must go through [`Scratch`] memory:
///
/// * it is large, or one of its pointers is invalid,
/// * its result overlaps its vectors or their bytes,
/// * the memory is shared, so that other threads may change the vectors.
fn in_place(memory: &mut Bytes<'_>, places: Places) -> Option<usize> {
    let Bytes::Plain(memory) = memory else {
        return None;
    };
    let [array, count, moved] =
        [places.vectors, places.count, places.moved].map(i32::cast_unsigned);
    let is_aligned = (array | moved).is_multiple_of(4);
    if count > VECTORS_IN_PLACE_MAX || !is_aligned {
        return None;
    }
    let (end, answered) = (array.checked_add(count * 8)?, moved.checked_add(4)?);
    let overlaps = |start: u32, end: u32| start < answered && moved < end;
    if overlaps(array, end) {
        return None;
    }
    let mut sum = 0;
    for vector in memory.slice(array, count * 8).ok()?.as_chunks().0 {
        let (start, len) = parts(vector);
        sum += len as usize;
        if sum > PIECE_BYTES || overlaps(start, start.checked_add(len)?) {
            return None;
        }
        memory.slice(start, len).ok()?;
    }
    memory.populate(moved, 4).ok()?;
    Some(sum)
}

/// Sends the bytes of a call's vectors piece by piece. Ends when the file has taken all bytes,
/// takes no byte of a piece, or returns an error. Also ends at [`CALL_BYTES_MAX`], or if the guest
/// is stopped.
///
/// If the file takes only part of a piece, the rest is sent again. A blocking file thus waits for
/// all bytes, as write(2) says; a nonblocking file returns `again`. Returns the errno if the file
/// took no byte.
///
/// # Errors
///
/// An error of wasi-common that has no errno, or the error of an invalid pointer.
pub(crate) fn send<T>(
    caller: &mut Caller<'_, T>,
    context: ContextOf<T>,
    places: Places,
    call: impl Fn(&mut WasiCtx, &mut GuestMemory<'_>, Places, u32) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    let (mut memory, data) = split(caller);
    let mut sent = 0;
    if let Some(len) = in_place(&mut memory, places) {
        match call(context(data).common(), &mut memory.all(), places, 0)? {
            0 => {
                sent = memory.number(places.moved.cast_unsigned())?;
                check_moved(sent as usize, len)?;
                if sent == 0 || sent as usize == len {
                    caller.count_io(0, sent.into());
                    return Ok(0);
                }
            }
            errno if wait::must_retry(errno) => {}
            errno => return Ok(errno),
        }
    }
    send_rest(caller, context, places, sent, call)
}

/// Implements [`send`] through the scratch memory, after `sent` bytes were sent in place. `sent` is
/// 0 if the call did not run in place, or if the file was not ready.
fn send_rest<T>(
    caller: &mut Caller<'_, T>,
    context: ContextOf<T>,
    places: Places,
    sent: u32,
    call: impl Fn(&mut WasiCtx, &mut GuestMemory<'_>, Places, u32) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    let mut transfer = Transfer::new(&split(caller).0, places)?;
    if transfer.is_refused() {
        return Ok(INVAL);
    }
    transfer.moved = sent;
    transfer
        .vectors
        .advance(&mut transfer.scratch, sent as usize);
    let errno = loop {
        if caller.is_stopped() {
            break AGAIN;
        }
        let (memory, data) = split(caller);
        let max = transfer.piece_max();
        let (vectors, behind) = transfer.vectors.split(&mut transfer.scratch);
        let len = transfer.vectors.visit(vectors, max, |address, len, at| {
            Ok(memory.read(address, &mut behind[at..][..len])?)
        })?;
        let ctx = context(data).common();
        match transfer.call(len, |memory, at, moved| call(ctx, memory, at, moved))? {
            Err(errno) if wait::must_retry(errno) && !caller.is_stopped() => {}
            Err(errno) => break errno,
            Ok(moved) => {
                let more = transfer.vectors.advance(&mut transfer.scratch, moved);
                let is_full = transfer.moved == CALL_BYTES_MAX;
                if (moved == 0 && len > 0) || !more || is_full || caller.is_stopped() {
                    break 0;
                }
            }
        }
    };
    caller.count_io(0, transfer.moved.into());
    transfer.end(&mut split(caller).0, errno)
}

/// Receives bytes into the vectors of a call, and returns the errno.
///
/// Receives one piece. Receives more pieces only while `continues` returns true, every piece is
/// complete, and the guest is not stopped. Streams do not continue, because the next piece may not
/// arrive soon.
///
/// # Errors
///
/// As [`send`].
pub(crate) fn receive<T>(
    caller: &mut Caller<'_, T>,
    context: ContextOf<T>,
    places: Places,
    continues: impl Fn(&mut WasiCtx) -> Result<bool, HostError>,
    call: impl Fn(&mut WasiCtx, &mut GuestMemory<'_>, Places, u32) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    let mut transfer = Transfer::new(&split(caller).0, places)?;
    if transfer.is_refused() {
        return Ok(INVAL);
    }
    let errno = loop {
        let (mut memory, data) = split(caller);
        let ctx = context(data).common();
        if transfer.moved > 0 && !continues(ctx)? {
            break 0;
        }
        let max = transfer.piece_max();
        let (vectors, _) = transfer.vectors.split(&mut transfer.scratch);
        let len = transfer.vectors.visit(vectors, max, |_, _, _| Ok(()))?;
        let moved = match transfer.call(len, |memory, at, moved| call(ctx, memory, at, moved))? {
            Err(errno) if wait::must_retry(errno) && transfer.moved == 0 => {
                if caller.is_stopped() {
                    break errno;
                }
                continue;
            }
            Err(errno) => break errno,
            Ok(moved) => moved,
        };
        let (vectors, behind) = transfer.vectors.split(&mut transfer.scratch);
        transfer.vectors.visit(vectors, moved, |address, len, at| {
            Ok(memory.write(address, &behind[at..][..len])?)
        })?;
        let more = transfer.vectors.advance(&mut transfer.scratch, moved);
        let is_full = transfer.moved == CALL_BYTES_MAX;
        if moved < len || !more || is_full || caller.is_stopped() {
            break 0;
        }
    };
    caller.count_io(transfer.moved.into(), 0);
    transfer.end(&mut split(caller).0, errno)
}
