//! [`PatchPoint`]: a call that the compiler overwrites with the instruction of an intrinsic.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ Bytes written here run as machine code. Every change to this file wants two reviews.         │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! The code generator does not support these instructions, but it can move operands into the
//! registers of a call. So a patch point is generated as a call that preserves all registers except
//! its results (the convention `preserve_all`). The call instruction is then overwritten:
//!
//! ```text
//! x86_64   call rel32          5 bytes   66 0f 38 dc c1                       aesenc xmm0, xmm1
//!          call rel32 x 2     10 bytes   66 0f 3a 44 c1 11 │ 0f 1f 40 00     pclmulqdq, a nop
//! aarch64  bl                  4 bytes   4e284820                             aese v0.16b, v1.16b
//! ```
//!
//! An instruction of more than 5 bytes takes two consecutive calls. Both calls have their operands
//! in the same registers, and the first is declared to clobber the registers of the second. So the
//! register allocator has no reason to insert code between them. If the allocator does, the
//! function is compiled again and calls the intrinsic's wrapper function instead
//! ([`Unpatched::Apart`]).
//!
//! Three things are checked. The overwritten bytes must be the bytes of the call. The two calls of
//! a pair must be adjacent. The number of overwritten calls must equal the number in the IR, so
//! that no call is left.

use super::{Id, Intrinsic};
use cranelift_codegen::binemit::{Addend, Reloc};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::ir::{self, ExternalName, InstructionData, UserExternalName};
use cranelift_codegen::isa::CallConv;
use pirn_format::cpu::Arch;
use std::collections::HashSet;

/// One call of a patch point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PatchPoint {
    /// The instruction.
    pub(crate) intrinsic: Id,
    /// The immediate; 0 if the instruction has none.
    pub(crate) immediate: u8,
    /// Which of the patch point's calls this is.
    pub(crate) part: Part,
}

/// The position of a call among the calls of its patch point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The only call, for an instruction that is as long as a call.
    Whole,
    /// The first of two calls.
    First,
    /// The second of two calls.
    Second,
}

/// The location of a patch point's call in a function's code.
pub(crate) struct PatchedCall {
    /// The offset of the call's relocation.
    pub(crate) offset: u32,
    /// The kind of relocation.
    pub(crate) kind: Reloc,
    /// The addend of the relocation.
    pub(crate) addend: Addend,
    /// The patch point that is called.
    pub(crate) point: PatchPoint,
}

impl PatchedCall {
    /// The return address of the call: both targets relocate the call's last four bytes.
    pub(crate) fn return_address(&self) -> u32 {
        self.offset + 4
    }
}

/// The reason why a function's patch points were not patched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpatched {
    /// The two calls of a pair are not adjacent, or a placeholder was not found. The caller
    /// compiles the function again without pairs and placeholders.
    Apart,
    /// The code does not match the requested patch points.
    Fault(String),
}

/// Namespace of patch points in the names that Cranelift stores, distinct from the namespaces of
/// `symbol.rs`.
const NAMESPACE: u32 = 0x6877;
/// The call instruction of an architecture before relocation. The instruction that replaces the
/// call is padded to the length of the call.
struct Call {
    bytes: &'static [u8],
    /// The relocation of the call, and its addend.
    kind: Reloc,
    addend: Addend,
}

/// CALL (Intel SDM, volume 2): the displacement is relative to the end of the instruction.
const X86_64: Call = Call {
    bytes: &[0xe8, 0, 0, 0, 0],
    kind: Reloc::X86CallPCRel4,
    addend: -4,
};
/// BL (Arm ARM, C6.2).
const AARCH64: Call = Call {
    bytes: &[0, 0, 0, 0x94],
    kind: Reloc::Arm64Call,
    addend: 0,
};

/// Padding after an instruction of x86-64 that is shorter than its calls (Intel SDM, volume 2,
/// NOP).
const NOPS: [&[u8]; 5] = [
    &[],
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
];

impl PatchPoint {
    /// The name in Cranelift's form.
    pub(crate) fn name(self) -> UserExternalName {
        let index = u32::from(self.intrinsic.0) | u32::from(self.immediate) << 16;
        UserExternalName {
            namespace: NAMESPACE,
            index: index | (self.part as u32) << 24,
        }
    }

    /// The patch point of a name that [`PatchPoint::name`] returned.
    pub(crate) fn from_name(name: &UserExternalName) -> Option<Self> {
        (name.namespace == NAMESPACE).then(|| Self {
            intrinsic: Id(name.index as u16),
            immediate: (name.index >> 16) as u8,
            part: [Part::Whole, Part::First, Part::Second][(name.index >> 24) as usize],
        })
    }
}

impl Intrinsic {
    /// Whether a patch point of the intrinsic consists of two calls.
    pub(crate) fn is_pair(&self) -> bool {
        self.code.len() + usize::from(self.immediate.is_some()) > self.call().bytes.len()
    }

