//! Strings between the memories of two component instances, whose encodings may differ
//! (CanonicalABI, `store_string_into_range`).
//!
//! The code of the compiler between two component instances allocates the destination, checks both
//! ranges, and calls these functions, perhaps twice for a string. The whole source is read to a
//! buffer of the host, because the memories have no view at the same time.

use crate::error::{AbiError, of_host};
use crate::state::State;
use crate::strings::{self, Encoding, UTF16_TAG};
use pirn_format::component::{Adapter, Transcode, memory_name};
use pirn_runtime::{Caller, HostError};

/// The names of the source's and the destination's memory among the core module's exports.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    from: String,
    to: String,
}

impl Memories {
    /// The memories of an adapter. Only conversions of strings have some.
    pub(crate) fn of(adapter: Adapter) -> Self {
        match adapter {
            Adapter::Transcode { from, to, .. } => Self {
                from: memory_name(from),
                to: memory_name(to),
            },
            _ => Self::default(),
        }
    }
}

/// Converts a string. `params` are the address and the number of code units of the source, the
/// address of the destination, and, depending on the conversion, its size and more. Returns one or
/// two numbers, depending on the conversion.
pub(crate) fn transcode<T>(
    caller: &mut Caller<'_, State<T>>,
    op: Transcode,
    memories: &Memories,
    params: [u32; 5],
    host_bytes_max: usize,
) -> Result<[u32; 2], HostError> {
    let [address, units, target, room, done] = params;
    let unit_bytes = match op {
        Transcode::CopyUtf16
        | Transcode::Utf16ToCompactProbablyUtf16
        | Transcode::Utf16ToCompactUtf16
        | Transcode::Utf16ToLatin1
        | Transcode::Utf16ToUtf8 => 2,
        _ => 1,
    };
    let bytes = u64::from(units) * unit_bytes;
    let source = read(caller, &memories.from, address, bytes, host_bytes_max)?;
    let mut write = |at: u32, bytes: &[u8]| write(caller, &memories.to, at, bytes);
    match op {
        Transcode::CopyLatin1 => write(target, &source)?,
        Transcode::CopyUtf8 => {
            utf8(&source)?;
            write(target, &source)?;
        }
        Transcode::CopyUtf16 => {
            utf16(&source)?;
            write(target, &source)?;
        }
        Transcode::Latin1ToUtf16 => {
            let wide: Vec<u8> = source.iter().flat_map(|byte| [*byte, 0]).collect();
            write(target, &wide)?;
        }
        Transcode::Utf8ToUtf16 => {
            let wide: Vec<u16> = utf8(&source)?.encode_utf16().collect();
            write(target, &bytes_of(&wide))?;
            return Ok([wide.len() as u32, 0]);
        }
        Transcode::Latin1ToUtf8 => {
            let chars = source.iter().map(|byte| (char::from(*byte), 1));
            let (read, text) = prefix(chars, room);
            write(target, text.as_bytes())?;
            return Ok([read, text.len() as u32]);
        }
        Transcode::Utf16ToUtf8 => {
            let text = utf16(&source)?;
            let chars = text.chars().map(|c| (c, c.len_utf16() as u32));
            let (read, text) = prefix(chars, room);
            write(target, text.as_bytes())?;
            return Ok([read, text.len() as u32]);
        }
        Transcode::Utf16ToCompactProbablyUtf16 => {
            let text = utf16(&source)?;
            if let Some(narrow) = latin1(&text) {
                write(target, &narrow)?;
                return Ok([units, 0]);
            }
            write(target, &source)?;
            return Ok([units | UTF16_TAG, 0]);
        }
        Transcode::Utf8ToLatin1 => {
            let text = utf8(&source)?;
            let chars = text.chars().map(|c| (c, c.len_utf8() as u32));
            let (read, narrow) = narrow_prefix(chars);
            write(target, &narrow)?;
            return Ok([read, narrow.len() as u32]);
        }
        Transcode::Utf16ToLatin1 => {
            let text = utf16(&source)?;
            let chars = text.chars().map(|c| (c, c.len_utf16() as u32));
            let (read, narrow) = narrow_prefix(chars);
            write(target, &narrow)?;
            return Ok([read, narrow.len() as u32]);
        }
        Transcode::Utf8ToCompactUtf16 | Transcode::Utf16ToCompactUtf16 => {
            let text = match op {
                Transcode::Utf8ToCompactUtf16 => utf8(&source)?.to_owned(),
                _ => utf16(&source)?,
            };
            // What is there already becomes UTF-16, and the rest follows.
            let begun = read(caller, &memories.to, target, done.into(), host_bytes_max)?;
            let mut wide: Vec<u16> = begun.iter().map(|byte| u16::from(*byte)).collect();
            wide.extend(text.encode_utf16());
            self::write(caller, &memories.to, target, &bytes_of(&wide))?;
            return Ok([wide.len() as u32, 0]);
        }
    }
    Ok([0; 2])
}

