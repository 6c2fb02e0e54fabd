//! Writes a value as a guest passes it, perhaps with a mistake: a wrong or unaligned pointer, a
//! length past the end of the memory, a discriminant without a case, a string that is invalid in
//! its encoding, a handle that does not exist.

use super::decode::Encoding;
use super::scripted::{IMAGE_AT, MEMORY_BYTES};
use super::types::Ty;
use crate::random::Random;
use pirn_component::Value;

/// Bit of a string's length: in the encoding `latin1+utf16`, it marks a string in UTF-16.
const TAG: u32 = 1 << 31;

/// Writes values to core values and to the bytes of a memory.
pub(super) struct Writer<'a> {
    pub(super) random: &'a mut Random,
    pub(super) encoding: Encoding,
    /// The bytes of the memory that begin at [`IMAGE_AT`].
    pub(super) image: Vec<u8>,
    /// On average, one place in this number has a mistake. `None` means no mistakes.
    pub(super) mistakes: Option<usize>,
    /// Whether no mistake was made.
    pub(super) intact: bool,
    /// The handles that the guest owns.
    pub(super) handles: Vec<u32>,
}

impl Writer<'_> {
    /// Writes a value as core values, or to memory if there are more than `flat_max`.
    pub(super) fn write(&mut self, ty: &Ty, value: &Value, flat_max: usize) -> Vec<u64> {
        let mut words = vec![];
        if ty.flat().len() <= flat_max {
            self.flat(ty, value, &mut words);
            return words;
        }
        let (bytes, align) = ty.size();
        let mut at = self.allocate(bytes, align);
        self.store(ty, value, at);
        if self.mistake() {
            at = self.pointer(at, bytes, align);
        }
        vec![u64::from(at) | self.random.any() << 32]
    }

    /// Writes random bytes to memory, and returns this number of random core values. They represent
    /// no value of the type.
    pub(super) fn noise(&mut self, words: usize) -> Vec<u64> {
        self.intact = false;
        let len = 64 + self.random.below(512);
        let pointer = |random: &mut Random| u64::from(IMAGE_AT) + (random.below(len) as u64 & !7);
        for _ in 0..len / 8 {
            let word = match self.random.below(4) {
                0 => pointer(self.random) | (self.random.any() % 5) << 32,
                1 => (self.random.any() % 4) | ((self.random.any() % 4) << 32),
                2 => 0,
                _ => self.random.bits(),
            };
            self.image.extend(word.to_le_bytes());
        }
        let words = (0..words).map(|_| match self.random.below(3) {
            0 => self.random.any() % 4,
            1 => pointer(self.random),
            _ => self.random.bits(),
        });
        words.collect()
    }

    /// Allocates memory, fills it with random bytes, and returns its address.
    fn allocate(&mut self, bytes: u32, align: u32) -> u32 {
        let begin = (IMAGE_AT + self.image.len() as u32).next_multiple_of(align);
        let len = (begin - IMAGE_AT + bytes) as usize;
        while self.image.len() < len {
            self.image.push(self.random.any() as u8);
        }
        begin
    }

    fn mistake(&mut self) -> bool {
        let found = self
            .mistakes
            .is_some_and(|times| self.random.once_in(times));
        self.intact &= !found;
        found
    }

    /// A wrong address for this number of bytes.
    fn pointer(&mut self, at: u32, bytes: u32, align: u32) -> u32 {
        let end = MEMORY_BYTES.saturating_sub(bytes);
        match self.random.below(7) {
            0 => at + 1,
            1 => at + (align / 2).max(1),
            2 => end,
            3 => (end + align) & !(align - 1),
            4 => end + 1,
            5 => u32::MAX - self.random.below(16) as u32,
            _ => self.random.bits() as u32,
        }
    }

    /// A wrong address or length for a list of `length` elements, each of `bytes` bytes.
    fn pair(&mut self, at: u32, length: u32, bytes: u32, align: u32) -> (u32, u32) {
        match self.random.below(8) {
            0..=2 => (
                self.pointer(at, length.saturating_mul(bytes), align),
                length,
            ),
            3 => (self.pointer(at, 0, align), 0),
            4 => (at, u32::MAX - self.random.below(3) as u32),
            // The size in bytes does not fit in 32 bits.
            5 => (
                at,
                (((1u64 << 32) / u64::from(bytes)) as u32).wrapping_add(1),
            ),
            6 => (at, length ^ TAG),
            _ => (at, length + 1),
        }
    }

    fn set(&mut self, at: u32, bytes: u32, word: u64) {
        let at = (at - IMAGE_AT) as usize;
        self.image[at..at + bytes as usize].copy_from_slice(&word.to_le_bytes()[..bytes as usize]);
    }

    /// The bits of a number. The bits that a reader must ignore are random.
    fn bits(&mut self, value: &Value) -> u64 {
        let garbage = self.random.bits();
        let above = |bits: u32| garbage.checked_shl(bits).unwrap_or(0);
        match value {
            Value::Bool(true) => garbage | 1 << self.random.below(8),
            Value::Bool(false) => 0,
            Value::S8(number) => u64::from(number.cast_unsigned()) | above(8),
            Value::U8(number) => u64::from(*number) | above(8),
            Value::S16(number) => u64::from(number.cast_unsigned()) | above(16),
            Value::U16(number) => u64::from(*number) | above(16),
            Value::S32(number) => u64::from(number.cast_unsigned()) | above(32),
            Value::U32(number) => u64::from(*number) | above(32),
            Value::S64(number) => number.cast_unsigned(),
            Value::U64(number) => *number,
            Value::F32(number) if number.is_nan() => {
                0x7f80_0001 | garbage & 0x803f_ffff | above(32)
            }
            Value::F32(number) => u64::from(number.to_bits()) | above(32),
            Value::F64(number) if number.is_nan() => {
                0x7ff0_0000_0000_0001 | garbage & 0x8007_ffff_ffff_ffff
            }
            Value::F64(number) => number.to_bits(),
            Value::Char(_) if self.mistake() => {
                [0xd800, 0xdfff, 0x11_0000, 0xffff_ffff, garbage][self.random.below(5)]
            }
            Value::Char(number) => u64::from(u32::from(*number)) | above(32),
            _ => 0,
        }
    }

    /// The bits of flags, the index of a handle, or the discriminant of a type with cases.
    fn index(&mut self, ty: &Ty, value: &Value) -> u64 {
        let garbage = self.random.bits();
        match (ty, value) {
            (Ty::Flags(count), Value::Flags(set)) => {
                let bits = (0..*count).filter(|bit| set.contains(&format!("b{bit}")));
                let bits = bits.fold(0, |bits, bit| bits | 1 << bit);
                bits | garbage.checked_shl(*count as u32).unwrap_or(0)
            }
            (Ty::Own | Ty::Borrow, _) => {
                let at = self.random.below(self.handles.len().max(1));
                if self.mistake() {
                    return [0, 1, 2, 3, 50, u64::from(u32::MAX)][self.random.below(6)];
                }
                match ty {
                    _ if self.handles.is_empty() => 1,
                    Ty::Own => self.handles.remove(at).into(),
                    _ => self.handles[at].into(),
                }
            }
            _ => {
                let cases = ty.cases().map_or(0, |cases| cases.len()) as u64;
                if self.mistake() {
                    return [cases, cases + 1, 0xff, 0xffff_ffff, garbage][self.random.below(5)];
                }
                let (at, _) = case(value);
                at as u64 | garbage << 32
            }
        }
    }

    fn flat(&mut self, ty: &Ty, value: &Value, words: &mut Vec<u64>) {
        match (ty, value) {
            (Ty::Scalar(_), _) => words.push(self.bits(value)),
            (Ty::String | Ty::List(_), _) => {
                let (at, length) = self.place(ty, value);
                words.extend([u64::from(at), u64::from(length)]);
            }
            (Ty::Tuple(types), Value::Tuple(values)) => {
                let both = types.iter().zip(values);
                both.for_each(|(ty, value)| self.flat(ty, value, words));
            }
            (Ty::Record(types), Value::Record(values)) => {
                let both = types.iter().zip(values);
                both.for_each(|(ty, (_, value))| self.flat(ty, value, words));
            }
            (Ty::Flags(_) | Ty::Own | Ty::Borrow, _) => words.push(self.index(ty, value)),
            _ => {
                let end = words.len() + ty.flat().len();
                words.push(self.index(ty, value));
                let (at, payload) = case(value);
                let of = ty.cases().and_then(|cases| cases[at]);
                if let (Some(ty), Some(value)) = (of, payload) {
                    self.flat(ty, value, words);
                }
                while words.len() < end {
                    words.push(self.random.bits());
                }
            }
        }
    }

    fn store(&mut self, ty: &Ty, value: &Value, at: u32) {
        let (bytes, _) = ty.size();
        match (ty, value) {
            (Ty::Scalar(_), _) => {
                let bits = self.bits(value);
                self.set(at, bytes, bits);
            }
            (Ty::String | Ty::List(_), _) => {
                let (address, length) = self.place(ty, value);
                self.set(at, 4, address.into());
                self.set(at + 4, 4, length.into());
            }
            (Ty::Tuple(types), Value::Tuple(values)) => {
                self.fields(types.iter().zip(values), at);
            }
            (Ty::Record(types), Value::Record(values)) => {
                let values = values.iter().map(|(_, value)| value);
                self.fields(types.iter().zip(values), at);
            }
            (Ty::Flags(_) | Ty::Own | Ty::Borrow, _) => {
                let bits = self.index(ty, value);
                self.set(at, bytes, bits);
            }
            _ => {
                let cases = ty.cases().unwrap_or_default();
                let tag = Ty::discriminant(cases.len());
                let aligns = cases.iter().flatten().map(|ty| ty.size().1);
                let payload_at = at + tag.next_multiple_of(aligns.max().unwrap_or(1));
                let index = self.index(ty, value);
                self.set(at, tag, index);
                let (case, payload) = case(value);
                if let (Some(ty), Some(value)) = (cases[case], payload) {
                    self.store(ty, value, payload_at);
                }
            }
        }
    }

    fn fields<'t>(&mut self, fields: impl Iterator<Item = (&'t Ty, &'t Value)>, mut at: u32) {
        for (ty, value) in fields {
            let (bytes, align) = ty.size();
            at = at.next_multiple_of(align);
            self.store(ty, value, at);
            at += bytes;
        }
    }

    /// Writes a string or a list, and returns its address and its length.
    fn place(&mut self, ty: &Ty, value: &Value) -> (u32, u32) {
        let (element, length, at) = match (ty, value) {
            (Ty::List(element), Value::List(values)) => {
                let (bytes, align) = element.size();
                let at = self.allocate(bytes * values.len() as u32, align);
                for (place, value) in (at..).step_by(bytes as usize).zip(values) {
                    self.store(element, value, place);
                }
                ((bytes, align), values.len() as u32, at)
            }
            (_, Value::String(text)) => self.string(text),
            _ => ((1, 1), 0, 0),
        };
        let (bytes, align) = element;
        match self.mistake() {
            true => self.pair(at, length, bytes, align),
            false => (at, length),
        }
    }

    /// Writes a string. Returns the size and alignment of a unit, the length and the address.
    fn string(&mut self, text: &str) -> ((u32, u32), u32, u32) {
        let narrow = text.chars().map(|c| u8::try_from(u32::from(c)));
        let narrow = narrow.collect::<Result<Vec<_>, _>>().ok();
        let wide = || {
            text.encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>()
        };
        let (mut bytes, unit, align, tag) = match (self.encoding, narrow) {
            (Encoding::Utf8, _) => (text.as_bytes().to_vec(), 1, 1, 0),
            (Encoding::Utf16, _) => (wide(), 2, 2, 0),
            (Encoding::Latin1, Some(narrow)) if !self.random.once_in(4) => (narrow, 1, 2, 0),
            (Encoding::Latin1, _) => (wide(), 2, 2, TAG),
        };
        if self.mistake() {
            let bad: &[u8] = [
                &[0x80][..],
                &[0xc0, 0x80],
                &[0xed, 0xa0, 0x80],
                &[0xf4, 0x90, 0x80, 0x80],
                &[0xe2, 0x82],
                &[0x00, 0xd8],
                &[0x00, 0xdc, 0x00, 0xd8],
                &[0xff, 0xff],
            ][self.random.below(8)];
            let at = self.random.below(bytes.len() / unit as usize + 1) * unit as usize;
            bytes.splice(at..at, bad.iter().copied());
        }
        let at = self.allocate(bytes.len() as u32, align);
        let start = (at - IMAGE_AT) as usize;
        self.image[start..start + bytes.len()].copy_from_slice(&bytes);
        ((unit, align), (bytes.len() as u32 / unit) | tag, at)
    }
}

/// The number of a value's case, and its payload.
fn case(value: &Value) -> (usize, Option<&Value>) {
    let number = |name: &str| name[1..].parse().unwrap_or(0);
    match value {
        Value::Variant(name, payload) => (number(name), payload.as_deref()),
        Value::Enum(name) => (number(name), None),
        Value::Option(payload) => (usize::from(payload.is_some()), payload.as_deref()),
        Value::Result(Ok(payload)) => (0, payload.as_deref()),
        Value::Result(Err(payload)) => (1, payload.as_deref()),
        _ => (0, None),
    }
}
