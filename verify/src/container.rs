//! The ELF file around the text: what the dynamic loader acts on before any code of pirn runs.
//!
//! A proof of the text is worth nothing if the loader maps or calls other code. Examples are
//! constructors, a symbol that is resolved by a call (`STT_GNU_IFUNC`), and a writable page over
//! the text. The compiler writes files of one shape. This file accepts that shape and no other: see
//! `compiler/src/link/elf.rs`, and the ELF specification (gABI 4.1, chapters 4 and 5).

use crate::error::VerifyError;
use pirn_format::cpu::Arch;
use pirn_format::header::{HEADER_BYTES, HEADER_SYMBOL};
use pirn_format::read::Checked;
use pirn_format::sections::Section;

/// Bytes of the largest page that the loader may map segments by.
const fn page(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 4 << 10,
        Arch::Aarch64 => 64 << 10,
    }
}

/// Most program headers. `aotc` writes nine.
const SEGMENTS_MAX: u16 = 16;

/// Bytes of a program header, and the file offset of the first header.
const SEGMENT_BYTES: u16 = 56;
const SEGMENTS_AT: u64 = 64;

const PT_NULL: u32 = 0;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PT_GNU_RELRO: u32 = 0x6474_e552;

const READ: u32 = 4;
const READ_WRITE: u32 = 6;
const READ_EXECUTE: u32 = 5;

/// `STB_GLOBAL << 4 | STT_OBJECT`.
const GLOBAL_OBJECT: u8 = 0x11;

/// The Bloom filter in the hash table of symbols: bits of a word, and the shift of a hash that
/// selects a symbol's second bit.
const BLOOM_BITS: u32 = 64;
const BLOOM_SHIFT: u32 = 6;

/// Tags of the dynamic section, in the order in which the compiler writes them.
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_NULL: u64 = 0;

/// Bytes of a symbol.
const SYMBOL_BYTES: u64 = 24;

/// A program header.
struct Segment {
    kind: u32,
    flags: u32,
    start: u64,
    end: u64,
}

impl Segment {
    fn contains(&self, start: u64, bytes: u64) -> bool {
        start >= self.start && start.checked_add(bytes).is_some_and(|end| end <= self.end)
    }
}

/// Checks that the loader maps a file as the compiler intends, and runs no code.
pub(crate) fn check(file: &[u8], checked: &Checked) -> Result<(), VerifyError> {
    let refuse = |what: &str| Err(VerifyError::Container(what.to_owned()));
    let Some(segments) = segments(file) else {
        return refuse("its program headers are not where aotc puts them");
    };
    let loads: Vec<_> = segments.iter().filter(|one| one.kind == PT_LOAD).collect();
    let (mut mapped, page) = (0, page(checked.header.cpu.arch()));
    for load in &loads {
        if load.start % page != 0 || load.start < mapped {
            return refuse("two segments share a page, or one starts within a page");
        }
        mapped = load.end.next_multiple_of(page);
    }
    let text = checked.header.section(Section::Text);
    let of = |flags: u32| loads.iter().filter(move |one| one.flags == flags);
    let is_text = |one: &&Segment| {
        one.start == text.vaddr && one.end.checked_sub(one.start) == Some(text.len)
    };
    if !of(READ_EXECUTE).all(is_text) || of(READ_EXECUTE).count() > 1 {
        return refuse("a segment other than the text is executable");
    }
    let known = [READ, READ_WRITE, READ_EXECUTE];
    if !loads.iter().all(|one| known.contains(&one.flags)) || of(READ_WRITE).count() != 1 {
        return refuse("it has not one writable segment, or one with other access rights");
    }
    let (Some(first), Some(writable)) = (loads.first(), of(READ_WRITE).next()) else {
        return refuse("it has no segments");
    };
    for one in &segments {
        let is_sound = match one.kind {
            PT_NULL | PT_LOAD => true,
            PT_DYNAMIC => one.start == writable.start && one.end <= writable.end,
            PT_GNU_RELRO => one.start == writable.start && one.end == writable.end,
            PT_NOTE | PT_GNU_EH_FRAME => {
                first.flags == READ && first.contains(one.start, one.end - one.start)
            }
            PT_GNU_STACK => one.start == one.end && one.flags == READ_WRITE,
            _ => false,
        };
        if !is_sound {
            return refuse("a program header names a place that is not its own");
        }
    }
    // Without this header, the loader makes the stacks of all threads executable.
    if !segments.iter().any(|one| one.kind == PT_GNU_STACK) {
        return refuse("it does not say that stacks are not executable");
    }
    let dynamic: Vec<_> = segments
        .iter()
        .filter(|one| one.kind == PT_DYNAMIC)
        .collect();
    match dynamic[..] {
        [dynamic] if has_one_symbol(file, checked, dynamic, first) == Some(true) => Ok(()),
        _ => refuse("its dynamic section has more than the symbol of the header"),
    }
}

