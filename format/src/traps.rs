//! Tables about the text that the runtime searches in place: code ranges, faulting instructions,
//! the address map to WebAssembly instructions, inlined functions, and exception handlers.
//!
//! Each table is an array of fixed-size little-endian records, ascending by their first field.
//! Readers are views of bytes without alignment: the signal handler reads them directly from the
//! mapped file.

use crate::exit::TrapCode;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Reader of an array of records of `RECORD` bytes, sorted by their first 32-bit field.
#[derive(Debug, Clone, Copy)]
struct Records<'a, const RECORD: usize>(&'a [u8]);

impl<const RECORD: usize> Records<'_, RECORD> {
    fn all(&self) -> &[[u8; RECORD]] {
        self.0.as_chunks().0
    }

    fn len(self) -> usize {
        self.all().len()
    }

    /// 32-bit field `field` of record `at`; 0 if there is no such record.
    #[inline]
    fn field(self, at: usize, field: usize) -> u32 {
        self.all().get(at).map_or(0, |record| word(record, field))
    }

    /// Number of records whose key is at most `key`.
    #[inline]
    fn upper_bound(self, key: u32) -> usize {
        self.all().partition_point(|record| word(record, 0) <= key)
    }

    /// Index of the record with exactly this key.
    fn find(self, key: u32) -> Option<usize> {
        let at = self.upper_bound(key).checked_sub(1)?;
        (self.field(at, 0) == key).then_some(at)
    }

    /// The records with exactly this key.
    fn equal(self, key: u32) -> Range<usize> {
        self.all().partition_point(|record| word(record, 0) < key)..self.upper_bound(key)
    }

    /// Whether the records are complete and the keys ascend. Equal keys are allowed only if
    /// `repeats`.
    fn is_sound(self, repeats: bool) -> bool {
        let ascends = |i: usize| {
            let (a, b) = (self.field(i, 0), self.field(i + 1, 0));
            a < b || (repeats && a == b)
        };
        self.0.len().is_multiple_of(RECORD) && (1..self.len()).all(|i| ascends(i - 1))
    }
}

/// 32-bit field `field` of a record; 0 if the record has no such field.
#[inline]
fn word<const RECORD: usize>(record: &[u8; RECORD], field: usize) -> u32 {
    let bytes = record.as_chunks().0.get(field);
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The kind of code in a range of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// The body of the function with this index.
    Func(u32),
    /// The trampoline through which the guest calls imported functions with this type index.
    Import(u32),
    /// The trampoline through which the host calls functions with this type index.
    Entry(u32),
    /// The trampoline of the builtin with this number.
    Builtin(u32),
    /// The stub that raises the trap with this number.
    Trap(u32),
}

impl CodeKind {
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::Func(i) => (0, i),
            Self::Import(i) => (1, i),
            Self::Entry(i) => (2, i),
            Self::Builtin(i) => (3, i),
            Self::Trap(i) => (4, i),
        }
    }

    const fn from_numbers(kind: u32, index: u32) -> Option<Self> {
        Some(match kind {
            0 => Self::Func(index),
            1 => Self::Import(index),
            2 => Self::Entry(index),
            3 => Self::Builtin(index),
            4 => Self::Trap(index),
            _ => return None,
        })
    }
}

/// One range of code in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeEntry {
    /// Text offset of the first byte of the range.
    pub start: u32,
    /// Length in bytes, without padding.
    pub len: u32,
    /// The kind of code in the range.
    pub kind: CodeKind,
}

impl CodeEntry {
    /// Bytes of an encoded entry.
    pub const BYTES: usize = 16;

    /// Encodes the entry as `start, len, kind, index`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let (kind, index) = self.kind.numbers();
        words([self.start, self.len, kind, index])
    }
}

/// A view of encoded [`CodeEntry`]s.
#[derive(Debug, Clone, Copy)]
pub struct CodeTable<'a>(Records<'a, { CodeEntry::BYTES }>);

