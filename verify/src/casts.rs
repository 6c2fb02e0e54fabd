//! References to structs and arrays: the types and lengths that comparisons prove, and the join of
//! two references where paths meet.

use crate::comparison::{Comparison, Relation, is_never_equal};
use crate::conversion::is_external_i31;
use crate::external;
use crate::heap::Term;
use crate::module::Module;
use crate::objects::{self, ARRAY, OBJECT_BYTES_MAX};
use crate::state::State;
use crate::value::{Kind, Symbol, Value};
use crate::widening::Widening;
use pirn_format::layout::{TAG_ARRAY, TAG_BITS, TAG_HOST, TAG_I31};
use pirn_format::types::{CompositeKind, HeapType};
use std::cell::Cell;

/// Learns that a relation holds between the compared values. Returns whether the relation can hold.
pub(crate) fn assume(
    module: &Module<'_>,
    state: &mut State,
    comparison: Comparison,
    relation: Relation,
) -> bool {
    let Comparison { left, right, .. } = comparison;
    state.assume(comparison, relation)
        && (!module.has_objects
            || (learn(module, state, (left, right), relation)
                && learn(module, state, (right, left), relation.swapped())))
}

fn learn(
    module: &Module<'_>,
    state: &mut State,
    (left, right): (Value, Value),
    relation: Relation,
) -> bool {
    use Relation::{Above, Below, Equal, NotAbove, NotBelow, NotEqual};
    let number = right.as_constant();
    if matches!(relation, Equal | NotEqual)
        && !external::learn(state, left, right, relation == Equal)
    {
        return false;
    }
    match (left.kind, right.kind, relation) {
        (Kind::HeapNext, Kind::HeapEnd, NotAbove | Below)
            if !left.null && left.low >= 0 && left.high <= OBJECT_BYTES_MAX =>
        {
            state.heap.room = Some(left);
        }
        (Kind::Reference(heap), _, Equal) if number == Some(0) => {
            let none = match heap.top() {
                HeapType::Any => HeapType::None,
                HeapType::Func => HeapType::NoFunc,
                HeapType::Extern => HeapType::NoExtern,
                _ => return true,
            };
            if !left.null {
                return false;
            }
            narrow(state, left.symbol, none);
        }
        (Kind::Reference(_), _, Equal) if is_never_equal(left, right) => return false,
        (Kind::InArray(..), _, Equal) if left.low >= 0 && matches!(number, Some(-64..=0)) => {
            return false;
        }
        (Kind::Reference(heap), _, NotEqual) if number == Some(0) => {
            if heap.is_bottom() {
                return false;
            }
            external::learn_not_null(state, left.symbol);
        }
        (Kind::Tag(object, mask), _, Equal | NotEqual) => {
            if let Some(heap) = tagged(mask, number, relation) {
                narrow_tagged(state, object, heap);
            }
            // Other registers may also hold these tag bits.
            if let Some(bits) = tag_bits(mask, number, relation) {
                state.update(
                    |value| value.kind == Kind::Tag(object, mask),
                    |value| *value = Value::constant(bits),
                );
            }
        }
        (Kind::TypeOf(object) | Kind::Ancestor(object, _), Kind::TypeId(ty), Equal) => {
            if let Some(kind) = module.metadata.kind(ty) {
                narrow_to(module, state, object, HeapType::Concrete(kind, ty));
            }
        }
        (Kind::RowLen(object), _, Above | NotBelow | NotEqual) => {
            let least = match (number, relation) {
                (Some(number), Above) => number.checked_add(1),
                (Some(0), NotEqual) => Some(1),
                (Some(number), NotBelow) => Some(number),
                _ => None,
            };
            if let Some(least) = least {
                state.heap.add_depth(object, least);
            }
        }
        (_, Kind::ArrayLen(array), _) if left.is_number() => {
            return compared_with_length(state, left, array, relation);
        }
        (Kind::InArray(array, ty), Kind::InArray(other, _), Below) if array == other => {
            compared_with_end(module, state, (left, right), (array, ty));
        }
        (Kind::Fresh(array), Kind::Fresh(other), Below) if array == other => {
            if let Some(ty) = state.heap.new_object_type(array) {
                compared_with_end(module, state, (left, right), (array, ty));
            }
        }
        (Kind::Fresh(array), Kind::Fresh(other), NotBelow) if array == other => {
            objects::ends_at(module, state, array, (left, right));
        }
        _ => {}
    }
    true
}

/// Learns from a comparison of an integer with the length of an array. Returns whether the relation
/// can hold.
fn compared_with_length(
    state: &mut State,
    value: Value,
    array: Symbol,
    relation: Relation,
) -> bool {
    let term = Term::of(value);
    let Some(next) = term.plus(1) else {
        return true;
    };
    match relation {
        Relation::Below => state.heap.add_length(array, next),
        Relation::NotAbove => state.heap.add_length(array, term),
        Relation::NotEqual if value.exact() == Some(0) => state.heap.add_length(array, next),
        // As an unsigned number, a negative value is above all lengths, so the relation can hold.
        Relation::NotBelow | Relation::Equal if value.low >= 0 => {
            return !state.heap.has_length(array, next);
        }
        Relation::Above if value.low >= 0 => return !state.heap.has_length(array, term),
        _ => {}
    }
    true
}

