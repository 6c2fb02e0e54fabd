//! Exceptions (spec 3.0, 4.4.10): thrown, kept for references, and where they are caught.
//!
//! Who throws has left the guest. The frames on its stack are walked by their frame pointers, as for a backtrace, and the
//! first that returns to a place which its module has a handler for catches: the guest goes on there, with the stack that
//! the frame had. Which clause it is, and whether any, the handler finds out by itself; if none, it throws again.
//!
//! What was thrown last is here until something else is. An exception that a guest has a reference to is kept, by a number
//! that no other one of its store has, nor had among the last 2^31. When there are many, those are forgotten that no word
//! of the stack, of a table, a global or a kept exception could be a reference to: a number that only looks like one costs
//! a place, nothing else.
//!
//! # Safety
//!
//! Owns the fact that a guest goes on only at a handler of a module of its own call, with the stack of the frame that the
//! handler is of.
#![allow(unsafe_code)]

use super::bulk::{CHUNK_BYTES, Halt, look};
use super::member::Member;
use super::{builtin, heap};
use crate::account::{Account, HostBytesError};
use crate::stop::Watched;
use crate::switch::activation::within;
use crate::switch::{Activation, Guest, Record, arch};
use crate::trap::{Trap, TrapCode, backtrace};
use crate::value::{Cell, Stamp, Value};
use core::{mem, slice};
use pirn_format::layout::{CONTEXT_EXCEPTION_TAG, CONTEXT_EXCEPTION_VALUES};
use pirn_format::metadata::ExportItem;
use pirn_format::types::ExternType;
use smallvec::SmallVec;

/// The most exceptions that are kept for a guest, and for which it may have references.
pub(crate) const KEPT_MAX: usize = 1 << 14;

/// The most values that they may have together: 4 MiB of cells.
pub(crate) const KEPT_VALUES_MAX: usize = 1 << 18;

/// Of both, and of the host memory for exceptions, how many quarters may be left when those are forgotten that nothing refers
/// to: looking through the stack and all tables for every single one would take a guest's host milliseconds a throw.
const LEFT_QUARTERS: usize = 3;

/// Exceptions that are kept before any is looked for that is not referred to any more.
const KEPT_FREE: usize = 1 << 10;

/// Words of structs and arrays up to which they are looked through: 64 MiB, some 10 ms.
const WORDS_MAX: usize = 1 << 23;

/// Words that are looked through between two looks at the interrupt flag.
const CHUNK_WORDS: usize = CHUNK_BYTES / size_of::<u64>();

/// Host memory that one place for a kept exception takes: the place, its entry in the list of free
/// places, and its entry in the list of places that are found to be referred to.
const PLACE_BYTES: usize = size_of::<Kept>() + size_of::<u32>() + size_of::<usize>();

/// Places that the first kept exception makes room for.
const PLACES_FIRST: usize = 4;

/// Values and return addresses that lie in an exception; more are outside.
const INLINE_VALUES: usize = 4;
const INLINE_PCS: usize = 8;

/// Where references begin to count: no small number looks like one.
const FIRST: u32 = 1 << 31;

/// The most return addresses of an exception that are noted, as many as a backtrace has.
const PCS_MAX: usize = 64;

/// The exceptions of a store: what the instance with the lowest position has for all of its group.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    /// What was thrown last.
    thrown: Option<Exception>,
    kept: Vec<Kept>,
    /// Places in `kept` that are free.
    free: Vec<u32>,
    /// How many places may be taken before any is looked for.
    enough: usize,
    /// Values of all that are kept.
    values: usize,
    /// Host memory that is counted as held for the exceptions: places, and what lies outside them.
    bytes: usize,
    /// How much of it is for `thrown`.
    thrown_bytes: usize,
    /// How many references there were.
    count: u32,
}

/// An exception.
#[derive(Debug, Clone)]
struct Exception {
    /// Its tag's identity.
    tag: u64,
    /// Who has thrown it, and the tag's index there.
    by: (usize, u32),
    values: SmallVec<[Cell; INLINE_VALUES]>,
    /// Return addresses on the way from who has thrown it, innermost first.
    pcs: SmallVec<[usize; INLINE_PCS]>,
}

