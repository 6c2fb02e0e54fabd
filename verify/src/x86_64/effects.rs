//! Which registers an instruction reads and writes, see `walk/live.rs`.
//!
//! No rule relies on this. An instruction may be said to read too much, or to replace too little.

use super::list;
use crate::abi::{RAX, RBX, RCX, RDX, RSP};
use crate::walk::live::{Effects, FLAGS, Registers, Transfer, general, vector};
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

/// Registers that some instructions use without an operand that names them.
const IMPLICIT: Registers = general(RAX) | general(RBX) | general(RCX) | general(RDX);

pub(super) fn effects(instruction: &Instruction) -> Effects {
    let mnemonic = instruction.mnemonic();
    let mut effects = Effects::default();
    if list::is_jcc(mnemonic) {
        effects.reads = FLAGS;
        effects.transfer = Transfer::Jump;
        return effects;
    }
    let count = instruction.op_count();
    for operand in 0..count {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                let registers = set(register);
                let is_written = operand == 0 || writes_all(mnemonic);
                if is_written && !only_reads(mnemonic) {
                    effects.writes |= registers;
                }
                match operand == 0 && is_whole(register) && replaces(instruction) {
                    true => effects.replaces |= registers,
                    false => effects.reads |= registers,
                }
            }
            OpKind::Memory => {
                let (base, index) = (instruction.memory_base(), instruction.memory_index());
                effects.reads |= set(base) | set(index);
                let is_frame = base == Register::RSP && index == Register::None;
                if operand == 0 && is_frame && !only_reads(mnemonic) {
                    effects.stores = Some(instruction.memory_displacement64().cast_signed());
                }
            }
            _ => {}
        }
    }
    if is_cleared(instruction) {
        effects.replaces |= set(instruction.op0_register());
        effects.reads = 0;
    }
    match mnemonic {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd | Mnemonic::Lea => {
            return effects;
        }
        Mnemonic::Add
        | Mnemonic::And
        | Mnemonic::Cmp
        | Mnemonic::Neg
        | Mnemonic::Or
        | Mnemonic::Sub
        | Mnemonic::Test
        | Mnemonic::Xor => {
            effects.replaces |= FLAGS;
            return effects;
        }
        Mnemonic::Call => {
            let is_direct = instruction.op0_kind() == OpKind::NearBranch64;
            let target = is_direct.then(|| instruction.near_branch_target() as u32);
            effects.transfer = Transfer::Call(target);
        }
        Mnemonic::Jmp | Mnemonic::Ud2 => effects.transfer = Transfer::Jump,
        Mnemonic::Ret => effects.transfer = Transfer::Return,
        Mnemonic::Push | Mnemonic::Pop => effects.reads |= general(RSP),
        Mnemonic::Cbw
        | Mnemonic::Cdq
        | Mnemonic::Cdqe
        | Mnemonic::Cqo
        | Mnemonic::Cwd
        | Mnemonic::Cwde
        | Mnemonic::Div
        | Mnemonic::Idiv
        | Mnemonic::Mul
        | Mnemonic::Mulx
        | Mnemonic::Cmpxchg
        | Mnemonic::Cmpxchg16b
        | Mnemonic::Imul => {
            if mnemonic != Mnemonic::Imul || count == 1 {
                effects.reads |= IMPLICIT;
                effects.writes |= general(RAX) | general(RDX);
            }
        }
        _ => {}
    }
    if instruction.rflags_read() != 0 {
        effects.reads |= FLAGS;
    }
    effects
}

fn set(register: Register) -> Registers {
    if register.is_gpr() {
        return general(register.full_register().number());
    }
    match register.is_vector_register() {
        true => vector(register.number()),
        false => 0,
    }
}

/// Whether nothing is left of a register that is written.
fn is_whole(register: Register) -> bool {
    !register.is_gpr() || register.size() >= 4
}

/// Whether an instruction only reads its first operand.
fn only_reads(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Bt
            | Mnemonic::Call
            | Mnemonic::Cmp
            | Mnemonic::Comisd
            | Mnemonic::Comiss
            | Mnemonic::Jmp
            | Mnemonic::Ptest
            | Mnemonic::Push
            | Mnemonic::Test
            | Mnemonic::Ucomisd
            | Mnemonic::Ucomiss
            | Mnemonic::Vptest
            | Mnemonic::Vucomisd
            | Mnemonic::Vucomiss
    )
}

/// Whether an instruction may write all of its operands.
fn writes_all(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Mulx | Mnemonic::Xadd | Mnemonic::Xchg)
}

/// Whether an instruction writes its first operand, and does not read it.
fn replaces(instruction: &Instruction) -> bool {
    let mnemonic = instruction.mnemonic();
    matches!(
        mnemonic,
        Mnemonic::Lea
            | Mnemonic::Lzcnt
            | Mnemonic::Mov
            | Mnemonic::Movapd
            | Mnemonic::Movaps
            | Mnemonic::Movd
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movmskpd
            | Mnemonic::Movmskps
            | Mnemonic::Movq
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Movupd
            | Mnemonic::Movups
            | Mnemonic::Movzx
            | Mnemonic::Pmovmskb
            | Mnemonic::Pop
            | Mnemonic::Popcnt
            | Mnemonic::Pshufd
            | Mnemonic::Tzcnt
    ) || (mnemonic == Mnemonic::Imul && instruction.op_count() == 3)
        || (matches!(mnemonic, Mnemonic::Movsd | Mnemonic::Movss)
            && instruction.op1_kind() == OpKind::Memory)
        || (instruction.encoding() != EncodingKind::Legacy
            && !only_reads(mnemonic)
            && !is_fused(mnemonic))
}

/// Whether an instruction adds to its first operand, though it has a VEX prefix.
fn is_fused(mnemonic: Mnemonic) -> bool {
    let fused = Mnemonic::Vfmadd132pd as usize..=Mnemonic::Vfnmsubss as usize;
    fused.contains(&(mnemonic as usize))
}

/// Whether the result does not depend on the operands, because they are one register.
fn is_cleared(instruction: &Instruction) -> bool {
    let is_pair = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    let is_known = matches!(
        instruction.mnemonic(),
        Mnemonic::Xor | Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd
    );
    is_pair && is_known && is_whole(instruction.op0_register())
}