/// As many characters as fit into this many bytes of UTF-8. Also returns the number of code units
/// that they have in the source.
fn prefix(chars: impl Iterator<Item = (char, u32)>, room: u32) -> (u32, String) {
    let (mut read, mut text) = (0, String::new());
    for (c, units) in chars {
        if text.len() + c.len_utf8() > room as usize {
            break;
        }
        text.push(c);
        read += units;
    }
    (read, text)
}

/// The characters before the first one that Latin-1 does not have.
fn narrow_prefix(chars: impl Iterator<Item = (char, u32)>) -> (u32, Vec<u8>) {
    let (mut read, mut narrow) = (0, vec![]);
    for (c, units) in chars {
        let Ok(byte) = u8::try_from(u32::from(c)) else {
            break;
        };
        narrow.push(byte);
        read += units;
    }
    (read, narrow)
}

/// A text as Latin-1, if it has no other characters.
fn latin1(text: &str) -> Option<Vec<u8>> {
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)));
    bytes.collect::<Result<_, _>>().ok()
}

fn utf8(bytes: &[u8]) -> Result<&str, HostError> {
    strings::utf8(bytes).map_err(of_host)
}

fn utf16(bytes: &[u8]) -> Result<String, HostError> {
    strings::decode(Encoding::Utf16, bytes).map_err(of_host)
}

fn bytes_of(units: &[u16]) -> Vec<u8> {
    units.iter().flat_map(|unit| unit.to_le_bytes()).collect()
}

fn read<T>(
    caller: &mut Caller<'_, State<T>>,
    memory: &str,
    address: u32,
    bytes: u64,
    host_bytes_max: usize,
) -> Result<Vec<u8>, HostError> {
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    if len > host_bytes_max {
        return Err(of_host(AbiError::HostBytes(host_bytes_max)));
    }
    let (memory, _) = caller.exported_split(memory).ok_or_else(missing)?;
    let all = memory.as_slice();
    let start = address as usize;
    let found = start.checked_add(len).and_then(|end| all.get(start..end));
    let found = found.ok_or_else(|| of_host(outside(address, bytes, all.len())))?;
    Ok(found.to_vec())
}

fn write<T>(
    caller: &mut Caller<'_, State<T>>,
    memory: &str,
    address: u32,
    bytes: &[u8],
) -> Result<(), HostError> {
    let (mut memory, _) = caller.exported_split(memory).ok_or_else(missing)?;
    let all = memory.as_mut_slice();
    let (start, memory_bytes) = (address as usize, all.len());
    let end = start.checked_add(bytes.len());
    let place = end.and_then(|end| all.get_mut(start..end));
    let outside = || of_host(outside(address, bytes.len() as u64, memory_bytes));
    place.ok_or_else(outside)?.copy_from_slice(bytes);
    Ok(())
}

fn outside(address: u32, bytes: u64, memory_bytes: usize) -> AbiError {
    AbiError::OutOfBounds {
        what: "a string",
        bytes,
        address,
        memory_bytes,
    }
}

/// The check of the file found both memories among the exports.
fn missing() -> HostError {
    HostError::message("a memory of the component has no view")
}
