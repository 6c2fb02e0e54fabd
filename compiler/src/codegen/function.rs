//! [`FunctionCompiler`]: compiles functions, wrappers of intrinsics and trampolines, one at a time.

use super::portable::Portable;
use super::{Outputs, machine_code};
use crate::analysis::idioms::Multiplications;
use crate::analysis::known_tables::KnownTables;
use crate::analysis::leaves::Leaves;
use crate::budget::work::{self, Work, codegen_bytes};
use crate::cache::Run;
use crate::code::CompiledFunction;
use crate::error::CompileError;
use crate::intrinsics::Id;
use crate::intrinsics::imports::{Imports, Provided};
use crate::intrinsics::patch_point::{self, Unpatched};
use crate::intrinsics::placeholder::{self, Placeholders};
use crate::optimize::{Backend, Isas, Pipeline};
use crate::parse::Body;
use crate::symbol::Symbol;
use crate::trampoline;
use crate::translate::{self, Env, Scratch, Translated};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::{Context, verify_function};
use pirn_format::text::one_line;
use std::collections::HashSet;

/// Alignment in bytes of each function longer than this: a line of the instruction cache.
/// Processors fetch and decode code by lines. So the speed of a loop should not depend on the code
/// linked before it. libsodium's program `codecs3` took 0.84 of the time, all programs 0.98 on
/// average (bench `sodium`).
const LINE_BYTES: u32 = 64;

/// Buffers that one thread reuses for all its functions.
pub(super) struct State {
    context: Context,
    scratch: Scratch,
    /// Bytes of the largest body since the buffers were made.
    largest_bytes: u64,
}

impl State {
    /// Removes the last function. Cranelift's own `clear` leaves the function's exception tables
    /// (0.135.8), which would change the next function's key in the cache.
    fn clear(&mut self) {
        self.context.clear();
        self.context.func.dfg.exception_tables.clear();
    }

    /// Makes new buffers if the next body is far smaller than an earlier one. Cranelift clears some
    /// buffers up to their capacity for each function. If functions are compiled by decreasing
    /// size, clearing takes a sixth of all instructions (zstd).
    pub(super) fn fit(&mut self, body_bytes: u64) {
        if body_bytes * 4 < self.largest_bytes {
            *self = Self::default();
        }
        self.largest_bytes = self.largest_bytes.max(body_bytes);
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            context: Context::new(),
            scratch: Scratch::default(),
            largest_bytes: 0,
        }
    }
}

/// Compiles the functions of one module.
pub(super) struct FunctionCompiler<'a> {
    pub(super) env: Env<'a>,
    pub(super) isas: Isas<'a>,
    pub(super) outputs: Outputs,
    /// The cache, if there is one.
    pub(super) run: Option<&'a Run<'a>>,
}

