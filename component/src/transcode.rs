//! Copies strings between the memories of two component instances, whose encodings may differ
//! (CanonicalABI, `store_string_into_range`).
//!
//! The code that the compiler puts between two component instances allocates the destination,
//! checks both ranges, and calls these functions, perhaps twice for a string. The host cannot view
//! both memories at the same time. So a string goes through a buffer of the host, 64 KiB at a time.
//! Between two pieces the host looks for a stop.

use crate::error::{AbiError, AbiResult, of_host};
use crate::state::State;
use crate::stop::{PIECE_BYTES, Stop, unless_stopped};
use crate::strings::{self, Encoding, UTF16_TAG};
use pirn_format::component::{Adapter, Transcode, memory_name};
use pirn_runtime::{Caller, HostError};

#[cfg(test)]
mod tests;

/// The core module's exports that are the source's and the destination's memory.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    from: String,
    to: String,
}

impl Memories {
    /// The memories of an adapter. The names are empty for an adapter that converts no strings.
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

/// The role of a memory in a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// The two memories of a conversion, and the stop of the call that converts.
trait Ends {
    /// Fills a buffer with the bytes at an address.
    fn read(&mut self, side: Side, address: u64, to: &mut [u8]) -> Result<(), HostError>;

    /// Writes bytes to the destination's memory.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostError>;

    /// Looks for a stop.
    fn look(&self) -> AbiResult;
}

/// The memories of a guest.
struct OfGuest<'a, 'b, T> {
    caller: &'a mut Caller<'b, State<T>>,
    memories: &'a Memories,
}

impl<T> OfGuest<'_, '_, T> {
    /// Calls `use_them` with `len` bytes of a memory.
    fn with(
        &mut self,
        side: Side,
        address: u64,
        len: usize,
        use_them: impl FnOnce(&mut [u8]),
    ) -> Result<(), HostError> {
        let name = match side {
            Side::From => &self.memories.from,
            Side::To => &self.memories.to,
        };
        // The check of the file found both memories among the exports.
        let missing = || HostError::message("a memory of the component has no view");
        let (mut memory, _) = self.caller.exported_split(name).ok_or_else(missing)?;
        let all = memory.as_mut_slice();
        let memory_bytes = all.len();
        let start = usize::try_from(address).unwrap_or(usize::MAX);
        let end = start.checked_add(len);
        match end.and_then(|end| all.get_mut(start..end)) {
            Some(found) => {
                use_them(found);
                Ok(())
            }
            None => Err(of_host(AbiError::OutOfBounds {
                what: "a string",
                bytes: len as u64,
                address: address as u32,
                memory_bytes,
            })),
        }
    }
}

impl<T> Ends for OfGuest<'_, '_, T> {
    fn read(&mut self, side: Side, address: u64, to: &mut [u8]) -> Result<(), HostError> {
        self.with(side, address, to.len(), |found| to.copy_from_slice(found))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostError> {
        let write = |place: &mut [u8]| place.copy_from_slice(bytes);
        self.with(Side::To, address, bytes.len(), write)
    }

    fn look(&self) -> AbiResult {
        Stop::Guest(self.caller.stop_flag()).look()
    }
}

/// Converts a string. `params` are the address and the number of code units of the source, and the
/// address of the destination. Some conversions also use the size of the destination, and the
/// number of code units that an earlier conversion wrote. Returns one or two numbers, depending on
/// the conversion. A guest that was stopped during the conversion sees no number.
pub(crate) fn transcode<T>(
    caller: &mut Caller<'_, State<T>>,
    op: Transcode,
    memories: &Memories,
    params: [u32; 5],
) -> Result<[u32; 2], HostError> {
    let bytes = Buffers::bytes(op, params);
    let held = caller.data_mut().scopes.account.hold(bytes * Buffers::EACH);
    let _held = held.map_err(of_host)?;
    let mut ends = OfGuest { caller, memories };
    unless_stopped(convert(&mut ends, op, params, Buffers::new(bytes)))
}

/// The host's memory for a conversion.
struct Buffers {
    /// A piece of the source.
    piece: Vec<u8>,
    /// The converted piece, which may have twice as many bytes.
    converted: Vec<u8>,
}

impl Buffers {
    /// Bytes that the two buffers need for each byte of a piece.
    const EACH: usize = 3;

