//! [`KnownTables`]: tables whose elements are known when a module is compiled, because nothing can change them.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file says which function a call through a table enters. Every change wants two reviews. │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! A table's elements are known if
//!
//! * no table of the module is imported or exported, and no instruction writes to one: then the elements are what
//!   its initial value and the element segments made them, and its size is what it started with;
//! * every active element segment fits where it goes, whatever the host gives: then each instance has them all before
//!   any of its code runs, or never runs;
//! * all that it starts with and segments write to it are functions that the module defines, and null.
//!
//! Calls through such a table read an array in the text in its place (`translate/call.rs`), which has an entry for each
//! element, and one more for whatever is outside:
//!
//! ```text
//! array ▶ │ code 0, type 0 │ code 1, type 1 │ ... │ stub, OUTSIDE │     8 bytes each, little-endian
//!           i32     u32      code counts from the array's start
//! ```
//!
//! What is no function has the code of a stub that traps, where a processor may go ahead of a wrong prediction.

use crate::image::{constant, elements_fit};
use crate::parse::Body;
use pirn_format::metadata::{ConstExpr, ConstOp, ElementItems, Metadata, SegmentMode};
use pirn_format::types::number_types;
use rayon::prelude::*;
use std::collections::HashMap;
use wasmparser::{BinaryReaderError, FunctionBody, Operator};

/// Bytes of an entry of an array, and where in it its type is.
pub(crate) const ENTRY_BYTES: u32 = 8;
pub(crate) const ENTRY_TYPE: i32 = 4;

/// What an entry has in place of a type: of a null, and of what is outside. No type has such a number, of which the
/// validator allows a million.
pub(crate) const NULL: u32 = u32::MAX;
pub(crate) const OUTSIDE: u32 = u32::MAX - 1;

/// Most elements of a module's tables, all together, for them to be known: 512 KiB of arrays. A table of ten million
/// elements takes a dozen bytes to declare.
const ELEMENTS_MAX: u64 = 1 << 16;

/// What is known of a module's tables.
#[derive(Debug, Default)]
pub(crate) struct KnownTables {
    /// The number of each type, the same for types that are equal: the index of the first of them.
    types: Vec<u32>,
    /// Whether each type has no subtypes: a call by another enters what has any of those, too, and looks for itself.
    finals: Vec<bool>,
    /// By index; none of them if one may change.
    tables: Vec<Option<KnownTable>>,
}

#[derive(Debug)]
struct KnownTable {
    /// The function that each element is, or null.
    elements: Vec<Option<u32>>,
    /// By the numbers of the types that its elements have.
    targets: HashMap<u32, Target>,
}

/// What a call can enter: the elements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// One element, which is this function.
    One {
        /// Where it is.
        position: u32,
        /// What it is.
        func: u32,
    },
    /// Any of several elements.
    Many {
        /// The number of their type.
        number: u32,
    },
}

impl KnownTables {
    /// Finds what is known of the tables of a module, of which only the functions' bodies have not been read.
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let sizes = metadata.tables.iter().map(|table| table.min);
        let elements = sizes.fold(0, u64::saturating_add);
        if metadata.tables_change || !elements_fit(metadata) || elements > ELEMENTS_MAX {
            return Self::default();
        }
        let types = numbers(metadata);
        let tables = (0..).zip(&metadata.tables).map(|(index, ty)| {
            ty.element.is_func_ref().then_some(())?;
            let elements = elements_of(metadata, index)?;
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

    /// What a call by a type can enter through a table; none if that is not known, or nothing.
    pub(crate) fn target(&self, table: u32, ty: u32) -> Option<Target> {
        let number = self.types.get(ty as usize)?;
        self.finals[ty as usize].then_some(())?;
        self.table(table)?.targets.get(number).copied()
    }

    /// The function that an element is, if that is known and it is of a type.
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

    /// The number of elements of a table that is known.
    pub(crate) fn len(&self, table: u32) -> u32 {
        self.table(table)
            .map_or(0, |table| table.elements.len() as u32)
    }

    /// The array of a table, which lies at `start` of the text; `stub` is the one that traps.
    pub(crate) fn array(&self, metadata: &Metadata, table: u32, start: u32, stub: u32) -> Vec<u8> {
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

/// The number of each type.
fn numbers(metadata: &Metadata) -> Vec<u32> {
    let (mut first, mut index) = (HashMap::new(), 0);
    number_types(&metadata.types, &metadata.groups, |group, numbers| {
        let (known, len) = (first.get(&*group).copied(), group.len() as u32);
        let number = known.unwrap_or_else(|| {
            first.insert(group.into_owned(), index);
            index
        });
        index += len;
        numbers.extend(number..number + len);
    })
}

/// The elements of a table that never changes, if all are functions of the module or null.
fn elements_of(metadata: &Metadata, table: u32) -> Option<Vec<Option<u32>>> {
    let min = metadata.tables[table as usize].min;
    let imported = metadata.imported_tables();
    let init = match &metadata.table_inits[(table - imported) as usize] {
        Some(init) => item(init)?,
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
        let (start, items) = (constant(offset)?, items(&segment.items)?);
        let start = usize::try_from(start).ok()?;
        if items.iter().flatten().any(|func| *func < imported) {
            return None;
        }
        let end = start.checked_add(items.len())?;
        elements.get_mut(start..end)?.copy_from_slice(&items);
    }
    Some(elements)
}

/// The functions that the items of a segment are, if no global says it.
fn items(items: &ElementItems) -> Option<Vec<Option<u32>>> {
    match items {
        ElementItems::Funcs(funcs) => Some(funcs.iter().copied().map(Some).collect()),
        ElementItems::Exprs(exprs) => exprs.iter().map(item).collect(),
    }
}

/// The function that an expression refers to, or null, if no global says it.
fn item(expr: &ConstExpr) -> Option<Option<u32>> {
    match expr.0[..] {
        [ConstOp::RefFunc(func)] => Some(Some(func)),
        [ConstOp::RefNull] => Some(None),
        _ => None,
    }
}

/// Whether an instruction of a module writes to a table.
pub(crate) fn are_written(bodies: &[Body<'_>]) -> bool {
    // What cannot be read is refused once it is translated.
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

/// Whether an operator writes to a table, which the translator compares with what was found.
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
