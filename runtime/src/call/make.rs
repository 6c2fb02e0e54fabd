//! The values that each instance makes itself before its start: constants that allocate, and large
//! tables.
//!
//! # Safety
//!
//! This file owns one fact. The file writes only globals and tables of the starting instance, and
//! objects that the file has just allocated.
#![allow(unsafe_code)]

use super::heap::{allocate, array, element, elements, fill, id, internalized, store};
use crate::account::HostBytesError;
use crate::stop::{Halt, Watched, look};
use crate::store::bulk::Bulk;
use crate::store::member::{Made, Member};
use crate::store::preparation::Share;
use crate::store::{constant, descriptors, heap, plan};
use crate::value::Cell;
use pirn_format::exit::TrapCode;
use pirn_format::layout::TAG_ARRAY;
use pirn_format::metadata::{ConstExpr, ConstOp, ElementItems};
use std::sync::Arc;

/// Why the start of an instance ended before its start function.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// A write stopped early.
    Halted(Halt),
    /// The instance would exceed its limit of host memory.
    HostBytes(HostBytesError),
}

impl From<Halt> for NotStarted {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

impl From<HostBytesError> for NotStarted {
    fn from(error: HostBytesError) -> Self {
        Self::HostBytes(error)
    }
}

/// Makes the initial values of globals, tables and element segments that differ from instance to
/// instance, in the order of the module (spec 3.0, 4.7.3). Fills large tables first.
///
/// # Errors
///
/// The slot or the host has no room, or the start was stopped.
pub(super) fn make<T>(
    members: &mut [Member<T>],
    at: usize,
    data: &mut T,
    watched: Option<&Watched>,
) -> Result<(), NotStarted> {
    let inner = Arc::clone(&members[at].inner);
    let (metadata, plan) = (inner.module.metadata(), &inner.plan);
    let imported = inner.module.imported();
    let table = |member: &Member<T>, position: u32| {
        let (_, elements) = plan.table_cells[position as usize];
        (
            member.slot.table(&inner.region, position),
            elements as usize,
        )
    };
    for position in &plan.filled_tables {
        let initial = &plan.tables[*position as usize];
        let word = initial.rest.at(members[at].vmctx()).u64();
        let (start, elements) = table(&members[at], *position);
        let written = initial.first.len();
        // SAFETY: the table has room for `elements` elements, see `check_limits`. The first
        // `written` elements are skipped.
        let mut bulk = unsafe { Bulk::words(start.add(written), word, elements - written) };
        bulk.run(&members[at], watched)?;
    }
    for index in &plan.made_globals {
        let init = &metadata.global_inits[(index - imported.globals) as usize];
        let value = value(members, at, &inner, init, data, watched)?;
        // SAFETY: the cell belongs to a global that the instance defines.
        unsafe { members[at].global_cell(*index).write(value) };
    }
    for position in &plan.made_tables {
        let Some(init) = &metadata.table_inits[*position as usize] else {
            continue;
        };
        let value = value(members, at, &inner, init, data, watched)?.u64();
        let (start, elements) = table(&members[at], *position);
        // SAFETY: the table has room for `elements` elements, see `check_limits`.
        let mut bulk = unsafe { Bulk::words(start, value, elements) };
        bulk.run(&members[at], watched)?;
    }
    let mut made: Made = vec![];
    for (segment, element) in metadata.elements.iter().enumerate() {
        if let ElementItems::Exprs(exprs) = &element.items
            && plan::allocates(&element.items)
        {
            let lists = segment + 1 - made.len();
            let bytes = lists * size_of::<Vec<u64>>() + exprs.len() * size_of::<u64>();
            members[at].account().hold(bytes)?;
            made.reserve_exact(lists);
            made.resize_with(segment + 1, Vec::new);
            made[segment].reserve_exact(exprs.len());
            for expr in exprs {
                let value = value(members, at, &inner, expr, data, watched)?;
                made[segment].push(value.u64());
            }
        }
    }
    members[at].made = made;
    Ok(())
}

/// The value of a constant expression of a member. The globals that it uses have their values.
// Longer than a screen: an arm for each operator.
fn value<T>(
    members: &mut [Member<T>],
    at: usize,
    inner: &Share<T>,
    expr: &ConstExpr,
    data: &mut T,
    watched: Option<&Watched>,
) -> Result<Cell, Halt> {
    let (metadata, structs) = (inner.module.metadata(), inner.module.structs());
    // Validation refuses expressions without a value.
    const NONE: Halt = Halt::Trap(TrapCode::Unreachable);
    let mut stack: Vec<Cell> = vec![];
    for op in &expr.0 {
        look(watched)?;
        let value = match *op {
            ConstOp::GlobalGet(index) => descriptors::global(&members[at], index),
            ConstOp::RefFunc(index) => {
                let func = plan::func(index, metadata, inner.module.layout()).ok_or(NONE)?;
                func.at(members[at].vmctx())
            }
            ConstOp::StructNew(ty) | ConstOp::StructNewDefault(ty) => {
                let fields = metadata.struct_fields(ty);
                let places = structs.fields(ty);
                let id = id(&members[at], ty);
                let start = allocate(members, at, id, u64::from(places.bytes), data)?;
                if matches!(op, ConstOp::StructNew(_)) {
                    let first = stack.len().checked_sub(fields.len()).ok_or(NONE)?;
                    let values = stack.split_off(first);
                    for ((field, offset), value) in fields.iter().zip(places.offsets).zip(values) {
                        // SAFETY: the struct has the field at this offset.
                        unsafe { store(start + u64::from(*offset), field.storage, value) };
                    }
                }
                Cell::from_u64(start)
            }
            ConstOp::ArrayNew(ty) | ConstOp::ArrayNewDefault(ty) => {
                let len = stack.pop().ok_or(NONE)?.u32();
                let storage = element(&members[at], ty)?;
                let array = array(members, at, ty, len, data)?;
                if matches!(op, ConstOp::ArrayNew(_)) {
                    let value = stack.pop().ok_or(NONE)?;
                    let (first, what) = (elements(array), (storage, value));
                    // SAFETY: the array has `len` elements, which are zero.
                    unsafe { fill(&members[at], first, u64::from(len), what, watched)? };
                }
                Cell::from_u64(array | TAG_ARRAY)
            }
            ConstOp::ArrayNewFixed(ty, len) => {
                let first = stack.len().checked_sub(len as usize).ok_or(NONE)?;
                let values = stack.split_off(first);
                let storage = element(&members[at], ty)?;
                let array = array(members, at, ty, len, data)?;
                for (n, value) in (0..).zip(values) {
                    // SAFETY: the array has `len` elements, and `n` is less than `len`.
                    unsafe { store(elements(array) + (n << storage.log2()), storage, value) };
                }
                Cell::from_u64(array | TAG_ARRAY)
            }
            ConstOp::AnyConvertExtern => {
                let number = stack.pop().ok_or(NONE)?.u64();
                Cell::from_u64(internalized(members, at, number, data)?)
            }
            _ => {
                // SAFETY: the reference comes from a global or an operator of this instance. So the
                // box belongs to this instance or to another member of its group.
                let boxed = |any| Some(unsafe { heap::number_in_box(any) });
                constant::step(op, &mut stack, boxed).ok_or(NONE)?
            }
        };
        stack.push(value);
    }
    stack.pop().ok_or(NONE)
}
