//! [`Exceptions`]: the exceptions that the runtime keeps for a guest, and the host memory that they
//! need.
//!
//! The runtime stores the exception that was thrown last. The runtime also keeps every exception to
//! which a guest has a reference. A reference is a number that is unique in its store among the
//! last 2^31 references.

use super::bulk::CHUNK_BYTES;
use crate::account::{Account, HostBytesError};
use crate::stop::{Halt, Watched, look};
use crate::trap::Trap;
use crate::value::Cell;
use core::mem;
use smallvec::SmallVec;

/// Maximum number of exceptions that are kept for the references of a guest.
pub(crate) const KEPT_MAX: usize = 1 << 14;

/// Maximum number of values in all kept exceptions: 4 MiB of cells.
pub(crate) const KEPT_VALUES_MAX: usize = 1 << 18;

/// Maximum number of quarters of a limit that may be in use after unreferenced exceptions were
/// freed. The maximum applies to the two limits above, and to the host memory for exceptions.
///
/// With less free room, the guest gets an error. Otherwise each throw could scan the stack and all
/// tables, and take milliseconds.
pub(crate) const LEFT_QUARTERS: usize = 3;

/// Number of kept exceptions below which the runtime does not look for unreferenced exceptions.
pub(crate) const KEPT_FREE: usize = 1 << 10;

/// Maximum number of words of structs and arrays to scan: 64 MiB, some 10 ms.
pub(crate) const WORDS_MAX: usize = 1 << 23;

/// Words that are scanned between two checks of the interrupt flag.
pub(crate) const CHUNK_WORDS: usize = CHUNK_BYTES / size_of::<u64>();

/// Host memory for one place of a kept exception: the place, its entry in the list of free places,
/// and its entry in the list of marked places.
pub(crate) const PLACE_BYTES: usize =
    size_of::<KeptException>() + size_of::<u32>() + size_of::<usize>();

/// Number of places that the first kept exception allocates.
pub(crate) const PLACES_FIRST: usize = 4;

/// Numbers of values and return addresses stored inline in an exception; longer lists are
/// allocated.
pub(crate) const INLINE_VALUES: usize = 4;

pub(crate) const INLINE_PCS: usize = 8;

/// The first reference number. The first number is large, so that no small number looks like a
/// reference.
pub(crate) const FIRST: u32 = 1 << 31;

/// Maximum number of return addresses recorded for an exception, equal to the maximum of a
/// backtrace.
pub(crate) const PCS_MAX: usize = 64;

/// The exceptions of a store. In a group, the first instance has the exceptions of all instances.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    /// The exception that was thrown last.
    pub(crate) thrown: Option<Thrown>,
    pub(crate) kept: Vec<KeptException>,
    /// Indices of the free places in `kept`.
    pub(crate) free: Vec<u32>,
    /// Number of used places at which the runtime looks for unreferenced exceptions.
    pub(crate) enough: usize,
    /// Number of values of all kept exceptions.
    pub(crate) values: usize,
    /// Host memory counted for the exceptions: the places, and the lists allocated outside the
    /// places.
    bytes: usize,
    /// The part of `bytes` that is counted for `thrown`.
    pub(crate) thrown_bytes: usize,
    /// Number of references made so far.
    count: u32,
    /// While a nested call runs: the number of references made before the innermost nested call
    /// began.
    ///
    /// A guest that waits for a host function may have one of these earlier references in a
    /// register. The host's frames save that register, and no scan reads those frames.
    before_nested: Option<u32>,
}

/// An exception.
#[derive(Debug, Clone)]
pub(crate) struct Thrown {
    /// The identity of the exception's tag.
    pub(crate) tag: u64,
    /// The member that threw the exception, and the index of the tag in that member.
    pub(crate) by: (usize, u32),
    pub(crate) values: SmallVec<[Cell; INLINE_VALUES]>,
    /// Return addresses from the point of the throw outwards, innermost first.
    pub(crate) pcs: SmallVec<[usize; INLINE_PCS]>,
}

/// A place for an exception to which a guest has a reference.
#[derive(Debug)]
pub(crate) struct KeptException {
    /// The upper half of the reference. The lower half is the index of the place plus 1.
    number: u32,
    pub(crate) exception: Option<Thrown>,
    /// Whether the mark phase found a reference.
    pub(crate) marked: bool,
}

