//! [`Plan`]: the initial state of every instance of a module, computed once.

use super::constant::{Constant, evaluate};
use super::imports::{self, GlobalImport, Imports};
use crate::module::Module;
use crate::value::Cell;
use pirn_format::layout::{CONTEXT_BYTES, InstanceLayout};
use pirn_format::metadata::{
    ConstExpr, DataSegment, Element, ElementItems, Metadata, SegmentMode, Snapshot,
};
use pirn_format::types::{CompositeKind, ValType};

/// The initial state of every instance of a module: the bytes to write, and the segments that each
/// instance must write itself.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The bytes from [`InstanceLayout::state`] up to the context.
    pub(crate) state: Box<[u8]>,
    /// Offsets of words in `state`, each with a number. The value of such a word is the address of
    /// the context plus the number.
    pub(crate) relative: Box<[(usize, i64)]>,
    /// Offset of the cell of each table that the module defines, and the table's initial size.
    pub(crate) table_cells: Box<[(i32, u64)]>,
    /// Initial size in bytes of the first memory that the module defines, if there is one.
    pub(crate) memory_bytes: Option<u64>,
    /// Offset of the cell of each further memory that the module defines, and the memory's initial
    /// size in bytes.
    pub(crate) memory_cells: Box<[(i32, u64)]>,
    /// Index of the memory that the pointers of interfaces refer to: the export `memory`, or else
    /// memory 0.
    pub(crate) interface_memory: u32,
    /// Whether the module imports a shared memory of the host.
    pub(crate) shares_memory: bool,
    /// Whether the module's code counts fuel.
    pub(crate) counts_fuel: bool,
    /// The initial elements of each table that the module defines.
    pub(crate) tables: Box<[Elements]>,
    /// Index of the first element segment that each instance writes itself, with all later
    /// segments. That segment does not fit, targets an imported table, or depends on values that
    /// each instance makes.
    pub(crate) first_dynamic_element: usize,
    /// Whether each instance must write some segments itself.
    pub(crate) has_dynamic_segments: bool,
    /// Whether the tables of all instances of the module begin with the same elements, however the
    /// module is linked, and never change. Then a slot that held this module keeps its tables.
    pub(crate) tables_constant: bool,
    /// The number of the memory whose address range holds structs and arrays, if the module makes
    /// structs or arrays.
    pub(crate) heap: Option<u32>,
    /// Whether structs or arrays of the module may refer to exceptions.
    pub(crate) holds_exceptions: bool,
    /// Globals for which each instance makes a value, and globals that use them. These globals
    /// start as null or zero.
    pub(crate) made_globals: Box<[u32]>,
    /// Tables for which each instance makes a value, as positions among the tables that the module
    /// defines.
    pub(crate) made_tables: Box<[u32]>,
    /// Positions of other tables with more than [`FILLED_MAX`] elements after the elements of their
    /// segments.
    pub(crate) filled_tables: Box<[u32]>,
    /// Whether one of the three lists above is not empty, or an instance makes references of
    /// element segments.
    pub(crate) is_made: bool,
    /// Whether an instance writes anything before its start function runs.
    pub(crate) prepares: bool,
}

/// Maximum number of table elements that are written at once when an instance is made: 64 KiB. More
/// elements are written in chunks, under the deadline of the start.
const FILLED_MAX: u64 = 8192;

/// Making a plan reads no heap. Each instance makes the values that are in a box.
const NO_BOXES: fn(u64) -> Option<u64> = |_| None;

/// The initial elements of a table.
#[derive(Debug)]
pub(crate) struct Elements {
    /// The first elements.
    pub(crate) first: Vec<Constant>,
    /// The value of all other elements.
    pub(crate) rest: Constant,
}