/// A place for an exception that there is a reference to.
#[derive(Debug)]
struct Kept {
    /// The upper half of the reference, of which the lower is the place, counted from 1.
    number: u32,
    exception: Option<Exception>,
    /// Whether a reference was found.
    marked: bool,
}

/// Host memory that an exception needs outside its place, with room for so many values and so many
/// return addresses.
fn outside_bytes(values: usize, pcs: usize) -> usize {
    let lists = [
        (values, INLINE_VALUES, size_of::<Cell>()),
        (pcs, INLINE_PCS, size_of::<usize>()),
    ];
    let outside = lists
        .into_iter()
        .filter(|(count, inline, _)| count > inline);
    outside.map(|(count, _, bytes)| count * bytes).sum()
}

impl Exception {
    /// Host memory that it has outside its place.
    fn outside_bytes(&self) -> usize {
        outside_bytes(self.values.capacity(), self.pcs.capacity())
    }
}

/// The host memory that is counted for exceptions.
impl Exceptions {
    /// Counts host memory as held for the exceptions.
    ///
    /// # Errors
    ///
    /// If the instance may not have so much.
    fn hold(&mut self, bytes: usize, account: &Account) -> Result<(), HostBytesError> {
        // The account stays untouched where exceptions are small.
        if bytes > 0 {
            account.hold(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Counts host memory as no longer held for the exceptions.
    fn release(&mut self, bytes: usize, account: &Account) {
        if bytes > 0 {
            account.release(bytes);
            self.bytes -= bytes;
        }
    }

    /// Drops what was thrown last, and counts so much for what is thrown next.
    ///
    /// # Errors
    ///
    /// If the instance may not have so much.
    fn throw_next(&mut self, bytes: usize, account: &Account) -> Result<(), HostBytesError> {
        self.thrown = None;
        let counted = mem::take(&mut self.thrown_bytes);
        self.release(counted, account);
        self.hold(bytes, account)?;
        self.thrown_bytes = bytes;
        Ok(())
    }

    /// Host memory that must be counted to keep an exception, but for its place.
    fn bytes_to_keep(&self, exception: &Exception) -> usize {
        // What was counted for it as the one that was thrown stays counted.
        exception.outside_bytes() - self.thrown_bytes
    }

    /// Whether a place must be made before another exception is kept.
    fn lacks_place(&self) -> bool {
        self.free.is_empty() && self.kept.len() == self.kept.capacity()
    }

    /// Places that can be made at once beside so many bytes: as many as there are, or fewer if there
    /// is no host memory for them.
    fn places_affordable(&self, bytes: usize, account: &Account) -> usize {
        let left = account.host_bytes_left().saturating_sub(bytes);
        let wanted = self.kept.capacity().max(PLACES_FIRST);
        wanted.min(left / PLACE_BYTES)
    }

    /// Whether there is host memory for another exception, of so many bytes outside its place.
    fn has_bytes(&self, bytes: usize, account: &Account) -> bool {
        match self.lacks_place() {
            true => self.places_affordable(bytes, account) > 0,
            false => bytes <= account.host_bytes_left(),
        }
    }

    /// Whether so many quarters of the host memory that exceptions may have are enough for those that
    /// are kept.
    fn bytes_within(&self, quarters: usize, account: &Account) -> bool {
        let places = self.kept.capacity() - self.kept.len() + self.free.len();
        let all = self.bytes + account.host_bytes_left();
        self.bytes - places * PLACE_BYTES <= all / 4 * quarters
    }

    /// Makes places, if there is none, beside so many bytes.
    ///
    /// # Errors
    ///
    /// If the instance may not have so much host memory.
    fn make_places(&mut self, bytes: usize, account: &Account) -> Result<(), HostBytesError> {
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
    /// The place of what a number refers to, if it refers to anything.
    fn place(&self, reference: u64) -> Option<usize> {
        let place = (reference as u32).checked_sub(1)? as usize;
        let kept = self.kept.get(place)?;
        let is_it = kept.exception.is_some() && u64::from(kept.number) == reference >> 32;
        is_it.then_some(place)
    }

    /// Notes that something may refer to it.
    fn mark(&mut self, reference: u64, found: &mut Vec<usize>) {
        if let Some(place) = self.place(reference)
            && !mem::replace(&mut self.kept[place].marked, true)
        {
            found.push(place);
        }
    }

    /// Marks all that one of these words could be a reference to.
    ///
    /// # Errors
    ///
    /// If the call was stopped meanwhile. A slice of time that is over does not end the search: its
    /// guest is resumed later, and the search would begin anew.
    fn mark_all(
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

    /// Whether the limits, or so many quarters of them, allow another one.
    fn has_room(&self, values: usize, quarters: usize) -> bool {
        let taken = self.kept.len() - self.free.len();
        taken < KEPT_MAX / 4 * quarters && self.values + values <= KEPT_VALUES_MAX / 4 * quarters
    }

    /// Keeps an exception, and gives the reference to it.
    ///
    /// # Errors
    ///
    /// If the instance may not have so much host memory.
    fn keep(&mut self, exception: Exception, account: &Account) -> Result<u64, HostBytesError> {
        let bytes = self.bytes_to_keep(&exception);
        self.make_places(bytes, account)?;
        self.hold(bytes, account)?;
        self.thrown_bytes = 0;
        self.values += exception.values.len();
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(Kept {
                number: 0,
                exception: None,
                marked: false,
            });
            // At most `KEPT_MAX`.
            self.kept.len() as u32 - 1
        });
        let number = FIRST | self.count;
        self.count = self.count.wrapping_add(1);
        let kept = &mut self.kept[place as usize];
        (kept.number, kept.exception) = (number, Some(exception));
        Ok(u64::from(number) << 32 | u64::from(place + 1))
    }
}

/// The exceptions of a call's store.
fn store<T>(members: &mut [Member<T>]) -> &mut Exceptions {
    members[0].exceptions.get_or_insert_default()
}

/// The account of a call's store.
fn account<'a, T>(members: &[Member<T>]) -> &'a Account {
    // SAFETY: the context of an initialised instance, whose guest does not run. Whoever asks has
    // borrowed the members, which keep their region.
    unsafe { Record::account(members[0].vmctx()) }
}

/// Throws an exception of a tag of member `at`.
///
/// # Errors
///
/// If the host may not hold its values.
///
/// # Safety
///
/// The guest must have left by an exit, `values` be the address of as many cells as the tag has
/// parameters, on its stack, at that exit's cells or above.
pub(super) unsafe fn throw<T>(
    members: &mut [Member<T>],
    left: Left<'_>,
    at: usize,
    tag: u32,
    values: u64,
) -> Result<(), Refused> {
    let module = &members[at].inner.module;
    let ty = module.metadata().tags[tag as usize];
    let count = module.metadata().func_type(ty).params.len();
    // SAFETY: the caller's promise; the guest does not run.
    let values = unsafe { slice::from_raw_parts(values as *const Cell, count) };
    // SAFETY: the identity was written when the slot got the module.
    let identity = unsafe { *members[at].cell::<u64>(module.layout().tag(tag)) };
    // SAFETY: the caller's promise.
    unsafe { throw_next(members, left, outside_bytes(count, 0))? };
    let exception = Exception {
        tag: identity,
        by: (at, tag),
        values: SmallVec::from_slice(values),
        pcs: SmallVec::new(),
    };
    store(members).thrown = Some(exception);
    Ok(())
}

/// Throws an exception again that a guest has a reference to.
///
/// # Errors
///
/// The trap of a null reference, if the exception was freed because only the host had a reference
/// to it; and
/// [`TrapCode::HostMemoryExhausted`], if a copy would be more than the host may hold.
///
/// # Safety
///
/// The guest must have left by an exit, among whose cells the reference is.
pub(super) unsafe fn throw_ref<T>(
    members: &mut [Member<T>],
    left: Left<'_>,
    reference: u64,
) -> Result<(), Refused> {
    let exceptions = store(members);
    let place = exceptions.place(reference);
    let place = place.ok_or(TrapCode::NullExceptionReference)?;
    if let Some(kept) = &exceptions.kept[place].exception {
        let bytes = outside_bytes(kept.values.len(), kept.pcs.len());
        // SAFETY: the caller's promise. So the exception is not forgotten.
        unsafe { throw_next(members, left, bytes)? };
    }
    let exceptions = store(members);
    exceptions
        .thrown
        .clone_from(&exceptions.kept[place].exception);
    Ok(())
}

/// Where a guest has left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    /// The activation of its call.
    pub(super) activation: *const Activation,
    /// The cells of the exit, on its stack.
    pub(super) cells: *const Cell,
    /// By which its call may be stopped, if it may.
    pub(super) watched: Option<&'a Watched>,
}

/// Why an exception was neither thrown nor kept.
#[derive(Debug)]
pub(super) enum Refused {
    /// The guest traps.
    Trap(Trap),
    /// The call was stopped while exceptions were looked for that nothing refers to.
    Stopped,
}

impl<E: Into<Trap>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Trap(error.into())
    }
}

