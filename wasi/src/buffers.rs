//! Calls that send from, or receive into, the vectors of a guest.
//!
//! A call looks at no more than [`VECTORS_MAX`] vectors, and passes on [`PIECE_BYTES`] at a time
//! through [`Scratch`]. A call that sends little from few vectors, as most do, is passed on in
//! place: wasi-common reads the guest's memory. All pointers are checked before anything is sent,
//! received or answered.

use crate::errno::{AGAIN, INVAL};
use crate::guest::{Bytes, ContextOf, split};
use crate::scratch::{PIECE_BYTES, Scratch};
use crate::wait;
use pirn_runtime::{Caller, HostError};
use wasi_common::WasiCtx;
use wiggle::GuestMemory;

/// Most vectors that a call looks at (`IOV_MAX` of Linux, readv(2)). Those behind are not sent, or
/// filled, and the answer says how many bytes were. If that leaves no byte, which would look like
/// the end of a file, the answer is `inval`, as of readv(2).
pub(crate) const VECTORS_MAX: u32 = 1024;
/// Most bytes that a call passes on, as of a system call (read(2)).
const CALL_BYTES_MAX: u32 = 0x7fff_f000;

/// Most vectors of a call that is passed on in place: wasi-common allocates some 32 bytes for each.
const VECTORS_IN_PLACE_MAX: u32 = 16;

/// Where a call finds its vectors, and leaves its answers. Addresses are of the guest's memory, or
/// of the scratch memory where wasi-common is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Address of the vectors.
    pub(crate) vectors: i32,
    /// Number of vectors.
    pub(crate) count: i32,
    /// Address of the number of bytes that were sent or received, of 32 bits.
    pub(crate) moved: i32,
    /// Address of the flags that were received, of 16 bits, if the call has any.
    pub(crate) flags: Option<i32>,
}

/// The vectors of a call, copied from the guest, and how far they were used.
struct Vectors {
    /// Where they are in the scratch memory.
    at: usize,
    count: usize,
    /// Whether there are more that are not looked at.
    is_cut: bool,
    /// The vector that is used next, and how many of its bytes were.
    next: usize,
    used: u32,
}

impl Vectors {
    /// Copies the vectors of a call. They all lie in the guest's memory, as the array does.
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

    /// The vectors, and all that lies behind them.
    fn split<'a>(&self, scratch: &'a mut Scratch) -> (&'a [[u8; 8]], &'a mut [u8]) {
        let (vectors, behind) = scratch.bytes()[self.at..].split_at_mut(self.count * 8);
        (vectors.as_chunks().0, behind)
    }

    /// Visits the guest's bytes that come next, at most so many, as address, length and position
    /// among them. Gives their number.
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

    /// Notes that so many bytes were used, and tells whether there are more.
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
fn parts(vector: &[u8; 8]) -> (u32, u32) {
    let number = u64::from_le_bytes(*vector);
    (number as u32, (number >> 32) as u32)
}

/// Refuses a number of moved bytes, reported by a file of the host's, that is more than its buffer
/// has.
fn check_moved(moved: usize, len: usize) -> Result<(), HostError> {
    match moved <= len {
        true => Ok(()),
        false => Err(HostError::message(format!(
            "a file reported {moved} bytes, more than its buffer of {len}"
        ))),
    }
}

/// A call through the scratch memory, while it lasts.
struct Transfer {
    scratch: Scratch,
    vectors: Vectors,
    places: Places,
    /// Bytes that were moved.
    moved: u32,
}

impl Transfer {
    /// Checks the pointers of a call.
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

    /// Whether the vectors that are looked at hold nothing, and others may.
    fn is_refused(&mut self) -> bool {
        let (vectors, _) = self.vectors.split(&mut self.scratch);
        self.vectors.is_cut && vectors.iter().all(|vector| parts(vector).1 == 0)
    }

    /// Most bytes of the next piece.
    fn piece_max(&self) -> usize {
        PIECE_BYTES.min((CALL_BYTES_MAX - self.moved) as usize)
    }

    /// Calls wasi-common with a piece of so many bytes, and gives how many were moved, or the
    /// errno.
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

    /// Tells the guest what was moved; an errno only if that is nothing.
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

/// Populates all that a call in place reads and writes, and gives the number of bytes to send. `None`
/// for a call that goes through [`Scratch`]: it is large, has a pointer that is an error, or wants
/// its answer where its vectors or their bytes are; or the memory is shared, and other threads may
/// change the vectors.
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
    memory.slice(array, count * 8).ok()?;
    for vector in (array..end).step_by(8) {
        let (start, len) = parts(&memory.read_u64(vector).ok()?.to_le_bytes());
        sum += len as usize;
        if sum > PIECE_BYTES || overlaps(start, start.checked_add(len)?) {
            return None;
        }
        memory.slice(start, len).ok()?;
    }
    memory.populate(moved, 4).ok()?;
    Some(sum)
}

/// Sends what the vectors of a call name, piece by piece, until all is taken, the file gives an
/// error, or the guest is stopped. A file that takes a part of a piece is given the rest: one that
/// may wait does so for all of its bytes, as write(2) says, and one that may not says `again`.
/// Gives the errno, if nothing was taken.
///
/// # Errors
///
/// What wasi-common gives, or the error of a pointer.
pub(crate) fn send<T>(
    caller: &mut Caller<'_, T>,
    context: ContextOf<T>,
    places: Places,
    call: impl Fn(&mut WasiCtx, &mut GuestMemory<'_>, Places, u32) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    let (mut memory, data) = split(caller);
    let mut sent = 0;
    if let Some(len) = in_place(&mut memory, places) {
        match call(context(data), &mut memory.all(), places, 0)? {
            0 => {
                sent = memory.number(places.moved.cast_unsigned())?;
                check_moved(sent as usize, len)?;
                if sent == 0 || sent as usize == len {
                    caller.count_io(0, sent.into());
                    return Ok(0);
                }
            }
            errno if wait::is_to_be_asked_again(errno) => {}
            errno => return Ok(errno),
        }
    }
    send_rest(caller, context, places, sent, call)
}

/// [`send`] through the scratch memory, after `sent` bytes were sent in place: 0 if the call was not
/// passed on in place, or the file has it wait.
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
        let ctx = context(data);
        match transfer.call(len, |memory, at, moved| call(ctx, memory, at, moved))? {
            Err(errno) if wait::is_to_be_asked_again(errno) && !caller.is_stopped() => {}
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

/// Receives into the vectors of a call: one piece, or more as long as `continues` says so, each is
/// received whole, and the guest is not stopped. Streams do not continue: the next piece may be
/// long in coming. Gives the errno.
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
        let ctx = context(data);
        if transfer.moved > 0 && !continues(ctx)? {
            break 0;
        }
        let max = transfer.piece_max();
        let (vectors, _) = transfer.vectors.split(&mut transfer.scratch);
        let len = transfer.vectors.visit(vectors, max, |_, _, _| Ok(()))?;
        let moved = match transfer.call(len, |memory, at, moved| call(ctx, memory, at, moved))? {
            Err(errno) if wait::is_to_be_asked_again(errno) && transfer.moved == 0 => {
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
