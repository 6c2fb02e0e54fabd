//! Loads and stores: which addresses code may use, and which values lie at these addresses.

use crate::abi::value_bytes;
use crate::address::{Access, Address, Use};
use crate::conversion::is_external_i31;
use crate::error::{Proof, Property, refuse};
use crate::frame;
use crate::module::{Cell, Module};
use crate::state::{Fact, State};
use crate::value::{Entries, Kind, Symbol, Value};
use pirn_format::exit::CELL_BYTES;
use pirn_format::layout::{
    FUNCREF_CODE, FUNCREF_TYPE_ID, FUNCREF_VMCTX, GUARD_BYTES, IMPORT_HOST, IMPORT_INSTANCE,
    MEMORY_BASE, MEMORY_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES, TABLE_BASE, TABLE_ELEMENTS,
};
use pirn_format::types::{HeapType, ValType};

/// Bytes of the reservation after a memory's base.
const REACH: i64 = (MEMORY_REACH_BYTES + GUARD_BYTES) as i64;

/// Limit of displacements from null: an access of up to 64 bytes is then in the lowest page, where
/// nothing is mapped.
const NULL_BYTES: i64 = 4096 - 64;

/// Checks an access. Returns the loaded value.
pub(crate) fn access(module: &Module<'_>, state: &mut State, access: &Access) -> Proof<Value> {
    let base = access.address.base;
    if access.is_aligned && !is_multiple_of_16(access) {
        return refuse(
            Property::Instructions,
            "may fault, because its address is not known to be a multiple of 16",
        );
    }
    match base.kind {
        Kind::Instance if base.low.saturating_add(access.address.displacement) < 0 => {
            instance(module, state, access)
        }
        Kind::Instance if module.has_own_memory() => memory(module, access),
        Kind::Memory(_) => memory(module, access),
        Kind::Stack => frame::stack(state, access),
        Kind::Text => text(module, state, access),
        Kind::Table(_) | Kind::TableSlot(_) => table(module, state, access),
        Kind::Reference(heap) => reference(module, state, access, heap),
        Kind::MemoryDesc(index) => loaded(access, |at| match at {
            MEMORY_BASE => Some(Value::of(Kind::Memory(index))),
            MEMORY_BYTES => Some(memory_bytes(access.fresh)),
            _ => None,
        }),
        Kind::TableDesc(index) => loaded(access, |at| match at {
            TABLE_BASE => Some(Value::of(Kind::Table(index))),
            TABLE_ELEMENTS => Some(table_len(access.fresh, index)),
            _ => None,
        }),
        Kind::Import(_) => loaded(access, |at| match at {
            IMPORT_HOST => Some(Value::of(Kind::AnyHost)),
            IMPORT_INSTANCE => Some(Value::of(Kind::AnyInstance)),
            _ => None,
        }),
        Kind::AnyInstance => loaded(access, |at| {
            (at == pirn_format::layout::CONTEXT_HOST_CALL).then(|| Value::of(Kind::HostCall))
        }),
        Kind::GlobalCell(index) => global(module, access, index, access.distance().unwrap_or(-1)),
        Kind::ExceptionValues => exception_value(module, state, access),
        Kind::ResultArea => result_area(state, access),
        kind => refuse(
            Property::Accesses,
            format!("uses {kind:?} as an address; addresses are computed from the context"),
        ),
    }
}

/// Whether an address is provably a multiple of 16. For a misaligned access, the kernel reports no
/// fault address, so the runtime cannot treat the fault as a trap.
fn is_multiple_of_16(access: &Access) -> bool {
    // A call leaves the stack pointer 8 bytes below a multiple of 16. The text and the context's
    // end have a stricter alignment.
    let bias = match access.address.base.kind {
        Kind::Stack => 8,
        Kind::Text | Kind::Instance => 0,
        _ => return false,
    };
    let Address { base, displacement } = access.address;
    if base.null && displacement & 15 != 0 {
        return false;
    }
    let is_known = base.exact().is_some() || base.shift >= 4;
    let distance = base.exact().unwrap_or(base.constant);
    is_known && distance.wrapping_add(displacement).wrapping_sub(bias) & 15 == 0
}

