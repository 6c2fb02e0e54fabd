//! Which registers an instruction reads and writes, see `walk/live.rs`.
//!
//! No rule relies on these sets. They may have too many registers that are read, or too few that
//! are replaced.

use super::instruction::{
    Addition, Field, Index, Instruction, Logic, Logical, Memory, Second, Selection, Wide,
};
use super::step::ZERO;
use super::vectors::{Outcome, Vectors};
use super::word::Number;
use crate::abi::SP;
use crate::walk::live::{Effects, FLAGS, Registers, Transfer, general, vector};

/// The set of one general register. Number 31 gives the empty set: the zero register holds nothing,
/// and no walk forgets the stack pointer.
fn one(register: Number) -> Registers {
    match register {
        ZERO => 0,
        _ => general(register.into()),
    }
}

/// The effects of an instruction that computes.
fn computes(to: Number, reads: Registers) -> Effects {
    Effects {
        reads,
        writes: one(to),
        replaces: one(to),
        ..Effects::default()
    }
}

fn reads(reads: Registers) -> Effects {
    Effects {
        reads,
        ..Effects::default()
    }
}

fn jumps(registers: Registers) -> Effects {
    Effects {
        transfer: Transfer::Jump,
        ..reads(registers)
    }
}

fn sets_flags(effects: Effects, sets_flags: bool) -> Effects {
    let flags = if sets_flags { FLAGS } else { 0 };
    Effects {
        replaces: effects.replaces | flags,
        ..effects
    }
}

fn second(second: Second) -> Registers {
    match second {
        Second::Constant(_) => 0,
        Second::Shifted(register, ..) | Second::Extended(register, ..) => one(register),
    }
}

/// Longer than a screen: one arm for each kind of instruction.
pub(super) fn effects(instruction: Instruction) -> Effects {
    match instruction {
        Instruction::Nothing => Effects::default(),
        Instruction::Trap | Instruction::Jump(_) => jumps(0),
        Instruction::Add(Addition {
            sets_flags: sets,
            to,
            first,
            second: right,
            ..
        }) => sets_flags(computes(to, one(first) | second(right)), sets),
        Instruction::Carry {
            sets_flags: sets,
            to,
            first,
            second,
            ..
        } => sets_flags(computes(to, one(first) | one(second) | FLAGS), sets),
        Instruction::LogicConstant {
            logic, to, first, ..
        } => sets_flags(computes(to, one(first)), logic == Logic::Test),
        Instruction::Logic(Logical {
            logic,
            to,
            first,
            second,
            ..
        }) => sets_flags(computes(to, one(first) | one(second)), logic == Logic::Test),
        Instruction::Move { wide, to, .. } => {
            computes(to, if wide == Wide::Keep { one(to) } else { 0 })
        }
        Instruction::Field {
            field, to, from, ..
        } => {
            let kept = if field == Field::Keep { one(to) } else { 0 };
            computes(to, one(from) | kept)
        }
        Instruction::Extract {
            to, first, second, ..
        }
        | Instruction::Binary {
            to, first, second, ..
        } => computes(to, one(first) | one(second)),
        Instruction::Address { to, .. } => computes(to, 0),
        Instruction::Compare {
            first,
            second: right,
            ..
        } => reads(one(first) | second(right) | FLAGS),
        Instruction::Select(Selection {
            to, first, second, ..
        }) => computes(to, one(first) | one(second) | FLAGS),
        Instruction::Product {
            to,
            first,
            second,
            add,
            ..
        }
        | Instruction::LongProduct {
            to,
            first,
            second,
            add,
            ..
        } => computes(to, one(first) | one(second) | one(add)),
        Instruction::Unary { to, from, .. } => computes(to, one(from)),
        Instruction::JumpIf { .. } => jumps(FLAGS),
        Instruction::JumpZero { register, .. }
        | Instruction::JumpBit { register, .. }
        | Instruction::JumpTo(register) => jumps(one(register)),
        Instruction::Call(target) => Effects {
            transfer: Transfer::Call(Some(target)),
            ..Effects::default()
        },
        Instruction::CallTo(register) => Effects {
            transfer: Transfer::Call(None),
            ..reads(one(register))
        },
        Instruction::Return => Effects {
            transfer: Transfer::Return,
            ..Effects::default()
        },
        Instruction::Memory(memory) => accesses(memory),
        Instruction::Literal { is_vector, to, .. } => match is_vector {
            true => fills(to, 0),
            false => computes(to, 0),
        },
        Instruction::Ordered {
            is_load: true,
            register,
            base,
            ..
        } => computes(register, one(base)),
        Instruction::Ordered { register, base, .. } => reads(one(register) | one(base)),
        Instruction::StoreExclusive {
            status,
            register,
            base,
            ..
        } => computes(status, one(register) | one(base)),
        Instruction::Atomic {
            operand, to, base, ..
        } => computes(to, one(operand) | one(base)),
        Instruction::Exchange {
            expected,
            new,
            base,
            ..
        } => computes(expected, one(expected) | one(new) | one(base)),
        Instruction::Replicate { to, base, .. } => fills(to, one(base)),
        Instruction::Vectors(vectors) => combines(vectors),
    }
}

/// The effects of an instruction that writes a whole vector register.
fn fills(to: Number, reads: Registers) -> Effects {
    Effects {
        reads,
        writes: vector(to.into()),
        replaces: vector(to.into()),
        ..Effects::default()
    }
}

fn accesses(memory: Memory) -> Effects {
    let one_of = |register: Number| match memory.is_vector {
        true => vector(register.into()),
        false => one(register),
    };
    let registers = one_of(memory.register) | memory.second.map_or(0, one_of);
    let (index, is_moved) = match memory.index {
        Index::Offset(_) => (0, false),
        Index::Before(_) | Index::After(_) => (0, true),
        Index::Register(register, ..) => (one(register), false),
    };
    let moved = if is_moved { one(memory.base) } else { 0 };
    let mut effects = reads(one(memory.base) | index);
    effects.writes = moved;
    match memory.is_load {
        true => {
            effects.writes |= registers;
            effects.replaces = registers;
        }
        false => effects.reads |= registers,
    }
    if let (false, Index::Offset(offset), None) = (memory.is_load, memory.index, memory.second)
        && usize::from(memory.base) == SP
    {
        effects.stores = Some(offset);
    }
    effects
}

fn combines(vectors: Vectors) -> Effects {
    let operands = vectors.reads.into_iter().flatten();
    let operands = operands.fold(0, |all, (register, _)| all | vector(register.into()));
    let flags = if vectors.condition.is_some() {
        FLAGS
    } else {
        0
    };
    let all = operands | flags | vectors.general.map_or(0, one);
    let effects = match vectors.result {
        Outcome::None => reads(all),
        Outcome::Whole(to) | Outcome::Least(to, _) | Outcome::Copy(to) => fills(to, all),
        Outcome::Lane(to, _) => fills(to, all | vector(to.into())),
        Outcome::General { to, .. } => computes(to, all),
    };
    sets_flags(effects, vectors.sets_flags)
}
