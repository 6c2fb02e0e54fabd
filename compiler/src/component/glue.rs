//! [`Glue`]: functions of the joined module between a guest and the host's adapters.
//!
//! Such a function checks that the component instance may be left (CanonicalABI, `may_leave`). Some
//! functions also allocate memory for results, or call a destructor. So the host never calls the
//! guest from within a host function, and the guest can be suspended at any of these points.

use super::part::Given;
use wasm_encoder::{BlockType, Catch, Function, Instruction, ValType};

/// A function that calls an adapter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glue {
    /// The adapter.
    pub(super) adapter: u32,
    /// The calling component instance.
    pub(super) instance: u32,
    pub(super) kind: Kind,
}

/// The task of a glue function besides the check.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// No further task.
    Check,
    /// The adapter has no result, but returns a request for memory as an `i64`, or 0. The lower
    /// half is the size, the upper half is the alignment. The function allocates, and gives the
    /// address to the adapter `allocated`, which returns the next request.
    Allocate {
        /// The number of the guard of the guest's allocator.
        realloc: usize,
        /// The adapter that takes addresses.
        allocated: u32,
    },
    /// The adapter returns as an `i64` whether the destructor is to be called, in the upper half,
    /// and its argument in the lower half.
    Drop {
        /// The destructor.
        destructor: Given,
    },
}

/// A wrapper of a function that must not leave its component instance: `realloc` or `post-return`.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// The export that becomes the guard.
    pub(super) export: String,
    /// The wrapped function.
    pub(super) callee: Given,
    /// The component instance.
    pub(super) instance: u32,
}

impl Guard {
    /// The code, for a function with this number of parameters and this result. A callee that traps
    /// leaves the flag cleared: the component instance cannot be used afterwards.
    pub(super) fn body(&self, params: u32, result: BlockType, called: &Guarded) -> Function {
        let mut body = Function::new([]);
        body.instruction(&Instruction::I32Const(0));
        body.instruction(&Instruction::GlobalSet(self.instance));
        if called.throws {
            begin_barrier(&mut body, result);
        }
        for param in 0..params {
            body.instruction(&Instruction::LocalGet(param));
        }
        body.instruction(&Instruction::Call(called.callee));
        if called.throws {
            body.instruction(&Instruction::End);
        }
        body.instruction(&Instruction::I32Const(1));
        body.instruction(&Instruction::GlobalSet(self.instance));
        if called.throws {
            body.instruction(&Instruction::Return);
            end_barrier(&mut body);
        }
        body.instruction(&Instruction::End);
        body
    }
}

/// The function that a guard calls.
pub(super) struct Guarded {
    /// The index of the function.
    pub(super) callee: u32,
    /// Whether a module of the component can throw exceptions.
    pub(super) throws: bool,
}

/// Begins a block that no exception leaves. An exception could reach a caller in another component,
/// or a caller that takes the allocation for done.
fn begin_barrier(body: &mut Function, result: BlockType) {
    body.instruction(&Instruction::Block(BlockType::Empty));
    let catch = [Catch::All { label: 0 }];
    body.instruction(&Instruction::TryTable(result, catch.as_slice().into()));
}

/// Ends the block of [`begin_barrier`]. The code after the end of the inner block must leave this
/// block.
fn end_barrier(body: &mut Function) {
    body.instruction(&Instruction::End);
    body.instruction(&Instruction::Unreachable);
}

/// The indices that a glue function uses.
pub(super) struct Called {
    /// The adapter.
    pub(super) adapter: u32,
    /// The adapter that ends a guest for leaving a component instance that may not be left.
    pub(super) cannot_leave: u32,
    /// The allocator or the destructor.
    pub(super) guest: u32,
    /// The adapter that takes addresses.
    pub(super) allocated: u32,
    /// The global of the instance's flag.
    pub(super) flag: u32,
    /// Whether a module of the component can throw exceptions.
    pub(super) throws: bool,
}

impl Glue {
    /// Whether the adapter returns an `i64` in place of its declared results.
    pub(super) fn returns_word(&self) -> bool {
        !matches!(self.kind, Kind::Check)
    }

    /// The code, for a function with this number of parameters.
    pub(super) fn body(&self, params: u32, called: &Called) -> Function {
        let mut body = Function::new([(1, ValType::I64)]);
        let word = params;
        let mut put = |instruction: Instruction<'_>| {
            body.instruction(&instruction);
        };
        put(Instruction::GlobalGet(called.flag));
        put(Instruction::I32Eqz);
        put(Instruction::If(BlockType::Empty));
        put(Instruction::Call(called.cannot_leave));
        put(Instruction::Unreachable);
        put(Instruction::End);
        for param in 0..params {
            put(Instruction::LocalGet(param));
        }
        put(Instruction::Call(called.adapter));
        match self.kind {
            Kind::Check => {}
            Kind::Allocate { .. } => {
                put(Instruction::LocalTee(word));
                put(Instruction::I64Eqz);
                put(Instruction::If(BlockType::Empty));
                put(Instruction::Return);
                put(Instruction::End);
                put(Instruction::Loop(BlockType::Empty));
                put(Instruction::I32Const(0));
                put(Instruction::I32Const(0));
                put(Instruction::LocalGet(word));
                put(Instruction::I64Const(32));
                put(Instruction::I64ShrU);
                put(Instruction::I32WrapI64);
                put(Instruction::LocalGet(word));
                put(Instruction::I32WrapI64);
                put(Instruction::Call(called.guest));
                put(Instruction::Call(called.allocated));
                put(Instruction::LocalTee(word));
                put(Instruction::I64Eqz);
                put(Instruction::I32Eqz);
                put(Instruction::BrIf(0));
                put(Instruction::End);
            }
            Kind::Drop { .. } => {
                put(Instruction::LocalTee(word));
                put(Instruction::I64Const(32));
                put(Instruction::I64ShrU);
                put(Instruction::I32WrapI64);
                put(Instruction::If(BlockType::Empty));
                if called.throws {
                    begin_barrier(&mut body, BlockType::Empty);
                }
                body.instruction(&Instruction::LocalGet(word));
                body.instruction(&Instruction::I32WrapI64);
                body.instruction(&Instruction::Call(called.guest));
                if called.throws {
                    body.instruction(&Instruction::End);
                    // Leaves the `if`, past the barrier.
                    body.instruction(&Instruction::Br(1));
                    end_barrier(&mut body);
                }
                body.instruction(&Instruction::End);
            }
        }
        body.instruction(&Instruction::End);
        body
    }
}
