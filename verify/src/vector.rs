//! [`Vector`]: how much of a vector register is a number, and which registers are equal.

use crate::value::{Kind, Symbol, Value};
use pirn_format::types::ValType;

/// How much of a vector register is a number, from its lowest bit on. The rest may be data of the
/// host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    #[default]
    Nothing,
    /// 8 bits.
    Byte,
    /// 16 bits.
    Short,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
    Whole,
}

impl Extent {
    /// The extent of a value of a type.
    pub(crate) fn of(ty: ValType) -> Self {
        match ty {
            ValType::F32 => Self::Single,
            ValType::F64 => Self::Double,
            _ => Self::Whole,
        }
    }

    /// The smallest extent, from [`Extent::Single`] on, that contains the lowest `bits` bits.
    pub(crate) fn of_bits(bits: u32) -> Self {
        match bits {
            0..=32 => Self::Single,
            33..=64 => Self::Double,
            _ => Self::Whole,
        }
    }

    /// The extent of a loaded value. `None` for a value that must not get into a vector register,
    /// such as an address.
    pub(crate) fn of_loaded(value: Value) -> Option<Self> {
        match value.kind {
            Kind::Junk => Some(Self::Nothing),
            Kind::Single => Some(Self::Single),
            Kind::Double => Some(Self::Double),
            _ => value.is_number().then_some(Self::Whole),
        }
    }
}

/// A vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vector {
    pub(crate) extent: Extent,
    /// Registers with the same symbol have the same bits.
    pub(crate) symbol: Symbol,
    /// The register whose lower half at the function's start equals the lower half of this
    /// register.
    pub(crate) saved: Option<u8>,
}

impl Vector {
    pub(crate) fn new(extent: Extent, symbol: Symbol) -> Self {
        Self {
            extent,
            symbol,
            saved: None,
        }
    }
}

/// Most vector registers of an architecture.
pub(crate) const VECTORS: usize = 32;