/// Drops what was thrown last, and counts so much for what is thrown next, once those exceptions are
/// forgotten that nothing refers to, if there is no host memory for it before.
///
/// # Errors
///
/// If the instance may not have so much.
///
/// # Safety
///
/// The guest must have left there; what is thrown next lies at the cells or above.
unsafe fn throw_next<T>(
    members: &mut [Member<T>],
    left: Left<'_>,
    bytes: usize,
) -> Result<(), Refused> {
    let account = account(members);
    let Err(refused) = store(members).throw_next(bytes, account) else {
        return Ok(());
    };
    if !is_short(members) {
        return Err(refused.into());
    }
    // SAFETY: the caller's promise.
    unsafe { forget(members, left, &[])? };
    let exceptions = store(members);
    if !exceptions.bytes_within(LEFT_QUARTERS, account) {
        return Err(refused.into());
    }
    Ok(exceptions.throw_next(bytes, account)?)
}

/// Whether the structs and arrays of all members are few enough to be looked through.
fn is_short<T>(members: &[Member<T>]) -> bool {
    let looked_at = members
        .iter()
        .map(|member| match member.inner.plan.holds_exceptions {
            true => heap::words(member).len(),
            false => 0,
        });
    looked_at.sum::<usize>() <= WORDS_MAX
}

