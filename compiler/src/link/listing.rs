//! The listing of `--emit asm`: the linked machine code, each instruction with the offset of its
//! WebAssembly instruction.
//!
//! ```text
//! ;; 3 (work): 000191..000211                              index, name, body in the .wasm file
//!      180: push %rbp                                      offset in .text
//!      1e0: call 0x2c0             ;; @0001ad -> 4 (square)
//!                                      offset in the .wasm file, six digits as wasm-objdump has it
//!      1f2: imul %esi, %esi        ;; @0001b4 inlines 4 (square) @00022c
//!                                      the call, and the operator of the function inlined there
//!      2e4: .long 0x3a0-0x2e0      ;; @0001c4   entry of the jump table at 2e0
//! ;; table 0                                              dispatch table of a known table
//!      3c0: .long 0x180-0x3c0, 0x2                         entry: code, type
//! ```
//!
//! Cranelift does not mark inline data; the listing infers it. Data starts at an address that an
//! earlier instruction computes relative to itself. Data ends where a block or a trap begins.

use super::text::Text;
use crate::code::{CompiledFunction, Location};
use crate::symbol::Symbol;
use iced_x86::{Code, DecoderOptions, Formatter as _, GasFormatter};
use pirn_format::cpu::Arch;
use pirn_format::metadata::Metadata;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use yaxpeax_arch::{Decoder as _, U8Reader};

/// The column of comments, unless the instruction is longer.
const COMMENT_COLUMN: usize = 56;
/// Bytes on one line of data.
const DATA_BYTES: usize = 8;

/// The listing of all functions, in text order.
pub(crate) fn write(
    functions: &[CompiledFunction],
    text: &Text,
    metadata: &Metadata,
    arch: Arch,
) -> String {
    let mut out = String::new();
    let mut disassembler = Disassembler::new(arch);
    for (function, entry) in functions.iter().zip(&text.entries) {
        let what = function.symbol.describe(metadata);
        let body = &function.body;
        // Writing to a string cannot fail.
        let _ = match body.is_empty() {
            true => writeln!(out, ";; {what}"),
            false => writeln!(out, ";; {what}: {:06x}..{:06x}", body.start, body.end),
        };
        let code = &text.bytes[entry.start as usize..][..function.code.len()];
        let mut data = Data::default();
        for (bytes, location) in spans(function) {
            let mut at = bytes.start;
            while at < bytes.end {
                let start = u64::from(entry.start);
                let rest = &code[at as usize..bytes.end as usize];
                let (len, line) = match data.next(function, code, at) {
                    Some(Datum::Entry(target)) => {
                        let table = start + u64::from(data.table);
                        let target = table.wrapping_add_signed(target.into());
                        (
                            ENTRY_BYTES as usize,
                            format!(".long {target:#x}-{table:#x}"),
                        )
                    }
                    Some(Datum::Bytes(end)) => {
                        bytes_of(&rest[..rest.len().min((end - at) as usize)])
                    }
                    None => {
                        let rest = &rest[..rest.len().min(data.distance(at))];
                        let instruction = disassembler.next(rest, start + u64::from(at));
                        data.note(at + instruction.len as u32, &instruction, start);
                        (instruction.len, instruction.text)
                    }
                };
                let place = start + u64::from(at);
                let line = format!("{place:8x}: {line}");
                let comment = comment(function, metadata, at..at + len as u32, location);
                let _ = match comment.is_empty() {
                    true => writeln!(out, "{line}"),
                    false => writeln!(out, "{line:COMMENT_COLUMN$} ;;{comment}"),
                };
                at += len as u32;
            }
        }
        out.push('\n');
    }
    for (table, place) in text.dispatch_tables.iter() {
        let _ = writeln!(out, ";; {}", Symbol::Table(table).describe(metadata));
        dispatch_table(&mut out, &text.bytes, place);
        out.push('\n');
    }
    out
}