impl Plan {
    /// Computes the plan for a module with these imports.
    // Longer than a screen: each field follows from the fields before it.
    pub(crate) fn new(module: &Module, imports: &Imports) -> Self {
        let (metadata, layout) = (module.metadata(), module.layout());
        let mut plan = InitialState::new(layout);
        let globals = plan.globals(metadata, layout, imports);
        plan.imported(metadata, layout, imports);
        plan.dropped(metadata, layout);
        let (tables, mut first_dynamic_element) = match &metadata.snapshot {
            None => tables(metadata, layout, &globals),
            Some(snapshot) => snapshot_tables(snapshot, metadata, layout),
        };
        let known = |expr: &ConstExpr| {
            let global = |index: u32| *globals.get(index as usize)?;
            let func = |index: u32| func(index, metadata, layout);
            !expr.allocates() && evaluate(expr, global, func, NO_BOXES).is_some()
        };
        let imported = module.imported().globals;
        let made_globals: Box<[u32]> = (imported..metadata.globals.len() as u32)
            .filter(|index| globals[*index as usize].is_none())
            .collect();
        let inits = (0..).zip(&metadata.table_inits);
        let made_tables: Box<[u32]> = inits
            .filter(|(_, init)| init.as_ref().is_some_and(|init| !known(init)))
            .map(|(position, _)| position)
            .collect();
        if !made_tables.is_empty() {
            // The tables for which each instance makes a value are written before the segments.
            first_dynamic_element = 0;
        }
        let makes_elements = metadata
            .elements
            .iter()
            .any(|segment| allocates(&segment.items));
        // A segment that uses a value made by the instance is written after that value exists.
        let names_made = |items: &ElementItems| match items {
            ElementItems::Funcs(_) => false,
            ElementItems::Exprs(exprs) => !exprs.iter().all(known),
        };
        let first_made = metadata
            .elements
            .iter()
            .position(|segment| names_made(&segment.items));
        first_dynamic_element = first_dynamic_element.min(first_made.unwrap_or(usize::MAX));
        // `check_limits` has checked that every memory fits into a slot.
        let memories = module.own_memories().iter();
        let mut memory_bytes = memories.map(|memory| memory.min_bytes().unwrap_or(0));
        let has_dynamic_segments =
            first_dynamic_element < metadata.elements.len() || metadata.data.iter().any(is_active);
        let own = &metadata.tables[metadata.imported_tables() as usize..];
        let is_large = |position: u32| {
            let written = tables[position as usize].first.len() as u64;
            own[position as usize].min.saturating_sub(written) > FILLED_MAX
        };
        let filled_tables: Box<[u32]> = (0..own.len() as u32)
            .filter(|position| is_large(*position) && !made_tables.contains(position))
            .collect();
        let is_made = !made_globals.is_empty()
            || !made_tables.is_empty()
            || !filled_tables.is_empty()
            || makes_elements;
        Self {
            prepares: is_made || has_dynamic_segments,
            has_dynamic_segments,
            tables_constant: !metadata.tables_change
                && metadata.imported_globals() == 0
                && first_dynamic_element == metadata.elements.len()
                && made_tables.is_empty()
                && filled_tables.is_empty(),
            heap: module.heap(),
            holds_exceptions: holds_exceptions(metadata),
            is_made,
            made_globals,
            made_tables,
            filled_tables,
            table_cells: table_cells(metadata, layout),
            memory_bytes: memory_bytes.next(),
            memory_cells: (module.imported().memories + 1..)
                .zip(memory_bytes)
                .map(|(index, bytes)| (layout.memory(index), bytes))
                .collect(),
            interface_memory: imports::interface_memory(metadata),
            shares_memory: imports.shared.iter().next().is_some(),
            counts_fuel: metadata.fuel,
            state: plan.bytes.into_boxed_slice(),
            relative: plan.relative.into_boxed_slice(),
            tables,
            first_dynamic_element,
        }
    }
}

fn table_cells(metadata: &Metadata, layout: &InstanceLayout) -> Box<[(i32, u64)]> {
    let own = (0..)
        .zip(&metadata.tables)
        .skip(metadata.imported_tables() as usize);
    own.map(|(index, ty)| (layout.table(index), ty.min))
        .collect()
}