/// The program headers, if there are few and they follow the ELF header.
fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    let count = word::<2>(file, 56)? as u16;
    let is_known = word::<8>(file, 32)? == SEGMENTS_AT
        && word::<2>(file, 54)? == u64::from(SEGMENT_BYTES)
        && count <= SEGMENTS_MAX;
    is_known.then_some(())?;
    let at = |number: u16| SEGMENTS_AT + u64::from(number) * u64::from(SEGMENT_BYTES);
    let segments = (0..count).map(at).map(|at| {
        let start = word::<8>(file, at + 16)?;
        Some(Segment {
            kind: word::<4>(file, at)? as u32,
            flags: word::<4>(file, at + 4)? as u32,
            start,
            end: start.checked_add(word::<8>(file, at + 40)?)?,
        })
    });
    segments.collect()
}

/// Whether the dynamic section has the compiler's form, and its tables have exactly one symbol, the
/// module's header.
fn has_one_symbol(
    file: &[u8],
    checked: &Checked,
    dynamic: &Segment,
    first: &Segment,
) -> Option<bool> {
    let mut name = vec![0];
    name.extend(HEADER_SYMBOL.as_bytes());
    name.push(0);
    let entry = |number: u64| {
        let at = dynamic.start + 16 * number;
        Some((word::<8>(file, at)?, word::<8>(file, at + 8)?))
    };
    let (hashes, strings, symbols) = (entry(0)?, entry(1)?, entry(2)?);
    let tags = [hashes.0, strings.0, symbols.0];
    let ends = [entry(3)?, entry(4)?, entry(5)?];
    let is_known = dynamic.end - dynamic.start == 6 * 16
        && tags == [DT_GNU_HASH, DT_STRTAB, DT_SYMTAB]
        && ends
            == [
                (DT_STRSZ, name.len() as u64),
                (DT_SYMENT, SYMBOL_BYTES),
                (DT_NULL, 0),
            ];
    // The symbol 0 is all zero. The name of symbol 1 follows the empty name.
    let mut symbol = vec![0; SYMBOL_BYTES as usize];
    symbol.extend(1_u32.to_le_bytes());
    symbol.extend([GLOBAL_OBJECT, 0]);
    symbol.extend(1_u16.to_le_bytes());
    symbol.extend(checked.header_at.to_le_bytes());
    symbol.extend((HEADER_BYTES as u64).to_le_bytes());
    let tables = [(strings.1, name), (symbols.1, symbol), (hashes.1, hashed())];
    let are_equal = tables.iter().all(|(at, wanted)| {
        let found = usize::try_from(*at).ok().and_then(|at| file.get(at..));
        first.contains(*at, wanted.len() as u64)
            && found.is_some_and(|found| found.starts_with(wanted))
    });
    Some(is_known && are_equal && first.flags == READ)
}

/// The hash table of the header's symbol: one bucket, and a Bloom filter of one word.
fn hashed() -> Vec<u8> {
    // The hash of GNU's dynamic linker: 5381, times 33 plus each byte.
    let hash = HEADER_SYMBOL.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    });
    let bloom = 1_u64 << (hash % BLOOM_BITS) | 1 << ((hash >> BLOOM_SHIFT) % BLOOM_BITS);
    let mut table = vec![];
    // Buckets, the first symbol in the table, words of the filter, the filter's shift.
    for word in [1, 1, 1, BLOOM_SHIFT] {
        table.extend(word.to_le_bytes());
    }
    table.extend(bloom.to_le_bytes());
    // The bucket names symbol 1, whose hash ends the bucket's chain.
    table.extend(1_u32.to_le_bytes());
    table.extend((hash | 1).to_le_bytes());
    table
}

/// The little-endian number of `BYTES` bytes at an offset.
fn word<const BYTES: usize>(file: &[u8], at: u64) -> Option<u64> {
    let bytes = file
        .get(usize::try_from(at).ok()?..)?
        .first_chunk::<BYTES>()?;
    let mut word = [0; 8];
    word[..BYTES].copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}
