//! Translates one WebAssembly function to Cranelift IR and validates it at the same time.
//!
//! One module for each kind of operator; [`operator`] dispatches to them.

mod frame;
mod inlined_calls;
mod function;
mod bounds;
mod fuel;
mod threading;
mod control;
mod inline;
mod call;
mod host_call;
mod exception;
mod global;
mod table;
mod memory;
mod few;
mod numeric;
mod wide;
mod atomic;
mod simd;
mod gc;
mod intrinsic;
mod operator;

use crate::analysis::idioms::Multiplications;
use crate::analysis::known_tables::KnownTables;
use crate::analysis::leaves::Leaves;
use crate::budget::Budget;
use crate::budget::work::{self, Work};
use crate::error::CompileError;
use crate::intrinsics::imports::{Imports, Provided};
use crate::intrinsics::placeholder::Placeholders;
use crate::ir::types::guest_signature;
use crate::options::RelaxedSimd;
use crate::parse::Body;
use crate::parse::hints::Hints;
use crate::parse::types::value_type;
use crate::passes::{Pass, Passes};
use crate::symbol::Symbol;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use function::FuncTranslator;
pub(crate) use inlined_calls::InlinedCalls;
use inlined_calls::Inlining;
pub(crate) use intrinsic::has_instruction;
use pirn_format::cpu::CpuFeatures;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::{Imported, Metadata};
use pirn_format::types::Layouts;
use wasmparser::FuncValidatorAllocations;

/// The module-wide context of the translation of a function.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    /// The module.
    pub(crate) metadata: &'a Metadata,
    /// The numbers of the module's imports.
    pub(crate) imported: Imported,
    /// The layout of the module's instance area.
    pub(crate) layout: &'a InstanceLayout,
    /// The target.
    pub(crate) isa: &'a dyn TargetIsa,
    /// The optimiser passes that run.
    pub(crate) passes: Passes,
    /// Whether addresses of checked accesses are masked against speculation past the check.
    pub(crate) spectre: bool,
    /// The results of relaxed vector operators where the spec leaves a choice.
    pub(crate) relaxed_simd: RelaxedSimd,
    /// Functions that compute a 128-bit product; calls of them are replaced by instructions.
    pub(crate) multiplications: &'a Multiplications,
    /// The functions that are inlined.
    pub(crate) leaves: &'a Leaves<'a>,
    /// Processor features that the target is guaranteed to have.
    pub(crate) cpu: CpuFeatures,
    /// The intrinsics and known functions that the module imports.
    pub(crate) intrinsics: &'a Imports,
    /// The module's tables whose elements are known.
    pub(crate) tables: &'a KnownTables,
    /// The compile-time limits shared by all functions of the module.
    pub(crate) budget: &'a Budget,
    /// The field offsets of the module's structs.
    pub(crate) structs: &'a Layouts,
    /// Whether each use of an intrinsic is a patchable call instead of a placeholder opcode. A
    /// patchable call always works.
    pub(crate) plain: bool,
    /// The fault that this compiler has.
    #[cfg(feature = "faults")]
    pub(crate) fault: Option<crate::faults::Fault>,
}

/// Buffers that one thread reuses for all its functions.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The function builder's buffers.
    pub(crate) builder: FunctionBuilderContext,
    /// The validator's buffers.
    pub(crate) validator: FuncValidatorAllocations,
}

/// The result of a translation besides the IR.
pub(crate) struct Translated {
    /// The intrinsics that placeholder opcodes stand for.
    pub(crate) placeholders: Placeholders,
    /// The calls that were replaced by the operators of their callees.
    pub(crate) inlined: InlinedCalls,
    /// Whether the function has a loop whose branches may be threaded (`threading.rs`).
    is_threaded: bool,
}