/// Host memory for the allocated lists of an exception, with capacity for `values` values and `pcs`
/// return addresses.
pub(crate) fn outside_bytes(values: usize, pcs: usize) -> usize {
    let lists = [
        (values, INLINE_VALUES, size_of::<Cell>()),
        (pcs, INLINE_PCS, size_of::<usize>()),
    ];
    let outside = lists
        .into_iter()
        .filter(|(count, inline, _)| count > inline);
    outside.map(|(count, _, bytes)| count * bytes).sum()
}

impl Thrown {
    /// Host memory of the lists that the exception has allocated.
    pub(crate) fn outside_bytes(&self) -> usize {
        outside_bytes(self.values.capacity(), self.pcs.capacity())
    }
}

/// Why an exception was neither thrown nor kept.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The guest must trap.
    Trap(Trap),
    /// The call was stopped during the search for unreferenced exceptions.
    Stopped,
}

impl<E: Into<Trap>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Trap(error.into())
    }
}

/// Accounting of the host memory for exceptions.
impl Exceptions {
    /// Counts host memory as held for the exceptions.
    ///
    /// # Errors
    ///
    /// The instance would exceed its limit of host memory.
    pub(crate) fn hold(&mut self, bytes: usize, account: &Account) -> Result<(), HostBytesError> {
        // Small exceptions need no bytes, and do not access the account.
        if bytes > 0 {
            account.hold(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Counts host memory as no longer held for the exceptions.
    pub(crate) fn release(&mut self, bytes: usize, account: &Account) {
        if bytes > 0 {
            account.release(bytes);
            self.bytes -= bytes;
        }
    }

    /// Drops the exception that was thrown last, and counts `bytes` for the next exception.
    ///
    /// # Errors
    ///
    /// The instance would exceed its limit of host memory.
    pub(crate) fn throw_next(
        &mut self,
        bytes: usize,
        account: &Account,
    ) -> Result<(), HostBytesError> {
        self.thrown = None;
        let counted = mem::take(&mut self.thrown_bytes);
        self.release(counted, account);
        self.hold(bytes, account)?;
        self.thrown_bytes = bytes;
        Ok(())
    }

    /// Host memory that must be counted to keep an exception, without its place.
    pub(crate) fn bytes_to_keep(&self, exception: &Thrown) -> usize {
        // The bytes that were counted for the thrown exception stay counted.
        exception.outside_bytes() - self.thrown_bytes
    }

    /// Whether places must be allocated before another exception can be kept.
    pub(crate) fn lacks_place(&self) -> bool {
        self.free.is_empty() && self.kept.len() == self.kept.capacity()
    }

    /// Number of places that can be allocated now, if `bytes` more bytes are needed for other
    /// objects. The number doubles the places, unless the limit of host memory allows fewer.
    pub(crate) fn places_affordable(&self, bytes: usize, account: &Account) -> usize {
        let left = account.host_bytes_left().saturating_sub(bytes);
        let wanted = self.kept.capacity().max(PLACES_FIRST);
        wanted.min(left / PLACE_BYTES)
    }

    /// Whether host memory is left for another exception with `bytes` bytes outside its place.
    pub(crate) fn has_bytes(&self, bytes: usize, account: &Account) -> bool {
        match self.lacks_place() {
            true => self.places_affordable(bytes, account) > 0,
            false => bytes <= account.host_bytes_left(),
        }
    }

    /// Whether the kept exceptions use at most `quarters` quarters of the host memory that
    /// exceptions can have.
    pub(crate) fn bytes_within(&self, quarters: usize, account: &Account) -> bool {
        let places = self.kept.capacity() - self.kept.len() + self.free.len();
        let all = self.bytes + account.host_bytes_left();
        self.bytes - places * PLACE_BYTES <= all / 4 * quarters
    }

    /// Allocates places if no place is free, and leaves room for `bytes` more bytes.
    ///
    /// # Errors
    ///
    /// The instance would exceed its limit of host memory.
    pub(crate) fn make_places(
        &mut self,
        bytes: usize,
        account: &Account,
    ) -> Result<(), HostBytesError> {
        if self.lacks_place() {
            let places = self.places_affordable(bytes, account).max(1);
            self.hold(places * PLACE_BYTES, account)?;
            self.kept.reserve_exact(places);
            self.free.reserve_exact(self.kept.capacity());
        }
        Ok(())
    }
}

impl Exceptions {
    /// The index of the place that a reference names, if it names a kept exception.
    pub(crate) fn place(&self, reference: u64) -> Option<usize> {
        let place = (reference as u32).checked_sub(1)? as usize;
        let kept = self.kept.get(place)?;
        let is_it = kept.exception.is_some() && u64::from(kept.number) == reference >> 32;
        is_it.then_some(place)
    }

    /// Marks the exception that `reference` names, if there is such an exception, and adds its
    /// place to `found` once.
    pub(crate) fn mark(&mut self, reference: u64, found: &mut Vec<usize>) {
        if let Some(place) = self.place(reference)
            && !mem::replace(&mut self.kept[place].marked, true)
        {
            found.push(place);
        }
    }

    /// Records that a nested call begins. Returns the count that was recorded when the enclosing
    /// nested call began.
    pub(crate) fn begin_nested(&mut self) -> Option<u32> {
        self.before_nested.replace(self.count)
    }

    /// Records that a nested call ends. `around` is the count that
    /// [`begin_nested`](Self::begin_nested) returned.
    pub(crate) fn end_nested(&mut self, around: Option<u32>) {
        self.before_nested = around;
    }

    /// Marks all exceptions to which a guest that waits during a nested call may have references.
    /// These references were made before the innermost nested call began.
    pub(crate) fn mark_waiting(&mut self, found: &mut Vec<usize>) {
        let Some(before) = self.before_nested else {
            return;
        };
        let made_since = self.count.wrapping_sub(before);
        for (place, kept) in self.kept.iter_mut().enumerate() {
            // A reference number holds the lowest 31 bits of the count.
            let age = self.count.wrapping_sub(kept.number) & !FIRST;
            if kept.exception.is_some() && age > made_since && !mem::replace(&mut kept.marked, true)
            {
                found.push(place);
            }
        }
    }

    /// Marks all exceptions to which one of the words `words` could be a reference.
    ///
    /// # Errors
    ///
    /// The call was stopped during the scan. The end of a time slice does not end the scan, because
    /// a resumed guest would have to start the scan again.
    pub(crate) fn mark_all(
        &mut self,
        words: &[u64],
        found: &mut Vec<usize>,
        watched: Option<&Watched>,
    ) -> Result<(), Refused> {
        for words in words.chunks(CHUNK_WORDS) {
            for word in words {
                self.mark(*word, found);
            }
            if look(watched) == Err(Halt::Stopped) {
                return Err(Refused::Stopped);
            }
        }
        Ok(())
    }

    /// Whether `quarters` quarters of the limits have room for another exception with `values`
    /// values.
    pub(crate) fn has_room(&self, values: usize, quarters: usize) -> bool {
        let taken = self.kept.len() - self.free.len();
        taken < KEPT_MAX / 4 * quarters && self.values + values <= KEPT_VALUES_MAX / 4 * quarters
    }

    /// Keeps an exception, and returns a reference to the exception.
    ///
    /// # Errors
    ///
    /// The instance would exceed its limit of host memory.
    pub(crate) fn keep(
        &mut self,
        exception: Thrown,
        account: &Account,
    ) -> Result<u64, HostBytesError> {
        let bytes = self.bytes_to_keep(&exception);
        self.make_places(bytes, account)?;
        self.hold(bytes, account)?;
        self.thrown_bytes = 0;
        self.values += exception.values.len();
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(KeptException {
                number: 0,
                exception: None,
                marked: false,
            });
            // There are at most `KEPT_MAX` places, so the index fits.
            self.kept.len() as u32 - 1
        });
        let number = FIRST | self.count;
        self.count = self.count.wrapping_add(1);
        let kept = &mut self.kept[place as usize];
        (kept.number, kept.exception) = (number, Some(exception));
        Ok(u64::from(number) << 32 | u64::from(place + 1))
    }
}
