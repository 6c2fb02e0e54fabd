//! [`KnownTables`]: tables whose elements are known when a module is compiled, because nothing can
//! change them.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file says which function a call through a table enters. Every change needs two reviews. │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! A table's elements are known if
//!
//! * no table of the module is imported or exported, and no instruction writes to a table. The host
//!   changes only exported tables (`runtime/src/call/table.rs`). Then the initial value and the
//!   element segments define the elements, and the size stays the initial one;
//! * every active element segment fits in its table, whatever the host provides. Then an instance
//!   has all elements before any of its code runs, or it never runs;
//! * the initial value and the segments contain only null and functions that the module defines;
//! * the table holds function references, and all tables together have at most [`ELEMENTS_MAX`]
//!   elements.
//!
//! Calls through a known table read a dispatch table in the text, not the instance's table
//! (`translate/call.rs`). A dispatch table has one entry for each element, and one more for all
//! indices out of bounds:
//!
//! ```text
//! start ▶ │ code 0, type 0 │ code 1, type 1 │ ... │ stub, OUTSIDE │    8 bytes each, little-endian
//!           i32     u32      code counts from the table's start
//! ```
//!
//! The code of an entry without a function is a stub that traps, because a mispredicting processor
//! may run it speculatively.

use super::constant::Constants;
use crate::parse::Body;
use pirn_format::metadata::{Metadata, SegmentMode};
use rayon::prelude::*;
use std::collections::HashMap;
use wasmparser::{BinaryReaderError, FunctionBody, Operator};

/// Bytes of one entry of a dispatch table, and the offset of the type in an entry.
pub(crate) const ENTRY_BYTES: u32 = 8;
pub(crate) const ENTRY_TYPE: i32 = 4;

/// The type field of a null entry, and of the entry for indices out of bounds. No type has such a
/// number: the validator allows a million types.
pub(crate) const NULL: u32 = u32::MAX;
pub(crate) const OUTSIDE: u32 = u32::MAX - 1;

/// Most elements of all tables of a module together: 512 KiB of dispatch tables. A table of ten
/// million elements takes a dozen bytes to declare, so there must be a limit.
const ELEMENTS_MAX: u64 = 1 << 16;

/// The known tables of a module.
#[derive(Debug, Default)]
pub(crate) struct KnownTables {
    /// A number for each type: the index of the first equal type.
    types: Vec<u32>,
    /// Whether each type is final; calls through non-final types check subtypes at run time.
    finals: Vec<bool>,
    /// The known tables by table index. Empty if a table may change, a segment may not fit, or
    /// there are more than [`ELEMENTS_MAX`] elements.
    tables: Vec<Option<KnownTable>>,
}

#[derive(Debug)]
struct KnownTable {
    /// The function index of each element, or null.
    elements: Vec<Option<u32>>,
    /// For each type number, the elements of that type.
    targets: HashMap<u32, Target>,
}

/// The functions that a call can enter: the elements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Exactly one element.
    One {
        /// The element's index in the table.
        position: u32,
        /// The element's function index.
        func: u32,
    },
    /// Any of several elements.
    Many {
        /// The number of the elements' type.
        number: u32,
    },
}