    fn call(&self) -> &'static Call {
        match self.arch {
            Arch::X86_64 => &X86_64,
            Arch::Aarch64 => &AARCH64,
        }
    }

    /// The bytes that overwrite the calls of a patch point.
    fn bytes(&self, immediate: u8) -> Vec<u8> {
        let mut bytes = self.code.to_vec();
        bytes.extend(self.immediate.map(|_| immediate));
        let whole = bytes.len().next_multiple_of(self.call().bytes.len());
        bytes.extend(NOPS[whole - bytes.len()]);
        bytes
    }
}

/// Whether a function has patch points.
pub(crate) fn has_patch_points(func: &ir::Function) -> bool {
    let mut names = func.params.user_named_funcs().values();
    names.any(|name| name.namespace == NAMESPACE)
}

/// Gives patch points the calling convention that preserves all registers except results, and marks
/// them as patchable. No code fetches results from the stack after a patchable call: a patch point
/// has at most two results, always in registers. The verifier rejects results with either setting,
/// so the verifier must run before this function.
pub(crate) fn preserve_all(func: &mut ir::Function) {
    for point in functions(func) {
        let signature = func.dfg.ext_funcs[point].signature;
        func.dfg.signatures[signature].call_conv = CallConv::PreserveAll;
        func.dfg.ext_funcs[point].patchable = true;
    }
}

/// Number of patch point calls in the blocks for which code is generated.
pub(crate) fn count(func: &ir::Function, blocks: &DominatorTree) -> usize {
    let points = functions(func);
    let blocks = blocks
        .cfg_rpo()
        .filter(|block| func.layout.is_block_inserted(**block));
    let insts = blocks.flat_map(|block| func.layout.block_insts(*block));
    let is_patch_point = |inst: &ir::Inst| match func.dfg.insts[*inst] {
        InstructionData::Call { func_ref, .. } => points.contains(&func_ref),
        _ => false,
    };
    insts.filter(is_patch_point).count()
}

/// The function references of all patch points in a function.
fn functions(func: &ir::Function) -> HashSet<ir::FuncRef> {
    let names = func.params.user_named_funcs();
    let is_patch_point = |data: &ir::ExtFuncData| match data.name {
        ExternalName::User(name) => names[name].namespace == NAMESPACE,
        _ => false,
    };
    let all = func.dfg.ext_funcs.iter();
    all.filter(|(_, data)| is_patch_point(data))
        .map(|(reference, _)| reference)
        .collect()
}