/// Lists the dispatch table of a known table.
fn dispatch_table(out: &mut String, text: &[u8], place: Range<u32>) {
    let start = place.start;
    let entries = text[start as usize..place.end as usize].as_chunks();
    for (at, entry) in (start..).step_by(8).zip(entries.0) {
        let entry = u64::from_le_bytes(*entry);
        let (code, ty) = (start.wrapping_add(entry as u32), entry >> 32);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{at:8x}: .long {code:#x}-{start:#x}, {ty:#x}");
    }
}

/// The comment of an instruction.
fn comment(
    function: &CompiledFunction,
    metadata: &Metadata,
    at: Range<u32>,
    location: Option<&Location>,
) -> String {
    let mut comment = String::new();
    if let Some(location) = location {
        let _ = write!(comment, " @{:06x}", location.wasm);
        if let Some((func, wasm)) = location.inlined {
            let func = Symbol::Func(func).describe(metadata);
            let _ = write!(comment, " inlines {func} @{wasm:06x}");
        }
    }
    let first = function
        .relocs
        .partition_point(|reloc| reloc.offset < at.start);
    for reloc in &function.relocs[first..] {
        if !at.contains(&reloc.offset) {
            break;
        }
        let _ = write!(comment, " -> {}", reloc.target.describe(metadata));
    }
    comment
}

/// Splits a function into ranges with the WebAssembly instruction of each, and the gaps between
/// them.
fn spans(function: &CompiledFunction) -> Vec<(Range<u32>, Option<&Location>)> {
    let mut spans = vec![];
    let mut end = 0;
    for location in &function.locations {
        let start = location.start.max(end);
        spans.push((end..start, None));
        end = location.end.max(start);
        spans.push((start..end, Some(location)));
    }
    spans.push((end..function.code.len() as u32, None));
    spans
}

/// Bytes of a jump table entry: the distance of its target from the table's start.
const ENTRY_BYTES: u32 = 4;
/// One more than the most padding bytes before a constant.
const ALIGN_MAX: u32 = 64;

/// State of the data inference while the instructions of a function are decoded. All offsets are
/// relative to the function.
#[derive(Default)]
struct Data {
    /// Addresses that instructions have computed.
    used: BTreeSet<u32>,
    /// The end of the last instruction that jumped to a computed address.
    jumped: Option<u32>,
    /// The start of the last jump table, and its latest possible end.
    table: u32,
    table_end: u32,
    /// The end of the last constant.
    end: u32,
}

/// Data at an offset.
enum Datum {
    /// A jump table entry: the offset of its target from the table's start.
    Entry(i32),
    /// Constants and padding up to this offset.
    Bytes(u32),
}

impl Data {
    /// Records an instruction that ends at `end`. The function starts at the address `start`.
    fn note(&mut self, end: u32, instruction: &Instruction, start: u64) {
        let used = instruction.uses.and_then(|used| used.checked_sub(start));
        self.used
            .extend(used.and_then(|used| u32::try_from(used).ok()));
        if instruction.jumps {
            self.jumped = Some(end);
        }
    }

    /// Bytes to the next known data.
    fn distance(&self, at: u32) -> usize {
        let next = self.used.range(at + 1..).next();
        next.map_or(usize::MAX, |next| (next - at) as usize)
    }

    /// The data at an offset; `None` if there is an instruction.
    fn next(&mut self, function: &CompiledFunction, code: &[u8], at: u32) -> Option<Datum> {
        if self.used.contains(&at) {
            let end = self.next_boundary(function, at);
            match self.jumped == Some(at) {
                true => (self.table, self.table_end) = (at, end),
                false => self.end = end,
            }
        }
        if at < self.table_end {
            let entry = code[at as usize..self.table_end as usize].first_chunk();
            let target = entry.map(|bytes| i32::from_le_bytes(*bytes));
            let is_block = |target| {
                let place = self.table.checked_add_signed(target);
                place.is_some_and(|place| function.blocks.binary_search(&place).is_ok())
            };
            match target.filter(|target| is_block(*target)) {
                Some(target) => return Some(Datum::Entry(target)),
                // The jump table has ended; constants follow.
                None => (self.end, self.table_end) = (self.table_end, at),
            }
        }
        if at < self.end {
            return Some(Datum::Bytes(self.end));
        }
        // Padding: no instruction consists of zeros.
        let next = *self.used.range(at + 1..).next()?;
        let is_padding = next - at < ALIGN_MAX
            && self.next_boundary(function, at) == next
            && code
                .get(at as usize..next as usize)?
                .iter()
                .all(|byte| *byte == 0);
        is_padding.then_some(Datum::Bytes(next))
    }

    /// The start of the next block, trap or data after an offset.
    fn next_boundary(&self, function: &CompiledFunction, at: u32) -> u32 {
        let block = function.blocks.partition_point(|block| *block <= at);
        let trap = function.traps.partition_point(|(trap, _)| *trap <= at);
        let next = [
            function.blocks.get(block).copied(),
            function.traps.get(trap).map(|(trap, _)| *trap),
            self.used.range(at + 1..).next().copied(),
        ];
        let next = next.into_iter().flatten().min();
        next.unwrap_or(u32::MAX).min(function.code.len() as u32)
    }
}

/// Formats one line of data.
fn bytes_of(bytes: &[u8]) -> (usize, String) {
    let bytes = &bytes[..bytes.len().min(DATA_BYTES)];
    let list: Vec<_> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    (bytes.len(), format!(".byte {}", list.join(",")))
}

/// A decoded instruction.
struct Instruction {
    len: usize,
    text: String,
    /// The pc-relative address that the instruction reads or computes.
    uses: Option<u64>,
    /// Whether the instruction jumps to a computed address.
    jumps: bool,
}

impl Instruction {
    /// Bytes that are not an instruction.
    fn unknown(bytes: &[u8]) -> Self {
        let (len, text) = bytes_of(bytes);
        Self {
            len,
            text,
            uses: None,
            jumps: false,
        }
    }
}

/// The disassembler of one architecture.
enum Disassembler {
    X86_64(Box<GasFormatter>),
    Aarch64(yaxpeax_arm::armv8::a64::InstDecoder),
}

impl Disassembler {
    fn new(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => {
                let mut formatter = GasFormatter::new();
                let options = formatter.options_mut();
                options.set_uppercase_hex(false);
                options.set_branch_leading_zeros(false);
                options.set_small_hex_numbers_in_decimal(false);
                options.set_space_after_operand_separator(true);
                Self::X86_64(Box::new(formatter))
            }
            Arch::Aarch64 => Self::Aarch64(yaxpeax_arm::armv8::a64::InstDecoder::default()),
        }
    }

    /// Decodes the instruction at the start of `bytes`, which must not be empty.
    fn next(&mut self, bytes: &[u8], address: u64) -> Instruction {
        match self {
            Self::X86_64(formatter) => {
                let options = DecoderOptions::NONE;
                let instruction = iced_x86::Decoder::with_ip(64, bytes, address, options).decode();
                if instruction.is_invalid() {
                    return Instruction::unknown(&bytes[..1]);
                }
                let mut text = String::new();
                formatter.format(&instruction, &mut text);
                let is_relative = instruction.is_ip_rel_memory_operand();
                Instruction {
                    len: instruction.len(),
                    text,
                    uses: is_relative.then(|| instruction.ip_rel_memory_address()),
                    jumps: instruction.code() == Code::Jmp_rm64,
                }
            }
            Self::Aarch64(decoder) => {
                let Some(bytes) = bytes.first_chunk() else {
                    return Instruction::unknown(bytes);
                };
                match decoder.decode(&mut U8Reader::new(bytes)) {
                    Ok(instruction) => {
                        let word = u32::from_le_bytes(*bytes);
                        Instruction {
                            len: bytes.len(),
                            text: aarch64_text(word, &instruction.to_string(), address),
                            uses: aarch64_uses(word)
                                .map(|distance| address.wrapping_add_signed(distance)),
                            // BR (Arm ARM, C6.2).
                            jumps: word & 0xffff_fc1f == 0xd61f_0000,
                        }
                    }
                    Err(_) => Instruction::unknown(bytes),
                }
            }
        }
    }
}