/// Keeps what was thrown last; the reference to it.
///
/// # Errors
///
/// If too many are kept, or the host may not hold another.
///
/// # Safety
///
/// The guest must have left there.
pub(super) unsafe fn keep<T>(members: &mut [Member<T>], left: Left<'_>) -> Result<u64, Refused> {
    let (account, exceptions) = (account(members), store(members));
    let Some(exception) = exceptions.thrown.take() else {
        return Err(TrapCode::Unreachable.into());
    };
    let bytes = exceptions.bytes_to_keep(&exception);
    let taken = exceptions.kept.len() - exceptions.free.len();
    let values = exception.values.len();
    // Who has many structs, any of which may refer to an exception, has room for as many as there are, and no more.
    let is_short = is_short(members);
    let exceptions = store(members);
    let is_full = !exceptions.has_room(values, 4);
    let lacks_bytes = !exceptions.has_bytes(bytes, account);
    if is_full && !is_short {
        return Err(TrapCode::ExceptionsExhausted.into());
    }
    if is_short && (taken >= exceptions.enough.max(KEPT_FREE) || is_full || lacks_bytes) {
        // SAFETY: the caller's promise.
        unsafe { forget(members, left, &exception.values)? };
        let exceptions = store(members);
        if !exceptions.has_room(values, LEFT_QUARTERS) {
            return Err(TrapCode::ExceptionsExhausted.into());
        }
        if lacks_bytes && !exceptions.bytes_within(LEFT_QUARTERS, account) {
            return Err(account.refusal(bytes + PLACE_BYTES).into());
        }
    }
    let exceptions = store(members);
    Ok(exceptions.keep(exception, account)?)
}