/// Checks a load of 8 bytes at an exact distance from a base that has few fields.
fn loaded(access: &Access, field: impl FnOnce(i32) -> Option<Value>) -> Proof<Value> {
    let at = access.distance().and_then(|at| i32::try_from(at).ok());
    match (at.and_then(field), access.usage, access.bytes) {
        (Some(value), Use::Read, 8) => Ok(value),
        _ => refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes at {:?} + {}, which is no field that code may read",
                access.bytes, access.address.base.kind, access.address.displacement
            ),
        ),
    }
}

fn memory_bytes(fresh: Symbol) -> Value {
    Value {
        kind: Kind::MemoryBytes,
        ..Value::number(fresh, 0, MEMORY_BYTES_MAX as i64)
    }
}

fn table_len(fresh: Symbol, table: u32) -> Value {
    Value {
        kind: Kind::TableLen(table),
        ..Value::number(fresh, 0, i64::from(u32::MAX))
    }
}

/// An access to linear memory. The access must lie in the reservation. It may fault, so the trap
/// table must have the instruction.
fn memory(module: &Module<'_>, access: &Access) -> Proof<Value> {
    let Address { base, displacement } = access.address;
    let low = base.low.checked_add(displacement);
    let end = base
        .high
        .checked_add(displacement)
        .and_then(|high| high.checked_add(i64::from(access.bytes)));
    match (low, end) {
        (Some(low), Some(end)) if low >= 0 && end <= REACH => {}
        _ => {
            return refuse(
                Property::Accesses,
                format!(
                    "accesses {} bytes at {} to {} + {displacement} from a memory's base; the \
                     reservation has {REACH} bytes",
                    access.bytes, base.low, base.high
                ),
            );
        }
    }
    if base.null && !(0..NULL_BYTES).contains(&displacement) {
        return refuse(
            Property::Accesses,
            format!("adds {displacement} to an address that a mask may have made null"),
        );
    }
    if module.traps.code(access.at).is_none() {
        return refuse(
            Property::Accesses,
            "accesses memory without an entry in the trap table",
        );
    }
    access.stores_number()?;
    Ok(access.number())
}

/// An access to the instance area, below the context's end.
fn instance(module: &Module<'_>, state: &mut State, access: &Access) -> Proof<Value> {
    if access.address.base.null {
        return refuse(
            Property::Accesses,
            "accesses the instance by an address that a mask may have made null",
        );
    }
    let at = access.distance().and_then(|at| i32::try_from(at).ok());
    if let Some((function, field)) = at.and_then(|at| module.function_record(at)) {
        return function_field(module, state, access, function, field);
    }
    let Some(cell) = at.and_then(|at| module.cell(at, access.bytes)) else {
        let Address { base, displacement } = access.address;
        return refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes at {} to {} from the context, which is no field that code may \
                 use",
                access.bytes,
                base.low.saturating_add(displacement),
                base.high.saturating_add(displacement)
            ),
        );
    };
    if matches!(cell, Cell::ExceptionTag | Cell::ExceptionValues) && !state.is_landed {
        return refuse(
            Property::Accesses,
            format!("reads {cell:?} of the instance when no exception was just caught"),
        );
    }
    let fresh = access.fresh;
    // The descriptor in the context is zero if the module defines no memory.
    let is_absent = !module.has_own_memory();
    let value = match cell {
        Cell::Global { index, byte } => return global(module, access, index, i64::from(byte)),
        Cell::Fuel => {
            access.stores_number()?;
            return Ok(access.number());
        }
        Cell::TableBase(table) => Value::of(Kind::Table(table)),
        Cell::TableLen(table) => table_len(fresh, table),
        Cell::TableDesc(table) => Value::of(Kind::TableDesc(table)),
        Cell::MemoryBase(_) | Cell::MemoryBytes if is_absent => Value::constant(0),
        Cell::MemoryBase(memory) if memory == module.imported.memories => Value::of(Kind::Instance),
        Cell::MemoryBase(memory) => Value::of(Kind::Memory(memory)),
        Cell::MemoryBytes => memory_bytes(fresh),
        Cell::MemoryDesc(memory) => Value::of(Kind::MemoryDesc(memory)),
        Cell::ImportCode(import) => Value::of(Kind::ImportCode(import)),
        Cell::ImportContext(import) => Value::of(Kind::ImportContext(import)),
        Cell::ImportInstance(import) => Value::of(Kind::ImportInstance(import)),
        Cell::ImportHost(import) => Value::of(Kind::ImportHost(import)),
        Cell::TypeId(ty) => Value::of(Kind::TypeId(ty)),
        Cell::TagId(tag) => Value::of(Kind::TagId(tag)),
        Cell::Exit => Value::of(Kind::Exit),
        Cell::HostCall => Value::of(Kind::HostCall),
        Cell::Bulk => Value::of(Kind::Bulk),
        Cell::ExceptionTag => Value::of(Kind::ExceptionTag),
        Cell::ExceptionValues => Value::of(Kind::ExceptionValues),
    };
    match access.usage {
        Use::Read => Ok(value),
        _ => refuse(
            Property::Accesses,
            format!("writes {cell:?} of the instance, which only the runtime writes"),
        ),
    }
}

