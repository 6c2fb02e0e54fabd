//! Structs, arrays and references to them: allocation, accesses, and addresses in objects.
//!
//! A reference is an address, so a reference of a wrong type leaves the sandbox. Only these values
//! are references to an object:
//!
//! - a value that has a reference type by the metadata, such as a parameter;
//! - a value that code loads from a field of a reference type;
//! - the address of an object that the function has allocated and completely written.

use crate::access::{of_type, typed};
use crate::address::{Access, Address, Use};
use crate::arithmetic::united;
use crate::error::{Proof, Property, refuse};
use crate::external;
use crate::heap::{Filled, Fresh, Neighbour, Term};
use crate::module::{Module, has_type_rows};
use crate::state::State;
use crate::value::{Kind, Symbol, Value};
use pirn_format::layout::{
    ARRAY_LEN, CONTEXT_HEAP_END, CONTEXT_HEAP_NEXT, CONTEXT_TYPE_ROWS, OBJECT_HEADER_BYTES,
    OBJECT_TYPE, TAG_ARRAY, TYPE_ROW_BYTES,
};
use pirn_format::types::{CompositeKind, FieldType, HeapType, StorageType, ValType};

/// Limit of an object's size. The runtime adds the size to an address, and the sum must not
/// overflow.
pub(crate) const OBJECT_BYTES_MAX: i64 = 1 << 40;

const HEADER: i64 = OBJECT_HEADER_BYTES as i64;

/// Distance from the header of an array to a reference to the array.
pub(crate) const ARRAY: i64 = TAG_ARRAY as i64;

/// Checks an access to an object, to the fields of the context for allocation, or to the table of
/// types. Returns `None` for other accesses.
pub(crate) fn access(
    module: &Module<'_>,
    state: &mut State,
    access: &Access,
) -> Proof<Option<Value>> {
    if !module.has_objects {
        return Ok(None);
    }
    let moved;
    let access = match neighbour(
        module,
        state,
        access.address.base,
        access.address.displacement,
    ) {
        Some((base, displacement)) => {
            let address = Address { base, displacement };
            moved = Access { address, ..*access };
            &moved
        }
        None => access,
    };
    let Address { base, displacement } = access.address;
    let is_field =
        |offset: i32| base.kind == Kind::Instance && access.distance() == Some(offset.into());
    let is_object = matches!(
        base.kind,
        Kind::Fresh(_) | Kind::InArray(..) | Kind::Row(_) | Kind::Chain(_)
    ) || matches!(base.kind, Kind::Reference(heap) if heap.top() == HeapType::Any);
    let is_context = [CONTEXT_HEAP_NEXT, CONTEXT_HEAP_END, CONTEXT_TYPE_ROWS]
        .into_iter()
        .any(is_field);
    if !is_object && !is_context {
        return Ok(None);
    }
    if access.is_aligned {
        return refuse(
            Property::Instructions,
            "may fault, because objects are no multiple of 16",
        );
    }
    if base.null {
        return refuse(
            Property::Accesses,
            "accesses an object by a reference that may be null",
        );
    }
    let value = match base.kind {
        Kind::Instance if is_field(CONTEXT_TYPE_ROWS) => type_rows(module, access)?,
        Kind::Instance => allocation(module, state, access)?,
        Kind::Fresh(object) => fresh(module, state, access, object)?,
        Kind::Row(object) => match (access.usage, access.bytes, access.distance()) {
            (Use::Read, 8, Some(0)) => Value::of(Kind::RowWord(object)),
            _ => return refuse(Property::Accesses, "accesses bytes beside a row of types"),
        },
        Kind::Chain(object) => ancestor(state, access, object)?,
        Kind::InArray(array, ty) => element(module, state, access, array, ty)?,
        Kind::Reference(heap) => referenced(module, state, access, heap)?,
        _ => {
            return refuse(
                Property::Accesses,
                format!("accesses byte {displacement} of {:?}", base.kind),
            );
        }
    };
    Ok(Some(value))
}

