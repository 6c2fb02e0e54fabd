//! [`Access`]: an address, and how an instruction uses it.

use crate::error::{Proof, Property, refuse};
use crate::value::{Symbol, Value};
use crate::vector::Extent;

/// An address, and the displacement that the instruction adds to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub(crate) base: Value,
    pub(crate) displacement: i64,
}

/// How an instruction uses memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    Read,
    /// Writes the value of a general register.
    Write(Value),
    /// Writes a vector register. The extent says how much of the register is a number.
    Vector(Extent),
    /// Reads, computes and writes a number.
    Update,
}

impl Use {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }
}

/// One access of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) address: Address,
    pub(crate) bytes: u32,
    pub(crate) usage: Use,
    /// Text offset of the instruction.
    pub(crate) at: u32,
    /// Names the loaded value.
    pub(crate) fresh: Symbol,
    /// Whether the instruction faults if the address is no multiple of 16.
    pub(crate) is_aligned: bool,
}

impl Access {
    /// The distance of the accessed bytes from the base, if it is constant.
    pub(crate) fn distance(&self) -> Option<i64> {
        let distance = self.address.base.exact()?;
        distance.checked_add(self.address.displacement)
    }

    /// A number that the access loads.
    pub(crate) fn number(&self) -> Value {
        match self.bytes {
            1 | 2 | 4 => Value::number(self.fresh, 0, (1 << (8 * self.bytes)) - 1),
            _ => Value::any(self.fresh),
        }
    }

    /// Checks that a stored general register is a number that the guest may see.
    pub(crate) fn stores_number(&self) -> Proof<()> {
        match self.usage {
            Use::Write(value) if !is_data(value, self.bytes) => refuse(
                Property::Accesses,
                format!(
                    "stores {:?} where a guest can read it, not a number",
                    value.kind
                ),
            ),
            _ => Ok(()),
        }
    }
}

/// Whether the lowest `bytes` bytes of a value are a number that the guest may see.
pub(crate) fn is_data(value: Value, bytes: u32) -> bool {
    match bytes {
        1 => value.has_byte(),
        2 => value.has_short(),
        _ => value.is_number(),
    }
}