fn holds_exceptions(metadata: &Metadata) -> bool {
    let mut types = metadata.types.iter();
    metadata.heap
        && types.any(|ty| ty.kind() != CompositeKind::Func && ty.values().any(ValType::is_exn_ref))
}

/// Whether each instance makes references of a segment with these items.
pub(crate) fn allocates(items: &ElementItems) -> bool {
    match items {
        ElementItems::Funcs(_) => false,
        ElementItems::Exprs(exprs) => exprs.iter().any(ConstExpr::allocates),
    }
}

fn is_active(segment: &DataSegment) -> bool {
    matches!(segment.mode, SegmentMode::Active { .. })
}

/// The state while it is being computed.
struct InitialState {
    start: i32,
    bytes: Vec<u8>,
    relative: Vec<(usize, i64)>,
}

impl InitialState {
    fn new(layout: &InstanceLayout) -> Self {
        let start = layout.state();
        let bytes = (-(CONTEXT_BYTES as i32) - start) as usize;
        Self {
            start,
            bytes: vec![0; bytes],
            relative: vec![],
        }
    }

    /// Writes a value to the cell at an offset from the context: the whole cell or its first word.
    fn put(&mut self, offset: i32, bytes: usize, value: Constant) {
        let at = (offset - self.start) as usize;
        match value {
            Constant::Absolute(cell) => {
                self.bytes[at..at + bytes].copy_from_slice(&cell.0[..bytes]);
            }
            Constant::Relative(delta) => self.relative.push((at, delta)),
        }
    }

    /// Writes all globals. Returns the values that are known, for later constant expressions.
    fn globals(
        &mut self,
        metadata: &Metadata,
        layout: &InstanceLayout,
        imports: &Imports,
    ) -> Vec<Option<Constant>> {
        let mut values: Vec<Option<Constant>> = vec![];
        for import in &imports.globals {
            let (cell, value) = match import {
                GlobalImport::Value(cell) => (*cell, Some(Constant::Absolute(*cell))),
                GlobalImport::At(address) => (Cell::from_u64(*address), None),
            };
            self.put(
                layout.global(values.len() as u32),
                16,
                Constant::Absolute(cell),
            );
            values.push(value);
        }
        for init in &metadata.global_inits {
            let global = |index: u32| *values.get(index as usize)?;
            let func = |index: u32| func(index, metadata, layout);
            let value = match init.allocates() {
                true => None,
                false => evaluate(init, global, func, NO_BOXES),
            };
            let at = layout.global(values.len() as u32);
            self.put(at, 16, value.unwrap_or(Constant::NULL));
            values.push(value);
        }
        values
    }

    /// Writes the cells of imported tables and memories.
    fn imported(&mut self, metadata: &Metadata, layout: &InstanceLayout, imports: &Imports) {
        for (index, address) in imports.tables.iter().enumerate() {
            let value = Constant::Absolute(Cell::from_u64(*address));
            self.put(layout.table(index as u32), 8, value);
        }
        debug_assert_eq!(
            metadata.imported_memories() as usize,
            imports.memories.len()
        );
        for (index, address) in imports.memories.iter().enumerate() {
            let value = Constant::Absolute(Cell::from_u64(*address));
            self.put(layout.memory(index as u32), 8, value);
        }
    }

    /// Marks the segments that are dropped once the instance has started (spec 4.5.4, steps 14 to
    /// 16).
    fn dropped(&mut self, metadata: &Metadata, layout: &InstanceLayout) {
        let data = metadata.data.iter().map(|segment| &segment.mode);
        let elements = metadata.elements.iter().map(|segment| &segment.mode);
        for (index, mode) in data.chain(elements).enumerate() {
            if !matches!(mode, SegmentMode::Passive) {
                let (word, bit) = layout.segment(index as u32);
                let at = (word - self.start) as usize + bit as usize / 8;
                self.bytes[at] |= 1 << (bit % 8);
            }
        }
    }
}