fn type_rows(module: &Module<'_>, access: &Access) -> Proof<Value> {
    match (access.usage, access.bytes) {
        (Use::Read, 8) if has_type_rows(module.metadata) => Ok(Value::of(Kind::TypeRows)),
        _ => refuse(
            Property::Accesses,
            "accesses the address of the table of types, which it must only read",
        ),
    }
}

/// A load of a supertype's identity. A comparison must have shown that the object's type has this
/// supertype.
fn ancestor(state: &State, access: &Access, object: Symbol) -> Proof<Value> {
    let at = access.distance().filter(|at| *at >= 0 && at % 4 == 0);
    match (at, access.usage, access.bytes) {
        (Some(at), Use::Read, 4) if state.heap.has_depth(object, at / 4 + 1) => {
            Ok(Value::of(Kind::Ancestor(object, at / 4)))
        }
        _ => refuse(
            Property::Accesses,
            format!("reads supertype {at:?} of a type without a comparison of their number"),
        ),
    }
}

/// An access to the address of the next object, or to the end of the memory for objects.
fn allocation(module: &Module<'_>, state: &mut State, access: &Access) -> Proof<Value> {
    if !module.metadata.heap || access.bytes != 8 {
        return refuse(
            Property::Accesses,
            "accesses the place of objects in a module that makes none",
        );
    }
    let is_next = access.distance() == Some(CONTEXT_HEAP_NEXT.into());
    match access.usage {
        Use::Read if is_next => Ok(Value::of(Kind::HeapNext)),
        Use::Read => Ok(Value::of(Kind::HeapEnd)),
        Use::Write(end) if is_next => allocate(state, access, end),
        _ => refuse(
            Property::Accesses,
            "writes the end of the memory for objects, which only the runtime writes",
        ),
    }
}

/// Allocates an object that ends at `end`. A comparison or `heap.grow` must have shown that there
/// is room up to `end`.
fn allocate(state: &mut State, access: &Access, end: Value) -> Proof<Value> {
    let place = |value: Value| (value.kind, Term::of(value));
    let has_room = state.heap.room.is_some_and(|room| {
        place(room) == place(end)
            || matches!((room.exact(), end.exact()), (Some(room), Some(end)) if end <= room)
    });
    let is_multiple = match end.exact() {
        Some(bytes) => bytes % 8 == 0,
        None => {
            let rounded = state.heap.rounded(end.symbol);
            rounded.is_some() && end.shift == 0 && end.constant == 0
        }
    };
    if end.kind != Kind::HeapNext || end.null || end.low < HEADER || !has_room || !is_multiple {
        return refuse(
            Property::Accesses,
            format!(
                "allocates an object that ends at {:?}, up to which no room was found",
                end.kind
            ),
        );
    }
    let object = Symbol::allocated(access.at);
    let is_next = |value: &Value| value.kind == Kind::HeapNext && !value.null;
    // The symbol must not be in use, so values of an earlier object with this symbol become
    // unknown.
    let is_named = |value: &Value| value.symbol == object || value.kind == Kind::Fresh(object);
    state.update(
        |value| is_next(value) || is_named(value),
        |value| {
            *value = match is_next(value) {
                true if Term::of(*value) == Term::of(end) => Value::of(Kind::HeapNext),
                true if value.exact().is_some() => Value {
                    kind: Kind::Fresh(object),
                    ..*value
                },
                _ => Value::JUNK,
            };
        },
    );
    let places = state.heap.clone();
    // The next object begins at `end`, and registers may hold this address.
    state.forget_next_object(|value| *value == Value::of(Kind::HeapNext));
    state.heap.restore_places(&places);
    state.heap.add_object(object, end.exact());
    state.heap.add_fresh(Fresh {
        object,
        bytes: end,
        ty: None,
        missing: vec![],
        filled: None,
        is_headed: false,
    });
    Ok(end)
}