impl KnownTables {
    /// Finds the known tables of a module. `tables_change` must be complete: the parser sets it for
    /// imported and exported tables, `Facts::of` if an instruction writes to a table.
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let sizes = metadata.tables.iter().map(|table| table.min);
        let elements = sizes.fold(0, u64::saturating_add);
        let constants = Constants::new(metadata);
        if metadata.tables_change || !constants.elements_fit(metadata) || elements > ELEMENTS_MAX {
            return Self::default();
        }
        let types = metadata.subtypes().numbers().to_vec();
        let tables = (0..).zip(&metadata.tables).map(|(index, ty)| {
            ty.element.is_func_ref().then_some(())?;
            let elements = elements_of(metadata, &constants, index)?;
            let mut targets = HashMap::new();
            for (position, func) in (0..).zip(&elements) {
                let Some(func) = *func else { continue };
                let number = types[metadata.funcs[func as usize] as usize];
                let target = targets.entry(number);
                target
                    .and_modify(|target| *target = Target::Many { number })
                    .or_insert(Target::One { position, func });
            }
            Some(KnownTable { elements, targets })
        });
        Self {
            tables: tables.collect(),
            finals: metadata.types.iter().map(|ty| ty.is_final).collect(),
            types,
        }
    }

    /// The functions that a call with a type can enter through a table. `None` if the table is
    /// unknown, if the type is not final, or if no element has the type.
    pub(crate) fn target(&self, table: u32, ty: u32) -> Option<Target> {
        let number = self.types.get(ty as usize)?;
        self.finals[ty as usize].then_some(())?;
        self.table(table)?.targets.get(number).copied()
    }

    /// The function of an element, if the table is known and the function has the type `ty`.
    pub(crate) fn func(
        &self,
        metadata: &Metadata,
        table: u32,
        ty: u32,
        position: u64,
    ) -> Option<u32> {
        let position = usize::try_from(position).ok()?;
        let func = (*self.table(table)?.elements.get(position)?)?;
        let found = metadata.funcs[func as usize];
        (self.types[found as usize] == self.types[ty as usize]).then_some(func)
    }

    /// The number of elements of a known table.
    pub(crate) fn len(&self, table: u32) -> u32 {
        self.table(table)
            .map_or(0, |table| table.elements.len() as u32)
    }

    /// The dispatch table for a table, to be placed at offset `start` of the text. `stub` is the
    /// function that traps.
    pub(crate) fn dispatch_table(
        &self,
        metadata: &Metadata,
        table: u32,
        start: u32,
        stub: u32,
    ) -> Vec<u8> {
        let elements = self.table(table).map_or(&[][..], |table| &table.elements);
        let entries = elements.iter().map(|func| match func {
            Some(func) => {
                let func = *func as usize;
                let ty = self.types[metadata.funcs[func] as usize];
                (metadata.code[func], ty)
            }
            None => (stub, NULL),
        });
        let entries = entries.chain([(stub, OUTSIDE)]);
        entries
            .flat_map(|(code, ty)| [code.wrapping_sub(start).to_le_bytes(), ty.to_le_bytes()])
            .flatten()
            .collect()
    }

    fn table(&self, index: u32) -> Option<&KnownTable> {
        self.tables.get(index as usize)?.as_ref()
    }
}

/// The elements of a table that never changes, if all elements are null or functions that the
/// module defines.
fn elements_of(metadata: &Metadata, constants: &Constants, table: u32) -> Option<Vec<Option<u32>>> {
    let min = metadata.tables[table as usize].min;
    let imported = metadata.imported_tables();
    let init = match &metadata.table_inits[(table - imported) as usize] {
        Some(init) => constants.function(init)?,
        None => None,
    };
    let imported = metadata.imported_funcs();
    if init.is_some_and(|func| func < imported) {
        return None;
    }
    let mut elements = vec![init; min as usize];
    for segment in &metadata.elements {
        let SegmentMode::Active { index, offset } = &segment.mode else {
            continue;
        };
        if *index != table {
            continue;
        }
        let (start, items) = (
            constants.integer(offset)?,
            constants.functions(&segment.items)?,
        );
        let start = usize::try_from(start).ok()?;
        if items.iter().flatten().any(|func| *func < imported) {
            return None;
        }
        let end = start.checked_add(items.len())?;
        elements.get_mut(start..end)?.copy_from_slice(&items);
    }
    Some(elements)
}

/// Whether any instruction of a module writes to a table.
pub(crate) fn are_written(bodies: &[Body<'_>]) -> bool {
    // A body that cannot be read counts as a write; translation rejects it later.
    let bodies = bodies.par_iter();
    bodies.any(|body| writes(&body.body).unwrap_or(true))
}

fn writes(body: &FunctionBody<'_>) -> Result<bool, BinaryReaderError> {
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        if is_write(&operators.read()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an operator writes to a table. The translator checks its operators against the result of
/// `are_written`.
pub(crate) fn is_write(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
    )
}