/// The distance from an instruction to the address that it reads or computes relative to itself
/// (Arm ARM, C4.1).
fn aarch64_uses(word: u32) -> Option<i64> {
    // Bits 5 to 23, sign-extended.
    let high = i64::from((word << 8).cast_signed() >> 13);
    // LDR (literal) of any register: the bits count words.
    if word & 0x3b00_0000 == 0x1800_0000 {
        return Some(high * 4);
    }
    // ADR: the two lowest bits are bits 29 and 30.
    let is_adr = word & 0x9f00_0000 == 0x1000_0000;
    is_adr.then(|| high * 4 + i64::from(word >> 29 & 3))
}

/// The text of an instruction with the address of its target, and with the extension for which the
/// disassembler writes nothing, or `lsl`.
fn aarch64_text(word: u32, instruction: &str, address: u64) -> String {
    // ADRP (Arm ARM, C6.2) counts from the page of the instruction.
    let is_adrp = word & 0x9f00_0000 == 0x9000_0000;
    let from = if is_adrp { address & !0xfff } else { address };
    let mut text = absolute(instruction, from);
    // ADD and SUB of 64 bits with a register of 32 bits that is extended by zeros (Arm ARM, C6.2,
    // ADD (extended register)).
    if word & 0x9fe0_e000 == 0x8b20_4000 {
        match text.split_once(", lsl ") {
            Some((operands, shift)) => text = format!("{operands}, uxtw {shift}"),
            None => text.push_str(", uxtw"),
        }
    }
    text
}