/// An access to an object that is not completely written.
fn fresh(module: &Module<'_>, state: &mut State, access: &Access, object: Symbol) -> Proof<Value> {
    let Some(number) = state
        .heap
        .fresh
        .iter()
        .position(|fresh| fresh.object == object)
    else {
        return refuse(Property::Accesses, "accesses an object of unknown size");
    };
    if !access.usage.writes() {
        return refuse(
            Property::Accesses,
            "reads an object that is not completely written",
        );
    }
    let Fresh { ty, is_headed, .. } = state.heap.fresh[number];
    match (ty, access.usage, access.distance()) {
        (None, Use::Write(value), Some(at)) if at == OBJECT_TYPE.into() && access.bytes == 4 => {
            let Kind::TypeId(ty) = value.kind else {
                return refuse(
                    Property::Types,
                    format!("writes {:?} as the type of an object", value.kind),
                );
            };
            type_header(module, &mut state.heap.fresh[number], ty)?;
        }
        (Some(ty), Use::Write(len), Some(at))
            if at == ARRAY_LEN.into() && access.bytes == 4 && !is_headed =>
        {
            array_header(module, state, number, (ty, len))?;
        }
        (Some(ty), _, at) if is_headed => match (module.metadata.array_element(ty), at) {
            (None, Some(at)) => new_field(module, state, access, (number, ty, at))?,
            (None, None) => {
                return refuse(
                    Property::Accesses,
                    "writes an unknown field of a new object",
                );
            }
            (Some(_), _) => {
                element(module, state, access, object, ty)?;
                let Address { base, displacement } = access.address;
                let at = Term::of(base).plus(displacement);
                if let Some(filled) = &mut state.heap.fresh[number].filled
                    && at == Some(filled.at)
                {
                    filled.at.constant += i64::from(access.bytes);
                }
            }
        },
        (_, _, Some(at)) => {
            return refuse(
                Property::Accesses,
                format!("writes byte {at} of a new object before its header"),
            );
        }
        (_, _, None) => {
            return refuse(
                Property::Accesses,
                "writes an unknown byte of a new object before its header",
            );
        }
    }
    complete(module, state, number);
    Ok(Value::any(access.fresh))
}

/// Checks a write at the offset `at` of a new struct of the type `ty`. `number` is the struct's
/// index among the new objects.
fn new_field(
    module: &Module<'_>,
    state: &mut State,
    access: &Access,
    (number, ty, at): (usize, u32, i64),
) -> Proof<()> {
    let Some(field) = struct_field(module, ty, at, access.bytes) else {
        return refuse(
            Property::Accesses,
            format!("writes byte {at} of a new object, which is no field"),
        );
    };
    store(module, access, field.storage)?;
    let missing = &mut state.heap.fresh[number].missing;
    if let Ok(found) = missing.binary_search(&at) {
        missing.remove(found);
    }
    Ok(())
}

/// Checks that an object has room for a type.
fn type_header(module: &Module<'_>, fresh: &mut Fresh, ty: u32) -> Proof<()> {
    match module.metadata.kind(ty) {
        Some(CompositeKind::Struct) => {
            let fields = module.structs.fields(ty);
            if fresh
                .bytes
                .exact()
                .is_none_or(|bytes| bytes < fields.bytes.into())
            {
                let room = fresh.bytes.exact().map(|bytes| bytes.to_string());
                let room = room.as_deref().unwrap_or("an unknown number of");
                return refuse(
                    Property::Accesses,
                    format!(
                        "makes a struct of type {ty}, which has {} bytes, in {room} bytes",
                        fields.bytes
                    ),
                );
            }
            let offsets = fields.offsets.iter().zip(module.metadata.struct_fields(ty));
            let missing = offsets.filter(|(_, field)| !field.storage.value().has_default());
            fresh.missing = missing.map(|(offset, _)| i64::from(*offset)).collect();
            fresh.is_headed = true;
        }
        Some(CompositeKind::Array) => {}
        _ => {
            return refuse(
                Property::Types,
                format!("makes an object of type {ty}, which is no struct or array"),
            );
        }
    }
    fresh.ty = Some(ty);
    Ok(())
}

