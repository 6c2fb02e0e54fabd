//! [`Bases`]: converts attribute values to strings and addresses.
//!
//! Strings and addresses are read here and not by gimli, so that the cost of each is in proportion
//! to its size. Otherwise each string in a section without a zero byte would cost a search to the
//! section's end.

use super::Sections;
use super::budget::{Fault, StepBudget};
use gimli::{AttributeValue, EndianSlice, LittleEndian};
use pirn_format::text;

/// Bytes of the debug information.
pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// The value of an attribute.
pub(super) type Value<'a> = AttributeValue<Slice<'a>>;

/// The most bytes of a string that are kept: WebAssembly's limit for a name.
pub(super) const STRING_BYTES_MAX: usize = 100_000;

/// The offsets of a unit's tables of strings and addresses, and the sizes of their entries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bases {
    pub(super) str_offsets: usize,
    pub(super) addr: usize,
    pub(super) offset_bytes: usize,
    pub(super) address_bytes: usize,
}

impl Bases {
    /// The string of a value, without characters that disturb a terminal. `None` if there is no
    /// string or it is empty.
    pub(super) fn string(
        self,
        value: &Value<'_>,
        sections: &Sections<'_>,
        budget: &mut StepBudget,
    ) -> Result<Option<String>, Fault> {
        let bytes = match value {
            AttributeValue::String(bytes) => bytes.slice(),
            AttributeValue::DebugStrRef(offset) => tail(sections.str, offset.0),
            AttributeValue::DebugLineStrRef(offset) => tail(sections.line_str, offset.0),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let (base, width) = (self.str_offsets, self.offset_bytes);
                match entry(sections.str_offsets, base, width, index.0) {
                    Some(offset) => tail(sections.str, usize::try_from(offset).unwrap_or(!0)),
                    None => &[],
                }
            }
            _ => &[],
        };
        let bytes = &bytes[..bytes.len().min(STRING_BYTES_MAX)];
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        budget.spend(bytes.len())?;
        let text = text::plain(&String::from_utf8_lossy(bytes)).to_string();
        Ok((!text.is_empty()).then_some(text))
    }

    /// The address of a value; `None` if the value is not an address or cannot be an address of
    /// code.
    pub(super) fn address(self, value: &Value<'_>, sections: &Sections<'_>) -> Option<u32> {
        let address = match value {
            AttributeValue::Addr(address) => Some(*address),
            AttributeValue::DebugAddrIndex(index) => {
                entry(sections.addr, self.addr, self.address_bytes, index.0)
            }
            _ => None,
        };
        u32::try_from(address?).ok()
    }
}

/// The bytes from an offset to the end.
fn tail(section: &[u8], offset: usize) -> &[u8] {
    section.get(offset..).unwrap_or_default()
}

/// The little-endian number at an index of a table.
fn entry(section: &[u8], base: usize, width: usize, index: usize) -> Option<u64> {
    let start = base.checked_add(index.checked_mul(width)?)?;
    let bytes = section.get(start..start.checked_add(width)?)?;
    let number = bytes.iter().rev();
    Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
