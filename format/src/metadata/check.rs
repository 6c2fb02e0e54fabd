//! Checks that every index in decoded metadata is in range, so that readers may index without a
//! check.

use super::{ConstExpr, ConstOp, Element, ElementItems, ExportItem, Metadata, SegmentMode};
use crate::error::FormatError;
use crate::layout::CONSTANT_OPERATORS_MAX;
use crate::types::{
    CompositeKind, CompositeType, ExternType, HeapType, SUPERTYPES_MAX, SubType, ValType,
};
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
    types(m)?;
    let tables = m.tables.iter().map(|table| table.element);
    let globals = m.globals.iter().map(|global| global.content);
    tables
        .chain(globals)
        .try_for_each(|ty| named_type(m, ty, m.types.len()))?;
    imports(m)?;
    let memories = m.memories.iter().map(|ty| (ty.min, ty.max));
    let mut limits = memories.chain(m.tables.iter().map(|ty| (ty.min, ty.max)));
    if limits.any(|(min, max)| max.is_some_and(|max| max < min)) {
        return damaged("memory or table", "its size exceeds its maximum");
    }
    if m.memories.iter().any(|ty| ty.shared && ty.max.is_none()) {
        return damaged("shared memory", "it has no maximum");
    }
    for &ty in &m.funcs {
        of_kind(m, "type of a function", ty, CompositeKind::Func)?;
    }
    for &ty in &m.tags {
        of_kind(m, "type of a tag", ty, CompositeKind::Func)?;
        if !m.func_type(ty).results.is_empty() {
            return damaged("type of a tag", "it has results");
        }
    }
    for &func in m.escaped.iter().chain(&m.start) {
        index("function", func, m.funcs.len())?;
    }
    if !m.escaped.is_sorted_by(|a, b| a < b) {
        return damaged("escaped functions", "not ascending");
    }
    if !m.func_names.is_sorted_by(|a, b| a.0 < b.0) {
        return damaged("function names", "not ascending");
    }
    exports(m)?;
    tables_change(m)?;
    segments(m)?;
    snapshot(m)?;
    if let Some(component) = &m.component {
        let names: HashSet<&str> = m
            .exports
            .iter()
            .map(|export| export.name.as_str())
            .collect();
        component.check(m.imported_funcs() as usize, |name| names.contains(name))?;
    }
    let tables = m.table_inits.iter().flatten();
    tables
        .chain(&m.global_inits)
        .try_for_each(|init| const_expr(m, init))
}

/// Checks types, groups and supertypes.
///
/// A type refers only to types before it and in its group. A supertype precedes its subtype, is not
/// final, and has a compatible structure.
fn types(m: &Metadata) -> Result<(), FormatError> {
    let mut depths: Vec<usize> = Vec::with_capacity(m.types.len());
    for range in m.groups.ranges(m.types.len()) {
        let Some((first, len)) = range else {
            return damaged("groups of types", "they are not consecutive");
        };
        for (at, ty) in m.types.iter().enumerate().skip(first).take(len) {
            let mut values = ty.values();
            values.try_for_each(|ty| named_type(m, ty, first + len))?;
            let depth = match ty.supertype {
                Some(above) => {
                    index("supertype", above, at)?;
                    supertype(ty, &m.types[above as usize])?;
                    depths[above as usize] + 1
                }
                None => 0,
            };
            if depth > SUPERTYPES_MAX {
                let depth = format!("a type has {depth}, the limit is {SUPERTYPES_MAX}");
                return damaged("supertypes", &depth);
            }
            depths.push(depth);
            let within = |what: &str, count: usize, limit: usize| match count <= limit {
                true => Ok(()),
                false => damaged(what, &format!("{count}, the limit is {limit}")),
            };
            match &ty.composite {
                CompositeType::Func(func) => {
                    within("parameters", func.params.len(), VALUES_MAX)?;
                    within("results", func.results.len(), VALUES_MAX)?;
                }
                CompositeType::Struct(fields) => within("fields", fields.len(), FIELDS_MAX)?,
                CompositeType::Array(_) => {}
            }
        }
    }
    Ok(())
}

/// Most fields of a struct: the validator's limit.
const FIELDS_MAX: usize = 10_000;

/// Most parameters, and most results, of a function: the validator's limit.
const VALUES_MAX: usize = 1000;

/// Checks that `above` may be a supertype of `ty`: it is not final, both have the same kind, and
/// what they share has the same layout.
fn supertype(ty: &SubType, above: &SubType) -> Result<(), FormatError> {
    let agrees = match (&ty.composite, &above.composite) {
        (CompositeType::Func(ty), CompositeType::Func(above)) => {
            ty.params.len() == above.params.len() && ty.results.len() == above.results.len()
        }
        (CompositeType::Struct(fields), CompositeType::Struct(above)) => {
            fields.len() >= above.len()
                && fields.iter().zip(above).all(|(field, above)| {
                    field.storage.log2() == above.storage.log2() && field.mutable == above.mutable
                })
        }
        (CompositeType::Array(element), CompositeType::Array(above)) => {
            element.storage.log2() == above.storage.log2() && element.mutable == above.mutable
        }
        _ => false,
    };
    match agrees && !above.is_final {
        true => Ok(()),
        false => damaged("supertype", "a type that names it does not match it"),
    }
}

