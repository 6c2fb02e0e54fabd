//! Strings in the memory of a guest (CanonicalABI, `load_string` and `store_string`).

use crate::error::AbiError;
use pirn_format::component::StringEncoding;

/// Bit of the length of a [`StringEncoding::Latin1OrUtf16`] string that is UTF-16.
pub(crate) const UTF16_TAG: u32 = 1 << 31;

/// Most bytes of a string.
pub(crate) const STRING_BYTES_MAX: u64 = (1 << 31) - 1;

/// How a string is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16,
    Latin1,
}

/// The encoding, the alignment and the number of bytes of a string with this length.
pub(crate) fn of_length(encoding: StringEncoding, length: u32) -> (Encoding, u32, u64) {
    let (units, bytes) = (u64::from(length), u64::from(length & !UTF16_TAG) * 2);
    match encoding {
        StringEncoding::Utf8 => (Encoding::Utf8, 1, units),
        StringEncoding::Utf16 => (Encoding::Utf16, 2, units * 2),
        StringEncoding::Latin1OrUtf16 if length & UTF16_TAG != 0 => (Encoding::Utf16, 2, bytes),
        StringEncoding::Latin1OrUtf16 => (Encoding::Latin1, 2, units),
    }
}

/// Returns bytes as text, if they are valid UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, AbiError> {
    let text = simdutf8::basic::from_utf8(bytes);
    text.map_err(|_| AbiError::String { encoding: "UTF-8" })
}

/// Reads a string.
pub(crate) fn decode(encoding: Encoding, bytes: &[u8]) -> Result<String, AbiError> {
    match encoding {
        Encoding::Utf8 => utf8(bytes).map(str::to_owned),
        Encoding::Utf16 => {
            let units = bytes.chunks_exact(2);
            let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            text.map_err(|_| AbiError::String { encoding: "UTF-16" })
        }
        Encoding::Latin1 => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// The encoding of a string that is written, its alignment, its bytes, and its length as the guest
/// gets it.
pub(crate) fn plan(encoding: StringEncoding, text: &str) -> (Encoding, u32, u64, u32) {
    let utf16 = || text.encode_utf16().count() as u32;
    match encoding {
        StringEncoding::Utf8 => (Encoding::Utf8, 1, text.len() as u64, text.len() as u32),
        StringEncoding::Utf16 => {
            let units = utf16();
            (Encoding::Utf16, 2, u64::from(units) * 2, units)
        }
        StringEncoding::Latin1OrUtf16 => match text.chars().all(|c| u32::from(c) < 0x100) {
            true => {
                let chars = text.chars().count();
                (Encoding::Latin1, 2, chars as u64, chars as u32)
            }
            false => {
                let units = utf16();
                (Encoding::Utf16, 2, u64::from(units) * 2, units | UTF16_TAG)
            }
        },
    }
}

/// Writes a string to bytes of the length that [`plan`] returned.
pub(crate) fn encode(encoding: Encoding, text: &str, bytes: &mut [u8]) {
    match encoding {
        Encoding::Utf8 => bytes.copy_from_slice(text.as_bytes()),
        Encoding::Utf16 => {
            for (place, unit) in bytes.chunks_exact_mut(2).zip(text.encode_utf16()) {
                place.copy_from_slice(&unit.to_le_bytes());
            }
        }
        Encoding::Latin1 => {
            for (place, c) in bytes.iter_mut().zip(text.chars()) {
                *place = u32::from(c) as u8;
            }
        }
    }
}
