//! [`Carrier`]: an operation of the code generator that carries an intrinsic through it.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ What is written here runs as machine code. Every change to it wants two reviews.             │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! A site ties operands to fixed registers, and that costs moves: much where many blocks are encrypted
//! side by side. Some instructions differ from one that the code generator does have in their opcode alone:
//! the same prefixes, the same operands, in memory too, and as pure. So that operation is generated,
//! optimised and given registers, and then the opcode is changed:
//!
//! ```text
//! 66 (rex) 0f 38 0b modrm ...    pmulhrsw  ─▶  66 (rex) 0f 38 dc modrm ...    aesenc
//! c4 xx xx 0b modrm ...         vpmulhrsw  ─▶  c4 xx xx dc modrm ...         vaesenc
//! ```
//!
//! The optimiser may merge, move, copy and drop it. What is left of it is found by the source location, which no
//! other operator has. An operation carries one intrinsic only, because the optimiser would take two for the same; for
//! that reason, too, a function that has one of its own beside ([`are_apart`]) is compiled with sites alone.
//! The instruction must be the only one of that opcode in its range, and as many are changed as the code
//! generator says it made: if a guest's own operators make some too, the function is compiled once more, with
//! sites alone ([`Unpatched::Apart`]).

use super::Id;
use super::site::Unpatched;
use cranelift_codegen::ir::{Function, Inst, Opcode};
use cranelift_codegen::{Final, MachSrcLoc};
use std::collections::HashMap;
use std::ops::Range;

/// An operation that guests have next to no other use for, of two vectors and one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `x86_pmulhrsw`. Some guests make it by `i16x8.q15mulr_sat_s`.
    Pmulhrsw,
    /// `x86_pmaddubsw`, whose operands are the other way round. Some guests make it by
    /// `i16x8.extadd_pairwise_i8x16_s` and `_u`.
    Pmaddubsw,
}

impl Carrier {
    const ALL: [Self; 2] = [Self::Pmulhrsw, Self::Pmaddubsw];

    /// The opcode behind 0f 38 (Intel SDM, volume 2).
    const fn opcode(self) -> u8 {
        match self {
            Self::Pmulhrsw => 0x0b,
            Self::Pmaddubsw => 0x04,
        }
    }

    /// As the code generator lists it, with or without a v before it.
    const fn mnemonic(self) -> &'static str {
        match self {
            Self::Pmulhrsw => "pmulhrsw",
            Self::Pmaddubsw => "pmaddubsw",
        }
    }
}

/// The intrinsics that operations of a function carry, by the source location of each.
pub(crate) type Carried = HashMap<u32, Id>;

/// Whether each of these operations in a function as translated carries an intrinsic, or none does. The optimiser would
/// take one that is a guest's own, as relaxed operators are, for one that carries, if their operands are the same.
pub(crate) fn are_apart(func: &Function, carried: &Carried) -> bool {
    let carries = |inst| carried.contains_key(&func.srcloc(inst).bits());
    let blocks = func.layout.blocks();
    let mut insts = blocks.flat_map(|block| func.layout.block_insts(block));
    carried.is_empty() || insts.all(|inst| !is_carrier(func, inst) || carries(inst))
}

fn is_carrier(func: &Function, inst: Inst) -> bool {
    let opcode = func.dfg.insts[inst].opcode();
    matches!(opcode, Opcode::X86Pmulhrsw | Opcode::X86Pmaddubsw)
}

/// Changes the opcodes of what is left of them; `listing` is the function's, line by line an instruction.
pub(crate) fn patch(
    code: &mut [u8],
    carried: &Carried,
    locations: &[MachSrcLoc<Final>],
    listing: &str,
) -> Result<(), Unpatched> {
    if carried.is_empty() {
        return Ok(());
    }
    let mut found = [0; Carrier::ALL.len()];
    for location in locations {
        let Some((carrier, opcode)) = carried
            .get(&location.loc.bits())
            .and_then(|id| id.get().carrier)
        else {
            continue;
        };
        let range = location.start as usize..location.end as usize;
        let at = only(code, range, carrier).ok_or(Unpatched::Apart)?;
        code[at] = opcode;
        found[carrier as usize] += 1;
    }
    let all = Carrier::ALL.into_iter().zip(found);
    let made = |carrier: Carrier| listing.matches(carrier.mnemonic()).count();
    match all
        .into_iter()
        .all(|(carrier, found)| made(carrier) == found)
    {
        true => Ok(()),
        false => Err(Unpatched::Apart),
    }
}

/// Where the opcode of the only such instruction is.
fn only(code: &[u8], range: Range<usize>, carrier: Carrier) -> Option<usize> {
    let mut places = range.clone().filter(|at| {
        let before = code.get(range.start..*at).unwrap_or_default();
        code.get(*at) == Some(&carrier.opcode()) && is_prefix(before)
    });
    let at = places.next()?;
    places.next().is_none().then_some(at)
}

/// Whether bytes end with what comes before the opcode: 66, perhaps REX, 0f 38; or VEX of that map and
/// prefix, for 128 bits.
fn is_prefix(bytes: &[u8]) -> bool {
    match bytes {
        [.., 0x66, 0x0f, 0x38] | [.., 0x66, 0x40..=0x4f, 0x0f, 0x38] => true,
        [.., 0xc4, map, rest] => map & 0x1f == 0x02 && rest & 0x07 == 0x01,
        _ => false,
    }
}