/// Replaces the target of an instruction, written as `$+0x10`, by its address.
fn absolute(instruction: &str, address: u64) -> String {
    let target = || {
        let (before, relative) = instruction.split_once('$')?;
        let (sign, hex) = relative.split_at_checked(1)?;
        let digits = hex.strip_prefix("0x")?;
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit());
        let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
        let distance = u64::from_str_radix(digits, 16).ok()?;
        let target = match sign {
            "+" => address.wrapping_add(distance),
            _ => address.wrapping_sub(distance),
        };
        Some(format!("{before}{target:#x}{rest}"))
    };
    target().unwrap_or_else(|| instruction.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_testing::campaign::share;

    #[test]
    fn targets_are_addresses() {
        assert_eq!(absolute("bl $+0x10", 0x100), "bl 0x110");
        assert_eq!(absolute("tbz w1, #3, $-0x10", 0x100), "tbz w1, #3, 0xf0");
        for same in ["ret", "add x0, x1, #0x4", "b $", "b $+", "b $+zz"] {
            assert_eq!(absolute(same, 0x100), same);
        }
    }

    #[test]
    fn pages_and_extensions_of_aarch64_are_listed() {
        let mut disassembler = Disassembler::new(Arch::Aarch64);
        for (word, text) in [
            (0x9000_0000_u32, "adrp x0, 0x1000"),
            (0xb000_0000, "adrp x0, 0x2000"),
            (0x1000_0000, "adr x0, 0x1008"),
            (0x8b24_406f, "add x15, x3, w4, uxtw"),
            (0xcb24_406f, "sub x15, x3, w4, uxtw"),
            (0x8b24_446f, "add x15, x3, w4, uxtw #1"),
            (0x8b24_c06f, "add x15, x3, w4, sxtw"),
            (0x0b04_006f, "add w15, w3, w4"),
        ] {
            let found = disassembler.next(&word.to_le_bytes(), 0x1008);
            assert_eq!(found.text, text);
        }
    }

    #[test]
    fn any_bytes_are_listed_to_their_end() {
        // A Lehmer generator: inline tables may contain any bytes.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5);
            (state >> 32) as u8
        };
        for arch in Arch::ALL {
            let mut disassembler = Disassembler::new(arch);
            for _ in 0..share(300_000, 4) {
                let bytes: [u8; 16] = std::array::from_fn(|_| random());
                for len in [1, 3, 4, 16] {
                    let Instruction {
                        len: used, text, ..
                    } = disassembler.next(&bytes[..len], 0x1000);
                    assert!(used > 0 && used <= len && !text.is_empty());
                    assert!(!text.contains('\n'), "{text}");
                }
            }
        }
    }
}