/// Forgets all that nothing refers to any more.
///
/// # Errors
///
/// If the call was stopped meanwhile: nothing is forgotten then.
///
/// # Safety
///
/// As [`keep`]. The values that the guest has thrown must be given, unless they are still on its stack.
unsafe fn forget<T>(
    members: &mut [Member<T>],
    left: Left<'_>,
    thrown: &[Cell],
) -> Result<(), Refused> {
    let account = account(members);
    let mut exceptions = mem::take(store(members));
    // SAFETY: the caller's promise.
    let marked = unsafe { mark_referred(members, left, thrown, &mut exceptions) };
    if marked.is_err() {
        for kept in &mut exceptions.kept {
            kept.marked = false;
        }
        *store(members) = exceptions;
        return marked;
    }
    let mut freed_bytes = 0;
    for (place, kept) in (0..).zip(&mut exceptions.kept) {
        if !mem::take(&mut kept.marked)
            && let Some(exception) = kept.exception.take()
        {
            exceptions.values -= exception.values.len();
            freed_bytes += exception.outside_bytes();
            exceptions.free.push(place);
        }
    }
    exceptions.release(freed_bytes, account);
    let taken = exceptions.kept.len() - exceptions.free.len();
    exceptions.enough = 2 * taken;
    *store(members) = exceptions;
    Ok(())
}

/// Marks all that the guest, or a kept exception that it refers to, could refer to.
///
/// # Errors
///
/// If the call was stopped meanwhile: some may be marked then.
///
/// # Safety
///
/// As [`forget`].
unsafe fn mark_referred<T>(
    members: &[Member<T>],
    left: Left<'_>,
    thrown: &[Cell],
    exceptions: &mut Exceptions,
) -> Result<(), Refused> {
    let (watched, mut found) = (left.watched, Vec::with_capacity(exceptions.kept.len()));
    let words = |from: usize, count: usize| {
        // SAFETY: each caller says that they are there, and aligned.
        unsafe { slice::from_raw_parts(from as *const u64, count) }
    };
    // All frames of the guest are at the cells or above: its functions keep nothing in registers while they call.
    // SAFETY: the activation is the record of a member of the call.
    let stack = unsafe { (*left.activation.cast::<Record>()).guest.stack };
    let (from, end) = (left.cells as usize & !7, stack[1]);
    exceptions.mark_all(words(from, (end - from) / 8), &mut found, watched)?;
    for member in members {
        let metadata = member.inner.module.metadata();
        for (index, ty) in (0..).zip(&metadata.tables) {
            if ty.element.is_exn_ref() {
                // SAFETY: the descriptor of a table of an initialised instance.
                let table = unsafe { *builtin::table(member, index) };
                let elements = words(table.base as usize, table.elements as usize);
                exceptions.mark_all(elements, &mut found, watched)?;
            }
        }
        if member.inner.plan.holds_exceptions {
            exceptions.mark_all(heap::words(member), &mut found, watched)?;
        }
        for (index, ty) in (0..).zip(&metadata.globals) {
            if ty.content.is_exn_ref() {
                exceptions.mark(builtin::global(member, index).u64(), &mut found);
            }
        }
    }
    for value in thrown {
        exceptions.mark(value.u64(), &mut found);
    }
    while let Some(place) = found.pop() {
        let exception = exceptions.kept[place].exception.take();
        for value in exception.iter().flat_map(|exception| &exception.values) {
            exceptions.mark(value.u64(), &mut found);
        }
        exceptions.kept[place].exception = exception;
    }
    Ok(())
}

