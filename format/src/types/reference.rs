//! [`RefType`] and [`HeapType`]: reference types.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A reference type (spec 3.0, 2.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RefType {
    /// Whether null is a value of the type.
    pub nullable: bool,
    /// Type of the referenced value when the reference is not null.
    pub heap: HeapType,
}

/// A heap type: the type of a referenced value (spec 3.0, 2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HeapType {
    /// Any function.
    Func,
    /// Bottom type of functions: only null references have it.
    NoFunc,
    /// Any reference of the host.
    Extern,
    /// Bottom type of host references: only null references have it.
    NoExtern,
    /// Any value of a guest or of the host, except functions and exceptions.
    Any,
    /// Values that `ref.eq` compares: 31-bit integers, structs and arrays.
    Eq,
    /// A 31-bit integer.
    I31,
    /// Any struct.
    Struct,
    /// Any array.
    Array,
    /// Bottom type of `any`: only null references have it.
    None,
    /// Any exception.
    Exn,
    /// Bottom type of exceptions: only null references have it.
    NoExn,
    /// The type of this kind with this index in the module.
    Concrete(CompositeKind, u32),
}

/// The kind of a type that a module defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CompositeKind {
    /// A function.
    Func,
    /// A struct.
    Struct,
    /// An array.
    Array,
}

impl CompositeKind {
    /// The abstract heap type of all values of this kind.
    #[must_use]
    pub const fn all(self) -> HeapType {
        match self {
            Self::Func => HeapType::Func,
            Self::Struct => HeapType::Struct,
            Self::Array => HeapType::Array,
        }
    }
}

impl HeapType {
    /// The top type of this type's hierarchy.
    #[must_use]
    pub const fn top(self) -> Self {
        match self {
            Self::Func | Self::NoFunc | Self::Concrete(CompositeKind::Func, _) => Self::Func,
            Self::Extern | Self::NoExtern => Self::Extern,
            Self::Exn | Self::NoExn => Self::Exn,
            Self::Any
            | Self::Eq
            | Self::I31
            | Self::Struct
            | Self::Array
            | Self::None
            | Self::Concrete(CompositeKind::Struct | CompositeKind::Array, _) => Self::Any,
        }
    }

    /// Whether this is a bottom type, which has no value.
    #[must_use]
    pub const fn is_bottom(self) -> bool {
        matches!(
            self,
            Self::NoFunc | Self::NoExtern | Self::None | Self::NoExn
        )
    }

    /// Whether this type is `wanted` or a subtype of `wanted`. `is_sub` compares two type indices,
    /// see [`ValType::matches`](super::ValType::matches).
    #[must_use]
    pub fn matches(self, wanted: Self, is_sub: impl FnOnce(u32, u32) -> bool) -> bool {
        match (self, wanted) {
            (Self::Concrete(_, found), Self::Concrete(_, wanted)) => is_sub(found, wanted),
            (found, wanted) if found == wanted => true,
            (found, wanted) if found.is_bottom() => found.top() == wanted.top(),
            (Self::Concrete(kind, _), wanted) => {
                kind.all() == wanted || kind.all().is_declared_below(wanted)
            }
            (found, wanted) => found.is_declared_below(wanted),
        }
    }

    const fn is_declared_below(self, wanted: Self) -> bool {
        matches!(
            (self, wanted),
            (Self::I31 | Self::Struct | Self::Array, Self::Eq | Self::Any) | (Self::Eq, Self::Any)
        )
    }
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nullable, heap } = self;
        match (nullable, heap) {
            (false, heap) => write!(f, "(ref {heap})"),
            (true, HeapType::Concrete(..)) => write!(f, "(ref null {heap})"),
            (true, HeapType::None) => f.write_str("nullref"),
            (true, HeapType::NoFunc) => f.write_str("nullfuncref"),
            (true, HeapType::NoExtern) => f.write_str("nullexternref"),
            (true, HeapType::NoExn) => f.write_str("nullexnref"),
            (true, heap) => write!(f, "{heap}ref"),
        }
    }
}

impl fmt::Display for HeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Concrete(_, index) => return write!(f, "{index}"),
            Self::Func => "func",
            Self::NoFunc => "nofunc",
            Self::Extern => "extern",
            Self::NoExtern => "noextern",
            Self::Any => "any",
            Self::Eq => "eq",
            Self::I31 => "i31",
            Self::Struct => "struct",
            Self::Array => "array",
            Self::None => "none",
            Self::Exn => "exn",
            Self::NoExn => "noexn",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ValType;
    use HeapType::{
        Any, Array, Concrete, Eq, Exn, Extern, Func, I31, NoExn, NoExtern, NoFunc, None, Struct,
    };

    const ALL: [HeapType; 16] = [
        Func,
        NoFunc,
        Extern,
        NoExtern,
        Any,
        Eq,
        I31,
        Struct,
        Array,
        None,
        Exn,
        NoExn,
        Concrete(CompositeKind::Func, 1),
        Concrete(CompositeKind::Struct, 2),
        Concrete(CompositeKind::Struct, 3),
        Concrete(CompositeKind::Array, 4),
    ];

    /// The proper supertypes of each type, without the rules for bottom types. Type 3 is declared
    /// as a subtype of type 2.
    fn above(ty: HeapType) -> Vec<HeapType> {
        match ty {
            Eq => vec![Any],
            I31 | Struct | Array => vec![Eq, Any],
            Concrete(CompositeKind::Func, _) => vec![Func],
            Concrete(CompositeKind::Struct, 2) => vec![Struct, Eq, Any],
            Concrete(CompositeKind::Struct, _) => {
                vec![Concrete(CompositeKind::Struct, 2), Struct, Eq, Any]
            }
            Concrete(CompositeKind::Array, _) => vec![Array, Eq, Any],
            _ => vec![],
        }
    }

    #[test]
    fn references_match_those_that_hold_them() {
        let is_sub = |found, wanted| found == wanted || (found, wanted) == (3, 2);
        for found in ALL {
            for wanted in ALL {
                let is_below = found.is_bottom() && found.top() == wanted.top();
                let expected = found == wanted || is_below || above(found).contains(&wanted);
                assert_eq!(found.matches(wanted, is_sub), expected, "{found} {wanted}");
                for (may_be, may) in [(false, false), (false, true), (true, false), (true, true)] {
                    let ty = |nullable, heap| ValType::Ref(RefType { nullable, heap });
                    let (found, wanted) = (ty(may_be, found), ty(may, wanted));
                    let expected = expected && (may || !may_be);
                    assert_eq!(found.matches(wanted, is_sub), expected, "{found} {wanted}");
                }
            }
        }
    }

    #[test]
    fn types_are_written_as_the_text_format_has_them() {
        let written: Vec<_> = ALL.map(|ty| ValType::nullable(ty).to_string()).into();
        assert_eq!(
            written.join(" "),
            "funcref nullfuncref externref nullexternref anyref eqref i31ref structref arrayref nullref exnref \
             nullexnref (ref null 1) (ref null 2) (ref null 3) (ref null 4)"
        );
        assert_eq!(ValType::non_null(I31).to_string(), "(ref i31)");
    }
}