impl<'a> CodeTable<'a> {
    /// Views the entries of a file that was checked before, without checking them again.
    ///
    /// If the entries are invalid, lookups may return a wrong entry or none. Nothing worse can
    /// happen.
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        Self(Records(bytes))
    }

    /// Views and checks encoded entries.
    ///
    /// Returns `None` unless the entries are complete, ascending, disjoint and of known kinds, and
    /// each entry has at least one byte of code.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let table = Self(Records(bytes));
        let disjoint = |(a, b): (CodeEntry, CodeEntry)| {
            a.start.checked_add(a.len).is_some_and(|end| end <= b.start)
        };
        let sound = table.0.is_sound(false)
            && (0..table.0.len()).all(|i| table.entry(i).is_some_and(|entry| entry.len > 0))
            && table.iter().zip(table.iter().skip(1)).all(disjoint)
            && table
                .iter()
                .last()
                .is_none_or(|e| e.start.checked_add(e.len).is_some());
        sound.then_some(table)
    }

    /// The entry whose range contains a text offset.
    #[must_use]
    pub fn find(&self, offset: u32) -> Option<CodeEntry> {
        let entry = self.entry(self.0.upper_bound(offset).checked_sub(1)?)?;
        (offset - entry.start < entry.len).then_some(entry)
    }

    /// The entry whose range starts at a text offset.
    #[must_use]
    pub fn at(&self, offset: u32) -> Option<CodeEntry> {
        self.entry(self.0.find(offset)?)
    }

    /// All entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CodeEntry> + use<'a> {
        let table = *self;
        (0..table.0.len()).filter_map(move |i| table.entry(i))
    }

    fn entry(&self, i: usize) -> Option<CodeEntry> {
        let kind = CodeKind::from_numbers(self.0.field(i, 2), self.0.field(i, 3))?;
        Some(CodeEntry {
            start: self.0.field(i, 0),
            len: self.0.field(i, 1),
            kind,
        })
    }
}

/// An instruction that may fault, and the trap that the fault means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrapEntry {
    /// Text offset of the instruction.
    pub offset: u32,
    /// Number of the [`TrapCode`].
    pub code: u32,
}

impl TrapEntry {
    /// Bytes of an encoded entry.
    pub const BYTES: usize = 8;

    /// Encodes the entry as `offset, code`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        words([self.offset, self.code])
    }
}

/// A view of encoded [`TrapEntry`]s.
#[derive(Debug, Clone, Copy)]
pub struct TrapTable<'a>(Records<'a, { TrapEntry::BYTES }>);

impl<'a> TrapTable<'a> {
    /// Views the entries of a file that was checked before, without checking them again.
    ///
    /// If the entries are invalid, lookups may return a wrong entry or none. Nothing worse can
    /// happen.
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        Self(Records(bytes))
    }

    /// Views encoded entries. `None` if the entries are incomplete or not ascending, or if no
    /// [`TrapCode`] has an entry's number.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let table = Self(Records(bytes));
        let are_codes = |at| TrapCode::from_number(table.0.field(at, 1)).is_some();
        let is_sound = table.0.is_sound(false) && (0..table.len()).all(are_codes);
        is_sound.then_some(table)
    }

    /// Number of the trap code for the instruction at a text offset, if the instruction may fault.
    #[must_use]
    pub fn code(&self, offset: u32) -> Option<u32> {
        Some(self.0.field(self.0.find(offset)?, 1))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One entry of the address map: an instruction that may trap, or a call, with its WebAssembly
/// offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteEntry {
    /// Text offset of an instruction that may trap, or of the last byte of a call. So a call and
    /// the instruction at its return address have different offsets.
    pub offset: u32,
    /// Offset of the WebAssembly instruction from the start of the `.wasm` file. If the instruction
    /// is in inlined functions, the offset of the outermost inlined call.
    pub wasm: u32,
}

impl SiteEntry {
    /// Bytes of an encoded entry.
    pub const BYTES: usize = 8;

    /// Encodes the entry as `offset, wasm`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        words([self.offset, self.wasm])
    }
}

/// A view of encoded [`SiteEntry`]s.
#[derive(Debug, Clone, Copy)]
pub struct SiteTable<'a>(Records<'a, { SiteEntry::BYTES }>);

impl<'a> SiteTable<'a> {
    /// Views the entries of a file that was checked before, without checking them again.
    ///
    /// If the entries are invalid, lookups may return a wrong entry or none. Nothing worse can
    /// happen.
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        Self(Records(bytes))
    }

    /// Views encoded entries; `None` if the entries are not complete and ascending.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let table = Self(Records(bytes));
        table.0.is_sound(false).then_some(table)
    }

    /// WebAssembly offset of the instruction at a text offset, if the map contains the instruction.
    #[must_use]
    pub fn wasm_offset(&self, offset: u32) -> Option<u32> {
        Some(self.0.field(self.0.find(offset)?, 1))
    }
}

/// An inlined function that contains an instruction of the address map. Nested inlined functions
/// have one entry each, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlinedEntry {
    /// Text offset, as in [`SiteEntry`].
    pub offset: u32,
    /// Index of the function.
    pub func: u32,
    /// Offset of the WebAssembly instruction in this function, from the start of the `.wasm` file.
    pub wasm: u32,
}

