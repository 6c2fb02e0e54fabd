//! Strings in the memory of a guest (CanonicalABI, `load_string` and `store_string`).

use crate::error::{AbiError, AbiResult};
use crate::stop::{PIECE_BYTES, Progress, Stop};
use pirn_format::component::StringEncoding;
use std::iter;

/// The bit that marks the length of a [`StringEncoding::Latin1OrUtf16`] string as UTF-16.
pub(crate) const UTF16_TAG: u32 = 1 << 31;

/// Most bytes of a string.
pub(crate) const STRING_BYTES_MAX: u64 = (1 << 31) - 1;

/// The encoding of a string in memory.
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

/// Returns bytes as text, if the bytes are valid UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> AbiResult<&str> {
    let text = simdutf8::basic::from_utf8(bytes);
    text.map_err(|_| AbiError::String { encoding: "UTF-8" })
}

/// The characters of UTF-16 in little-endian bytes.
pub(crate) fn utf16(bytes: &[u8]) -> impl Iterator<Item = Result<char, AbiError>> {
    let units = bytes.chunks_exact(2);
    let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let invalid = |_| AbiError::String { encoding: "UTF-16" };
    char::decode_utf16(units).map(move |c| c.map_err(invalid))
}

/// Number of bytes of a piece without an incomplete character at its end. A string is valid if all
/// its pieces, cut to this length, are valid. The last piece is not cut.
pub(crate) fn whole(encoding: Encoding, piece: &[u8]) -> usize {
    let len = piece.len();
    match encoding {
        Encoding::Latin1 => len,
        Encoding::Utf16 => {
            let even = len & !1;
            let is_high = |at: usize| matches!(piece[at], 0xd8..=0xdb);
            even - if even > 0 && is_high(even - 1) { 2 } else { 0 }
        }
        Encoding::Utf8 => {
            for back in 1..=len.min(3) {
                let needed = match piece[len - back] {
                    0x80..=0xbf => continue,
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xff => 4,
                    _ => 1,
                };
                return if needed > back { len - back } else { len };
            }
            len
        }
    }
}

/// The bytes of a string in pieces of whole characters. Looks for a stop between two pieces.
fn byte_pieces<'a>(
    encoding: Encoding,
    mut bytes: &'a [u8],
    stop: &Stop<'_>,
) -> impl Iterator<Item = Result<&'a [u8], AbiError>> {
    let mut is_first = true;
    iter::from_fn(move || {
        let len = match bytes.len() {
            0 => return None,
            len if len <= PIECE_BYTES => len,
            _ => whole(encoding, &bytes[..PIECE_BYTES]),
        };
        if !std::mem::replace(&mut is_first, false)
            && let Err(error) = stop.look()
        {
            return Some(Err(error));
        }
        let (piece, rest) = bytes.split_at(len);
        bytes = rest;
        Some(Ok(piece))
    })
}

/// A text in pieces of whole characters.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE_BYTES));
        text = rest;
        Some(piece)
    })
}

/// Number of bytes of a string in UTF-8.
pub(crate) fn decoded_bytes(encoding: Encoding, bytes: &[u8], stop: &Stop<'_>) -> AbiResult<usize> {
    if encoding == Encoding::Utf8 {
        return Ok(bytes.len());
    }
    let mut sum = 0;
    for piece in byte_pieces(encoding, bytes, stop) {
        let piece = piece?;
        sum += match encoding {
            Encoding::Utf8 => piece.len(),
            Encoding::Utf16 => {
                utf16(piece).try_fold(0, |sum, c| Ok::<_, AbiError>(sum + c?.len_utf8()))?
            }
            Encoding::Latin1 => piece.len() + piece.iter().filter(|byte| **byte >= 0x80).count(),
        };
    }
    Ok(sum)
}

