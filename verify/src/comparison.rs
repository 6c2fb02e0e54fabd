//! [`Comparison`]: two values that an instruction has compared, and what the flags tell about the
//! values.

use crate::value::{Kind, Symbol, Value};
use iced_x86::RflagsBits;
use pirn_format::layout::INSTANCE_AREA_BYTES_MAX;
use pirn_format::types::{CompositeKind, HeapType};

/// The flag that is set if two values are equal. Flags are bits of [`RflagsBits`] on both
/// architectures: N, Z, C and V of aarch64 are SF, ZF, CF and OF. PF has no counterpart.
pub(crate) const ZERO_FLAG: u32 = RflagsBits::ZF;

/// The flags of the sign, of a carry and of a signed overflow.
pub(crate) const SIGN_FLAG: u32 = RflagsBits::SF;
pub(crate) const CARRY_FLAG: u32 = RflagsBits::CF;
pub(crate) const OVERFLOW_FLAG: u32 = RflagsBits::OF;

/// The flags that conditions read.
pub(crate) const FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::CF | RflagsBits::PF;

/// The flags that a guest may read after a comparison of two values. Other flags would tell the
/// guest an address, or bits that earlier code left in a register.
pub(crate) fn readable_flags(left: Value, right: Value) -> u32 {
    let known = |value: Value| {
        // Type numbers in dispatch tables are constants of the module.
        value.is_number() || matches!(value.kind, Kind::DispatchType(_))
    };
    if known(left) && known(right) {
        return FLAGS;
    }
    // Whether code may compare these references or identities for equality.
    let is_equality = |left: Value, right: Value| {
        let is_null = right.as_constant() == Some(0);
        const AREA: i64 = INSTANCE_AREA_BYTES_MAX as i64;
        // A test whether a function's record is null. The operands are never equal, because no
        // context has such a low address.
        let is_record = |left: Value| {
            left.exact().is_some_and(|at| (-AREA..=0).contains(&at))
                && right
                    .as_constant()
                    .is_some_and(|to| (0..=AREA).contains(&to))
        };
        match (left.kind, right.kind) {
            (Kind::Reference(_) | Kind::ImportInstance(_), _) if is_null => true,
            (Kind::Instance, _) if is_record(left) => true,
            (Kind::Reference(_), Kind::Reference(_)) => true,
            _ if is_never_equal(left, right) => true,
            (Kind::TypeOf(_), Kind::TypeId(_)) => true,
            (Kind::ExceptionTag, Kind::TagId(_)) => true,
            (Kind::Ancestor(..), Kind::TypeId(_)) => true,
            // An address is neither 0 nor one of the highest 64 numbers.
            (Kind::InArray(..), Kind::Number) => {
                left.exact().is_some_and(|at| at >= 0) && matches!(right.exact(), Some(-64..=0))
            }
            (Kind::Reference(heap), _) if heap.top() == HeapType::Any => right.is_i31(),
            (Kind::Part(_, part), _) => {
                let constant = right.as_constant();
                constant.is_some_and(|constant| part.is_comparable(constant))
            }
            _ => false,
        }
    };
    // Code may compare the order of a new object's end, of addresses in one array, and of a number
    // of supertypes. An address minus a number could be less than 0, so that the order tells the
    // address.
    let is_order = |left: Value, right: Value| match (left.kind, right.kind) {
        (Kind::HeapNext, Kind::HeapEnd) => left.low >= 0,
        (Kind::InArray(a, _), Kind::InArray(b, _)) | (Kind::Fresh(a), Kind::Fresh(b)) => {
            a == b && left.low >= 0 && right.low >= 0
        }
        (Kind::RowLen(_), _) => right.is_number(),
        _ => false,
    };
    if is_order(left, right) || is_order(right, left) {
        return RflagsBits::ZF | RflagsBits::CF;
    }
    match is_equality(left, right) || is_equality(right, left) {
        true => ZERO_FLAG,
        false => 0,
    }
}

/// Whether `left` is a reference to a struct or an array, and `right` a negative number. Such a
/// reference is null or an address, and no negative number.
pub(crate) fn is_never_equal(left: Value, right: Value) -> bool {
    let is_object = |heap: HeapType| {
        matches!(
            heap,
            HeapType::Struct
                | HeapType::Array
                | HeapType::Concrete(CompositeKind::Struct | CompositeKind::Array, _)
        )
    };
    matches!(left.kind, Kind::Reference(heap) if is_object(heap))
        && right.as_constant().is_some_and(|number| number < 0)
}