/// Checks that an array has room for its elements.
fn array_header(
    module: &Module<'_>,
    state: &mut State,
    number: usize,
    (ty, len): (u32, Value),
) -> Proof<()> {
    let Some(element) = module.metadata.array_element(ty) else {
        return refuse(Property::Accesses, "writes the length of a struct");
    };
    let log2 = element.storage.log2();
    let fresh = &state.heap.fresh[number];
    let is_word = len.is_number() && len.low >= 0 && len.high <= i64::from(u32::MAX);
    let term = Term::of(len);
    let fits = match (fresh.bytes.exact(), len.exact()) {
        (Some(bytes), Some(len)) => {
            let size = len
                .checked_shl(log2)
                .and_then(|size| size.checked_add(HEADER));
            size.is_some_and(|size| size <= bytes)
        }
        // The size was rounded up to a multiple of 8 from the bytes of the header and the elements.
        (None, _) if fresh.bytes.shift == 0 && fresh.bytes.constant == 0 => {
            let symbol = fresh.bytes.symbol;
            state.heap.rounded(symbol).is_some_and(|size| {
                size.symbol == term.symbol
                    && u32::from(size.shift) == u32::from(term.shift) + log2
                    && term.constant == 0
                    && size.constant >= HEADER
            })
        }
        // A constant size does not follow from a length that is unknown.
        _ => false,
    };
    if !is_word || !fits {
        return refuse(
            Property::Accesses,
            format!(
                "writes a length of {} to {} to an array whose size does not follow from it",
                len.low, len.high
            ),
        );
    }
    let fresh = &mut state.heap.fresh[number];
    if !element.storage.value().has_default() {
        let Some(end) = term.scaled(log2).and_then(|end| end.plus(HEADER)) else {
            return refuse(
                Property::Types,
                "makes an array of references that must not be null, of unknown length",
            );
        };
        let at = Term::constant(HEADER);
        fresh.filled = Some(Filled { at, end });
    }
    fresh.is_headed = true;
    let object = fresh.object;
    state.heap.add_length(object, term);
    Ok(())
}

/// Learns that `at` is not below `end`. Completes a new array if `at` is the address of the first
/// missing element, and `end` the end of the elements. Code may have added the same constant to
/// both.
pub(crate) fn ends_at(
    module: &Module<'_>,
    state: &mut State,
    array: Symbol,
    (at, end): (Value, Value),
) {
    let of_array = |fresh: &Fresh| fresh.object == array;
    let Some(number) = state.heap.fresh.iter().position(of_array) else {
        return;
    };
    let bounds = 0..=OBJECT_BYTES_MAX;
    let are_offsets = at.low >= 0 && bounds.contains(&end.low) && bounds.contains(&end.high);
    let Some(filled) = &mut state.heap.fresh[number].filled else {
        return;
    };
    let distance = filled.at.distance(Term::of(at));
    let is_end = distance.is_some() && distance == filled.end.distance(Term::of(end));
    if are_offsets && is_end {
        filled.at = filled.end;
        complete(module, state, number);
    }
}

/// Makes the address of an object a reference, if the object is completely written.
fn complete(module: &Module<'_>, state: &mut State, number: usize) {
    let found = &state.heap.fresh[number];
    let object = found.object;
    let Some(ty) = found
        .ty
        .filter(|_| found.is_headed && found.missing.is_empty())
        .filter(|_| found.filled.is_none_or(|filled| filled.at == filled.end))
    else {
        return;
    };
    let is_array = module.metadata.array_element(ty).is_some();
    state.heap.fresh.remove(number);
    state.heap.set_complete(object, ty);
    let heap = HeapType::Concrete(CompositeKind::Struct, ty);
    state.update(
        |value| value.kind == Kind::Fresh(object),
        |value| {
            *value = match (is_array, value.exact()) {
                (true, _) => Value {
                    kind: Kind::InArray(object, ty),
                    ..*value
                }
                .as_array(),
                (false, Some(0)) => Value::reference(object, heap, false),
                (false, _) => Value::JUNK,
            };
        },
    );
}

/// Whether an access lies in a field. A reference is accessed as a whole.
fn fits(storage: StorageType, within: i64, bytes: u32) -> bool {
    match storage.value() {
        ValType::Ref(_) => within == 0 && bytes == storage.bytes(),
        _ => within >= 0 && within + i64::from(bytes) <= i64::from(storage.bytes()),
    }
}

