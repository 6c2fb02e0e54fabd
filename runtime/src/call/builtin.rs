//! Builtins: WebAssembly instructions that the runtime executes (spec 4.4.6 and 4.4.7). Builtins
//! grow memories and tables, write in bulk, and drop segments.
//!
//! Every bound is checked here before the first byte is written. The checks use 64-bit arithmetic
//! on values that the guest cannot change during the check.
//!
//! # Safety
//!
//! This file owns one fact. The ranges of each [`Bulk`] that the file makes lie in memories, tables
//! or arrays of the call's members.
#![allow(unsafe_code)]

use super::grow::{NOT_GROWN, grow_memory, grow_table};
use super::heap;
use super::segments::{write_data, write_elements};
use super::wait::notify;
use crate::store::bulk::Bulk;
use crate::store::descriptors::{
    check_elements, data_left, data_part, drop_segment, element_position, faults, memory,
    memory_range, table, table_range,
};
use crate::store::member::Member;
use crate::value::Cell;
use pirn_format::exit::{Builtin, TrapCode};

/// Runs a builtin for member `at`. `cells` holds the parameters, and the first cell receives a
/// result.
///
/// The builtin checks the bounds of a bulk write and returns the write. The caller must run it.
///
/// # Errors
///
/// The trap of the instruction.
// Longer than a screen: an arm for each builtin.
pub(crate) fn run<T>(
    members: &mut [Member<T>],
    at: usize,
    builtin: Builtin,
    cells: &mut [Cell],
    data: &mut T,
) -> Result<Option<Bulk>, TrapCode> {
    let word = |i: usize| cells[i].u64();
    // Indices are 32-bit constants of the generated code.
    let index = |i: usize| cells[i].u32();
    let member = &members[at];
    match builtin {
        Builtin::MemoryGrow => {
            let previous = grow_memory(members, index(0), at, word(1), data);
            cells[0] = Cell::from_u64(previous);
        }
        Builtin::MemoryCopy => {
            let (to, from) = (memory(member, index(0)), memory(member, index(1)));
            let (dst, src, len) = (word(2), word(3), word(4));
            let from = memory_range(from, src, len)?;
            let to = memory_range(to, dst, len)?;
            // SAFETY: `memory_range` checked that both ranges lie in their memories, which the
            // members keep alive.
            let bulk = unsafe { Bulk::copy(to, from, len as usize) };
            let [to, from] = [index(0), index(1)].map(|index| faults(member, index));
            return Ok(Some(bulk.populating(to, from)));
        }
        Builtin::MemoryFill => {
            let to = memory_range(memory(member, index(0)), word(1), word(3))?;
            // SAFETY: `memory_range` checked that the range lies in the memory, which the members
            // keep alive.
            let bulk = unsafe { Bulk::fill(to, word(2) as u8, word(3) as usize) };
            return Ok(Some(bulk.populating(faults(member, index(0)), false)));
        }
        Builtin::MemoryInit => {
            let bytes = data_part(data_left(member, index(1)), word(3), word(4))?;
            return write_data(member, index(0), bytes, word(2)).map(Some);
        }
        Builtin::DataDrop => drop_segment(member, index(0)),
        Builtin::TableGrow => {
            let grown = grow_table(members, index(0), at, word(1), word(2), data);
            let (previous, bulk) = grown.unwrap_or((NOT_GROWN, None));
            cells[0] = Cell::from_u64(previous);
            return Ok(bulk);
        }
        Builtin::TableCopy => {
            let (to, from) = (table(member, index(0)), table(member, index(1)));
            let (dst, src, len) = (word(2), word(3), word(4));
            let from = table_range(from, src, len)?;
            let to = table_range(to, dst, len)?;
            // SAFETY: `table_range` checked that both ranges lie in their tables, which the members
            // keep alive.
            return Ok(Some(unsafe {
                Bulk::copy(to.cast(), from.cast(), len as usize * size_of::<u64>())
            }));
        }
        Builtin::TableFill => {
            let to = table_range(table(member, index(0)), word(1), word(3))?;
            // SAFETY: `table_range` checked that the range lies in the table, which the members
            // keep alive.
            return Ok(Some(unsafe { Bulk::words(to, word(2), word(3) as usize) }));
        }
        Builtin::TableInit => {
            let (segment, from, len) = (index(1), word(3), word(4));
            check_elements(member, segment, from, len)?;
            return write_elements(member, index(0), segment, word(2), from, len).map(Some);
        }
        Builtin::ElemDrop => drop_segment(member, element_position(member, index(0))),
        Builtin::MemoryNotify => {
            let woken = notify(member, index(0), word(1), index(2))?;
            cells[0] = Cell::from_u64(woken.into());
        }
        Builtin::HeapGrow => heap::grow(members, at, word(0), data)?,
        Builtin::ArrayNewData => {
            let (what, range) = ([index(0), index(1)], [word(2), word(3)]);
            let (array, bulk) = heap::array_of_data(members, at, what, range, data)?;
            cells[0] = Cell::from_u64(array);
            return Ok(Some(bulk));
        }
        Builtin::ArrayNewElem => {
            let (what, range) = ([index(0), index(1)], [word(2), word(3)]);
            let (array, bulk) = heap::array_of_elements(members, at, what, range, data)?;
            cells[0] = Cell::from_u64(array);
            return Ok(Some(bulk));
        }
        Builtin::ArrayInitData => {
            let bytes = data_part(data_left(member, index(0)), word(2), word(3))?;
            // SAFETY: generated code has checked that the array has `bytes.len()` bytes from that
            // address on. Objects do not move.
            return Ok(Some(unsafe {
                Bulk::copy(word(1) as *mut u8, bytes.as_ptr(), bytes.len())
            }));
        }
        Builtin::ArrayInitElem => {
            check_elements(member, index(0), word(2), word(3))?;
            // SAFETY: generated code has checked that the array has `word(3)` elements from that
            // address on. Objects do not move.
            return Ok(Some(unsafe {
                Bulk::elements(word(1) as *mut u64, index(0), word(2), word(3))
            }));
        }
        Builtin::ArrayCopy => {
            let (to, from) = (word(0) as *mut u8, word(1) as *const u8);
            // SAFETY: generated code has checked that both arrays have `word(2)` bytes from these
            // addresses on. Objects do not move.
            return Ok(Some(unsafe { Bulk::copy(to, from, word(2) as usize) }));
        }
        Builtin::HostBox => {
            cells[0] = Cell::from_u64(heap::internalized(members, at, word(0), data)?);
        }
        Builtin::Throw
        | Builtin::ThrowRef
        | Builtin::Rethrow
        | Builtin::Keep
        | Builtin::MemoryWait32
        | Builtin::MemoryWait64 => {
            // These builtins may leave the guest or scan its stack, so `Call::builtin` handles
            // them.
            return Err(TrapCode::Unreachable);
        }
    }
    Ok(None)
}
