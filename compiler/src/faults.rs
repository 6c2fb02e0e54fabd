//! Faults of a compiler, for tests of the verifier: each breaks one property of the sandbox.
//!
//! This file is compiled only with the feature `faults`. Only the package `verify/faults` has the
//! feature: it compiles the sources of this crate once more.
//!
//! Most faults are in the translator, next to the code that they break. [`break_code`] changes the
//! machine code of a function, as a fault of the code generator would.

use crate::code::CompiledFunction;
use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use pirn_format::exit::TrapCode;

/// A fault of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An index into a table is not compared with the number of elements.
    TableCheckDropped,
    /// An index into a table may be the number of elements.
    TableCheckOffByOne,
    /// An index into a dispatch table is not replaced if it is out of bounds.
    DispatchIndexUnchecked,
    /// A 32-bit index is sign-extended.
    IndexSignExtended,
    /// An access with an offset past the guard has no check.
    OffsetPastGuard,
    /// The upper half of an index into a 64-bit memory is neither checked nor cleared.
    UpperHalfUnchecked,
    /// An indirect call does not compare the callee's type.
    CalleeTypeUnchecked,
    /// The callee of an indirect call gets the caller's context.
    CalleeContext,
    /// An import gets the caller's context.
    ImportContext,
    /// The first integer argument of an indirect call is in a vector register.
    ArgumentClass,
    /// A read of an immutable global also writes another value to it.
    ImmutableGlobalWritten,
    /// A wrong number of elements is written to a table's descriptor.
    DescriptorWritten,
    /// The remaining fuel is written to the field after the one for fuel.
    FuelElsewhere,
    /// Functions with large frames do not probe the stack.
    StackProbeDropped,
    /// The index of a jump table is not limited.
    JumpIndexUnchecked,
    /// Values are reloaded from a place in the caller's frame.
    ReloadBeyondFrame,
    /// A function does not restore one callee-saved register before it returns.
    RegisterNotRestored,
    /// Accesses to a memory have no entry in the trap table.
    TrapEntryMissing,
    /// Entries of the trap table name the byte after the start of the instruction.
    TrapEntryMoved,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 19] = [
        Self::TableCheckDropped,
        Self::TableCheckOffByOne,
        Self::DispatchIndexUnchecked,
        Self::IndexSignExtended,
        Self::OffsetPastGuard,
        Self::UpperHalfUnchecked,
        Self::CalleeTypeUnchecked,
        Self::CalleeContext,
        Self::ImportContext,
        Self::ArgumentClass,
        Self::ImmutableGlobalWritten,
        Self::DescriptorWritten,
        Self::FuelElsewhere,
        Self::StackProbeDropped,
        Self::JumpIndexUnchecked,
        Self::ReloadBeyondFrame,
        Self::RegisterNotRestored,
        Self::TrapEntryMissing,
        Self::TrapEntryMoved,
    ];
}

/// Breaks the machine code of a function for x86_64.
pub(crate) fn break_code(fault: Option<Fault>, function: &mut CompiledFunction) {
    let is_memory = |trap: &(u32, u32)| trap.1 == TrapCode::MemoryOutOfBounds as u32;
    match fault {
        Some(Fault::TrapEntryMissing) => function.traps.retain(|trap| !is_memory(trap)),
        Some(Fault::TrapEntryMoved) => {
            for trap in function.traps.iter_mut().filter(|trap| is_memory(trap)) {
                trap.0 += 1;
            }
        }
        Some(Fault::JumpIndexUnchecked) => unlimit_jump_tables(function),
        Some(Fault::ReloadBeyondFrame) => move_reloads(function),
        Some(Fault::RegisterNotRestored) => keep_register(function),
        _ => {}
    }
}

/// The instructions of a function with their offsets. Stops at the constants after the code.
fn instructions(code: &[u8]) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
        .collect()
}

/// Replaces the conditional move that limits the index of each jump table by a move. The other
/// operand of the move is the unlimited index or the limit, so both directions are tried.
fn unlimit_jump_tables(function: &mut CompiledFunction) {
    const DISTANCE_MAX: usize = 8;
    let instructions = instructions(&function.code);
    for (at, jump) in instructions.iter().enumerate() {
        let is_table = jump.flow_control() == FlowControl::IndirectBranch
            && jump.op0_kind() == OpKind::Register;
        let before = &instructions[at.saturating_sub(DISTANCE_MAX)..at];
        let limit = before.iter().rev().find(|i| is_conditional_move(i));
        let Some(limit) = limit.filter(|_| is_table) else {
            continue;
        };
        let start = limit.ip() as usize;
        let bytes = &mut function.code[start..start + limit.len()];
        // REX 0F 4x ModRM becomes REX 8B ModRM NOP, or NOP: whichever keeps the index.
        match limit.condition_code() {
            ConditionCode::b => {
                let last = bytes.len() - 1;
                let operands = bytes[last];
                bytes[last - 2..].copy_from_slice(&[0x8b, operands, 0x90]);
            }
            _ => bytes.fill(0x90),
        }
    }
}

fn is_conditional_move(instruction: &Instruction) -> bool {
    // A conditional jump and `setcc` have one operand.
    instruction.condition_code() != ConditionCode::None
        && instruction.op_count() == 2
        && instruction.op1_kind() == OpKind::Register
}

/// Reloads from the frame read the caller's frame.
fn move_reloads(function: &mut CompiledFunction) {
    let distance = function.frame_bytes + 0x40;
    for reload in instructions(&function.code) {
        let offset = reload.memory_displacement64();
        let is_reload = reload.mnemonic() == Mnemonic::Mov
            && reload.op0_kind() == OpKind::Register
            && reload.op1_kind() == OpKind::Memory
            && reload.memory_base() == Register::RSP
            && reload.memory_index() == Register::None
            && offset < u64::from(function.frame_bytes);
        let moved = offset.wrapping_add(u64::from(distance));
        let end = reload.ip() as usize + reload.len();
        match reload.memory_displ_size() {
            1 if is_reload && moved < 0x80 => function.code[end - 1] = moved as u8,
            4 if is_reload => {
                function.code[end - 4..end].copy_from_slice(&(moved as u32).to_le_bytes());
            }
            _ => {}
        }
    }
}

/// Before the first return, the last load of a callee-saved register from the frame becomes NOPs.
fn keep_register(function: &mut CompiledFunction) {
    // A return follows `add rsp`, `mov rsp, rbp` and `pop rbp`.
    const DISTANCE_MAX: usize = 4;
    let saved = [
        Register::RBX,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    let instructions = instructions(&function.code);
    let Some(end) = instructions
        .iter()
        .position(|instruction| instruction.flow_control() == FlowControl::Return)
    else {
        return;
    };
    let restored = instructions[end.saturating_sub(DISTANCE_MAX)..end]
        .iter()
        .rfind(|instruction| {
            instruction.op1_kind() == OpKind::Memory
                && instruction.memory_base() == Register::RSP
                && saved.contains(&instruction.op0_register())
        });
    if let Some(restored) = restored {
        let start = restored.ip() as usize;
        function.code[start..start + restored.len()].fill(0x90);
    }
}