/// The field of a struct in which an access lies.
fn struct_field(module: &Module<'_>, ty: u32, at: i64, bytes: u32) -> Option<FieldType> {
    let offsets = module.structs.fields(ty).offsets;
    let at = u32::try_from(at).ok()?;
    let number = offsets
        .partition_point(|offset| *offset <= at)
        .checked_sub(1)?;
    let field = module.metadata.struct_fields(ty)[number];
    let within = i64::from(at - offsets[number]);
    fits(field.storage, within, bytes).then_some(field)
}

/// Checks the value that an access writes to a field.
fn store(module: &Module<'_>, access: &Access, storage: StorageType) -> Proof<()> {
    match (storage.value(), access.usage) {
        (ty @ ValType::Ref(_), Use::Write(value)) => of_type(module, value, ty),
        (ValType::Ref(_), _) => refuse(Property::Types, "computes the reference in a field"),
        _ => access.stores_number(),
    }
}

/// An access to a field or an element of the type `field`, in the object with this symbol.
fn field(module: &Module<'_>, access: &Access, object: Symbol, field: FieldType) -> Proof<Value> {
    if access.usage.writes() {
        // A subtype may have another type for an immutable field.
        if !field.mutable && !object.is_allocated() {
            return refuse(
                Property::Accesses,
                "writes a field that is immutable, of an object that is not new",
            );
        }
        store(module, access, field.storage)?;
    }
    Ok(match field.storage.value() {
        ty @ ValType::Ref(_) => typed(ty, access.fresh),
        _ => access.number(),
    })
}

/// An access to an element of an array.
fn element(
    module: &Module<'_>,
    state: &State,
    access: &Access,
    array: Symbol,
    ty: u32,
) -> Proof<Value> {
    let Address { base, displacement } = access.address;
    let Some(element) = module.metadata.array_element(ty) else {
        return refuse(Property::Accesses, "accesses an element of no array");
    };
    if let (Some(at), Use::Read, 4) = (access.distance(), access.usage, access.bytes)
        && let Some(value) = header(access, array, at)
    {
        return Ok(value);
    }
    let log2 = element.storage.log2();
    let size = i64::from(element.storage.bytes());
    let is_checked = |offset: Term| {
        let offset = offset.plus(displacement - HEADER)?;
        let within = offset.constant & (size - 1);
        let index = offset.plus(-within)?.divided(log2)?;
        let is_there = state.heap.has_length(array, index.plus(1)?);
        Some(is_there && fits(element.storage, within, access.bytes))
    };
    let symbolic = Term {
        symbol: base.symbol,
        shift: base.shift,
        constant: base.constant,
    };
    let low = base.low.saturating_add(displacement);
    let is_within = low >= HEADER
        && [Term::of(base), symbolic]
            .into_iter()
            .any(|term| is_checked(term) == Some(true));
    if !is_within {
        return refuse(
            Property::Accesses,
            format!(
                "accesses {} bytes at {low} of an array of type {ty} without a comparison of the \
                 index with its length",
                access.bytes
            ),
        );
    }
    field(module, access, array, element)
}

/// A word of the header of an array, or the first word of the header of a struct.
fn header(access: &Access, object: Symbol, at: i64) -> Option<Value> {
    if at == OBJECT_TYPE.into() {
        return Some(Value::named(access.fresh, Kind::TypeOf(object)));
    }
    (at == ARRAY_LEN.into()).then(|| Value {
        kind: Kind::ArrayLen(object),
        ..Value::number(access.fresh, 0, i64::from(u32::MAX))
    })
}