    /// Bytes of a piece.
    fn bytes(op: Transcode, [_, units, _, _, done]: [u32; 5]) -> usize {
        let (_, unit_bytes) = source(op);
        let more = match op {
            Transcode::Utf8ToCompactUtf16 | Transcode::Utf16ToCompactUtf16 => u64::from(done),
            _ => 0,
        };
        let bytes = (u64::from(units) * unit_bytes).max(more);
        bytes.min(PIECE_BYTES as u64) as usize
    }

    fn new(bytes: usize) -> Self {
        Self {
            piece: vec![0; bytes],
            converted: Vec::with_capacity(bytes * 2),
        }
    }
}

/// The encoding of a conversion's source, and the bytes of a code unit.
fn source(op: Transcode) -> (Encoding, u64) {
    match op {
        Transcode::CopyLatin1 | Transcode::Latin1ToUtf16 | Transcode::Latin1ToUtf8 => {
            (Encoding::Latin1, 1)
        }
        Transcode::CopyUtf8
        | Transcode::Utf8ToUtf16
        | Transcode::Utf8ToLatin1
        | Transcode::Utf8ToCompactUtf16 => (Encoding::Utf8, 1),
        Transcode::CopyUtf16
        | Transcode::Utf16ToCompactProbablyUtf16
        | Transcode::Utf16ToCompactUtf16
        | Transcode::Utf16ToLatin1
        | Transcode::Utf16ToUtf8 => (Encoding::Utf16, 2),
    }
}

/// The source of a conversion.
#[derive(Debug, Clone, Copy)]
struct Source {
    encoding: Encoding,
    address: u64,
    bytes: u64,
}

impl Source {
    /// Reads the string in pieces of whole characters, until `take` returns false.
    fn pieces(
        mut self,
        ends: &mut dyn Ends,
        buffer: &mut [u8],
        mut take: impl FnMut(&mut dyn Ends, &[u8]) -> Result<bool, HostError>,
    ) -> Result<(), HostError> {
        let mut is_first = true;
        while self.bytes > 0 {
            if !std::mem::replace(&mut is_first, false) {
                ends.look().map_err(of_host)?;
            }
            let len = self.bytes.min(buffer.len() as u64) as usize;
            let piece = &mut buffer[..len];
            ends.read(Side::From, self.address, piece)?;
            let len = match len as u64 == self.bytes {
                true => len,
                false => strings::whole(self.encoding, piece),
            };
            if !take(ends, &piece[..len])? {
                break;
            }
            self.address += len as u64;
            self.bytes -= len as u64;
        }
        Ok(())
    }

    /// Whether a piece has only ASCII characters. A piece of ASCII is valid in each encoding.
    fn is_ascii(self, piece: &[u8]) -> bool {
        /// The bits that are 0 in four UTF-16 code units of ASCII.
        const OTHER: u64 = 0xff80_ff80_ff80_ff80;
        match self.encoding {
            Encoding::Utf8 | Encoding::Latin1 => piece.is_ascii(),
            Encoding::Utf16 => {
                let (words, rest) = piece.as_chunks::<8>();
                let is_word = |word: &[u8; 8]| u64::from_le_bytes(*word) & OTHER == 0;
                words.iter().all(is_word)
                    && rest
                        .chunks(2)
                        .all(|unit| unit[0].is_ascii() && unit[1..] == [0])
            }
        }
    }

    /// The characters of a piece. Each character comes with its number of code units.
    fn chars(self, piece: &[u8]) -> Result<Chars<'_>, HostError> {
        Ok(match self.encoding {
            Encoding::Utf8 => Chars::Utf8(strings::utf8(piece).map_err(of_host)?.chars()),
            Encoding::Utf16 => {
                check_utf16(piece)?;
                Chars::Utf16(piece)
            }
            Encoding::Latin1 => Chars::Latin1(piece.iter()),
        })
    }