/// Validates and translates one function into `func`, which must be empty. The result has its name,
/// signature and all `FuncRef`s. External names are [`Symbol`]s, and source locations are offsets
/// in the module's bytes, or stand for operators of inlined functions.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the body is not valid, [`CompileError::FunctionLimit`] if the
/// function exceeds a limit, [`CompileError::Work`] if the module exceeds its limit of work, with
/// this function or others.
pub(crate) fn translate(
    env: Env<'_>,
    body: Body<'_>,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) -> Result<Translated, CompileError> {
    let again = body.again();
    let range = body.body.range();
    let cost_max = threading::cost_max(range.end - range.start);
    let threads = env.passes.has(Pass::ThreadJumps);
    let attempted = attempt(env, body, threads, scratch, func);
    let is_too_costly = match &attempted {
        Ok((translated, cost)) => translated.is_threaded && *cost > cost_max,
        Err(error) => threads && !matches!(error, CompileError::Invalid { .. }),
    };
    let (translated, cost) = match is_too_costly {
        // Without jump threading, the function may be within the limits.
        true => {
            *scratch = Scratch::default();
            *func = ir::Function::new();
            attempt(env, again, false, scratch, func)?
        }
        false => attempted?,
    };
    env.budget.draw(cost)?;
    Ok(translated)
}

/// Validates and translates one function, with jump threading or without, and computes its cost in
/// units of the [`Budget`].
fn attempt(
    env: Env<'_>,
    body: Body<'_>,
    threads: bool,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) -> Result<(Translated, u64), CompileError> {
    let ty = env.metadata.funcs[body.index as usize];
    let symbol = Symbol::Func(body.index);
    func.name = UserFuncName::User(symbol.name());
    func.signature = guest_signature(env.metadata.func_type(ty));
    // A fresh pool, because the limit is checked against the pool's size.
    func.dfg.value_lists = ir::ValueListPool::new();
    let work = Work {
        symbol,
        metadata: env.metadata,
        budget: env.budget,
    };
    // A module that is over its limit of work is not compiled further.
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
    // Checks at the entry report the location of the first operator.
    let start = operators.original_position();
    let range = body.body.range();
    let (bytes, mut pairs) = (range.end - range.start, 0);
    t.target_params = threads.then(|| threading::target_params(bytes));
    t.inlining = Inlining::new(start as u32, bytes);
    t.locate(start as u32);
    t.enter_memory();
    t.enter_fuel();
    t.enter_function(ty);
    while !operators.eof() {
        let (op, offset) = operators.read_with_offset()?;
        validator.op(offset, &op)?;
        t.locate(offset as u32);
        for carried in t.carried_at_end(&op) {
            work.check_loop(&mut pairs, carried)?;
        }
        if let Some((ways, values)) = t.ends_try(&op) {
            work.check_try(&mut pairs, ways, t.locals.len())?;
            work.check_clauses(t.builder.func, values)?;
        }
        t.operator(&op)?;
        work.check_size(t.builder.func, bytes + t.inlining.bytes)?;
    }
    operators.finish()?;
    t.leave_memory();
    let translated = Translated {
        placeholders: std::mem::take(&mut t.placeholders),
        inlined: std::mem::take(&mut t.inlining.calls),
        is_threaded: t.is_threaded,
    };
    t.finish();
    scratch.validator = validator.into_allocations();
    let cost = work::cost(func, pairs, env.budget);
    Ok((translated, cost))
}

/// Builds the wrapper function of an intrinsic or a known function in `func`, which must be empty.
/// If nothing refers to the wrapper, the wrapper does not contain the instruction.
pub(crate) fn wrapper(
    env: Env<'_>,
    index: u32,
    provided: Option<Provided>,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) {
    let ty = env.metadata.funcs[index as usize];
    func.name = UserFuncName::User(Symbol::Func(index).name());
    func.signature = guest_signature(env.metadata.func_type(ty));
    let builder = FunctionBuilder::new(func, &mut scratch.builder);
    let mut t = FuncTranslator::new(env, builder, ty);
    match provided {
        Some(Provided::Intrinsic(id)) => t.intrinsic_body(id),
        Some(Provided::Known(known)) => t.known_body(known),
        None => t.never(),
    }
    t.finish();
}
