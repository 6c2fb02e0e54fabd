//! Conversions between externref and anyref (spec 3.0, 4.6.5: `any.convert_extern` and
//! `extern.convert_any`).
//!
//! Code computes with the bits of a reference to convert it. So a register holds a [`Part`] of the
//! reference, which is neither a number nor a reference. The part becomes a reference once
//! comparisons have shown the [`Classes`] of the converted reference. `format/src/layout.rs`
//! describes the bits of both types.

use crate::conversion::{Classes, PREFIX, Part};
use crate::state::State;
use crate::value::{Kind, Symbol, Value};
use pirn_format::layout::{
    EXTERNAL_SHIFT, HOST_SHIFT, OBJECT_HEADER_BYTES, TAG_BITS, TAG_BOXED, TAG_HOST,
};
use pirn_format::types::HeapType;

/// Number of bits of a host's externref below the bits that [`Part::High`] selects.
const HOST_BITS: i64 = 64 - HOST_SHIFT as i64;

/// The mask of [`Part::Inner`]: all bits below the prefix.
const INNER: i64 = (1 << EXTERNAL_SHIFT) - 1;

/// The distance from a host reference with [`TAG_BOXED`] to the number in its box.
const BOXED: i64 = OBJECT_HEADER_BYTES as i64 - TAG_BOXED as i64;

/// An operation on a reference and a constant of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    And,
    Or,
    ShiftLeft,
    ShiftRight,
}

/// The result of an operation that converts a reference; `None` for other operations.
pub(crate) fn computed(
    state: &mut State,
    operation: Operation,
    left: Value,
    right: Value,
    fresh: Symbol,
) -> Option<Value> {
    const SHIFT: i64 = EXTERNAL_SHIFT as i64;
    const HOST: i64 = HOST_SHIFT as i64;
    const TAG: i64 = TAG_HOST as i64;
    let commutes = matches!(operation, Operation::And | Operation::Or);
    let (value, constant) = match (left.as_constant(), right.as_constant()) {
        (_, Some(constant)) => (left, constant),
        (Some(constant), _) if commutes => (right, constant),
        _ => return None,
    };
    let (of, part) = match (value.kind, operation, constant) {
        (Kind::Reference(heap), ..) => {
            let part = match (heap.top(), operation, constant) {
                (HeapType::Extern, Operation::ShiftRight, SHIFT) => Part::Prefix,
                (HeapType::Extern, Operation::ShiftRight, HOST_BITS) => Part::High,
                (HeapType::Extern, Operation::And, INNER) => Part::Inner,
                (HeapType::Extern, Operation::ShiftLeft, HOST) => Part::Scaled,
                (HeapType::Any, Operation::Or, PREFIX) => Part::Extern,
                (HeapType::Any, Operation::ShiftRight, HOST) => Part::HostNumber,
                _ => return None,
            };
            (value.symbol, part)
        }
        (Kind::Part(of, Part::Scaled), Operation::Or, TAG) => (of, Part::HostAny),
        // A 31-bit integer.
        _ if operation == Operation::Or && constant & !i64::from(u32::MAX) == PREFIX => {
            let is_word = value.is_number() && value.low >= 0 && value.high <= i64::from(u32::MAX);
            let is_odd = constant & 1 == 1 || value.is_i31();
            let is_it = is_word && is_odd;
            return is_it.then(|| Value::reference(fresh, HeapType::Extern, false));
        }
        _ => return None,
    };
    if of == Symbol::ZERO {
        return None;
    }
    // A reference of the type eq, or of a subtype, is no host reference.
    if let Kind::Reference(heap) = value.kind
        && heap.matches(HeapType::Eq, |_, _| false)
    {
        let host = Classes::HOST.or(Classes::BOXED);
        restrict(state, of, Classes::ALL.without(host));
    }
    let part = Value {
        null: value.null,
        ..Value::named(fresh, Kind::Part(of, part))
    };
    Some(converted(state.heap.classes(of), part))
}

/// Makes a part of a reference of these classes a reference, if the classes prove that the part is
/// a reference.
fn converted(classes: Classes, value: Value) -> Value {
    let Kind::Part(_, part) = value.kind else {
        return value;
    };
    let host = Classes::HOST.or(Classes::BOXED);
    let heap = match part {
        Part::Inner if classes.is_within(Classes::GUEST) => HeapType::Any,
        Part::HostAny if classes.is_within(Classes::SMALL) && !value.null => HeapType::Any,
        Part::Extern if classes.is_within(Classes::ALL.without(host)) && !value.null => {
            HeapType::Extern
        }
        Part::HostNumber if classes.is_within(Classes::HOST) => HeapType::Extern,
        _ => return value,
    };
    Value::reference(value.symbol, heap, false)
}

/// Notes that a reference belongs to one of these classes. Returns whether any class remains.
fn restrict(state: &mut State, of: Symbol, classes: Classes) -> bool {
    let known = state.heap.classes(of);
    let classes = known.and(classes);
    if classes == known {
        return true;
    }
    state.heap.set_classes(of, classes);
    // Null has the tag 0.
    let is_some = classes.is_within(Classes::HOST.or(Classes::BOXED));
    state.update(
        |value| match value.kind {
            Kind::Part(found, _) => found == of,
            Kind::Reference(_) => value.symbol == of,
            _ => false,
        },
        |value| {
            value.null &= !is_some;
            *value = converted(classes, *value);
        },
    );
    classes != Classes::NONE
}

/// Learns the classes of a converted reference from a relation between two values. Returns whether
/// the relation can hold.
pub(crate) fn learn(state: &mut State, left: Value, right: Value, is_equal: bool) -> bool {
    let Some(constant) = right.as_constant() else {
        return true;
    };
    let (of, classes) = match left.kind {
        Kind::Part(of, part) if part.is_comparable(constant) => match part {
            Part::Prefix => (of, Classes::GUEST),
            _ => (of, Classes::SMALL),
        },
        Kind::Tag(of, mask) if u64::from(mask) == TAG_BITS => match constant.cast_unsigned() {
            TAG_HOST => (of, Classes::HOST),
            TAG_BOXED => (of, Classes::BOXED),
            _ => return true,
        },
        _ => return true,
    };
    match is_equal {
        true => restrict(state, of, classes),
        false => restrict(state, of, Classes::ALL.without(classes)),
    }
}

/// Notes that a reference is not null.
pub(crate) fn learn_not_null(state: &mut State, of: Symbol) {
    if of == Symbol::ZERO {
        return;
    }
    let classes = state.heap.classes(of);
    state.update(
        |value| matches!(value.kind, Kind::Part(found, _) if found == of),
        |value| {
            value.null = false;
            *value = converted(classes, *value);
        },
    );
}

/// Whether a read of 8 bytes is the number in the box of a host reference.
pub(crate) fn is_boxed(state: &State, reference: Value, displacement: i64) -> bool {
    reference.symbol != Symbol::ZERO
        && displacement == BOXED
        && state
            .heap
            .classes(reference.symbol)
            .is_within(Classes::BOXED)
}