/// Checks that the type index in a value type is less than `len` and has the stated kind.
fn named_type(m: &Metadata, ty: ValType, len: usize) -> Result<(), FormatError> {
    let Some(HeapType::Concrete(kind, named)) = ty.heap() else {
        return Ok(());
    };
    index("type of a reference", named, len)?;
    of_kind(m, "type of a reference", named, kind)
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

fn exports(m: &Metadata) -> Result<(), FormatError> {
    for export in &m.exports {
        match export.item {
            ExportItem::Func(i) => {
                index("exported function", i, m.funcs.len())?;
                escaped(m, i)?;
            }
            ExportItem::Table(i) => index("exported table", i, m.tables.len())?,
            ExportItem::Memory(i) => index("exported memory", i, m.memories.len())?,
            ExportItem::Global(i) => index("exported global", i, m.globals.len())?,
            ExportItem::Tag(i) => index("exported tag", i, m.tags.len())?,
        }
    }
    m.start.map_or(Ok(()), |start| escaped(m, start))
}

fn segments(m: &Metadata) -> Result<(), FormatError> {
    for segment in &m.elements {
        mode(m, &segment.mode, "element", m.tables.len())?;
        match &segment.items {
            ElementItems::Funcs(funcs) => funcs.iter().try_for_each(|&func| escaped(m, func))?,
            ElementItems::Exprs(exprs) => exprs.iter().try_for_each(|expr| const_expr(m, expr))?,
        }
    }
    for segment in &m.data {
        mode(m, &segment.mode, "data", m.memories.len())?;
        if segment.start.checked_add(segment.len).is_none() {
            return damaged("data segment", "it ends past 4 GiB");
        }
    }
    Ok(())
}

/// Checks the tables of a snapshot, and that it has the state that the start of a module makes.
fn snapshot(m: &Metadata) -> Result<(), FormatError> {
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
        let heap = ty.element.heap().map(HeapType::top);
        let is_nullable = matches!(ty.element, ValType::Ref(of) if of.nullable);
        let has_null = elements.len() as u64 != ty.min || elements.contains(&Element::Null);
        if has_null && !is_nullable {
            return damaged("table", "an element is null, against its type");
        }
        for element in elements {
            match (element, heap) {
                (Element::Null, _) | (Element::I31(_), Some(HeapType::Any)) => {}
                (Element::Func(func), Some(HeapType::Func)) => escaped(m, *func)?,
                _ => return damaged("table", "an element has another type"),
            }
        }
    }
    Ok(())
}

fn mode(m: &Metadata, mode: &SegmentMode, what: &str, len: usize) -> Result<(), FormatError> {
    let SegmentMode::Active {
        index: target,
        offset,
    } = mode
    else {
        return Ok(());
    };
    index(&format!("target of an {what} segment"), *target, len)?;
    const_expr(m, offset)
}

fn const_expr(m: &Metadata, expr: &ConstExpr) -> Result<(), FormatError> {
    if expr.allocates() && !m.heap {
        return damaged(
            "constant",
            "it makes a struct or array, and the module has no heap",
        );
    }
    if expr.0.len() as u64 > CONSTANT_OPERATORS_MAX {
        let count = expr.0.len();
        let why = format!("{count} operators, the limit is {CONSTANT_OPERATORS_MAX}");
        return damaged("constant", &why);
    }
    for op in &expr.0 {
        match *op {
            ConstOp::GlobalGet(i) => index("global of a constant", i, m.globals.len())?,
            ConstOp::RefFunc(i) => escaped(m, i)?,
            ConstOp::StructNew(ty) | ConstOp::StructNewDefault(ty) => {
                of_kind(m, "struct of a constant", ty, CompositeKind::Struct)?;
            }
            ConstOp::ArrayNew(ty)
            | ConstOp::ArrayNewDefault(ty)
            | ConstOp::ArrayNewFixed(ty, _) => {
                of_kind(m, "array of a constant", ty, CompositeKind::Array)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that function `i` has a reference, and that its type has an entry trampoline.
fn escaped(m: &Metadata, i: u32) -> Result<(), FormatError> {
    index("referred function", i, m.funcs.len())?;
    if m.escaped_position(i).is_none() {
        return damaged("referred function", "it has no reference");
    }
    if m.entries[m.funcs[i as usize] as usize].is_none() {
        return damaged("referred function", "it has no entry trampoline");
    }
    Ok(())
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