/// An access to the value of a global, or to the address of an imported global.
fn global(module: &Module<'_>, access: &Access, index: u32, byte: i64) -> Proof<Value> {
    let ty = module.metadata.globals[index as usize];
    let is_cell = matches!(access.address.base.kind, Kind::GlobalCell(_));
    if ty.mutable && index < module.imported.globals && !is_cell {
        return match (access.usage, access.bytes, byte) {
            (Use::Read, 8, 0) => Ok(Value::of(Kind::GlobalCell(index))),
            _ => refuse(
                Property::Accesses,
                format!("writes the address of imported global {index}"),
            ),
        };
    }
    if access.usage.writes() && !ty.mutable {
        return refuse(
            Property::Accesses,
            format!("writes global {index}, which is immutable"),
        );
    }
    let fits = byte >= 0 && byte + i64::from(access.bytes) <= i64::from(CELL_BYTES);
    match ty.content {
        ValType::Ref(reference) if byte == 0 && access.bytes == 8 => {
            if let Use::Write(value) = access.usage {
                of_type(module, value, ty.content)?;
            } else if access.usage.writes() {
                return refuse(
                    Property::Types,
                    format!("computes the reference in global {index}"),
                );
            }
            Ok(Value::reference(
                access.fresh,
                reference.heap,
                reference.nullable,
            ))
        }
        ValType::Ref(_) => refuse(
            Property::Types,
            format!(
                "accesses {} bytes of the reference in global {index}",
                access.bytes
            ),
        ),
        content if fits => {
            // The rest of a narrow global's cell is zero, or was written by the guest.
            let _ = content;
            access.stores_number()?;
            Ok(access.number())
        }
        _ => refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes at {byte} of global {index}",
                access.bytes
            ),
        ),
    }
}

/// An access to an element of a table.
fn table(module: &Module<'_>, state: &State, access: &Access) -> Proof<Value> {
    let Address { base, displacement } = access.address;
    // Known lower bound of the number of elements.
    let min = |table: u32| {
        let known = state.facts().filter_map(|fact| match fact {
            Fact::Elements(of, count) if of == table => Some(count),
            _ => None,
        });
        known.fold(module.metadata.tables[table as usize].min, u64::max)
    };
    let table = match base.kind {
        Kind::Table(table) => {
            let min = min(table);
            let end = base
                .high
                .checked_add(displacement)
                .and_then(|high| high.checked_add(8))
                .and_then(|end| u64::try_from(end).ok());
            // Under speculation, code reads element 0 in place of an element out of bounds. If a
            // table has no elements, the runtime puts null at this address.
            let is_mask = base.exact() == Some(0) && displacement == 0 && !access.usage.writes();
            let is_within_min = end.is_some_and(|end| end <= min.saturating_mul(8))
                && base.low.saturating_add(displacement) >= 0
                && (base.exact().is_some() || base.shift >= 3)
                && base
                    .exact()
                    .unwrap_or(base.constant)
                    .wrapping_add(displacement)
                    % 8
                    == 0;
            let is_checked = base.is_checked_slot_of(table) && displacement == 0;
            if !is_checked && !is_within_min && !is_mask {
                return refuse(
                    Property::Accesses,
                    format!(
                        "accesses bytes {} to {} of table {table} without a comparison with its \
                         number of elements",
                        base.low, base.high
                    ),
                );
            }
            table
        }
        // The element may be element 0, which a mask against speculation selects.
        Kind::TableSlot(table)
            if displacement == 0 && (!access.usage.writes() || min(table) > 0) =>
        {
            table
        }
        _ => {
            return refuse(
                Property::Accesses,
                "accesses bytes beside a table's element",
            );
        }
    };
    // In an empty table, a mask selects an element 0 that is null.
    let is_element = min(table) > 0 || base.is_checked_slot_of(table);
    let element = module.metadata.tables[table as usize].element;
    let ValType::Ref(reference) = element else {
        return refuse(Property::Types, format!("table {table} has no references"));
    };
    if access.bytes != 8 {
        return refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes of a table's element, not 8",
                access.bytes
            ),
        );
    }
    match access.usage {
        Use::Read => {}
        Use::Write(value) => {
            module.changes_tables()?;
            of_type(module, value, element)?;
        }
        _ => return refuse(Property::Types, "computes a reference"),
    }
    Ok(Value::reference(
        access.fresh,
        reference.heap,
        reference.nullable || !is_element,
    ))
}

