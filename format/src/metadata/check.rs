//! Checks decoded metadata. Every index is in range, so readers may index without a check. Every
//! initial value has the type of the global, table or segment that it initialises.

mod constants;
mod types;

use super::{ConstExpr, Element, ElementSegment, ExportItem, Metadata, SegmentMode};
use crate::error::FormatError;
use crate::types::{AddrType, CompositeKind, ExternType, HeapType, PageSize, Subtypes, ValType};
use constants::Constants;
use std::collections::HashSet;

/// Checks every index of `m`, and that parallel lists have the lengths they must have.
pub(super) fn check(m: &Metadata) -> Result<(), FormatError> {
    let Some(layout) = m.layout() else {
        return damaged("instance area", "it exceeds its limit");
    };
    debug_assert!(layout.bytes() > 0);
    equal("code offsets", m.code.len(), m.funcs.len())?;
    equal("entry trampolines", m.entries.len(), m.types.len())?;
    equal(
        "global values",
        m.global_inits.len(),
        m.globals.len() - imported(m, &m.globals)?,
    )?;
    equal(
        "table values",
        m.table_inits.len() + m.imported_tables() as usize,
        m.tables.len(),
    )?;
    types::check(m)?;
    let subtypes = m.subtypes();
    types::supertypes(m, &subtypes)?;
    places(m)?;
    imports(m)?;
    functions(m)?;
    exports(m)?;
    tables_change(m)?;
    if !m.func_names.is_sorted_by(|a, b| a.0 < b.0) {
        return damaged("function names", "not ascending");
    }
    let mut constants = Constants::new(m, &subtypes);
    initial_values(m, &mut constants)?;
    segments(m, &mut constants)?;
    snapshot(m, &subtypes)
}

/// Whether each reference of an element segment is a value of type `wanted`. The metadata must have
/// passed [`check`].
pub(super) fn elements_match(
    m: &Metadata,
    segment: &ElementSegment,
    wanted: ValType,
    subtypes: &Subtypes<'_>,
) -> bool {
    let mut constants = Constants::new(m, subtypes);
    constants.elements(&segment.items, Some(wanted)).is_ok()
}

/// Checks the types of tables, globals and memories.
fn places(m: &Metadata) -> Result<(), FormatError> {
    for ty in &m.tables {
        if ty.element.heap().is_none() {
            let element = ty.element;
            return damaged(
                "table",
                &format!("its elements are {element}, not references"),
            );
        }
        types::named_type(m, ty.element, m.types.len())?;
        limits((ty.min, ty.max), ty.address, PageSize::Byte)?;
    }
    for ty in &m.globals {
        types::named_type(m, ty.content, m.types.len())?;
    }
    for ty in &m.memories {
        limits((ty.min, ty.max), ty.address, ty.page)?;
        if ty.shared && ty.max.is_none() {
            return damaged("shared memory", "it has no maximum");
        }
    }
    Ok(())
}

/// Checks that a size is at most its maximum, and that the maximum is at most the validator's limit
/// for this address type. An element of a table counts as a page of one byte.
fn limits(
    (min, max): (u64, Option<u64>),
    address: AddrType,
    page: PageSize,
) -> Result<(), FormatError> {
    let max = max.unwrap_or(min);
    if max < min {
        return damaged("memory or table", "its size exceeds its maximum");
    }
    let all = match address {
        AddrType::I32 => 1_u128 << 32,
        AddrType::I64 => 1_u128 << 64,
    };
    // The size itself has the address type, so it cannot count the whole address space.
    let limit = (all >> page.log2()).min(all - 1);
    if u128::from(max) > limit {
        let why = format!("its maximum is {max}, its addresses allow {limit}");
        return damaged("memory or table", &why);
    }
    Ok(())
}

/// Checks functions, tags, trampolines and the start function.
fn functions(m: &Metadata) -> Result<(), FormatError> {
    for &ty in &m.funcs {
        of_kind(m, "type of a function", ty, CompositeKind::Func)?;
    }
    for &ty in &m.tags {
        of_kind(m, "type of a tag", ty, CompositeKind::Func)?;
        if !m.func_type(ty).results.is_empty() {
            return damaged("type of a tag", "it has results");
        }
    }
    for (ty, _) in (0..).zip(&m.entries).filter(|(_, entry)| entry.is_some()) {
        of_kind(m, "type of an entry trampoline", ty, CompositeKind::Func)?;
    }
    if !m.address_taken.is_sorted_by(|a, b| a < b) {
        return damaged("address-taken functions", "not ascending");
    }
    for &func in &m.address_taken {
        index("referred function", func, m.funcs.len())?;
        if m.entries[m.funcs[func as usize] as usize].is_none() {
            return damaged("referred function", "it has no entry trampoline");
        }
    }
    if let Some(start) = m.start {
        referred(m, start)?;
        let ty = m.func_type(m.funcs[start as usize]);
        if ty.values().next().is_some() {
            return damaged("start function", &format!("it is {ty}, expected () -> ()"));
        }
    }
    Ok(())
}

