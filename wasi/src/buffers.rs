//! The buffers of a guest that the kernel reads from and writes to.
//!
//! A system call that is handed a page of a guest's memory which nobody has touched may fail
//! (`Reset::Tracked` of `pirn-runtime` says why), and writing to a page costs its next reset something.
//! So what the guest sends is touched first, and what it receives comes by way of a buffer of the host,
//! unless the guest asks for much: a guest that reads ten bytes into a large buffer touches one page.

use core::cell::Cell;
use pirn_runtime::{HostError, MemoryMut};
use wiggle::GuestMemory;

/// Bytes up to which a guest receives by way of the host.
const COPIED_MAX: u32 = 32 << 10;

/// What a system call takes: `IOV_MAX` vectors, and bytes that fit into 31 bits (writev(2)).
const VECTORS_MAX: usize = 1024;
const SENT_MAX: u32 = 1 << 31;

thread_local! {
    /// The host's buffer, unless it is in use on this thread.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(vec![]) };
}

/// Address and length of each vector of an array, as far as it lies in the memory.
fn vectors(memory: &MemoryMut<'_>, array: i32, count: i32) -> impl Iterator<Item = (u32, u32)> {
    let (array, count) = (array.cast_unsigned(), count.cast_unsigned());
    (0..count).map_while(move |i| {
        let at = array.checked_add(i.checked_mul(8)?)?;
        let len = memory.read_u32(at.checked_add(4)?).ok()?;
        Some((memory.read_u32(at).ok()?, len))
    })
}

/// Touches what the vectors name, as much as a system call takes. What does not lie in the memory is left
/// to be refused.
pub(crate) fn touch(memory: &MemoryMut<'_>, array: i32, count: i32) {
    let mut left = SENT_MAX;
    for (start, len) in vectors(memory, array, count).take(VECTORS_MAX) {
        let some = len.min(left);
        left -= some;
        // The error is wasi-common's to give.
        let _ = memory.slice(start, some);
    }
}

/// Where a call that receives finds its vectors, and leaves what it tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Address of the vectors.
    pub(crate) vectors: i32,
    /// Number of vectors.
    pub(crate) count: i32,
    /// Address of the number of bytes that came, of 32 bits.
    pub(crate) received: i32,
    /// Address of the flags that came, of 16 bits, if the call has any.
    pub(crate) flags: Option<i32>,
}

/// Alignment of the host's buffer.
const ALIGN: usize = 8;
/// Places in the host's buffer: one vector, two answers, and the bytes behind them.
const VECTOR: usize = 0;
const RECEIVED: usize = 8;
const FLAGS: usize = 12;
const BYTES: usize = 16;

/// Runs a call that receives into the first vector that is not empty, and gives its errno.
///
/// # Errors
///
/// What the call gives, or the trap of an answer that does not lie in the memory.
pub(crate) fn receive(
    memory: &mut MemoryMut<'_>,
    places: Places,
    call: impl FnOnce(&mut GuestMemory<'_>, Places) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    let first = vectors(memory, places.vectors, places.count).find(|(_, len)| *len > 0);
    // wasi-common answers for what is wrong with an address.
    let sound = |address: i32, bytes: u32, align: u32| {
        address.cast_unsigned().is_multiple_of(align)
            && holds(memory, address.cast_unsigned(), bytes)
    };
    let vectors_bytes = places.count.cast_unsigned().saturating_mul(8);
    let whole = |(start, len)| {
        holds(memory, start, len)
            && sound(places.vectors, vectors_bytes, 4)
            && sound(places.received, 4, 4)
            && places.flags.is_none_or(|flags| sound(flags, 2, 2))
    };
    let (start, len) = match first {
        Some(first) if first.1 <= COPIED_MAX && whole(first) => first,
        other => {
            if let Some((start, len)) = other {
                // The error is wasi-common's to give.
                let _ = memory.slice_mut(start, len);
            }
            return call(&mut GuestMemory::Unshared(memory.as_mut_slice()), places);
        }
    };
    let mut buffer = SCRATCH.take();
    buffer.resize(ALIGN + BYTES + COPIED_MAX as usize, 0);
    // wiggle looks at the alignment of the host's addresses.
    let aligned = buffer.as_ptr().align_offset(ALIGN);
    let scratch = &mut buffer[aligned..][..BYTES + COPIED_MAX as usize];
    scratch[VECTOR..][..4].copy_from_slice(&(BYTES as u32).to_le_bytes());
    scratch[VECTOR + 4..][..4].copy_from_slice(&len.to_le_bytes());
    let there = Places {
        vectors: VECTOR as i32,
        count: 1,
        received: RECEIVED as i32,
        flags: Some(FLAGS as i32),
    };
    let errno = call(&mut GuestMemory::Unshared(scratch), there)?;
    if errno == 0 {
        hand_over(memory, places, (start, len), scratch)?;
    }
    SCRATCH.set(buffer);
    Ok(errno)
}

/// Whether all of these bytes lie in the memory.
fn holds(memory: &MemoryMut<'_>, start: u32, len: u32) -> bool {
    (start as usize)
        .checked_add(len as usize)
        .is_some_and(|end| end <= memory.len())
}

/// Copies what a call left in the host's buffer to where the guest wants it.
fn hand_over(
    memory: &mut MemoryMut<'_>,
    places: Places,
    (start, len): (u32, u32),
    from: &[u8],
) -> Result<(), HostError> {
    let (count, flags) = (&from[RECEIVED..][..4], &from[FLAGS..][..2]);
    let received = count
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    // What lies behind may be another guest's.
    let bytes = from[BYTES..][..len as usize]
        .get(..received)
        .ok_or_else(|| {
            HostError::message(format!(
                "a file says that {received} bytes came into a buffer of {len}"
            ))
        })?;
    memory.write(start, bytes)?;
    memory.write(places.received.cast_unsigned(), count)?;
    if let Some(place) = places.flags {
        memory.write(place.cast_unsigned(), flags)?;
    }
    Ok(())
}
