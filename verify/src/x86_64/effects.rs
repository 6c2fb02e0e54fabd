//! Which registers an instruction reads and writes, see `walk/live.rs`.
//!
//! No rule relies on these sets. They may have too many registers that are read, or too few that
//! are replaced.

use super::{list, registers};
use crate::abi::{RAX, RBX, RCX, RDX, RSP};
use crate::walk::live::{Effects, FLAGS, Registers, Transfer, general, vector};
use iced_x86::{Code, EncodingKind, Instruction, Mnemonic, OpKind, Register};
use std::sync::LazyLock;

/// Registers that some instructions use without an operand that names them.
const IMPLICIT: Registers = general(RAX) | general(RBX) | general(RCX) | general(RDX);

/// The effects of all instructions with one code of the decoder.
#[derive(Clone, Copy)]
struct Shape {
    /// Whether the instruction only reads its first operand.
    only_reads: bool,
    /// Whether the instruction may write all of its operands.
    writes_all: bool,
    /// Whether the instruction writes its first operand, and does not read this operand.
    replaces: bool,
    /// Whether the result does not depend on the operands if both are the same register.
    clears: bool,
    /// Registers and flags that the instruction reads, writes and replaces without naming them.
    reads: Registers,
    writes: Registers,
    replaced: Registers,
    transfer: Transfer,
}

/// The shapes of all codes, by their numbers.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| Code::values().map(Shape::of).collect());

impl Shape {
    fn of(code: Code) -> Self {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let mnemonic = code.mnemonic();
        let flags = |is_used: bool| if is_used { FLAGS } else { 0 };
        let is_implicit =
            is_implicit(mnemonic) || (mnemonic == Mnemonic::Imul && instruction.op_count() == 1);
        let (read, written) = match mnemonic {
            _ if is_implicit => (IMPLICIT, general(RAX) | general(RDX)),
            Mnemonic::Push | Mnemonic::Pop => (general(RSP), 0),
            _ => (0, 0),
        };
        let transfer = match mnemonic {
            Mnemonic::Call => Transfer::Call(None),
            Mnemonic::Ret => Transfer::Return,
            Mnemonic::Jmp | Mnemonic::Ud2 => Transfer::Jump,
            _ if list::is_jcc(mnemonic) => Transfer::Jump,
            _ => Transfer::None,
        };
        Self {
            only_reads: only_reads(mnemonic),
            writes_all: matches!(mnemonic, Mnemonic::Mulx | Mnemonic::Xadd | Mnemonic::Xchg),
            replaces: replaces(&instruction),
            clears: matches!(
                mnemonic,
                Mnemonic::Xor | Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd
            ),
            reads: read | flags(instruction.rflags_read() != 0),
            writes: written,
            replaced: flags(sets_flags(mnemonic)),
            transfer,
        }
    }
}

pub(super) fn effects(instruction: &Instruction) -> Effects {
    let shape = &SHAPES[instruction.code() as usize];
    let mut effects = Effects {
        reads: shape.reads,
        writes: shape.writes,
        replaces: shape.replaced,
        stores: None,
        transfer: shape.transfer,
    };
    for operand in 0..instruction.op_count() {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                let registers = set(register);
                if !shape.only_reads && (operand == 0 || shape.writes_all) {
                    effects.writes |= registers;
                }
                match operand == 0 && shape.replaces && is_whole(register) {
                    true => effects.replaces |= registers,
                    false => effects.reads |= registers,
                }
            }
            OpKind::Memory => {
                let (base, index) = (instruction.memory_base(), instruction.memory_index());
                effects.reads |= set(base) | set(index);
                let is_frame = base == Register::RSP && index == Register::None;
                if operand == 0 && is_frame && !shape.only_reads {
                    effects.stores = Some(instruction.memory_displacement64().cast_signed());
                }
            }
            OpKind::NearBranch64 if shape.transfer == Transfer::Call(None) => {
                let target = instruction.near_branch_target() as u32;
                effects.transfer = Transfer::Call(Some(target));
            }
            _ => {}
        }
    }
    let register = instruction.op0_register();
    if shape.clears && register == instruction.op1_register() && is_whole(register) {
        effects.replaces |= set(register);
        effects.reads = 0;
    }
    effects
}

fn set(register: Register) -> Registers {
    if register == Register::None {
        return 0;
    }
    if register.is_gpr() {
        return general(registers::general(register).0);
    }
    match register.is_vector_register() {
        true => vector(register.number()),
        false => 0,
    }
}

/// Whether a write to this register replaces the whole register.
fn is_whole(register: Register) -> bool {
    !register.is_gpr() || registers::general(register).1 >= 4
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

/// Whether an instruction replaces all flags.
fn sets_flags(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Add
            | Mnemonic::And
            | Mnemonic::Cmp
            | Mnemonic::Neg
            | Mnemonic::Or
            | Mnemonic::Sub
            | Mnemonic::Test
            | Mnemonic::Xor
    )
}

/// Whether an instruction uses registers that no operand names.
fn is_implicit(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Cbw
            | Mnemonic::Cdq
            | Mnemonic::Cdqe
            | Mnemonic::Cmpxchg
            | Mnemonic::Cmpxchg16b
            | Mnemonic::Cqo
            | Mnemonic::Cwd
            | Mnemonic::Cwde
            | Mnemonic::Div
            | Mnemonic::Idiv
            | Mnemonic::Mul
            | Mnemonic::Mulx
    )
}

/// Whether an instruction writes its first operand, and does not read this operand.
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
        || (instruction.encoding() != EncodingKind::Legacy
            && !only_reads(mnemonic)
            && !is_fused(mnemonic))
}

/// Whether an instruction adds to its first operand, though it has a VEX prefix.
fn is_fused(mnemonic: Mnemonic) -> bool {
    let fused = Mnemonic::Vfmadd132pd as usize..=Mnemonic::Vfnmsubss as usize;
    fused.contains(&(mnemonic as usize))
}