/// Checks the initial values of globals and tables. A global's value may use only earlier globals.
/// A table's value may use all globals.
fn initial_values(m: &Metadata, constants: &mut Constants<'_>) -> Result<(), FormatError> {
    let imported = m.imported_globals() as usize;
    for (at, init) in (imported..).zip(&m.global_inits) {
        constants.check("value of a global", init, m.globals[at].content, at)?;
    }
    let own = &m.tables[m.imported_tables() as usize..];
    for (ty, init) in own.iter().zip(&m.table_inits) {
        match init {
            Some(init) => {
                constants.check("value of a table", init, ty.element, m.globals.len())?;
            }
            // The function `snapshot` checks the elements.
            None if m.snapshot.is_some() || ty.element.has_default() => {}
            None => {
                let why = format!("null, expected {}", ty.element);
                return damaged("value of a table", &why);
            }
        }
    }
    Ok(())
}

/// Checks that the type with this index exists and has this kind.
fn of_kind(m: &Metadata, what: &str, ty: u32, kind: CompositeKind) -> Result<(), FormatError> {
    index(what, ty, m.types.len())?;
    match m.kind(ty) == Some(kind) {
        true => Ok(()),
        false => damaged(what, &format!("type {ty} has another kind")),
    }
}

/// Number of imported globals. Checks that it is at most the number of all globals.
fn imported<T>(m: &Metadata, all: &[T]) -> Result<usize, FormatError> {
    let imported = m.imported_globals() as usize;
    if imported > all.len() {
        return damaged(
            "imported globals",
            &format!("{imported}, there are {} globals", all.len()),
        );
    }
    Ok(imported)
}

/// Checks that the imports have the types that the start of each index space states.
fn imports(m: &Metadata) -> Result<(), FormatError> {
    let (mut funcs, mut tables) = (m.funcs.iter(), m.tables.iter());
    let (mut memories, mut globals) = (m.memories.iter(), m.globals.iter());
    let mut tags = m.tags.iter();
    for import in &m.imports {
        let agrees = match &import.ty {
            ExternType::Func(ty) => funcs.next() == Some(ty),
            ExternType::Table(ty) => tables.next() == Some(ty),
            ExternType::Memory(ty) => memories.next() == Some(ty),
            ExternType::Global(ty) => globals.next() == Some(ty),
            ExternType::Tag(ty) => tags.next() == Some(ty),
        };
        if !agrees {
            return damaged("import", "its type differs from the type of its index");
        }
    }
    Ok(())
}

/// Checks that tables which the host, or another instance, can change are not recorded as constant.
fn tables_change(m: &Metadata) -> Result<(), FormatError> {
    let mut exports = m.exports.iter();
    let is_exported = exports.any(|export| matches!(export.item, ExportItem::Table(_)));
    match (is_exported || m.imported_tables() > 0) && !m.tables_change {
        true => damaged("constant tables", "a table is imported or exported"),
        false => Ok(()),
    }
}

/// Checks the exports, and the names of exports that the component uses.
fn exports(m: &Metadata) -> Result<(), FormatError> {
    let mut names: HashSet<&str> = HashSet::with_capacity(m.exports.len());
    for export in &m.exports {
        if !names.insert(&export.name) {
            return damaged("exports", "two have the same name");
        }
        match export.item {
            ExportItem::Func(i) => referred(m, i)?,
            ExportItem::Table(i) => index("exported table", i, m.tables.len())?,
            ExportItem::Memory(i) => index("exported memory", i, m.memories.len())?,
            ExportItem::Global(i) => index("exported global", i, m.globals.len())?,
            ExportItem::Tag(i) => index("exported tag", i, m.tags.len())?,
        }
    }
    match &m.component {
        Some(component) => {
            component.check(m.imported_funcs() as usize, |name| names.contains(name))
        }
        None => Ok(()),
    }
}