    /// Converts and writes characters, up to the first character that does not fit the target.
    /// Returns the number of code units read and the number of bytes written.
    fn convert(
        self,
        ends: &mut dyn Ends,
        buffers: &mut Buffers,
        address: u64,
        target: Target,
    ) -> Result<(u32, u64), HostError> {
        let (mut read, mut written) = (0, 0);
        let converted = &mut buffers.converted;
        self.pieces(ends, &mut buffers.piece, |ends, piece| {
            converted.clear();
            let mut continues = true;
            if self.is_ascii(piece) {
                let (letters, units) = match self.encoding {
                    Encoding::Utf16 => {
                        let (units, _) = piece.as_chunks();
                        (target.add_units(units, converted, written), units.len())
                    }
                    _ => (target.add_bytes(piece, converted, written), piece.len()),
                };
                continues = letters == units;
                read += letters as u32;
            } else {
                for (c, units) in self.chars(piece)? {
                    continues = target.add(c, converted, written);
                    if !continues {
                        break;
                    }
                    read += units;
                }
            }
            ends.write(address + written, converted)?;
            written += converted.len() as u64;
            Ok(continues)
        })?;
        Ok((read, written))
    }

    /// Checks and copies a string, a piece at a time.
    fn copy(
        self,
        ends: &mut dyn Ends,
        buffers: &mut Buffers,
        target: u64,
    ) -> Result<(), HostError> {
        let mut written = 0;
        self.pieces(ends, &mut buffers.piece, |ends, piece| {
            match self.encoding {
                Encoding::Latin1 => {}
                _ if self.is_ascii(piece) => {}
                Encoding::Utf8 => drop(strings::utf8(piece).map_err(of_host)?),
                Encoding::Utf16 => check_utf16(piece)?,
            }
            ends.write(target + written, piece)?;
            written += piece.len() as u64;
            Ok(true)
        })
    }
}

/// The characters of a valid piece. Each character comes with its number of code units.
enum Chars<'a> {
    Utf8(std::str::Chars<'a>),
    /// The rest of the piece.
    Utf16(&'a [u8]),
    Latin1(std::slice::Iter<'a, u8>),
}

impl Iterator for Chars<'_> {
    type Item = (char, u32);

    fn next(&mut self) -> Option<(char, u32)> {
        match self {
            Self::Utf8(chars) => chars.next().map(|c| (c, c.len_utf8() as u32)),
            Self::Utf16(rest) => {
                let c = strings::utf16(rest).next()?.ok()?;
                *rest = &rest[c.len_utf16() * 2..];
                Some((c, c.len_utf16() as u32))
            }
            Self::Latin1(bytes) => bytes.next().map(|byte| (char::from(*byte), 1)),
        }
    }
}

fn check_utf16(piece: &[u8]) -> Result<(), HostError> {
    strings::utf16(piece)
        .try_for_each(|c| c.map(drop))
        .map_err(of_host)
}

fn is_latin1(c: char) -> bool {
    u32::from(c) < 0x100
}

/// The encoding of a conversion's destination.
#[derive(Debug, Clone, Copy)]
enum Target {
    Utf16,
    /// UTF-8, at most this number of bytes.
    Utf8(u64),
    Latin1,
}

impl Target {
    /// Adds a character to `to`, which follows `written` bytes in the destination. Returns false,
    /// and adds nothing, if the destination has no room or the encoding lacks the character.
    fn add(self, c: char, to: &mut Vec<u8>, written: u64) -> bool {
        match self {
            Self::Utf16 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    to.extend_from_slice(&unit.to_le_bytes());
                }
            }
            Self::Utf8(_) => {
                if c.len_utf8() > self.room(to, written) {
                    return false;
                }
                to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Self::Latin1 => match is_latin1(c) {
                true => to.push(u32::from(c) as u8),
                false => return false,
            },
        }
        true
    }

    /// As [`add`](Self::add), for ASCII letters in UTF-16, all at once. Returns the number of added
    /// letters.
    fn add_units(self, units: &[[u8; 2]], to: &mut Vec<u8>, written: u64) -> usize {
        let fitting = &units[..units.len().min(self.room(to, written))];
        match self {
            Self::Utf16 => to.extend_from_slice(fitting.as_flattened()),
            Self::Utf8(_) | Self::Latin1 => to.extend(fitting.iter().map(|unit| unit[0])),
        }
        fitting.len()
    }

    /// As [`add`](Self::add), for a text in Latin-1, all at once. For a target in UTF-8 the text
    /// must be ASCII. Returns the number of added characters.
    fn add_bytes(self, bytes: &[u8], to: &mut Vec<u8>, written: u64) -> usize {
        let fitting = &bytes[..bytes.len().min(self.room(to, written))];
        match self {
            Self::Utf16 => {
                let start = to.len();
                to.resize(start + 2 * fitting.len(), 0);
                for (unit, byte) in to[start..].chunks_exact_mut(2).zip(fitting) {
                    unit[0] = *byte;
                }
            }
            Self::Utf8(_) | Self::Latin1 => to.extend_from_slice(fitting),
        }
        fitting.len()
    }

    /// Number of characters of one byte for which the target has room after the bytes in `to`.
    fn room(self, to: &[u8], written: u64) -> usize {
        match self {
            Self::Utf8(room) => room.saturating_sub(written + to.len() as u64) as usize,
            Self::Utf16 | Self::Latin1 => usize::MAX,
        }
    }
}

/// [`transcode`] for any [`Ends`]. `ends` is a trait object, so the loops are compiled once in this
/// crate, not in each embedder.
fn convert(
    ends: &mut dyn Ends,
    op: Transcode,
    [address, units, target, room, done]: [u32; 5],
    mut buffers: Buffers,
) -> Result<[u32; 2], HostError> {
    let (encoding, unit_bytes) = source(op);
    let source = Source {
        encoding,
        address: address.into(),
        bytes: u64::from(units) * unit_bytes,
    };
    let (buffers, target) = (&mut buffers, u64::from(target));
    Ok(match op {
        Transcode::CopyLatin1 | Transcode::CopyUtf8 | Transcode::CopyUtf16 => {
            source.copy(ends, buffers, target)?;
            [0; 2]
        }
        Transcode::Latin1ToUtf16 | Transcode::Utf8ToUtf16 => {
            let (_, written) = source.convert(ends, buffers, target, Target::Utf16)?;
            [(written / 2) as u32, 0]
        }
        Transcode::Latin1ToUtf8 | Transcode::Utf16ToUtf8 => {
            let encoded = Target::Utf8(room.into());
            let (read, written) = source.convert(ends, buffers, target, encoded)?;
            [read, written as u32]
        }
        Transcode::Utf8ToLatin1 | Transcode::Utf16ToLatin1 => {
            let (read, written) = source.convert(ends, buffers, target, Target::Latin1)?;
            [read, written as u32]
        }
        Transcode::Utf16ToCompactProbablyUtf16 => {
            let mut is_narrow = true;
            source.pieces(ends, &mut buffers.piece, |_, piece| {
                is_narrow &=
                    source.is_ascii(piece) || source.chars(piece)?.all(|(c, _)| is_latin1(c));
                Ok(true)
            })?;
            if is_narrow {
                source.convert(ends, buffers, target, Target::Latin1)?;
                [units, 0]
            } else {
                source.copy(ends, buffers, target)?;
                [units | UTF16_TAG, 0]
            }
        }
        Transcode::Utf8ToCompactUtf16 | Transcode::Utf16ToCompactUtf16 => {
            widen(ends, target, done, buffers)?;
            let after = target + u64::from(done) * 2;
            let (_, written) = source.convert(ends, buffers, after, Target::Utf16)?;
            [done.wrapping_add((written / 2) as u32), 0]
        }
    })
}

/// Converts bytes of Latin-1 to UTF-16 in place. Begins at the end, because the result has twice
/// as many bytes.
fn widen(
    ends: &mut dyn Ends,
    target: u64,
    bytes: u32,
    buffers: &mut Buffers,
) -> Result<(), HostError> {
    let mut end = u64::from(bytes);
    while end > 0 {
        let len = end.min(buffers.piece.len() as u64) as usize;
        let start = end - len as u64;
        let piece = &mut buffers.piece[..len];
        ends.read(Side::To, target + start, piece)?;
        buffers.converted.clear();
        // A Latin-1 byte is the number of its Unicode character.
        Target::Utf16.add_bytes(piece, &mut buffers.converted, 0);
        ends.write(target + start * 2, &buffers.converted)?;
        end = start;
        ends.look().map_err(of_host)?;
    }
    Ok(())
}