/// Two values that the last flag-setting instruction has compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) left: Value,
    pub(crate) right: Value,
    /// Whether 32 bits were compared, zero-extended in both values.
    pub(crate) is_word: bool,
}

impl Comparison {
    /// Whether a relation bounds the compared values.
    pub(crate) fn has_bounds(&self, relation: Relation) -> bool {
        let Self {
            left,
            right,
            is_word,
        } = self;
        let is_wide = |value: &Value| value.high > i64::from(i32::MAX);
        let is_ambiguous = *is_word && relation.is_signed() && (is_wide(left) || is_wide(right));
        left.is_number() && right.is_number() && !is_ambiguous
    }

    /// Whether the comparison may tell something about a value: an operand has the value's symbol,
    /// or the symbol of its lowest 32 bits.
    pub(crate) fn concerns(&self, value: &Value) -> bool {
        let of = |other: &Value| other.symbol.is_of(value.symbol);
        value.symbol != Symbol::ZERO && (of(&self.left) || of(&self.right))
    }

    /// Whether both comparisons compare the same values. The known bounds of the values may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Numbers of 64 bits may differ where their lowest 32 bits are equal.
        if self.is_word != other.is_word {
            return false;
        }
        let same = |a: &Value, b: &Value| a.identity() == b.identity() && a.null == b.null;
        same(&self.left, &other.left) && same(&self.right, &other.right)
    }
}

/// The relation of two values that a branch has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    /// Less or greater, unsigned.
    Below,
    NotAbove,
    Above,
    NotBelow,
    /// Less or greater, signed.
    Less,
    NotGreater,
    Greater,
    NotLess,
}

impl Relation {
    /// The relation that holds if this relation does not hold.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Below => Self::NotBelow,
            Self::NotBelow => Self::Below,
            Self::Above => Self::NotAbove,
            Self::NotAbove => Self::Above,
            Self::Less => Self::NotLess,
            Self::NotLess => Self::Less,
            Self::Greater => Self::NotGreater,
            Self::NotGreater => Self::Greater,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(
            self,
            Self::Less | Self::NotLess | Self::Greater | Self::NotGreater
        )
    }

    /// The relation with its operands exchanged.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Below => Self::Above,
            Self::Above => Self::Below,
            Self::NotBelow => Self::NotAbove,
            Self::NotAbove => Self::NotBelow,
            Self::Less => Self::Greater,
            Self::Greater => Self::Less,
            Self::NotLess => Self::NotGreater,
            Self::NotGreater => Self::NotLess,
        }
    }
}

/// Whether one of two numbers is constant, and the lowest bits of both are known to differ.
fn are_incongruent(left: Value, right: Value) -> bool {
    let (value, constant) = match (left.as_constant(), right.as_constant()) {
        (None, Some(constant)) => (left, constant),
        (Some(constant), None) => (right, constant),
        _ => return false,
    };
    let known = (1_i64 << value.shift.min(32)) - 1;
    value.is_number() && value.constant.wrapping_sub(constant) & known != 0
}

/// Bounds of `left` if it has a relation to `right`; `None` if the relation cannot hold.
pub(crate) fn bounds(left: Value, right: Value, relation: Relation) -> Option<(i64, i64)> {
    let (mut low, mut high) = (left.low, left.high);
    let is_positive = left.low >= 0 && right.low >= 0;
    match relation {
        Relation::Equal if are_incongruent(left, right) => return None,
        Relation::Equal => {
            low = low.max(right.low);
            high = high.min(right.high);
        }
        Relation::NotEqual => {
            let other = right.exact();
            low = low.checked_add(i64::from(other == Some(low)))?;
            high = high.checked_sub(i64::from(other == Some(high)))?;
        }
        // Unsigned numbers below a positive number are positive.
        Relation::Below if right.low >= 0 => {
            low = low.max(0);
            high = high.min(right.high.checked_sub(1)?);
        }
        Relation::NotAbove if right.low >= 0 => {
            low = low.max(0);
            high = high.min(right.high);
        }
        Relation::Above if is_positive => low = low.max(right.low.checked_add(1)?),
        Relation::NotBelow if is_positive => low = low.max(right.low),
        Relation::Less => high = high.min(right.high.checked_sub(1)?),
        Relation::NotGreater => high = high.min(right.high),
        Relation::Greater => low = low.max(right.low.checked_add(1)?),
        Relation::NotLess => low = low.max(right.low),
        Relation::Below | Relation::NotAbove | Relation::Above | Relation::NotBelow => {}
    }
    (low <= high).then_some((low, high))
}