/// Reads a string. `decoded` is its number of bytes in UTF-8. Looks for a stop between two pieces.
pub(crate) fn decode(
    encoding: Encoding,
    bytes: &[u8],
    decoded: usize,
    stop: &Stop<'_>,
) -> AbiResult<String> {
    let mut text = String::with_capacity(decoded);
    for piece in byte_pieces(encoding, bytes, stop) {
        let piece = piece?;
        match encoding {
            Encoding::Utf8 => text.push_str(utf8(piece)?),
            Encoding::Utf16 => {
                for c in utf16(piece) {
                    text.push(c?);
                }
            }
            Encoding::Latin1 => text.extend(piece.iter().map(|byte| char::from(*byte))),
        }
    }
    Ok(text)
}

/// The form of `text` in the guest's memory: encoding, alignment, number of bytes, and the length
/// that the guest gets. Looks for a stop between two pieces of the text.
pub(crate) fn plan(
    encoding: StringEncoding,
    text: &str,
    progress: &mut Progress<'_>,
) -> AbiResult<(Encoding, u32, u64, u32)> {
    if encoding == StringEncoding::Utf8 {
        return Ok((Encoding::Utf8, 1, text.len() as u64, text.len() as u32));
    }
    let mut is_latin1 = encoding == StringEncoding::Latin1OrUtf16;
    let mut units = 0;
    for piece in pieces(text) {
        is_latin1 = is_latin1 && piece.chars().all(|c| u32::from(c) < 0x100);
        units += piece.encode_utf16().count() as u32;
        progress.work(piece.len())?;
    }
    // A character of Latin-1 is one unit of UTF-16.
    let bytes = u64::from(units);
    Ok(match encoding {
        _ if is_latin1 => (Encoding::Latin1, 2, bytes, units),
        StringEncoding::Latin1OrUtf16 => (Encoding::Utf16, 2, bytes * 2, units | UTF16_TAG),
        _ => (Encoding::Utf16, 2, bytes * 2, units),
    })
}

/// Writes a text to the start of `bytes`, which has room for the text. Returns the number of bytes
/// that were written.
pub(crate) fn encode(encoding: Encoding, text: &str, bytes: &mut [u8]) -> usize {
    let mut written = 0;
    match encoding {
        Encoding::Utf8 => {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            written = text.len();
        }
        Encoding::Utf16 => {
            for (place, unit) in bytes.chunks_exact_mut(2).zip(text.encode_utf16()) {
                place.copy_from_slice(&unit.to_le_bytes());
                written += 2;
            }
        }
        Encoding::Latin1 => {
            for (place, c) in bytes.iter_mut().zip(text.chars()) {
                *place = u32::from(c) as u8;
                written += 1;
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn strings_are_read_in_pieces_with_a_look_between_two() {
        for c in ['a', '\u{e9}', '\u{20ac}', '\u{1f600}'] {
            let mut text = "b".to_owned();
            text.extend(iter::repeat_n(c, 100_000));
            let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let latin1: Vec<u8> = text.chars().map(|c| u32::from(c) as u8).collect();
            for (encoding, bytes) in [
                (Encoding::Utf8, text.clone().into_bytes()),
                (Encoding::Utf16, utf16),
                (Encoding::Latin1, latin1),
            ] {
                if encoding == Encoding::Latin1 && u32::from(c) > 0xff {
                    continue;
                }
                let len = decoded_bytes(encoding, &bytes, &Stop::Never).expect("it is valid");
                assert_eq!(len, text.len());
                let looks = bytes.len() / PIECE_BYTES;
                for left in 0..=looks {
                    let stop = Stop::AtLook(Cell::new(left));
                    let read = decode(encoding, &bytes, len, &stop);
                    match left == looks {
                        true => {
                            let read = read.expect("no look finds a stop");
                            assert_eq!((read.len(), read.capacity()), (len, len));
                            assert!(read == text);
                        }
                        false => assert_eq!(read, Err(AbiError::Stopped)),
                    }
                }
            }
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let text = format!("b{}", "\u{1f600}".repeat(50_000));
        let all: Vec<&str> = pieces(&text).collect();
        assert!(all.iter().all(|piece| piece.len() <= PIECE_BYTES));
        assert_eq!(all.len(), text.len().div_ceil(PIECE_BYTES));
        assert!(all.concat() == text);
        assert_eq!(pieces("").count(), 0);
    }
}