impl FunctionCompiler<'_> {
    /// Compiles a function that the module defines.
    pub(super) fn function(
        &self,
        body: Body<'_>,
        state: &mut State,
    ) -> Result<CompiledFunction, CompileError> {
        let symbol = Symbol::Func(body.index);
        let range = body.body.range();
        let again = (self.env.intrinsics.len() > 0).then(|| body.again());
        let mut translated = translate(self.env, body, state)?;
        let placeholders = &translated.placeholders;
        let mut function = self.known(symbol, &mut state.context, placeholders)?;
        if let (None, Some(body)) = (&function, again) {
            let env = Env {
                plain: true,
                ..self.env
            };
            translated = translate(env, body, state)?;
            function = self.finish(symbol, &mut state.context, &translated.placeholders)?;
        }
        let mut function = self.whole(symbol, function)?;
        translated.inlined.resolve(&mut function);
        // In range: the module's size is limited.
        function.body = range.start as u32..range.end as u32;
        Ok(function)
    }

    /// Compiles the wrapper functions of imported intrinsics and known functions. Every function of
    /// the module has code, so a wrapper that nothing refers to has an empty body.
    pub(super) fn wrappers(
        &self,
        functions: &[CompiledFunction],
    ) -> Result<Vec<CompiledFunction>, CompileError> {
        let relocs = functions.iter().flat_map(|function| &function.relocs);
        let called: HashSet<Symbol> = relocs.map(|reloc| reloc.target).collect();
        let address_taken = &self.env.metadata.address_taken;
        let mut state = State::default();
        let mut portable = None;
        let mut wrappers = vec![];
        for (index, provided) in self.env.intrinsics.iter() {
            let symbol = Symbol::Func(index);
            // IR output has no relocations that name the wrappers in use, so all wrappers count as
            // used.
            let is_used = self.outputs.clif
                || called.contains(&symbol)
                || address_taken.binary_search(&index).is_ok();
            match provided {
                Provided::Intrinsic(id)
                    if is_used
                        && !(id.is_promised(self.env.cpu) && translate::has_instruction(id)) =>
                {
                    let portable = match &portable {
                        Some(portable) => portable,
                        None => portable.insert(Portable::new()?),
                    };
                    self.portable(id, portable, &mut state)?;
                }
                provided => {
                    state.clear();
                    let func = &mut state.context.func;
                    let provided = is_used.then_some(provided);
                    translate::wrapper(self.env, index, provided, &mut state.scratch, func);
                }
            }
            let wrapper = self.finish(symbol, &mut state.context, &Placeholders::new())?;
            let mut wrapper = self.whole(symbol, wrapper)?;
            // A wrapper has no location in the guest's file.
            wrapper.address_map.clear();
            wrapper.locations.clear();
            wrappers.push(wrapper);
        }
        Ok(wrappers)
    }

    /// Translates the portable body of an intrinsic.
    fn portable(&self, id: Id, portable: &Portable, state: &mut State) -> Result<(), CompileError> {
        let name = id.get().name;
        let module = portable.module();
        let body = portable.body(name).ok_or_else(|| CompileError::Codegen {
            func: name.to_owned(),
            message: "it has no portable body".to_owned(),
        })?;
        let env = Env {
            metadata: &module.metadata,
            imported: module.metadata.imported(),
            layout: &module.layout,
            intrinsics: &Imports::default(),
            tables: &KnownTables::default(),
            multiplications: &Multiplications::new(),
            leaves: &Leaves::default(),
            ..self.env
        };
        translate(env, body, state).map(|_| ())
    }

    /// The function, or an error if [`Self::finish`] returned `None`.
    fn whole(
        &self,
        symbol: Symbol,
        function: Option<CompiledFunction>,
    ) -> Result<CompiledFunction, CompileError> {
        function.ok_or_else(|| CompileError::Codegen {
            func: symbol.describe(self.env.metadata),
            message: "the two calls of an intrinsic are not adjacent".to_owned(),
        })
    }

    /// Builds and compiles a trampoline.
    pub(super) fn trampoline(
        &self,
        symbol: Symbol,
        state: &mut State,
    ) -> Result<CompiledFunction, CompileError> {
        self.env.budget.check()?;
        state.clear();
        trampoline::build(
            symbol,
            self.env,
            &mut state.scratch.builder,
            &mut state.context.func,
        );
        let budget = self.env.budget;
        budget.draw(work::cost(&state.context.func, 0, budget))?;
        let function = self.finish(symbol, &mut state.context, &Placeholders::new())?;
        self.whole(symbol, function)
    }

    /// As [`Self::finish`], but takes the function from the cache if possible. Functions with
    /// intrinsics are not cached: their code depends on more than the key.
    fn known(
        &self,
        symbol: Symbol,
        context: &mut Context,
        placeholders: &Placeholders,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let has_intrinsics =
            !placeholders.is_empty() || patch_point::has_patch_points(&context.func);
        let Some(run) = self.run.filter(|_| !has_intrinsics) else {
            return self.finish(symbol, context, placeholders);
        };
        let key = run.key(&context.func);
        if let Some(function) = run.get(&key, symbol, &context.func) {
            return Ok(Some(function));
        }
        let function = self.finish(symbol, context, placeholders)?;
        if let Some(function) = &function {
            run.add(key, function, &context.func);
        }
        Ok(function)
    }

    /// Generates the machine code of the function in the context, or only its IR text if `--emit
    /// clif` asks for it. `None` if the function must be translated again without placeholder
    /// opcodes and pairs of calls.
    fn finish(
        &self,
        symbol: Symbol,
        context: &mut Context,
        placeholders: &Placeholders,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        if self.outputs.clif {
            let mut function = CompiledFunction::new(symbol);
            function.clif = context.func.display().to_string();
            return Ok(Some(function));
        }
        let _occupied = self.env.budget.occupy(codegen_bytes(&context.func));
        let backend = FunctionBackend {
            compiler: self,
            symbol,
            placeholders,
        };
        let pipeline = Pipeline {
            arch: self.env.cpu.arch(),
            passes: self.env.passes,
            isas: self.isas,
            placeholders,
            backend: &backend,
        };
        pipeline.run(context)
    }
}