/// An access at a constant distance from a reference.
fn referenced(module: &Module<'_>, state: &State, access: &Access, heap: HeapType) -> Proof<Value> {
    let Address { base, displacement } = access.address;
    if external::is_boxed(state, base, displacement)
        && matches!(access.usage, Use::Read)
        && access.bytes == 8
    {
        return Ok(Value::reference(access.fresh, HeapType::Extern, false));
    }
    let is_array = matches!(
        heap,
        HeapType::Array | HeapType::Concrete(CompositeKind::Array, _)
    );
    let is_struct = matches!(
        heap,
        HeapType::Struct | HeapType::Concrete(CompositeKind::Struct, _)
    );
    let reads_word = matches!(access.usage, Use::Read) && access.bytes == 4;
    let at = displacement.saturating_add(if is_array { ARRAY } else { 0 });
    let is_named = base.symbol != Symbol::ZERO;
    if (is_array || (is_struct && at == OBJECT_TYPE.into()))
        && is_named
        && reads_word
        && let Some(value) = header(access, base.symbol, at)
    {
        return Ok(value);
    }
    match heap {
        HeapType::Concrete(CompositeKind::Struct, ty) => {
            if let Some(found) = struct_field(module, ty, displacement, access.bytes) {
                return field(module, access, base.symbol, found);
            }
        }
        HeapType::Concrete(CompositeKind::Array, ty) if is_named => {
            let address = Address {
                base: base.in_array(),
                displacement,
            };
            let access = Access { address, ..*access };
            return element(module, state, &access, base.symbol, ty);
        }
        _ => {}
    }
    refuse(
        Property::Accesses,
        format!(
            "accesses {} bytes at {displacement} by a reference of type {heap}, where it has no \
             field",
            access.bytes
        ),
    )
}

/// Rebases an address that lies past its object onto the neighbouring object, or onto the address
/// of the next object.
pub(crate) fn neighbour(
    module: &Module<'_>,
    state: &State,
    base: Value,
    offset: i64,
) -> Option<(Value, i64)> {
    let (object, at) = match base.kind {
        Kind::Reference(HeapType::Concrete(CompositeKind::Struct, _)) if !base.null => {
            (base.symbol, 0)
        }
        Kind::Reference(HeapType::Concrete(CompositeKind::Array, _)) if !base.null => {
            (base.symbol, ARRAY)
        }
        Kind::Fresh(object) | Kind::InArray(object, _) => (object, base.exact()?),
        _ => return None,
    };
    let (what, rest) = state.heap.neighbour(object, at.checked_add(offset)?)?;
    Some(match what {
        Neighbour::Next => (Value::of(Kind::HeapNext), rest),
        Neighbour::Fresh(object) => (Value::of(Kind::Fresh(object)), rest),
        Neighbour::Object(object, ty) => match module.metadata.array_element(ty).is_some() {
            true => (Value::of(Kind::InArray(object, ty)), rest),
            false => {
                let heap = HeapType::Concrete(CompositeKind::Struct, ty);
                (Value::reference(object, heap, false), rest)
            }
        },
    })
}

/// The sum of an address and a constant, if the sum is an address in a neighbouring object.
pub(crate) fn neighbour_sum(
    module: &Module<'_>,
    state: &State,
    left: Value,
    right: Value,
) -> Option<Value> {
    let (base, offset) = match (left.as_constant(), right.as_constant()) {
        (_, Some(offset)) => (left, offset),
        (Some(offset), _) => (right, offset),
        _ => return None,
    };
    let (base, rest) = neighbour(module, state, base, offset)?;
    match rest {
        0 => Some(base.as_array()),
        _ => base.plus(Value::constant(rest), Symbol::ZERO),
    }
}

/// Notes that `sum` is the sum of two other values.
pub(crate) fn note_sum(state: &mut State, left: Value, right: Value, sum: Value) {
    let is_term = |value: Value| {
        value.is_number()
            && value.symbol != Symbol::ZERO
            && value.shift == 0
            && value.constant == 0
            && value.low >= 0
    };
    let is_word = |value: Value| is_term(value) && value.high <= i64::from(u32::MAX);
    if is_word(left) && is_word(right) && is_term(sum) && sum.symbol != left.symbol {
        state.heap.add_sum(sum.symbol, left.symbol, right.symbol);
    }
}