/// The value of an expression that may use these globals, or null for a value that each instance
/// makes. Validation refuses other expressions without a value.
fn constant(
    expr: &ConstExpr,
    globals: &[Option<Constant>],
    metadata: &Metadata,
    layout: &InstanceLayout,
) -> Constant {
    let global = |index: u32| *globals.get(index as usize)?;
    let func = |index| func(index, metadata, layout);
    evaluate(expr, global, func, NO_BOXES).unwrap_or(Constant::NULL)
}

/// The value of a reference to a function.
pub(crate) fn func(index: u32, metadata: &Metadata, layout: &InstanceLayout) -> Option<Constant> {
    let position = metadata.address_taken_position(index)?;
    Some(Constant::Relative(i64::from(layout.funcref(position))))
}

/// The reference at a position of an element segment.
pub(crate) fn element(
    items: &ElementItems,
    at: usize,
    global: impl Fn(u32) -> Option<Constant>,
    boxed: impl Fn(u64) -> Option<u64>,
    metadata: &Metadata,
    layout: &InstanceLayout,
) -> Constant {
    let value = match items {
        ElementItems::Funcs(funcs) => funcs.get(at).and_then(|i| func(*i, metadata, layout)),
        ElementItems::Exprs(exprs) => exprs
            .get(at)
            .and_then(|expr| evaluate(expr, global, |i| func(i, metadata, layout), boxed)),
    };
    value.unwrap_or(Constant::NULL)
}

/// Initial elements of the tables of a snapshot. The number is the index of the first segment that
/// the tables do not include: past the last segment, because the tables include all segments.
fn snapshot_tables(
    snapshot: &Snapshot,
    metadata: &Metadata,
    layout: &InstanceLayout,
) -> (Box<[Elements]>, usize) {
    // A function in a table is address-taken, so it has a function reference.
    let value = |element: &Element| match element {
        Element::Null => Constant::NULL,
        Element::Func(index) => func(*index, metadata, layout).unwrap_or(Constant::NULL),
        Element::I31(value) => Constant::i31(*value),
    };
    let elements = |table: &Vec<Element>| Elements {
        first: table.iter().map(value).collect(),
        rest: Constant::NULL,
    };
    let tables = snapshot.tables.iter().map(elements).collect();
    (tables, metadata.elements.len())
}

/// Initial elements of the tables that the module defines, and the index of the first segment that
/// the elements do not include.
fn tables(
    metadata: &Metadata,
    layout: &InstanceLayout,
    globals: &[Option<Constant>],
) -> (Box<[Elements]>, usize) {
    let imported = metadata.imported_tables();
    let own = &metadata.tables[imported as usize..];
    let inits = metadata.table_inits.iter();
    let elements = |init: &Option<ConstExpr>| Elements {
        first: vec![],
        rest: init.as_ref().map_or(Constant::NULL, |init| {
            constant(init, globals, metadata, layout)
        }),
    };
    let mut tables: Box<[Elements]> = inits.map(elements).collect();
    let mut listed = vec![0_u64; own.len()];
    let mut done = 0;
    for segment in &metadata.elements {
        if let SegmentMode::Active { index, offset } = &segment.mode {
            let Some(position) = index.checked_sub(imported) else {
                break;
            };
            let Constant::Absolute(start) = constant(offset, globals, metadata, layout) else {
                break;
            };
            let ty = &own[position as usize];
            let (start, len) = (ty.address.address(start.u64()), segment.items.len());
            if start.checked_add(len as u64).is_none_or(|end| end > ty.min) {
                break;
            }
            // Limits the memory for a table's elements to the size of its segments, plus small gaps
            // between them.
            let listed = &mut listed[position as usize];
            *listed += len as u64;
            if start + len as u64 > *listed + FILLED_MAX {
                break;
            }
            let start = start as usize;
            let table = &mut tables[position as usize];
            if table.first.len() < start + len {
                table.first.resize(start + len, table.rest);
            }
            let global = |index: u32| *globals.get(index as usize)?;
            for (at, slot) in table.first[start..start + len].iter_mut().enumerate() {
                *slot = element(&segment.items, at, global, NO_BOXES, metadata, layout);
            }
        }
        done += 1;
    }
    (tables, done)
}