/// Generates the machine code of one function.
struct FunctionBackend<'a> {
    compiler: &'a FunctionCompiler<'a>,
    symbol: Symbol,
    placeholders: &'a Placeholders,
}

impl Backend for FunctionBackend<'_> {
    fn verify(&self, func: &ir::Function, isa: &dyn TargetIsa) -> Result<(), CompileError> {
        if !cfg!(debug_assertions) {
            return Ok(());
        }
        verify_function(func, isa).map_err(|errors| self.fault(errors.to_string()))
    }

    fn fault(&self, message: String) -> CompileError {
        CompileError::Codegen {
            func: self.symbol.describe(self.compiler.env.metadata),
            message: one_line(message),
        }
    }

    fn machine_code(
        &self,
        context: &mut Context,
        isa: &dyn TargetIsa,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let env = &self.compiler.env;
        let fault = |message: String| self.fault(message);
        let work = Work {
            symbol: self.symbol,
            metadata: env.metadata,
            budget: env.budget,
        };
        work.check_live_ranges(&context.func)?;
        context.set_disasm(!self.placeholders.is_empty());
        context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| fault(error.inner.to_string()))?;
        let Some(compiled) = context.take_compiled_code() else {
            return Err(fault("no code was made".to_owned()));
        };
        let mut function = CompiledFunction::new(self.symbol);
        let of_code = match compiled.code_buffer().len() {
            bytes if bytes > LINE_BYTES as usize => LINE_BYTES,
            _ => env.isa.function_alignment().preferred,
        };
        function.align = compiled.buffer.alignment.max(of_code);
        function.code = compiled.code_buffer().to_vec();
        let frame = compiled.buffer.frame_layout();
        function.frame_bytes = frame.map_or(0, |frame| frame.frame_to_fp_offset);
        let (relocs, found) = machine_code::relocs(&compiled, &context.func).map_err(fault)?;
        let expected = patch_point::count(&context.func, &context.domtree);
        let (made, listing) = (
            compiled.buffer.get_srclocs_sorted(),
            compiled.vcode.as_deref(),
        );
        let patched = patch_point::patch(&mut function.code, &found, expected).and_then(|()| {
            placeholder::patch(
                &mut function.code,
                self.placeholders,
                made,
                listing.unwrap_or_default(),
            )
        });
        match patched {
            Ok(()) => function.relocs = relocs,
            Err(Unpatched::Apart) => return Ok(None),
            Err(Unpatched::Fault(message)) => return Err(fault(message)),
        }
        (function.traps, function.address_map) =
            machine_code::traps_and_addresses(&compiled, &found).map_err(fault)?;
        function.handlers = machine_code::handlers(&compiled).map_err(fault)?;
        if self.compiler.outputs.locations {
            function.locations = machine_code::locations(&compiled);
        }
        #[cfg(feature = "faults")]
        crate::faults::break_code(env.fault, &mut function);
        function.blocks.clone_from(&compiled.bb_starts);
        function.unwind = match compiled
            .create_unwind_info(env.isa)
            .map_err(|error| fault(error.to_string()))?
        {
            Some(UnwindInfo::SystemV(info)) => Some(info),
            _ => None,
        };
        Ok(Some(function))
    }
}

/// Translates a body into the context.
fn translate(env: Env<'_>, body: Body<'_>, state: &mut State) -> Result<Translated, CompileError> {
    state.clear();
    let func = &mut state.context.func;
    let result = translate::translate(env, body, &mut state.scratch, func);
    // A builder that an error left half-way cannot be used for the next function.
    result.inspect_err(|_| state.scratch = Scratch::default())
}