/// Learns that `at`, the address of an element, is below `end`, the end of a range of elements of
/// the same array.
fn compared_with_end(
    module: &Module<'_>,
    state: &mut State,
    (at, end): (Value, Value),
    (array, ty): (Symbol, u32),
) {
    let Some(element) = module.metadata.array_element(ty) else {
        return;
    };
    let log2 = element.storage.log2();
    let index = |value: Value| Term::of(value).plus(-ARRAY)?.divided(log2);
    let (Some(from), Some(to)) = (index(at), index(end)) else {
        return;
    };
    let is_within = state.heap.has_length(array, to) && at.low >= ARRAY && end.low >= ARRAY;
    let (true, Some(next)) = (is_within, from.plus(1)) else {
        return;
    };
    state.heap.add_length(array, next);
    // An array has fewer than 2^32 elements.
    let high = ARRAY + (i64::from(u32::MAX) << log2);
    state.update(
        |value| value.identity() == at.identity(),
        |value| value.high = value.high.min(high).max(value.low),
    );
}

/// The heap type of a reference that a comparison of its tag bits proves.
fn tagged(mask: u8, number: Option<i64>, relation: Relation) -> Option<HeapType> {
    const TAGS: u8 = TAG_BITS as u8;
    const I31: u8 = TAG_I31 as u8;
    const EQ: u8 = (TAG_HOST | TAG_I31) as u8;
    let number = u64::try_from(number?).ok()?;
    match (mask, number, relation) {
        (TAGS, 0, Relation::Equal) => Some(HeapType::Struct),
        (TAGS, TAG_ARRAY, Relation::Equal) => Some(HeapType::Array),
        (I31, TAG_I31, Relation::Equal) | (I31, 0, Relation::NotEqual) => Some(HeapType::I31),
        (EQ, TAG_HOST, Relation::NotEqual) => Some(HeapType::Eq),
        _ => None,
    }
}

/// The tag bits that a mask selects, if a comparison makes them known.
fn tag_bits(mask: u8, number: Option<i64>, relation: Relation) -> Option<i64> {
    let mask = i64::from(mask);
    match (number?, relation) {
        (number, Relation::Equal) if number & !mask == 0 => Some(number),
        (0, Relation::NotEqual) if mask.count_ones() == 1 => Some(mask),
        _ => None,
    }
}

/// The tag bits of a reference that a mask selects, if the reference's type determines them.
fn tag_of(value: Value, mask: u8) -> Option<i64> {
    let Kind::Reference(heap) = value.kind else {
        return None;
    };
    let tag = match heap {
        HeapType::Struct | HeapType::None | HeapType::Concrete(CompositeKind::Struct, _) => 0,
        HeapType::Array | HeapType::Concrete(CompositeKind::Array, _) if !value.null => TAG_ARRAY,
        HeapType::I31 if !value.null && u64::from(mask) == TAG_I31 => TAG_I31,
        _ => return None,
    };
    Some((tag & u64::from(mask)).cast_signed())
}

/// The tag bits of a reference that a mask selects, if one of two operands is the reference and the
/// other operand is the mask.
pub(crate) fn tag(left: Value, right: Value, fresh: Symbol) -> Option<Value> {
    let (reference, mask) = match (left.as_constant(), right.as_constant()) {
        (_, Some(mask)) => (left, mask),
        (Some(mask), _) => (right, mask),
        _ => return None,
    };
    if reference.is_i31() && mask.cast_unsigned() == TAG_BITS {
        return Some(Value {
            shift: 1,
            constant: 1,
            ..Value::number(fresh, 1, mask)
        });
    }
    let is_any = matches!(reference.kind, Kind::Reference(heap) if heap.top() == HeapType::Any);
    let mask = u8::try_from(mask)
        .ok()
        .filter(|mask| (1..=TAG_BITS).contains(&u64::from(*mask)));
    let mask = mask.filter(|_| is_any)?;
    let number = Value::number(fresh, 0, i64::from(mask));
    Some(match tag_of(reference, mask) {
        Some(tag) => Value::constant(tag),
        None if reference.symbol == Symbol::ZERO => number,
        None => Value {
            kind: Kind::Tag(reference.symbol, mask),
            ..number
        },
    })
}

/// Gives the bottom type `heap` to all references with this symbol in the type's hierarchy.
fn narrow(state: &mut State, symbol: Symbol, heap: HeapType) {
    if symbol == Symbol::ZERO {
        return;
    }
    state.update(
        |value| value.symbol == symbol,
        |value| {
            if let Kind::Reference(found) = value.kind
                && found.top() == heap.top()
            {
                value.kind = Kind::Reference(heap);
            }
        },
    );
}