/// Checks the segments. Compares each active segment with its table or memory.
fn segments(m: &Metadata, constants: &mut Constants<'_>) -> Result<(), FormatError> {
    for segment in &m.elements {
        let element = match &segment.mode {
            SegmentMode::Active { index: at, offset } => {
                index("target of an element segment", *at, m.tables.len())?;
                let ty = m.tables[*at as usize];
                self::offset(m, constants, offset, ty.address)?;
                Some(ty.element)
            }
            SegmentMode::Passive | SegmentMode::Done => None,
        };
        constants.elements(&segment.items, element)?;
    }
    for segment in &m.data {
        if let SegmentMode::Active { index: at, offset } = &segment.mode {
            index("target of a data segment", *at, m.memories.len())?;
            self::offset(m, constants, offset, m.memories[*at as usize].address)?;
        }
        if segment.start.checked_add(segment.len).is_none() {
            return damaged("data segment", "it ends past 4 GiB");
        }
    }
    Ok(())
}

/// Checks the offset of an active segment.
fn offset(
    m: &Metadata,
    constants: &mut Constants<'_>,
    offset: &ConstExpr,
    address: AddrType,
) -> Result<(), FormatError> {
    let wanted = address.val_type();
    constants.check("offset of a segment", offset, wanted, m.globals.len())
}

/// Checks the tables of a snapshot. A snapshot must have no start function, no initial values of
/// tables and no active segments: instantiation has handled these before the snapshot was taken.
fn snapshot(m: &Metadata, subtypes: &Subtypes<'_>) -> Result<(), FormatError> {
    let Some(snapshot) = &m.snapshot else {
        return Ok(());
    };
    if m.start.is_some() || m.table_inits.iter().any(Option::is_some) {
        return damaged(
            "snapshot",
            "it has a start function, or initial values of tables",
        );
    }
    let data = m.data.iter().map(|segment| &segment.mode);
    let mut modes = data.chain(m.elements.iter().map(|segment| &segment.mode));
    if modes.any(|mode| matches!(mode, SegmentMode::Active { .. })) {
        return damaged("snapshot", "it has an active segment");
    }
    let further = m.own_memories().len().saturating_sub(1);
    equal(
        "images of further memories",
        snapshot.further.len(),
        further,
    )?;
    let own = &m.tables[m.imported_tables() as usize..];
    equal("tables of a snapshot", snapshot.tables.len(), own.len())?;
    for (elements, ty) in snapshot.tables.iter().zip(own) {
        if elements.len() as u64 > ty.min {
            let (found, limit) = (elements.len(), ty.min);
            return damaged("table", &format!("{found} elements, its size is {limit}"));
        }
        let has_null = elements.len() as u64 != ty.min || elements.contains(&Element::Null);
        if has_null && !ty.element.has_default() {
            return damaged("table", "an element is null, against its type");
        }
        for element in elements {
            let found = match element {
                Element::Null => continue,
                Element::I31(_) => HeapType::I31,
                Element::Func(func) => {
                    referred(m, *func)?;
                    HeapType::Concrete(CompositeKind::Func, m.funcs[*func as usize])
                }
            };
            let (found, wanted) = (ValType::non_null(found), ty.element);
            if !subtypes.matches(found, wanted) {
                return damaged(
                    "table",
                    &format!("an element is {found}, expected {wanted}"),
                );
            }
        }
    }
    Ok(())
}

/// Checks that references may name function `i`. Each such function has an entry trampoline.
fn referred(m: &Metadata, i: u32) -> Result<(), FormatError> {
    index("referred function", i, m.funcs.len())?;
    match m.address_taken_position(i) {
        Some(_) => Ok(()),
        None => damaged("referred function", "it has no reference"),
    }
}

fn index(what: &str, index: u32, len: usize) -> Result<(), FormatError> {
    if (index as usize) < len {
        return Ok(());
    }
    damaged(what, &format!("index {index}, there are {len}"))
}

fn equal(what: &str, found: usize, expected: usize) -> Result<(), FormatError> {
    if found == expected {
        return Ok(());
    }
    damaged(what, &format!("{found}, expected {expected}"))
}

fn damaged<T>(what: &str, why: &str) -> Result<T, FormatError> {
    Err(FormatError::Damaged(format!("metadata: {what}: {why}")))
}

#[cfg(test)]
mod tests;