/// A load from the record of a function that a reference names.
fn reference(
    module: &Module<'_>,
    state: &mut State,
    access: &Access,
    heap: HeapType,
) -> Proof<Value> {
    let base = access.address.base;
    if heap.top() != HeapType::Func {
        return refuse(
            Property::Accesses,
            format!("loads through a reference of type {heap}, which the verifier does not know"),
        );
    }
    if base.null && module.traps.code(access.at).is_none() {
        return refuse(
            Property::Accesses,
            "loads through a reference that may be null, without an entry in the trap table",
        );
    }
    if let HeapType::Concrete(_, ty) = heap {
        state.add(Fact::FunctionType(base.symbol, ty));
    }
    let field = i32::try_from(access.address.displacement).unwrap_or(-1);
    record_field(access, base.symbol, field)
}

/// A load from the record of one of the module's own functions.
fn function_field(
    module: &Module<'_>,
    state: &mut State,
    access: &Access,
    function: u32,
    field: i32,
) -> Proof<Value> {
    let symbol = Symbol(Symbol::FUNCTION | u64::from(function));
    let ty = module.metadata.funcs[function as usize];
    state.add(Fact::FunctionType(symbol, ty));
    record_field(access, symbol, field)
}

/// A load from the record of the function that a symbol names.
fn record_field(access: &Access, function: Symbol, field: i32) -> Proof<Value> {
    match (access.usage, field, access.bytes) {
        (Use::Read, FUNCREF_CODE, 8) => Ok(Value::named(access.fresh, Kind::CodeOf(function))),
        (Use::Read, FUNCREF_VMCTX, 8) => Ok(Value::named(access.fresh, Kind::ContextOf(function))),
        (Use::Read, FUNCREF_TYPE_ID, 4) => Ok(Value::named(access.fresh, Kind::TypeOf(function))),
        _ => refuse(
            Property::Accesses,
            format!("accesses byte {field} of a function reference, which is no field"),
        ),
    }
}

/// A load of constants that the code generator has put into the text.
fn text(module: &Module<'_>, state: &State, access: &Access) -> Proof<Value> {
    let Address { base, displacement } = access.address;
    let (Some(low), Some(high)) = (
        base.low.checked_add(displacement),
        base.high.checked_add(displacement),
    ) else {
        return refuse(Property::Accesses, "reads the text at an unknown address");
    };
    let end = high.saturating_add(i64::from(access.bytes));
    if access.usage.writes() || low < 0 || end > module.text.len() as i64 {
        return refuse(
            Property::Accesses,
            format!(
                "accesses bytes {low} to {end} of the text, which has {} bytes and is read only",
                module.text.len()
            ),
        );
    }
    if let (true, Some(bytes)) = (
        low == high && access.bytes <= 8,
        module.text.get(low as usize..end as usize),
    ) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        return Ok(Value::constant(i64::from_le_bytes(word)));
    }
    // An entry of a jump table has 4 bytes, an entry of a dispatch table 8. The distance from the
    // first entry must be a multiple of the entry's size.
    let entries = Entries {
        first: low as u32,
        last: high as u32,
    };
    let step = if low >= i64::from(module.code_end) {
        3
    } else {
        2
    };
    let is_even = u32::from(base.shift) >= step
        && low.wrapping_sub(base.constant.wrapping_add(displacement)) & ((1 << step) - 1) == 0;
    if access.bytes != 4 || !is_even {
        return Ok(access.number());
    }
    if step == 2 {
        return Ok(Value::named(access.fresh, Kind::JumpOffset(entries)));
    }
    // The number of an entry's type follows the offset of its code.
    let (Some(code), Some(entry)) = (
        base.entry_address(displacement),
        base.entry_address(displacement - 4),
    ) else {
        return Ok(access.number());
    };
    let number = state.facts().find_map(|fact| match fact {
        Fact::DispatchNumber(entry, number) if entry == code => Some(number),
        _ => None,
    });
    let kind = match number {
        Some(number) => Kind::DispatchOffset(entries, number),
        None => Kind::DispatchType(entry),
    };
    Ok(Value::named(access.fresh, kind))
}

