//! Exceptions (spec 3.0, 4.4.10): how they are thrown, kept for references, and caught.
//!
//! A guest that throws first exits. The runtime then walks the guest's frames by their frame
//! pointers, as for a backtrace. The runtime takes the first frame whose return address has a
//! handler in its module. The guest continues in that handler, with the stack pointer of that
//! frame. The handler itself selects the catch clause. If no clause matches, it throws the
//! exception again.
//!
//! The runtime stores the exception that was thrown last. The runtime also keeps every exception to
//! which a guest has a reference. A reference is a number that is unique in its store among the
//! last 2^31 references.
//!
//! When many exceptions are kept, a conservative mark phase scans the stack, the tables, the
//! globals, the heap and the kept exceptions. An exception without a mark is freed. A number that
//! only looks like a reference keeps its exception, which costs one place and nothing else.
//!
//! # Safety
//!
//! This file owns one fact. A guest continues only at a handler of a module of its own call, with
//! the stack of the frame to which the handler belongs.
#![allow(unsafe_code)]

use crate::account::Account;
use crate::stop::Watched;
use crate::store::exceptions::{
    Exceptions, KEPT_FREE, LEFT_QUARTERS, PCS_MAX, PLACE_BYTES, Refused, Thrown, WORDS_MAX,
    outside_bytes,
};
use crate::store::member::Member;
use crate::store::{descriptors, heap};
use crate::switch::activation::within;
use crate::switch::{Activation, Guest, Record, arch};
use crate::trap::{TrapCode, backtrace};
use crate::value::{Cell, InstanceId, Value};
use core::{mem, slice};
use pirn_format::layout::{CONTEXT_EXCEPTION_TAG, CONTEXT_EXCEPTION_VALUES};
use pirn_format::metadata::ExportItem;
use pirn_format::types::ExternType;
use smallvec::SmallVec;

/// The exceptions of the store of a call.
fn store<T>(members: &mut [Member<T>]) -> &mut Exceptions {
    members[0].exceptions.get_or_insert_default()
}

/// The account of the store of a call.
fn account<'a, T>(members: &[Member<T>]) -> &'a Account {
    // SAFETY: the context belongs to an initialised instance, whose guest does not run. The caller
    // has borrowed the members, which keep their region alive.
    unsafe { Record::account(members[0].vmctx()) }
}

/// Throws an exception with a tag of member `at`.
///
/// # Errors
///
/// The store would exceed its limit of host memory, or the call was stopped.
///
/// # Safety
///
/// The guest must have exited as `left` says. `values` must be the address of one cell for each
/// parameter of the tag. These cells must lie on the guest's stack, at the cells of the exit or
/// above.
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
    // SAFETY: the caller ensures that `values` points to `count` cells. The guest does not run.
    let values = unsafe { slice::from_raw_parts(values as *const Cell, count) };
    // SAFETY: `write_constants` wrote the identity when the slot got the module.
    let identity = unsafe { *members[at].cell::<u64>(module.layout().tag(tag)) };
    // SAFETY: the caller ensures that the guest has exited as `left` says, with the values on its
    // stack.
    unsafe { throw_next(members, left, outside_bytes(count, 0))? };
    let exception = Thrown {
        tag: identity,
        by: (at, tag),
        values: SmallVec::from_slice(values),
        pcs: SmallVec::new(),
    };
    store(members).thrown = Some(exception);
    Ok(())
}

/// Throws a kept exception again, by a reference of the guest.
///
/// # Errors
///
/// The trap of a null reference, if the exception was freed because only the host had a reference
/// to the exception. [`TrapCode::HostMemoryExhausted`], if a copy would exceed the limit of host
/// memory. Also if the call was stopped.
///
/// # Safety
///
/// The guest must have exited as `left` says, and the reference must be among the cells of the
/// exit.
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
        // SAFETY: the caller ensures that the guest has exited, with the reference in its cells. So
        // the scan marks the exception, which is not freed.
        unsafe { throw_next(members, left, bytes)? };
    }
    let exceptions = store(members);
    exceptions
        .thrown
        .clone_from(&exceptions.kept[place].exception);
    Ok(())
}