/// Overwrites the `expected` calls with their instructions.
pub(crate) fn patch(
    code: &mut [u8],
    found: &[PatchedCall],
    expected: usize,
) -> Result<(), Unpatched> {
    if found.len() != expected {
        let count = found.len();
        return fault(format!(
            "{count} calls of intrinsics were generated, not {expected}"
        ));
    }
    let mut found = found.iter();
    while let Some(first) = found.next() {
        let intrinsic = first.point.intrinsic.get();
        let at = call(code, first)?;
        let calls = match first.point.part {
            Part::Whole => 1,
            Part::First => {
                let wanted = PatchPoint {
                    part: Part::Second,
                    ..first.point
                };
                let Some(second) = found.next().filter(|second| second.point == wanted) else {
                    return fault(format!("the second call of {} is missing", intrinsic.name));
                };
                if call(code, second)? != at + intrinsic.call().bytes.len() {
                    return Err(Unpatched::Apart);
                }
                2
            }
            Part::Second => {
                return fault(format!("the first call of {} is missing", intrinsic.name));
            }
        };
        let bytes = intrinsic.bytes(first.point.immediate);
        let calls = calls * intrinsic.call().bytes.len();
        if bytes.len() != calls {
            let (name, bytes) = (intrinsic.name, bytes.len());
            return fault(format!("{name} has {bytes} bytes, its calls {calls}"));
        }
        code[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    Ok(())
}

/// The offset of a call, if the bytes are a call.
fn call(code: &[u8], found: &PatchedCall) -> Result<usize, Unpatched> {
    // The relocation covers the last four bytes.
    let call = found.point.intrinsic.get().call();
    let at = (found.offset as usize + 4).wrapping_sub(call.bytes.len());
    let is_call = found.kind == call.kind
        && found.addend == call.addend
        && at
            .checked_add(call.bytes.len())
            .and_then(|end| code.get(at..end))
            == Some(call.bytes);
    if !is_call {
        let (name, kind) = (found.point.intrinsic.get().name, found.kind);
        return fault(format!(
            "{kind:?} at {:#x} is no call of {name}",
            found.offset
        ));
    }
    Ok(at)
}

fn fault<T>(message: String) -> Result<T, Unpatched> {
    Err(Unpatched::Fault(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: [u8; 5] = [0xe8, 0, 0, 0, 0];

    fn point(name: &str, immediate: u8, part: Part) -> PatchPoint {
        let intrinsic = Id::named(name).expect("the intrinsic exists");
        PatchPoint {
            intrinsic,
            immediate,
            part,
        }
    }

    fn found(at: u32, point: PatchPoint) -> PatchedCall {
        PatchedCall {
            offset: at + 1,
            kind: Reloc::X86CallPCRel4,
            addend: -4,
            point,
        }
    }

    #[test]
    fn names_are_read_back() {
        for intrinsic in Id::all() {
            for part in [Part::Whole, Part::First, Part::Second] {
                for immediate in intrinsic.get().immediates() {
                    let point = PatchPoint {
                        intrinsic,
                        immediate,
                        part,
                    };
                    assert_eq!(PatchPoint::from_name(&point.name()), Some(point));
                }
            }
        }
    }

    #[test]
    fn every_instruction_is_as_long_as_its_calls() {
        for id in Id::all() {
            let calls = if id.get().is_pair() { 2 } else { 1 };
            for immediate in id.get().immediates() {
                let bytes = id.get().bytes(immediate);
                assert_eq!(
                    bytes.len(),
                    calls * id.get().call().bytes.len(),
                    "{}",
                    id.get().name
                );
            }
        }
    }

    #[test]
    fn what_is_written_is_the_instruction() {
        let mut code = [&[0x90][..], &CALL, &CALL, &CALL, &[0xc3]].concat();
        let aes = found(1, point("x86.aesenc", 0, Part::Whole));
        let first = found(6, point("x86.pclmulqdq", 0x11, Part::First));
        let second = found(11, point("x86.pclmulqdq", 0x11, Part::Second));
        assert_eq!(patch(&mut code, &[aes, first, second], 3), Ok(()));
        let aes = [0x66, 0x0f, 0x38, 0xdc, 0xc1];
        let product = [0x66, 0x0f, 0x3a, 0x44, 0xc1, 0x11, 0x0f, 0x1f, 0x40, 0x00];
        assert_eq!(code, [&[0x90][..], &aes, &product, &[0xc3]].concat());
    }

    #[test]
    fn an_instruction_of_aarch64_is_a_word() {
        let mut code = [0xd65f_03c0_u32, 0x9400_0000, 0xd65f_03c0]
            .map(u32::to_le_bytes)
            .concat();
        let aes = PatchedCall {
            offset: 4,
            kind: Reloc::Arm64Call,
            addend: 0,
            point: point("aarch64.aese", 0, Part::Whole),
        };
        assert_eq!(patch(&mut code, &[aes], 1), Ok(()));
        let wanted = [0xd65f_03c0_u32, 0x4e28_4820, 0xd65f_03c0].map(u32::to_le_bytes);
        assert_eq!(code, wanted.concat());
    }

    #[test]
    fn what_is_no_call_is_left_alone() {
        let whole = || point("x86.aesenc", 0, Part::Whole);
        let [first, second] =
            [Part::First, Part::Second].map(|part| point("x86.crc32_u64", 0, part));
        let refused = |code: &[u8], points: &[PatchedCall], expected| {
            let mut patched = code.to_vec();
            patch(&mut patched, points, expected).expect_err("it is wrong")
        };
        let is_fault = |why: Unpatched, part: &str| match why {
            Unpatched::Fault(message) => assert!(message.contains(part), "{message}"),
            Unpatched::Apart => panic!("calls are said to be apart"),
        };
        let two = [CALL, CALL].concat();
        // The number of calls is not the expected one.
        is_fault(
            refused(&two, &[found(0, whole())], 2),
            "1 calls of intrinsics were generated, not 2",
        );
        // The bytes are not a call, or are missing.
        for code in [
            &[0xe9, 0, 0, 0, 0][..],
            &[0xe8, 1, 0, 0, 0],
            &CALL[..4],
            &[],
        ] {
            is_fault(
                refused(code, &[found(0, whole())], 1),
                "no call of x86.aesenc",
            );
        }
        let other = PatchedCall {
            kind: Reloc::X86PCRel4,
            ..found(0, whole())
        };
        is_fault(refused(&two, &[other], 1), "X86PCRel4 at 0x1 is no call");
        let before = PatchedCall {
            offset: 0,
            ..found(0, whole())
        };
        is_fault(refused(&two, &[before], 1), "is no call");
        // Half of a pair, or halves of two pairs.
        is_fault(
            refused(&two, &[found(0, first)], 1),
            "the second call of x86.crc32_u64 is missing",
        );
        is_fault(refused(&two, &[found(0, second)], 1), "the first call");
        let wrong = point("x86.crc32_u32", 0, Part::Second);
        is_fault(
            refused(&two, &[found(0, first), found(5, wrong)], 2),
            "the second call",
        );
        // A pair where one call is long enough.
        let halves = [Part::First, Part::Second].map(|part| point("x86.aesenc", 0, part));
        is_fault(
            refused(&two, &[found(0, halves[0]), found(5, halves[1])], 2),
            "has 5 bytes, its calls 10",
        );
        // An instruction between the two calls.
        let apart = [&CALL[..], &[0x90], &CALL].concat();
        let why = refused(&apart, &[found(0, first), found(6, second)], 2);
        assert_eq!(why, Unpatched::Apart);
    }
}