/// Gives the abstract heap type `heap` to all references with this symbol whose type is a
/// supertype.
fn narrow_tagged(state: &mut State, symbol: Symbol, heap: HeapType) {
    // Null has tag 0, like a struct.
    let is_some = !matches!(heap, HeapType::Struct | HeapType::Eq);
    let is_below = |found: HeapType| heap.matches(found, |_, _| false) && heap != found;
    state.update(
        |value| value.symbol == symbol,
        |value| {
            if let Kind::Reference(found) = value.kind {
                if is_below(found) {
                    value.kind = Kind::Reference(heap);
                }
                value.null &= !is_some;
            }
        },
    );
}

/// Gives the module's type `heap` to all references with this symbol whose type is a supertype.
fn narrow_to(module: &Module<'_>, state: &mut State, symbol: Symbol, heap: HeapType) {
    if symbol == Symbol::ZERO {
        return;
    }
    let is_sub = |a: u32, b: u32| module.subtypes.is_subtype(a, b);
    state.update(
        |value| value.symbol == symbol,
        |value| {
            if let Kind::Reference(found) = value.kind
                && heap.matches(found, is_sub)
            {
                value.kind = Kind::Reference(heap);
            }
        },
    );
}

/// The least common supertype of two heap types; `None` if the types are of two hierarchies.
fn common(module: &Module<'_>, a: HeapType, b: HeapType) -> Option<HeapType> {
    let is_sub = |a: u32, b: u32| module.subtypes.is_subtype(a, b);
    if a.top() != b.top() {
        return None;
    }
    if a.matches(b, is_sub) {
        return Some(b);
    }
    let mut above = a;
    for _ in 0..=module.metadata.types.len() {
        if b.matches(above, is_sub) {
            return Some(above);
        }
        above = match above {
            HeapType::Concrete(kind, ty) => {
                match module
                    .metadata
                    .types
                    .get(ty as usize)
                    .and_then(|ty| ty.supertype)
                {
                    Some(supertype) => HeapType::Concrete(kind, supertype),
                    None => kind.all(),
                }
            }
            HeapType::Struct | HeapType::Array | HeapType::I31 => HeapType::Eq,
            _ => return Some(a.top()),
        };
    }
    Some(a.top())
}

/// A reference to an array and an address in the same array, both as addresses in the array.
pub(crate) fn in_one_array(a: Value, b: Value) -> Option<(Value, Value)> {
    let (a_in, b_in) = (a.in_array(), b.in_array());
    let is_one = |a: Value| matches!(a.kind, Kind::InArray(..));
    let is_pair = a.kind != b.kind && a_in.kind == b_in.kind && is_one(a_in);
    is_pair.then_some((a_in, b_in))
}

/// Whether two references are the same, null or not.
pub(crate) fn is_same_reference(a: Value, b: Value) -> bool {
    matches!(a.kind, Kind::Reference(_)) && a == b && a.symbol != Symbol::ZERO
}

/// Widens both references to their least common supertype, so that the join keeps it. Returns
/// whether the first reference has changed.
pub(crate) fn unite(module: &Module<'_>, a: &mut Value, b: &mut Value) -> bool {
    if let Some((a_in, b_in)) = in_one_array(*a, *b) {
        let changed = *a != a_in;
        (*a, *b) = (a_in, b_in);
        return changed;
    }
    let of = |value: &Value| match value.kind {
        Kind::Reference(heap) => Some(heap),
        _ if value.is_i31() => Some(HeapType::I31),
        _ if value.as_constant().is_some_and(is_external_i31) => Some(HeapType::Extern),
        _ => None,
    };
    let is_reference = |value: &Value| matches!(value.kind, Kind::Reference(_));
    if a.kind == b.kind || !(is_reference(a) || is_reference(b)) {
        return false;
    }
    let (Some(a_heap), Some(b_heap)) = (of(a), of(b)) else {
        return false;
    };
    let before = *a;
    let Some(heap) = common(module, a_heap, b_heap) else {
        // Null is a reference of each hierarchy.
        for (value, heap) in [(&mut *a, a_heap), (b, b_heap)] {
            if heap.is_bottom() {
                *value = Value::constant(0);
            }
        }
        return *a != before;
    };
    for value in [&mut *a, b] {
        match value.kind {
            // Paths may have given an object different types.
            Kind::Reference(_) => {
                *value = Value::reference(value.symbol.inexact(), heap, value.null);
            }
            _ => *value = Value::reference(Symbol::ZERO, heap, false),
        }
    }
    *a != before
}

/// The join of two values of one state.
pub(crate) fn joined(module: &Module<'_>, mut a: Value, mut b: Value, fresh: Symbol) -> Value {
    if module.has_objects {
        unite(module, &mut a, &mut b);
    }
    a.join(b, fresh, Widening::None)
}

/// As [`unite`], for every location of two states. Returns whether the first state has changed, and
/// the number of locations whose kinds were different.
pub(crate) fn unite_states(module: &Module<'_>, a: &mut State, b: &mut State) -> (bool, usize) {
    let different = Cell::new(0);
    let changed = a.update_pairs(b, |a, b| {
        different.set(different.get() + usize::from(a.kind != b.kind));
        unite(module, a, b)
    });
    (changed, different.get())
}