/// The point at which a guest has exited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    /// The activation of the guest's call.
    pub(super) activation: *const Activation,
    /// The cells of the exit, on the guest's stack.
    pub(super) cells: *const Cell,
    /// The means to stop the call; `None` if the call cannot be stopped.
    pub(super) watched: Option<&'a Watched>,
}

/// Drops the exception that was thrown last, and counts `bytes` for the next exception.
///
/// If the limit of host memory does not allow these bytes, the function first frees unreferenced
/// exceptions.
///
/// # Errors
///
/// The store would exceed its limit of host memory, or the call was stopped.
///
/// # Safety
///
/// The guest must have exited as `left` says. The values of the next exception must lie at the
/// cells of the exit or above.
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
    // SAFETY: the caller ensures that the guest has exited, with the values on its stack.
    unsafe { forget(members, left, &[])? };
    let exceptions = store(members);
    if !exceptions.bytes_within(LEFT_QUARTERS, account) {
        return Err(refused.into());
    }
    Ok(exceptions.throw_next(bytes, account)?)
}

/// Whether the structs and arrays of all members are small enough to be scanned.
fn is_short<T>(members: &[Member<T>]) -> bool {
    let looked_at = members
        .iter()
        .map(|member| match member.inner.plan.holds_exceptions {
            true => heap::words(member).len(),
            false => 0,
        });
    looked_at.sum::<usize>() <= WORDS_MAX
}

