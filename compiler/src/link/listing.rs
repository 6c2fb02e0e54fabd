//! The listing of `--emit asm`: the machine code as it is linked, each instruction with the offset of the
//! WebAssembly instruction that it was made of.
//!
//! ```text
//! ;; 3 (work): 000191..000211                              index, name, body in the .wasm file
//!      180: push %rbp                                      offset in .text
//!      1df: call 0x2c0             ;; @0001ad -> 4 (square)
//!                                      offset in the .wasm file, six digits as wasm-objdump has it
//! ```

use super::text::Text;
use crate::compile::{Piece, describe};
use iced_x86::{DecoderOptions, Formatter as _, GasFormatter};
use pirn_format::cpu::Arch;
use pirn_format::metadata::Metadata;
use std::fmt::Write as _;
use std::ops::Range;
use yaxpeax_arch::{Decoder as _, U8Reader};

/// Where comments begin, if the instruction is not longer.
const COMMENT_COLUMN: usize = 56;
/// Bytes of a line of data.
const DATA_BYTES: usize = 8;

/// The listing of all pieces, in the order in which they lie in the text.
pub(crate) fn write(pieces: &[Piece], text: &Text, metadata: &Metadata, arch: Arch) -> String {
    let mut out = String::new();
    let mut disassembler = Disassembler::new(arch);
    for (piece, entry) in pieces.iter().zip(&text.entries) {
        let what = describe(piece.callee, metadata);
        let body = &piece.body;
        // Writing to a string cannot fail.
        let _ = match body.is_empty() {
            true => writeln!(out, ";; {what}"),
            false => writeln!(out, ";; {what}: {:06x}..{:06x}", body.start, body.end),
        };
        for (bytes, content) in spans(piece) {
            let mut at = bytes.start;
            while at < bytes.end {
                let place = (entry.start + at) as usize;
                let rest = &text.bytes[place..(entry.start + bytes.end) as usize];
                let (len, instruction) = match content {
                    Content::Data => data(rest),
                    Content::Code(_) => disassembler.next(rest, place as u64),
                };
                let line = format!("{place:8x}: {instruction}");
                let comment = comment(piece, metadata, at..at + len as u32, content);
                let _ = match comment.is_empty() {
                    true => writeln!(out, "{line}"),
                    false => writeln!(out, "{line:COMMENT_COLUMN$} ;;{comment}"),
                };
                at += len as u32;
            }
        }
        out.push('\n');
    }
    out
}

/// What is known of an instruction.
fn comment(piece: &Piece, metadata: &Metadata, at: Range<u32>, content: Content) -> String {
    let mut comment = String::new();
    if let Content::Code(Some(wasm)) = content {
        let _ = write!(comment, " @{wasm:06x}");
    }
    let first = piece
        .relocs
        .partition_point(|reloc| reloc.offset < at.start);
    for reloc in &piece.relocs[first..] {
        if !at.contains(&reloc.offset) {
            break;
        }
        let _ = write!(comment, " -> {}", describe(reloc.target, metadata));
    }
    comment
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Instructions, of the one at this offset in the WebAssembly file, if that is known.
    Code(Option<u32>),
    /// Constants.
    Data,
}

/// A piece from its start to its end: what is of which WebAssembly instruction, what lies between, and
/// the constants that lie behind the last.
fn spans(piece: &Piece) -> Vec<(Range<u32>, Content)> {
    let mut spans = vec![];
    let mut end = 0;
    for location in &piece.locations {
        let start = location.start.max(end);
        spans.push((end..start, Content::Code(None)));
        end = location.end.max(start);
        spans.push((start..end, Content::Code(Some(location.wasm))));
    }
    // A trampoline has no WebAssembly instructions, and no constants.
    let rest = match piece.locations.is_empty() {
        true => Content::Code(None),
        false => Content::Data,
    };
    spans.push((end..piece.code.len() as u32, rest));
    spans
}

/// One line of data.
fn data(bytes: &[u8]) -> (usize, String) {
    let bytes = &bytes[..bytes.len().min(DATA_BYTES)];
    let list: Vec<_> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    (bytes.len(), format!(".byte {}", list.join(",")))
}

/// Reads instructions of one architecture.
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

    /// Length and text of the instruction that these bytes, of which there is at least one, start with;
    /// of what is none, as a table of branches between instructions, its first bytes.
    fn next(&mut self, bytes: &[u8], address: u64) -> (usize, String) {
        match self {
            Self::X86_64(formatter) => {
                let options = DecoderOptions::NONE;
                let instruction = iced_x86::Decoder::with_ip(64, bytes, address, options).decode();
                if instruction.is_invalid() {
                    return data(&bytes[..1]);
                }
                let mut text = String::new();
                formatter.format(&instruction, &mut text);
                (instruction.len(), text)
            }
            Self::Aarch64(decoder) => {
                let Some(word) = bytes.get(..4) else {
                    return data(bytes);
                };
                match decoder.decode(&mut U8Reader::new(word)) {
                    Ok(instruction) => (4, absolute(&instruction.to_string(), address)),
                    Err(_) => data(word),
                }
            }
        }
    }
}

/// An instruction whose target, written as `$+0x10`, is written as its address.
fn absolute(instruction: &str, address: u64) -> String {
    let target = || {
        let (before, relative) = instruction.split_once('$')?;
        let (sign, hex) = relative.split_at_checked(1)?;
        let digits = hex.strip_prefix("0x")?;
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit());
        let (digits, behind) = digits.split_at(end.unwrap_or(digits.len()));
        let distance = u64::from_str_radix(digits, 16).ok()?;
        let target = match sign {
            "+" => address.wrapping_add(distance),
            _ => address.wrapping_sub(distance),
        };
        Some(format!("{before}{target:#x}{behind}"))
    };
    target().unwrap_or_else(|| instruction.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses() {
        assert_eq!(absolute("bl $+0x10", 0x100), "bl 0x110");
        assert_eq!(absolute("tbz w1, #3, $-0x10", 0x100), "tbz w1, #3, 0xf0");
        for same in ["ret", "add x0, x1, #0x4", "b $", "b $+", "b $+zz"] {
            assert_eq!(absolute(same, 0x100), same);
        }
    }

    #[test]
    fn any_bytes_are_listed_to_their_end() {
        // A generator of Lehmer's: tables between instructions hold whatever they hold.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5);
            (state >> 32) as u8
        };
        for arch in Arch::ALL {
            let mut disassembler = Disassembler::new(arch);
            for _ in 0..300_000 {
                let bytes: [u8; 16] = std::array::from_fn(|_| random());
                for len in [1, 3, 4, 16] {
                    let (used, text) = disassembler.next(&bytes[..len], 0x1000);
                    assert!(used > 0 && used <= len && !text.is_empty());
                    assert!(!text.contains('\n'), "{text}");
                }
            }
        }
    }
}
