//! Translation of one WebAssembly function to Cranelift IR, validating as it goes.
//!
//! One room for each kind of operator; [`operator`] sends each to its room.

mod atomic;
mod bounds;
mod call;
mod control;
mod exception;
mod few;
mod fuel;
mod function;
mod gc;
mod global;
mod hw;
mod memory;
mod numeric;
mod operator;
mod simd;
mod table;
mod wide;

use crate::budget::Budget;
use crate::error::CompileError;
use crate::hw::Id;
use crate::hw::carrier::Carried;
use crate::hw::imports::Imports;
use crate::idiom::Multiplications;
use crate::names::Callee;
use crate::options::RelaxedSimd;
use crate::parse::hints::Hints;
use crate::parse::{Body, value_type};
use crate::tables::KnownTables;
use crate::types::guest_signature;
use crate::work::{self, Work};
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use function::FuncTranslator;
pub(crate) use hw::has_instruction;
use pirn_format::cpu::CpuFeatures;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::{Imported, Metadata};
use pirn_format::types::Layouts;
use wasmparser::FuncValidatorAllocations;

/// What every function of a module is translated against.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    /// The module.
    pub(crate) metadata: &'a Metadata,
    /// How much of it is imported.
    pub(crate) imported: Imported,
    /// Where its instance area's parts lie.
    pub(crate) layout: &'a InstanceLayout,
    /// The target.
    pub(crate) isa: &'a dyn TargetIsa,
    /// Whether addresses of checked accesses are masked against speculation past the check.
    pub(crate) spectre: bool,
    /// What relaxed operators on vectors give where they may choose.
    pub(crate) relaxed_simd: RelaxedSimd,
    /// Functions that multiply, whose calls need not be calls.
    pub(crate) multiplications: &'a Multiplications,
    /// What the processor is promised to have.
    pub(crate) cpu: CpuFeatures,
    /// The intrinsics that the module imports.
    pub(crate) intrinsics: &'a Imports,
    /// What is known of its tables.
    pub(crate) tables: &'a KnownTables,
    /// What all its functions may cost.
    pub(crate) budget: &'a Budget,
    /// Where the fields of its structs lie.
    pub(crate) structs: &'a Layouts,
    /// Whether intrinsics are only sites of one call each, which always works.
    pub(crate) plain: bool,
}

/// Buffers that are reused from function to function on one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The builder's.
    pub(crate) builder: FunctionBuilderContext,
    /// The validator's.
    pub(crate) validator: FuncValidatorAllocations,
}

/// Validates and translates one function into `func`, which is empty. The result's name, signature
/// and every `FuncRef` are in place; external names are [`Callee`]s, source locations are offsets in
/// the module's bytes. Gives the intrinsics that operations carry.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the body is not valid, [`CompileError::FunctionLimit`] if it
/// becomes too much,
/// [`CompileError::Work`] if the module does, with this function or others.
pub(crate) fn translate(
    env: Env<'_>,
    body: Body<'_>,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) -> Result<Carried, CompileError> {
    let ty = env.metadata.funcs[body.index as usize];
    let callee = Callee::Func(body.index);
    func.name = UserFuncName::User(callee.name());
    func.signature = guest_signature(env.metadata.func_type(ty));
    // Empty, whatever was translated before: its size is checked.
    func.dfg.value_lists = ir::ValueListPool::new();
    let work = Work {
        callee,
        metadata: env.metadata,
        budget: env.budget,
    };
    // Nothing of a module that is over its limit of work is compiled.
    env.budget.check()?;
    let allocations = std::mem::take(&mut scratch.validator);
    let mut validator = body.validate.into_validator(allocations);
    let builder = FunctionBuilder::new(func, &mut scratch.builder);
    let mut t = FuncTranslator::new(env, builder, ty);
    t.hints = Hints::of(body.hints, &body.body);
    let mut locals = body.body.get_locals_reader()?;
    for _ in 0..locals.get_count() {
        let offset = locals.original_position();
        let (count, ty) = locals.read()?;
        validator.define_locals(offset, count, ty)?;
        let ty = value_type(ty, |index| env.metadata.kind(index)).map_err(|()| {
            CompileError::Invalid {
                message: "a local of that type is not supported".to_owned(),
                offset: offset as usize,
            }
        })?;
        t.declare_zero_locals(count, ty);
    }
    let mut operators = body.body.get_operators_reader()?;
    // What is checked before the first operator is checked at it.
    let start = operators.original_position();
    t.builder.set_srcloc(ir::SourceLoc::new(start as u32));
    t.enter_memory();
    t.enter_fuel();
    t.enter_function(ty);
    let range = body.body.range();
    let (bytes, mut pairs) = (range.end - range.start, 0);
    while !operators.eof() {
        let (op, offset) = operators.read_with_offset()?;
        validator.op(offset, &op)?;
        t.builder.set_srcloc(ir::SourceLoc::new(offset as u32));
        if let Some(carried) = t.ends_loop(&op) {
            work.check_loop(&mut pairs, carried)?;
        }
        if let Some((ways, values)) = t.ends_try(&op) {
            work.check_try(&mut pairs, ways, t.locals.len())?;
            work.check_clauses(t.builder.func, values)?;
        }
        t.operator(&op)?;
        work.check_size(t.builder.func, bytes)?;
    }
    operators.finish()?;
    t.leave_memory();
    let carried = std::mem::take(&mut t.carried);
    t.finish();
    scratch.validator = validator.into_allocations();
    env.budget.draw(work::cost(func, pairs, env.budget))?;
    Ok(carried)
}

/// Writes the function that an intrinsic is, with its instruction, or that nothing refers to, without one,
/// into `func`, which is empty.
pub(crate) fn intrinsic(
    env: Env<'_>,
    index: u32,
    id: Option<Id>,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) {
    let ty = env.metadata.funcs[index as usize];
    func.name = UserFuncName::User(Callee::Func(index).name());
    func.signature = guest_signature(env.metadata.func_type(ty));
    let builder = FunctionBuilder::new(func, &mut scratch.builder);
    let mut t = FuncTranslator::new(env, builder, ty);
    match id {
        Some(id) => t.intrinsic_body(id),
        None => t.never(),
    }
    t.finish();
}