/// Keeps the exception that was thrown last, and returns a reference to that exception.
///
/// # Errors
///
/// Too many exceptions are kept, the store would exceed its limit of host memory, or the call was
/// stopped.
///
/// # Safety
///
/// The guest must have exited as `left` says.
pub(super) unsafe fn keep<T>(members: &mut [Member<T>], left: Left<'_>) -> Result<u64, Refused> {
    let (account, exceptions) = (account(members), store(members));
    let Some(exception) = exceptions.thrown.take() else {
        return Err(TrapCode::Unreachable.into());
    };
    let bytes = exceptions.bytes_to_keep(&exception);
    let taken = exceptions.kept.len() - exceptions.free.len();
    let values = exception.values.len();
    // A heap too large to scan frees no exceptions, so the limits are final.
    let is_short = is_short(members);
    let exceptions = store(members);
    let is_full = !exceptions.has_room(values, 4);
    let lacks_bytes = !exceptions.has_bytes(bytes, account);
    if is_full && !is_short {
        return Err(TrapCode::ExceptionsExhausted.into());
    }
    if is_short && (taken >= exceptions.enough.max(KEPT_FREE) || is_full || lacks_bytes) {
        // SAFETY: the caller ensures that the guest has exited. The thrown values are given.
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

/// Frees all unreferenced exceptions.
///
/// # Errors
///
/// The call was stopped during the search. Then no exception is freed.
///
/// # Safety
///
/// As [`keep`]. `thrown` must hold the values of the thrown exception, unless they are still on the
/// guest's stack.
unsafe fn forget<T>(
    members: &mut [Member<T>],
    left: Left<'_>,
    thrown: &[Cell],
) -> Result<(), Refused> {
    let account = account(members);
    let mut exceptions = mem::take(store(members));
    // SAFETY: the caller ensures that the guest has exited, and that the thrown values are given or
    // on its stack.
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

/// Marks all exceptions to which the guest, or an exception that it refers to, may have references.
///
/// # Errors
///
/// The call was stopped during the search. Then some exceptions may be marked.
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
        // SAFETY: each use below names an aligned, initialised range of the stack or of a table.
        unsafe { slice::from_raw_parts(from as *const u64, count) }
    };
    exceptions.mark_waiting(&mut found);
    // Every frame of the guest lies at the cells or above. A function with a handler saves all
    // callee-saved registers in its frame. So no frame that will continue has a reference in a
    // register. Frames of a guest that waits during a nested call can: see `mark_waiting`.
    // SAFETY: the activation is the first part of the record of a member of the call.
    let stack = unsafe { (*Record::with(left.activation.cast_mut())).guest.stack };
    let (from, end) = (left.cells as usize & !7, stack[1]);
    exceptions.mark_all(words(from, (end - from) / 8), &mut found, watched)?;
    for member in members {
        let metadata = member.inner.module.metadata();
        for (index, ty) in (0..).zip(&metadata.tables) {
            if ty.element.is_exn_ref() {
                // SAFETY: the descriptor belongs to a table of an initialised instance.
                let table = unsafe { *descriptors::table(member, index) };
                let elements = words(table.base as usize, table.elements as usize);
                exceptions.mark_all(elements, &mut found, watched)?;
            }
        }
        if member.inner.plan.holds_exceptions {
            exceptions.mark_all(heap::words(member), &mut found, watched)?;
        }
        for (index, ty) in (0..).zip(&metadata.globals) {
            if ty.content.is_exn_ref() {
                exceptions.mark(descriptors::global(member, index).u64(), &mut found);
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

/// Prepares the guest to continue in a handler for the exception that was thrown last, and returns
/// whether there is such a handler.
///
/// # Safety
///
/// `activation` must belong to the call of these members. Its guest must have exited by an answer.
pub(super) unsafe fn land<T>(members: &mut [Member<T>], activation: *mut Activation) -> bool {
    // SAFETY: the activation is the first part of the record of a member of the call.
    let guest: &Guest = unsafe { &(*Record::with(activation)).guest };
    let stack = guest.stack;
    let Some(mut exception) = store(members).thrown.take() else {
        return false;
    };
    // A frame that rethrows was already recorded when it caught the exception.
    let mut is_noted = !exception.pcs.is_empty();
    // SAFETY: the guest has been left, so nothing else uses the activation.
    let fp = unsafe { (*activation).guest_registers[arch::FRAME_POINTER] } as usize;
    let mut landing = None;
    // Only builtins throw, and their trampoline called the exit routine. The first frame of the
    // walk is the trampoline's caller.
    // SAFETY: `stack` is the guest's stack, and the guest does not run.
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
    // The catching frame lies above the frame that it called. Its stack pointer may lie below that
    // frame: a callee with arguments on the stack may tail-call, and then its frame overlaps the
    // arguments.
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
        // SAFETY: the contexts belong to initialised instances, whose guests do not run.
        unsafe {
            member.cell::<u64>(CONTEXT_EXCEPTION_TAG).write(tag);
            member.cell::<u64>(CONTEXT_EXCEPTION_VALUES).write(values);
        }
    }
    // SAFETY: the handler belongs to the frame for which it was found. That frame lies on the
    // guest's stack, and is unchanged since the frame made its call. Everything below its stack
    // pointer belongs to its callees.
    unsafe { arch::reenter_at(&mut *activation, to, sp, call.by) };
    true
}

/// The exception that was thrown last and not caught: the name of its tag, if any, its values, and
/// its return addresses.
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
    let instance_id = members[at].instance_id(true);
    let metadata = members[at].inner.module.metadata();
    let types = &metadata.func_type(metadata.tags[tag as usize]).params;
    let values = exception.values.iter().zip(types);
    let values = values
        .map(|(cell, ty)| cell.value(*ty, instance_id))
        .collect();
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

/// Whether a value of the host is null or refers to an exception that is still kept. Values of
/// other types count as kept.
pub(super) fn is_kept<T>(members: &[Member<T>], value: Value, instance_id: InstanceId) -> bool {
    let Value::ExnRef(Some(_)) = value else {
        return true;
    };
    let Ok(cell) = Cell::from_value(value, instance_id) else {
        return false;
    };
    let exceptions = members[0].exceptions.as_ref();
    exceptions.is_some_and(|exceptions| exceptions.place(cell.u64()).is_some())
}