impl InlinedEntry {
    /// Bytes of an encoded entry.
    pub const BYTES: usize = 12;

    /// Encodes the entry as `offset, func, wasm`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        words([self.offset, self.func, self.wasm])
    }
}

/// A view of encoded [`InlinedEntry`]s.
#[derive(Debug, Clone, Copy)]
pub struct InlinedTable<'a>(Records<'a, { InlinedEntry::BYTES }>);

impl<'a> InlinedTable<'a> {
    /// Views the entries of a file that was checked before, without checking them again.
    ///
    /// If the entries are invalid, lookups may return wrong entries or none. Nothing worse can
    /// happen.
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        Self(Records(bytes))
    }

    /// Views encoded entries; `None` if the entries are not complete and ascending, or name a
    /// function at or above `funcs`.
    #[must_use]
    pub fn new(bytes: &'a [u8], funcs: u32) -> Option<Self> {
        let table = Self(Records(bytes));
        let known = |i| table.0.field(i, 1) < funcs;
        (table.0.is_sound(true) && (0..table.0.len()).all(known)).then_some(table)
    }

    /// The inlined functions that contain the instruction at a text offset, innermost first.
    pub fn at(&self, offset: u32) -> impl Iterator<Item = InlinedEntry> + use<'a> {
        let table = *self;
        table.0.equal(offset).map(move |i| InlinedEntry {
            offset: table.0.field(i, 0),
            func: table.0.field(i, 1),
            wasm: table.0.field(i, 2),
        })
    }
}

/// A call with an exception handler: the landing pad, and the stack pointer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerEntry {
    /// Text offset of the call's return address.
    pub offset: u32,
    /// Text offset of the landing pad that handles the exception.
    pub handler: u32,
    /// Bytes from the stack pointer up to the frame pointer at the landing pad.
    pub frame_bytes: u32,
}

impl HandlerEntry {
    /// Bytes of an encoded entry.
    pub const BYTES: usize = 12;

    /// Encodes the entry as `offset, handler, frame_bytes`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        words([self.offset, self.handler, self.frame_bytes])
    }
}

/// A view of encoded [`HandlerEntry`]s.
#[derive(Debug, Clone, Copy)]
pub struct HandlerTable<'a>(Records<'a, { HandlerEntry::BYTES }>);

impl<'a> HandlerTable<'a> {
    /// Views the entries of a file that was checked before, without checking them again.
    ///
    /// If the entries are invalid, lookups may return a wrong entry or none. Nothing worse can
    /// happen.
    #[must_use]
    pub fn view(bytes: &'a [u8]) -> Self {
        Self(Records(bytes))
    }

    /// Views encoded entries; `None` if the entries are not complete and ascending.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let table = Self(Records(bytes));
        table.0.is_sound(false).then_some(table)
    }

    /// All entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = HandlerEntry> + use<'a> {
        let table = *self;
        (0..table.0.len()).map(move |i| table.entry(i))
    }

    /// The entry of the call with this return address, as a text offset.
    #[must_use]
    pub fn find(&self, offset: u32) -> Option<HandlerEntry> {
        Some(self.entry(self.0.find(offset)?))
    }

    fn entry(&self, i: usize) -> HandlerEntry {
        HandlerEntry {
            offset: self.0.field(i, 0),
            handler: self.0.field(i, 1),
            frame_bytes: self.0.field(i, 2),
        }
    }
}