/// A load of a value of the caught exception.
fn exception_value(module: &Module<'_>, state: &State, access: &Access) -> Proof<Value> {
    let caught = state.facts().find_map(|fact| match fact {
        Fact::Caught(tag) => Some(tag),
        _ => None,
    });
    let at = access.address.displacement;
    let cell = i64::from(CELL_BYTES);
    let ty = caught.and_then(|tag| {
        let ty = module
            .metadata
            .func_type(module.metadata.tags[tag as usize]);
        ty.params.get(usize::try_from(at / cell).ok()?).copied()
    });
    match (ty, access.usage) {
        (Some(ty), Use::Read) if at % cell == 0 && access.bytes == value_bytes(ty) => {
            Ok(typed(ty, access.fresh))
        }
        _ => refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes at {at} of the values of an exception; no tag that was compared \
                 has such a value",
                access.bytes
            ),
        ),
    }
}

/// A store of a result to the caller's memory, which lies after the arguments in [`State`].
fn result_area(state: &mut State, access: &Access) -> Proof<Value> {
    let at = i32::try_from(access.address.displacement).ok();
    let value = match access.usage {
        Use::Write(value) => Some(value),
        Use::Vector(_) => Some(Value::any(access.fresh)),
        _ => None,
    };
    let (Some(at), Some(value)) = (at, value) else {
        return refuse(
            Property::Accesses,
            "reads its results, which it must only write",
        );
    };
    let bytes = access.bytes as i32;
    if at < 0 || at % 8 != 0 || at > state.area_bytes() - bytes || !matches!(bytes, 4 | 8 | 16) {
        return refuse(
            Property::Accesses,
            format!(
                "writes {bytes} bytes at {at} of the results, which have {} bytes",
                state.area_bytes()
            ),
        );
    }
    let ty = match bytes {
        4 => ValType::I32,
        8 => ValType::I64,
        _ => ValType::V128,
    };
    if bytes != 8 && !value.is_number() {
        return refuse(
            Property::Types,
            "stores a part of a value that is no number",
        );
    }
    state.set_cell(state.top() + at, ty, value);
    Ok(value)
}

/// An unknown value of a type, such as a parameter or a field.
pub(crate) fn typed(ty: ValType, fresh: Symbol) -> Value {
    match ty {
        ValType::Ref(reference) => Value::reference(fresh, reference.heap, reference.nullable),
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64 | ValType::V128 => {
            Value::any(fresh)
        }
    }
}

/// The heap type of a reference, and whether the reference may be null.
fn reference_of(module: &Module<'_>, value: Value) -> Option<(HeapType, bool)> {
    match value.kind {
        Kind::Reference(heap) => Some((heap, value.null)),
        // The address of the record of one of the module's functions.
        Kind::Instance => {
            let at = i32::try_from(value.exact()?).ok()?;
            let function = module.function_at(at)?;
            let ty = module.metadata.funcs[function as usize];
            let kind = module.metadata.kind(ty)?;
            Some((HeapType::Concrete(kind, ty), value.null))
        }
        _ => None,
    }
}

/// Checks that a value has a type.
pub(crate) fn of_type(module: &Module<'_>, value: Value, ty: ValType) -> Proof<()> {
    let is_it = match ty {
        ValType::Ref(wanted) => {
            let is_null = value.as_constant() == Some(0);
            let is_sub = |a: u32, b: u32| module.subtypes.is_subtype(a, b);
            match reference_of(module, value) {
                Some((heap, null)) => {
                    (wanted.nullable && heap.is_bottom())
                        || ((wanted.nullable || !null) && heap.matches(wanted.heap, is_sub))
                }
                None if value.is_i31() => HeapType::I31.matches(wanted.heap, is_sub),
                None if value.as_constant().is_some_and(is_external_i31) => {
                    HeapType::Extern.matches(wanted.heap, is_sub)
                }
                None => is_null && wanted.nullable,
            }
        }
        ValType::I32 | ValType::I64 => value.is_number(),
        ValType::F32 | ValType::F64 | ValType::V128 => true,
    };
    if is_it {
        return Ok(());
    }
    refuse(Property::Types, format!("passes {:?} as {ty}", value.kind))
}