/// Has a guest that has left go on where it catches what was thrown last; whether it does.
///
/// # Safety
///
/// `activation` must be that of the call of these members, whose guest has left by an answer.
pub(super) unsafe fn land<T>(members: &mut [Member<T>], activation: *mut Activation) -> bool {
    // SAFETY: the activation is at the start of the record of a member of the call.
    let guest: &Guest = unsafe { &(*activation.cast::<Record>()).guest };
    let stack = guest.stack;
    let Some(mut exception) = store(members).thrown.take() else {
        return false;
    };
    // Who throws again has been noted where it has caught.
    let mut is_noted = !exception.pcs.is_empty();
    // SAFETY: the guest has left, so nobody else uses the activation.
    let fp = unsafe { (*activation).guest_registers[arch::FRAME_POINTER] } as usize;
    let mut landing = None;
    // What called the exit routine is a trampoline: its caller is the first.
    // SAFETY: the guest's stack, which it has left.
    for call in unsafe { backtrace::calls(stack, fp) } {
        if !mem::take(&mut is_noted) && exception.pcs.len() < PCS_MAX {
            exception.pcs.push(call.pc);
        }
        let mut modules = members.iter().map(|member| &member.inner.module);
        let handler = modules
            .find(|module| module.text().contains(&call.pc))
            .and_then(|module| {
                let offset = u32::try_from(call.pc - module.text().start).ok()?;
                let handler = module.handlers().find(offset)?;
                Some((module.code(handler.handler), handler.frame_bytes as usize))
            });
        if let Some((to, frame_bytes)) = handler {
            landing = Some((to, call.by.wrapping_sub(frame_bytes), call));
            break;
        }
    }
    // The frame that catches lies above that of what it called. Its stack pointer may lie below that one: who was called
    // with arguments on the stack has moved up over them if it went on by a tail call.
    let landing = landing.filter(|(_, sp, call)| {
        let below = sp.wrapping_sub(size_of::<usize>());
        call.of < call.by && *sp <= call.by && within(stack, call.by) && within(stack, below)
    });
    let tag = exception.tag;
    let exceptions = store(members);
    let values = exceptions.thrown.insert(exception).values.as_ptr() as u64;
    let Some((to, sp, call)) = landing else {
        return false;
    };
    for member in &*members {
        // SAFETY: contexts of initialised instances, whose guests do not run.
        unsafe {
            member.cell::<u64>(CONTEXT_EXCEPTION_TAG).write(tag);
            member.cell::<u64>(CONTEXT_EXCEPTION_VALUES).write(values);
        }
    }
    // SAFETY: the handler is one of the frame that it was found for, and that frame is the guest's, and as it was when it
    // called; what lies below its stack pointer is of those that it called.
    unsafe { arch::go_on_at(&mut *activation, to, sp, call.by) };
    true
}

/// What was thrown last, and nothing caught: its tag's name, if it has any, its values, and the return addresses on its way.
pub(super) fn uncaught<T>(
    members: &mut [Member<T>],
) -> (Option<String>, Vec<Value>, SmallVec<[usize; 8]>) {
    let (account, exceptions) = (account(members), store(members));
    let counted = mem::take(&mut exceptions.thrown_bytes);
    exceptions.release(counted, account);
    let Some(exception) = exceptions.thrown.take() else {
        return (None, vec![], SmallVec::new());
    };
    let (at, tag) = exception.by;
    let stamp = members[at].stamp(true);
    let metadata = members[at].inner.module.metadata();
    let types = &metadata.func_type(metadata.tags[tag as usize]).params;
    let values = exception.values.iter().zip(types);
    let values = values.map(|(cell, ty)| cell.value(*ty, stamp)).collect();
    let imports = metadata.imports.iter();
    let imported = imports
        .filter(|import| matches!(import.ty, ExternType::Tag(_)))
        .nth(tag as usize);
    let mut exports = metadata.exports.iter();
    let exported = exports.find(|export| export.item == ExportItem::Tag(tag));
    let name = match (imported, exported) {
        (Some(import), _) => Some(import.name.clone()),
        (None, Some(export)) => Some(export.name.clone()),
        (None, None) => None,
    };
    (name, values, exception.pcs)
}

/// Whether a reference of the host's is to an exception that is still kept, or null.
pub(super) fn is_kept<T>(members: &[Member<T>], value: Value, stamp: Stamp) -> bool {
    let Value::ExnRef(Some(_)) = value else {
        return true;
    };
    let Ok(cell) = Cell::from_value(value, stamp) else {
        return false;
    };
    let exceptions = members[0].exceptions.as_ref();
    exceptions.is_some_and(|exceptions| exceptions.place(cell.u64()).is_some())
}