/// Little-endian bytes of `W` words of 32 bits.
fn words<const W: usize, const B: usize>(values: [u32; W]) -> [u8; B] {
    const { assert!(B == W * 4) };
    let mut bytes = [0; B];
    for (chunk, value) in bytes.chunks_exact_mut(4).zip(values) {
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Vec<u8> {
        let entries = [
            CodeEntry {
                start: 0,
                len: 10,
                kind: CodeKind::Func(3),
            },
            CodeEntry {
                start: 16,
                len: 16,
                kind: CodeKind::Import(0),
            },
            CodeEntry {
                start: 32,
                len: 5,
                kind: CodeKind::Trap(9),
            },
        ];
        entries.into_iter().flat_map(CodeEntry::encode).collect()
    }

    #[test]
    fn an_offset_finds_the_piece_that_holds_it() {
        let bytes = code();
        let table = CodeTable::new(&bytes).unwrap();
        let kind = |offset| table.find(offset).map(|entry| entry.kind);
        assert_eq!(kind(0), Some(CodeKind::Func(3)));
        assert_eq!(kind(9), Some(CodeKind::Func(3)));
        assert_eq!(kind(10), None);
        assert_eq!(kind(31), Some(CodeKind::Import(0)));
        assert_eq!(kind(36), Some(CodeKind::Trap(9)));
        assert_eq!(kind(37), None);
        assert_eq!(kind(u32::MAX), None);
        assert_eq!(table.at(16).map(|entry| entry.len), Some(16));
        assert_eq!(table.at(17), None);
        assert_eq!(table.iter().count(), 3);
    }

    #[test]
    fn code_that_overlaps_descends_or_is_unknown_is_refused() {
        let swap = |at: usize, value: u32| {
            let mut bytes = code();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            CodeTable::new(&bytes).is_some()
        };
        assert!(swap(4, 16));
        assert!(!swap(4, 17), "overlaps");
        assert!(!swap(16, 40), "descends");
        assert!(!swap(8, 5), "unknown kind");
        for entry in 0..3 {
            assert!(!swap(entry * CodeEntry::BYTES + 4, 0), "no code");
        }
        assert!(!swap(36, u32::MAX), "ends past 4 GiB");
        assert!(CodeTable::new(&code()[1..]).is_none(), "not whole");
        assert!(CodeTable::new(&[]).is_some_and(|table| table.find(0).is_none()));
    }

    #[test]
    fn traps_are_found_by_exact_offset() {
        let entries = [(4, 2), (9, 8), (700, 1)].map(|(offset, code)| TrapEntry { offset, code });
        let bytes: Vec<u8> = entries.into_iter().flat_map(TrapEntry::encode).collect();
        let table = TrapTable::new(&bytes).unwrap();
        assert_eq!(
            [3, 4, 5, 9, 700, 701].map(|o| table.code(o)),
            [None, Some(2), None, Some(8), Some(1), None]
        );
        for (at, byte, why) in [
            (0, 9, "an offset twice"),
            (4, 0, "no trap code"),
            (4, TrapCode::ALL.len() as u8 + 1, "no trap code"),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert!(TrapTable::new(&bytes).is_none(), "{why}");
        }
    }

    #[test]
    fn handlers_are_found_by_return_address() {
        let entry = |offset, handler| HandlerEntry {
            offset,
            handler,
            frame_bytes: 48,
        };
        let table = |entries: &[HandlerEntry]| -> Vec<u8> {
            entries.iter().flat_map(|entry| entry.encode()).collect()
        };
        let bytes = table(&[entry(4, 90), entry(9, 90), entry(100, 0)]);
        let handlers = HandlerTable::new(&bytes).unwrap();
        assert_eq!(handlers.find(9), Some(entry(9, 90)));
        assert_eq!([3, 5, 99, 101].map(|o| handlers.find(o)), [None; 4]);
        assert_eq!(handlers.iter().count(), 3);
        assert!(HandlerTable::new(&bytes[1..]).is_none(), "not whole");
        let twice = table(&[entry(9, 0), entry(9, 0)]);
        assert!(HandlerTable::new(&twice).is_none(), "an offset twice");
    }

    #[test]
    fn sites_ascend() {
        let entries = [(4, 20), (7, 20), (9, 30)].map(|(offset, wasm)| SiteEntry { offset, wasm });
        let mut bytes: Vec<u8> = entries.into_iter().flat_map(SiteEntry::encode).collect();
        let table = SiteTable::new(&bytes).unwrap();
        assert_eq!(table.wasm_offset(4), Some(20));
        assert_eq!(table.wasm_offset(9), Some(30));
        assert_eq!(table.wasm_offset(5), None);
        for offset in [7, 10] {
            bytes[0] = offset;
            assert!(SiteTable::new(&bytes).is_none(), "{offset}");
        }
    }

    #[test]
    fn inlined_functions_are_found_innermost_first() {
        let entry = |offset, func, wasm| InlinedEntry { offset, func, wasm };
        let entries = [entry(4, 1, 20), entry(4, 2, 30), entry(9, 1, 21)];
        let mut bytes: Vec<u8> = entries.into_iter().flat_map(InlinedEntry::encode).collect();
        let table = InlinedTable::new(&bytes, 3).unwrap();
        let at = |offset| table.at(offset).collect::<Vec<_>>();
        assert_eq!(at(4), entries[..2]);
        assert_eq!(at(9), entries[2..]);
        assert_eq!([at(3), at(5), at(10)], [vec![], vec![], vec![]]);
        assert!(
            InlinedTable::new(&bytes, 2).is_none(),
            "an unknown function"
        );
        assert!(InlinedTable::new(&bytes[1..], 3).is_none(), "not whole");
        bytes[0] = 5;
        assert!(InlinedTable::new(&bytes, 3).is_none(), "descends");
    }
}