/// An address in an array plus a scaled number, if the sum of the number and the address's index
/// has a symbol.
pub(crate) fn sum(state: &State, base: Value, number: Value) -> Option<Value> {
    let (base, number) = match base.is_number() {
        true => (number.in_array(), base),
        false => (base.in_array(), number),
    };
    let is_pair = matches!(base.kind, Kind::InArray(..))
        && number.is_number()
        && base.symbol != Symbol::ZERO
        && number.symbol != Symbol::ZERO
        && base.shift == number.shift;
    if !is_pair {
        return None;
    }
    let symbol = state.heap.sum(base.symbol, number.symbol)?;
    Some(Value {
        symbol,
        constant: base.constant.checked_add(number.constant)?,
        low: base.low.checked_add(number.low)?,
        high: base.high.checked_add(number.high)?,
        ..base
    })
}

/// The sum of two values: a number, an address, or a reference to an array. `None` for other sums.
pub(crate) fn added(
    module: &Module<'_>,
    state: &State,
    left: Value,
    right: Value,
    fresh: Symbol,
) -> Option<Value> {
    if !module.has_objects {
        return left.plus(right, fresh);
    }
    sum(state, left, right)
        .or_else(|| neighbour_sum(module, state, left, right))
        .or_else(|| left.plus(right, fresh))
}

/// `x | 1`: a valid reference to a 31-bit integer if it fits in 32 bits.
pub(crate) fn odd(left: Value, right: Value, fresh: Symbol) -> Option<Value> {
    let is_one = |value: Value| value.as_constant() == Some(1);
    let is_set = (is_one(left) && right.low >= 0) || (is_one(right) && left.low >= 0);
    let mut odd = united(left, right, fresh);
    (odd.shift, odd.constant, odd.low) = (1, 1, 1);
    is_set.then_some(odd)
}

/// An object's size, rounded up to a multiple of 8. `size` is the size plus 7, and code masks its
/// lowest 3 bits.
pub(crate) fn rounded(state: &mut State, size: Value, fresh: Symbol) -> Option<Value> {
    let is_size = size.is_number() && size.low >= 7 && size.high <= OBJECT_BYTES_MAX;
    let term = Term::of(size);
    if !is_size || term.symbol == Symbol::ZERO {
        return None;
    }
    let name = state.heap.add_rounded(term.plus(-7)?, fresh);
    Some(Value::number(name, size.low - 7, size.high))
}

/// The lowest 32 bits of a number. They get the same symbol if code computes them again.
pub(crate) fn named_word(
    module: &Module<'_>,
    state: &mut State,
    value: Value,
    fresh: Symbol,
) -> Value {
    let word = value.low_word(fresh);
    let term = Term::of(value);
    if !module.has_objects || word.symbol != fresh || term.symbol == Symbol::ZERO {
        return word;
    }
    Value {
        symbol: state.heap.name_word(term, fresh),
        ..word
    }
}

/// The row offset of an object's type, if `factor` is the row size.
pub(crate) fn row_index(value: Value, factor: i64) -> Option<Value> {
    match value.kind {
        Kind::TypeOf(object) if factor == i64::from(TYPE_ROW_BYTES) => {
            Some(Value::of(Kind::RowIndex(object)))
        }
        _ => None,
    }
}

/// The unit of a builtin's amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Bytes,
    Elements,
}

/// The element type of an array, if the array contains a range of elements from an address on.
pub(crate) fn range(
    module: &Module<'_>,
    state: &State,
    address: Value,
    (amount, of): (Value, Amount),
) -> Option<FieldType> {
    let address = address.in_array();
    let Kind::InArray(array, ty) = address.kind else {
        return None;
    };
    let element = module.metadata.array_element(ty)?;
    let log2 = element.storage.log2();
    let from = Term::of(address).plus(-HEADER)?.divided(log2)?;
    let is_number = amount.is_number() && amount.low >= 0 && !address.null;
    let count = match of {
        Amount::Bytes => Term::of(amount).divided(log2)?,
        Amount::Elements => Term::of(amount),
    };
    let is_within = is_number && address.low >= HEADER && state.heap.has_range(array, from, count);
    is_within.then_some(element)
}

/// Whether an address lies in an array that the function allocated.
pub(crate) fn is_new(address: Value) -> bool {
    matches!(address.in_array().kind, Kind::InArray(array, _) if array.is_allocated())
}
