//! [`PlaceholderOpcode`]: a placeholder opcode that represents an intrinsic in the code generator.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ Bytes written here run as machine code. Every change to this file wants two reviews.         │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! A patch point ties operands to fixed registers, which costs moves: many where several blocks are
//! encrypted in parallel. Some instructions differ only in their opcode from an instruction that
//! the code generator supports. Prefixes and operands are equal, memory operands included, and
//! neither has side effects. So the placeholder operation is generated, optimised and
//! register-allocated, and then its opcode is replaced:
//!
//! ```text
//! 66 (rex) 0f 38 0b modrm ...    pmulhrsw  ─▶  66 (rex) 0f 38 dc modrm ...    aesenc
//! c4 xx xx 0b modrm ...         vpmulhrsw  ─▶  c4 xx xx dc modrm ...         vaesenc
//! ```
//!
//! The optimiser may merge, move, copy and delete placeholders. The remaining placeholders are
//! found by their source location, which no other operator has. A placeholder opcode represents one
//! intrinsic only, because the optimiser would merge two different intrinsics with equal operands.
//! For the same reason a function that also contains the operation for itself ([`are_apart`]) is
//! compiled with patch points only. The replaced instruction must be the only one with that opcode
//! in its code range. The number of replaced instructions must equal the number that the code
//! generator lists. If the guest's own operators generate such instructions as well, the function
//! is compiled again with patch points only ([`Unpatched::Apart`]).

use super::Id;
use super::patch_point::Unpatched;
use cranelift_codegen::ir::{Function, Inst, Opcode};
use cranelift_codegen::{Final, MachSrcLoc};
use std::collections::HashMap;
use std::ops::Range;

/// An operation on two vectors with one result that guests hardly ever use otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceholderOpcode {
    /// `x86_pmulhrsw`. Some guests generate it by `i16x8.q15mulr_sat_s`.
    Pmulhrsw,
    /// `x86_pmaddubsw`, with swapped operands. Some guests generate it by
    /// `i16x8.extadd_pairwise_i8x16_s` and `_u`.
    Pmaddubsw,
}

impl PlaceholderOpcode {
    const ALL: [Self; 2] = [Self::Pmulhrsw, Self::Pmaddubsw];

    /// The opcode after 0f 38 (Intel SDM, volume 2).
    const fn opcode(self) -> u8 {
        match self {
            Self::Pmulhrsw => 0x0b,
            Self::Pmaddubsw => 0x04,
        }
    }

    /// The mnemonic in the code generator's listing, without the optional leading v.
    const fn mnemonic(self) -> &'static str {
        match self {
            Self::Pmulhrsw => "pmulhrsw",
            Self::Pmaddubsw => "pmaddubsw",
        }
    }
}

/// The intrinsics that placeholders of a function represent, by source location.
pub(crate) type Placeholders = HashMap<u32, Id>;

/// Whether every placeholder operation of a translated function represents an intrinsic, or none
/// does. The optimiser could merge a guest's own operation, such as a relaxed operator, with a
/// placeholder that has equal operands.
pub(crate) fn are_apart(func: &Function, placeholders: &Placeholders) -> bool {
    let is_listed = |inst| placeholders.contains_key(&func.srcloc(inst).bits());
    let blocks = func.layout.blocks();
    let mut insts = blocks.flat_map(|block| func.layout.block_insts(block));
    placeholders.is_empty() || insts.all(|inst| !is_placeholder(func, inst) || is_listed(inst))
}

fn is_placeholder(func: &Function, inst: Inst) -> bool {
    let opcode = func.dfg.insts[inst].opcode();
    matches!(opcode, Opcode::X86Pmulhrsw | Opcode::X86Pmaddubsw)
}

/// Replaces the opcodes of the remaining placeholders. `listing` is the function's disassembly, one
/// instruction per line.
pub(crate) fn patch(
    code: &mut [u8],
    placeholders: &Placeholders,
    locations: &[MachSrcLoc<Final>],
    listing: &str,
) -> Result<(), Unpatched> {
    if placeholders.is_empty() {
        return Ok(());
    }
    let mut found = [0; PlaceholderOpcode::ALL.len()];
    for location in locations {
        let Some((placeholder, opcode)) = placeholders
            .get(&location.loc.bits())
            .and_then(|id| id.get().placeholder)
        else {
            continue;
        };
        let range = location.start as usize..location.end as usize;
        let at = only(code, range, placeholder).ok_or(Unpatched::Apart)?;
        code[at] = opcode;
        found[placeholder as usize] += 1;
    }
    let all = PlaceholderOpcode::ALL.into_iter().zip(found);
    let made = |placeholder: PlaceholderOpcode| listing.matches(placeholder.mnemonic()).count();
    match all
        .into_iter()
        .all(|(placeholder, found)| made(placeholder) == found)
    {
        true => Ok(()),
        false => Err(Unpatched::Apart),
    }
}

/// The offset of the opcode, if the range has exactly one such instruction.
fn only(code: &[u8], range: Range<usize>, placeholder: PlaceholderOpcode) -> Option<usize> {
    let mut places = range.clone().filter(|at| {
        let before = code.get(range.start..*at).unwrap_or_default();
        code.get(*at) == Some(&placeholder.opcode()) && is_prefix(before)
    });
    let at = places.next()?;
    places.next().is_none().then_some(at)
}

/// Whether bytes end with the encoding before the opcode: 66, optionally REX, 0f 38; or VEX with
/// that map and prefix for 128 bits.
fn is_prefix(bytes: &[u8]) -> bool {
    match bytes {
        [.., 0x66, 0x0f, 0x38] | [.., 0x66, 0x40..=0x4f, 0x0f, 0x38] => true,
        [.., 0xc4, map, rest] => map & 0x1f == 0x02 && rest & 0x07 == 0x01,
        _ => false,
    }
}
