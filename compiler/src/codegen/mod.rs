//! Compiles functions and trampolines to machine code, one by one, on all processors.

pub(crate) mod isa;
mod portable;
pub(crate) mod progress;

use crate::analysis::Facts;
use crate::analysis::idioms::Multiplications;
use crate::analysis::known_tables::KnownTables;
use crate::budget::Budget;
use crate::budget::work::{self, Work};
use crate::cache::Run;
use crate::code::{CompiledFunction, FunctionReloc, Location};
use crate::error::CompileError;
use crate::intrinsics::Id;
use crate::intrinsics::imports::Imports;
use crate::intrinsics::patch_point::{self, Found, Site, Unpatched};
use crate::intrinsics::placeholder::{self, Carried};
use crate::ir::block::Registers;
use crate::optimize::after_cranelift::loads::{self, Uses};
use crate::optimize::after_cranelift::two_address;
use crate::optimize::alternatives::schedule::schedule;
use crate::optimize::alternatives::spill::spill;
use crate::optimize::before_cranelift::address;
use crate::options::Options;
use crate::parse::{Body, ParsedModule};
use crate::symbol::Symbol;
use crate::trampoline;
use crate::translate::{self, Env, Scratch};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::settings::OptLevel;
use cranelift_codegen::{
    CompiledCode, Context, FinalizedMachCallSite, FinalizedMachExceptionHandler,
    FinalizedRelocTarget, verify_function,
};
use pirn_format::cpu::Arch;
use pirn_format::exit::TrapCode;
use pirn_format::metadata::Metadata;
use pirn_format::traps::HandlerEntry;
use portable::Portable;
use progress::Progress;
use rayon::prelude::*;
use std::collections::{BTreeSet, HashSet};

/// Which outputs are requested besides the machine code, or instead of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Whether to produce the translated Cranelift IR instead of machine code.
    pub(crate) clif: bool,
    /// Whether to produce [`CompiledFunction::locations`].
    pub(crate) locations: bool,
}

/// The code generator in three configurations.
#[derive(Clone, Copy)]
pub(crate) struct Isas<'a> {
    /// With the settings of this build.
    pub(crate) checked: &'a dyn TargetIsa,
    /// Without the verifier: for functions with sites of intrinsics.
    pub(crate) unchecked: &'a dyn TargetIsa,
    /// Without verifier and optimiser: for functions that are optimised already, and for those with
    /// more vector constants than registers.
    pub(crate) plain: &'a dyn TargetIsa,
}

/// The most vector constants of a function with sites that is optimised. The optimiser hoists
/// constants out of loops, where they occupy registers and are spilled. SHA-256, which has
/// seventeen, took 1.3 times as long.
const VECTORS_MAX: usize = 8;

/// If the optimised code has a frame of at least this many bytes, the function is also compiled
/// without the optimiser. The optimiser moves instructions without effects to their first use. In
/// long blocks this raises the register pressure above the number of registers, and spills cost
/// more than the optimiser saves. Then the code without the optimiser is smaller.
const TRIED_FRAME_BYTES: u32 = 128;

/// The longest block of the function must have at least this many IR instructions, and this
/// percentage of all, for that comparison. Functions of many short blocks gain as well, but account
/// for most of the compile time: comparing all functions of a Ruby interpreter makes it 5 % smaller
/// and takes 1.36 times as long (bench `compare`, `compile`).
const TRIED_INSTRUCTIONS: usize = 100;
const TRIED_PERCENT: usize = 5;

/// The code without the optimiser is taken if its size is below this percentage of the optimised
/// code. Of libsodium's programs half took 0.97 of the time with this value, and 0.98 with 100.
const SMALLER_PERCENT: usize = 97;

/// If the smaller version has a frame of at least this many bytes, it is compared with the order of
/// `schedule`, which is taken if its size is below this percentage. An order for low register
/// pressure runs chains of computations one after another, which costs time where it saves little.
/// BLAKE2b took 1.03 of the time with 97 % of the bytes, Keccak 0.63 with 71.
const SCHEDULED_FRAME_BYTES: u32 = 256;
const SCHEDULED_PERCENT: usize = 90;

/// Alignment of every larger function: a line of the instruction cache in bytes. Processors fetch,
/// decode and cache decoded code by such lines and parts of them. So the position of a loop in its
/// lines should not depend on the code linked before it. Of libsodium's programs `codecs3` took
/// 0.84 of the time, the mean of all 0.98.
const LINE_BYTES: u32 = 64;

/// Compiles every function and every trampoline that the module needs, functions first, by index.
/// Also returns the units of work.
///
/// # Errors
///
/// [`CompileError::Work`] if all functions together need too much work. Otherwise the error of the
/// function with the lowest index, so that the same input gives the same error.
pub(crate) fn compile(
    parsed: &mut ParsedModule<'_>,
    facts: &Facts,
    isas: Isas<'_>,
    options: &Options,
    wanted: Wanted,
    run: Option<&Run<'_>>,
    progress: &Progress<'_>,
) -> Result<(Vec<CompiledFunction>, u64), CompileError> {
    let bodies = std::mem::take(&mut parsed.bodies);
    let budget = Budget::new(parsed.bytes, options.work_per_byte);
    let compiler = Compiler {
        env: Env {
            budget: &budget,
            metadata: &parsed.metadata,
            imported: parsed.metadata.imported(),
            layout: &parsed.layout,
            isa: isas.checked,
            spectre: options.spectre,
            relaxed_simd: options.relaxed_simd,
            cpu: options.cpu,
            intrinsics: &parsed.intrinsics,
            tables: &facts.tables,
            structs: &parsed.structs,
            plain: false,
            multiplications: &facts.multiplications,
        },
        isas,
        wanted,
        run,
    };
    progress.start(bodies.len());
    let compiled: Vec<_> = bodies
        .into_par_iter()
        .map_init(State::default, |state, body| {
            let result = compiler.function(body, state);
            progress.step();
            result
        })
        .collect();
    // The limit of work takes precedence over errors of single functions.
    budget.check()?;
    let mut functions = Vec::with_capacity(compiled.len());
    for function in compiled {
        functions.push(function?);
    }
    let mut compiled = compiler.intrinsics(&functions)?;
    compiled.append(&mut functions);
    let mut functions = compiled;
    let needed = needed(&parsed.metadata, &functions);
    let allocates =
        |symbol: &Symbol| matches!(symbol, Symbol::Builtin(builtin) if builtin.allocates());
    let heap = needed.iter().any(allocates);
    let trampolines: Vec<_> = needed
        .into_par_iter()
        .map_init(State::default, |state, symbol| {
            compiler.trampoline(symbol, state)
        })
        .collect();
    budget.check()?;
    for trampoline in trampolines {
        functions.push(trampoline?);
    }
    let work = budget.drawn();
    parsed.metadata.heap |= heap;
    Ok((functions, work))
}

/// The trampolines that the module needs, in a fixed order: one for every type of an imported
/// function, one for every type of a function that can be referred to, and those that its functions
/// call.
fn needed(metadata: &Metadata, functions: &[CompiledFunction]) -> Vec<Symbol> {
    let imported = &metadata.funcs[..metadata.imported_funcs() as usize];
    let types: BTreeSet<u32> = imported.iter().copied().collect();
    let mut needed: Vec<_> = types.into_iter().map(Symbol::Import).collect();
    let types: BTreeSet<u32> = metadata
        .escaped
        .iter()
        .map(|func| metadata.funcs[*func as usize])
        .collect();
    needed.extend(types.into_iter().map(Symbol::Entry));
    let called = functions.iter().flat_map(|function| &function.relocs);
    let (mut builtins, mut traps) = (BTreeSet::new(), BTreeSet::new());
    let mut mistyped = None;
    for reloc in called {
        match reloc.target {
            Symbol::Builtin(builtin) => {
                builtins.insert(builtin);
            }
            Symbol::Trap(code) => {
                traps.insert(code);
            }
            // Every dispatch table contains it.
            Symbol::Mistyped | Symbol::Table(_) => mistyped = Some(Symbol::Mistyped),
            Symbol::Func(_) | Symbol::Import(_) | Symbol::Entry(_) => {}
        }
    }
    needed.extend(builtins.into_iter().map(Symbol::Builtin));
    needed.extend(traps.into_iter().map(Symbol::Trap));
    needed.extend(mistyped);
    needed
}

/// Buffers that one thread reuses for all its functions.
struct State {
    context: Context,
    scratch: Scratch,
}

impl Default for State {
    fn default() -> Self {
        Self {
            context: Context::new(),
            scratch: Scratch::default(),
        }
    }
}

struct Compiler<'a> {
    env: Env<'a>,
    isas: Isas<'a>,
    wanted: Wanted,
    /// The cache, if there is one.
    run: Option<&'a Run<'a>>,
}

impl Compiler<'_> {
    fn function(
        &self,
        body: Body<'_>,
        state: &mut State,
    ) -> Result<CompiledFunction, CompileError> {
        let symbol = Symbol::Func(body.index);
        let range = body.body.range();
        let again = (self.env.intrinsics.len() > 0).then(|| body.again());
        let carried = translate(self.env, body, state)?;
        let mut function = self.known(symbol, &mut state.context, &carried)?;
        if let (None, Some(body)) = (&function, again) {
            let env = Env {
                plain: true,
                ..self.env
            };
            let carried = translate(env, body, state)?;
            function = self.finish(symbol, &mut state.context, &carried)?;
        }
        let mut function = self.whole(symbol, function)?;
        // In range: the module's size is limited.
        function.body = range.start as u32..range.end as u32;
        Ok(function)
    }

    /// Compiles the wrapper functions of imported intrinsics. Every function of the module has
    /// code, so a wrapper that nothing refers to has an empty body.
    fn intrinsics(
        &self,
        functions: &[CompiledFunction],
    ) -> Result<Vec<CompiledFunction>, CompileError> {
        let relocs = functions.iter().flat_map(|function| &function.relocs);
        let called: HashSet<Symbol> = relocs.map(|reloc| reloc.target).collect();
        let escaped = &self.env.metadata.escaped;
        let mut state = State::default();
        let mut portable = None;
        let mut wrappers = vec![];
        for (index, id) in self.env.intrinsics.iter() {
            let symbol = Symbol::Func(index);
            // Without machine code it is not known which wrappers are referred to.
            let is_used = self.wanted.clif
                || called.contains(&symbol)
                || escaped.binary_search(&index).is_ok();
            let has_instruction = id.is_promised(self.env.cpu) && translate::has_instruction(id);
            if !is_used || has_instruction {
                state.context.clear();
                let func = &mut state.context.func;
                let id = is_used.then_some(id);
                translate::intrinsic(self.env, index, id, &mut state.scratch, func);
            } else {
                let portable = match &portable {
                    Some(portable) => portable,
                    None => portable.insert(Portable::new()?),
                };
                self.portable(id, portable, &mut state)?;
            }
            let wrapper = self.finish(symbol, &mut state.context, &Carried::new())?;
            let mut wrapper = self.whole(symbol, wrapper)?;
            // A wrapper has no location in the guest's file.
            wrapper.sites.clear();
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
            ..self.env
        };
        translate(env, body, state).map(|_| ())
    }

    /// The function, or an error if its sites could not be patched.
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

    fn trampoline(
        &self,
        symbol: Symbol,
        state: &mut State,
    ) -> Result<CompiledFunction, CompileError> {
        self.env.budget.check()?;
        state.context.clear();
        trampoline::build(
            symbol,
            self.env,
            &mut state.scratch.builder,
            &mut state.context.func,
        );
        let budget = self.env.budget;
        budget.draw(work::cost(&state.context.func, 0, budget))?;
        let function = self.finish(symbol, &mut state.context, &Carried::new())?;
        self.whole(symbol, function)
    }

    /// As [`Self::finish`], but takes the function from the cache if it is there. Functions with
    /// intrinsics are not cached: their code depends on more than the key.
    fn known(
        &self,
        symbol: Symbol,
        context: &mut Context,
        carried: &Carried,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let has_intrinsics = !carried.is_empty() || patch_point::has_sites(&context.func);
        let Some(run) = self.run.filter(|_| !has_intrinsics) else {
            return self.finish(symbol, context, carried);
        };
        let key = run.key(&context.func);
        if let Some(function) = run.get(&key, symbol, &context.func) {
            return Ok(Some(function));
        }
        let function = self.finish(symbol, context, carried)?;
        if let Some(function) = &function {
            run.add(key, function, &context.func);
        }
        Ok(function)
    }

    /// Generates the machine code of the function in the context. `None` if the two calls of an
    /// intrinsic are not adjacent, or if a placeholder was not found.
    fn finish(
        &self,
        symbol: Symbol,
        context: &mut Context,
        carried: &Carried,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let is_deep = work::is_deep(&context.func);
        let isa = if is_deep {
            self.isas.plain
        } else {
            self.env.isa
        };
        if self.wanted.clif {
            let mut function = CompiledFunction::new(symbol);
            function.clif = context.func.display().to_string();
            return Ok(Some(function));
        }
        if !placeholder::are_apart(&context.func, carried) {
            return Ok(None);
        }
        if optimises(isa) && self.env.cpu.arch() == Arch::X86_64 {
            context.flowgraph();
            address::fold(&mut context.func, &context.domtree);
        }
        if patch_point::has_sites(&context.func) {
            self.verify(symbol, isa, &context.func)?;
            patch_point::preserve_all(&mut context.func);
            let isa = match is_deep || context.func.dfg.constants.len() > VECTORS_MAX {
                true => self.isas.plain,
                false => self.isas.unchecked,
            };
            return self.generate(symbol, isa, context, carried);
        }
        if !optimises(isa) || !has_long_block(&context.func) {
            return self.generate(symbol, isa, context, carried);
        }
        self.smaller(symbol, context, carried)
    }

    /// Verifies IR, if these settings enable the verifier.
    fn verify(
        &self,
        symbol: Symbol,
        isa: &dyn TargetIsa,
        func: &ir::Function,
    ) -> Result<(), CompileError> {
        if !isa.flags().enable_verifier() {
            return Ok(());
        }
        verify_function(func, isa).map_err(|errors| CompileError::Codegen {
            func: symbol.describe(self.env.metadata),
            message: errors.to_string().replace('\n', " "),
        })
    }

    /// Generates the machine code with the optimiser. If that needs a large frame, also tries it
    /// without the optimiser, and then with another instruction order.
    fn smaller(
        &self,
        symbol: Symbol,
        context: &mut Context,
        carried: &Carried,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let as_it_was = context.func.clone();
        let optimised = self.generate(symbol, self.env.isa, context, carried)?;
        if !has_frame(&optimised, TRIED_FRAME_BYTES) {
            return Ok(optimised);
        }
        context.clear();
        context.func.clone_from(&as_it_was);
        let plain = self.generate(symbol, self.isas.plain, context, carried)?;
        let function = smaller(optimised, plain, SMALLER_PERCENT);
        if !has_frame(&function, SCHEDULED_FRAME_BYTES) {
            return Ok(function);
        }
        context.clear();
        context.func = as_it_was;
        let arch = self.env.cpu.arch();
        if !schedule(&mut context.func, Registers::of(arch)) {
            return Ok(function);
        }
        if arch == Arch::X86_64 {
            spill(&mut context.func, Registers::of(arch));
        }
        let scheduled = self.generate(symbol, self.isas.plain, context, carried)?;
        Ok(smaller(function, scheduled, SCHEDULED_PERCENT))
    }

    /// Generates the machine code with these settings. The function's sites must be prepared.
    fn generate(
        &self,
        symbol: Symbol,
        isa: &dyn TargetIsa,
        context: &mut Context,
        carried: &Carried,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let fault = |message: String| CompileError::Codegen {
            func: symbol.describe(self.env.metadata),
            message: message.replace('\n', " "),
        };
        let mut function = CompiledFunction::new(symbol);
        context.set_disasm(!carried.is_empty());
        let mut control = ControlPlane::default();
        let is_x86_64 = self.env.cpu.arch() == Arch::X86_64;
        let settles = is_x86_64 && optimises(self.env.isa);
        if optimises(isa) || settles {
            let optimised = context.optimize(isa, &mut control);
            optimised.map_err(|error| fault(error.to_string()))?;
        }
        if settles {
            two_address::settle(&mut context.func);
        }
        if is_x86_64 {
            let uses = Uses::of(&context.func);
            loads::locate(&mut context.func, &uses, carried);
            if settles {
                loads::fold(&mut context.func, &uses);
            }
        }
        // The verifier does not support the calling convention of sites.
        if settles && !patch_point::has_sites(&context.func) {
            self.verify(symbol, self.env.isa, &context.func)?;
        }
        let work = Work {
            symbol,
            metadata: self.env.metadata,
            budget: self.env.budget,
        };
        work.check_held(&context.func)?;
        let isa = if optimises(isa) { self.isas.plain } else { isa };
        context
            .compile(isa, &mut control)
            .map_err(|error| fault(error.inner.to_string()))?;
        let Some(compiled) = context.take_compiled_code() else {
            return Err(fault("no code was made".to_owned()));
        };
        let of_code = match compiled.code_buffer().len() {
            bytes if bytes > LINE_BYTES as usize => LINE_BYTES,
            _ => self.env.isa.function_alignment().preferred,
        };
        function.align = compiled.buffer.alignment.max(of_code);
        function.code = compiled.code_buffer().to_vec();
        let frame = compiled.buffer.frame_layout();
        function.frame_bytes = frame.map_or(0, |frame| frame.frame_to_fp_offset);
        let (relocs, found) = relocs(&compiled, &context.func).map_err(fault)?;
        let expected = patch_point::count(&context.func, &context.domtree);
        let (made, listing) = (
            compiled.buffer.get_srclocs_sorted(),
            compiled.vcode.as_deref(),
        );
        let patched = patch_point::patch(&mut function.code, &found, expected).and_then(|()| {
            placeholder::patch(
                &mut function.code,
                carried,
                made,
                listing.unwrap_or_default(),
            )
        });
        match patched {
            Ok(()) => function.relocs = relocs,
            Err(Unpatched::Apart) => return Ok(None),
            Err(Unpatched::Fault(message)) => return Err(fault(message)),
        }
        (function.traps, function.sites) = sites(&compiled, &found).map_err(fault)?;
        function.handlers = handlers(&compiled).map_err(fault)?;
        if self.wanted.locations {
            function.locations = locations(&compiled);
        }
        function.blocks.clone_from(&compiled.bb_starts);
        function.unwind = match compiled
            .create_unwind_info(self.env.isa)
            .map_err(|error| fault(error.to_string()))?
        {
            Some(UnwindInfo::SystemV(info)) => Some(info),
            _ => None,
        };
        Ok(Some(function))
    }
}

/// Whether these settings enable the optimiser.
fn optimises(isa: &dyn TargetIsa) -> bool {
    isa.flags().opt_level() != OptLevel::None
}

/// Whether a function has a frame of at least this many bytes. Also true if there is no function,
/// because a placeholder was not found.
fn has_frame(function: &Option<CompiledFunction>, bytes: u32) -> bool {
    let needs = |function: &CompiledFunction| function.frame_bytes >= bytes;
    function.as_ref().is_none_or(needs)
}

/// The other function, if its size is below this percentage of the first one's, else the first.
fn smaller(
    first: Option<CompiledFunction>,
    other: Option<CompiledFunction>,
    percent: usize,
) -> Option<CompiledFunction> {
    match (first, other) {
        (Some(first), Some(other)) => {
            let bytes_max = first.code.len() * percent / 100;
            let is_smaller = other.code.len() < bytes_max;
            Some(if is_smaller { other } else { first })
        }
        // Placeholders were found in only one of them, or in none.
        (first, other) => first.or(other),
    }
}

/// Whether the function has a block that is long in absolute terms and relative to the function.
fn has_long_block(func: &ir::Function) -> bool {
    let share = func.dfg.num_insts() * TRIED_PERCENT / 100;
    let least = share.max(TRIED_INSTRUCTIONS);
    let is_long = |block| func.layout.block_insts(block).nth(least - 1).is_some();
    func.layout.blocks().any(is_long)
}

/// Translates a body into the context.
fn translate(env: Env<'_>, body: Body<'_>, state: &mut State) -> Result<Carried, CompileError> {
    state.context.clear();
    let func = &mut state.context.func;
    let result = translate::translate(env, body, &mut state.scratch, func);
    // A builder that an error left half-way cannot be used for the next function.
    result.inspect_err(|_| state.scratch = Scratch::default())
}

/// Resolves names in relocations. A call to anything but a function of this module is refused,
/// because a compiled module has no undefined symbols. Calls of sites are returned separately.
fn relocs(
    compiled: &CompiledCode,
    func: &ir::Function,
) -> Result<(Vec<FunctionReloc>, Vec<Found>), String> {
    let names = func.params.user_named_funcs();
    let (mut relocs, mut found) = (vec![], vec![]);
    for reloc in compiled.buffer.relocs() {
        let (offset, kind, addend) = (reloc.offset, reloc.kind, reloc.addend);
        let name = match &reloc.target {
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => Some(&names[*name]),
            _ => None,
        };
        if let Some(site) = name.and_then(Site::from_name) {
            found.push(Found {
                offset,
                kind,
                addend,
                site,
            });
            continue;
        }
        let target = name.and_then(Symbol::from_name).ok_or_else(|| {
            let target = reloc.target.display(Some(&func.params));
            format!("it refers to {target}, which is not in the module")
        })?;
        relocs.push(FunctionReloc {
            offset,
            kind,
            addend,
            target,
        });
    }
    found.sort_unstable_by_key(|found| found.offset);
    Ok((relocs, found))
}

/// The WebAssembly instruction of each code range, where it is known.
fn locations(compiled: &CompiledCode) -> Vec<Location> {
    let known = compiled.buffer.get_srclocs_sorted().iter();
    known
        .filter(|location| !location.loc.is_default() && location.start < location.end)
        .map(|location| Location {
            start: location.start,
            end: location.end,
            wasm: location.loc.bits(),
        })
        .collect()
}

/// Offsets in a function, each with a number: a trap code, or an offset in the WebAssembly file.
type Numbered = Vec<(u32, u32)>;

/// The trapping instructions, and the WebAssembly offsets of trapping instructions and return
/// addresses.
fn sites(compiled: &CompiledCode, patched: &[Found]) -> Result<(Numbered, Numbered), String> {
    let locations = compiled.buffer.get_srclocs_sorted();
    // The location of the instruction that contains a byte.
    let wasm = |byte: u32| {
        let at = locations
            .partition_point(|location| location.start <= byte)
            .checked_sub(1)?;
        let location = &locations[at];
        (byte < location.end && !location.loc.is_default()).then(|| location.loc.bits())
    };
    let (mut traps, mut sites) = (vec![], vec![]);
    for trap in compiled.buffer.traps() {
        traps.push((trap.offset, trap_number(trap.code)?));
        sites.extend(wasm(trap.offset).map(|wasm| (trap.offset, wasm)));
    }
    let is_patched = |call: &&FinalizedMachCallSite<'_>| {
        let at = |found: &Found| found.return_address();
        patched.binary_search_by_key(&call.ret_addr, at).is_ok()
    };
    let calls = compiled.buffer.call_sites();
    for call in calls.filter(|call| !is_patched(&call)) {
        // A return address is after its call, and may be after the end of the function.
        sites.extend(wasm(call.ret_addr - 1).map(|wasm| (call.ret_addr, wasm)));
    }
    traps.sort_unstable();
    // Of two records at one offset, the first is the one that the code generator recorded first.
    traps.dedup_by_key(|(offset, _)| *offset);
    sites.sort_unstable();
    Ok((traps, sites))
}

/// The calls with an exception handler. All exceptions of a call go to one handler.
fn handlers(compiled: &CompiledCode) -> Result<Vec<HandlerEntry>, String> {
    let mut handlers = vec![];
    for call in compiled.buffer.call_sites() {
        match (call.exception_handlers, call.frame_offset) {
            ([], _) => {}
            ([FinalizedMachExceptionHandler::Default(handler)], Some(frame_bytes)) => {
                handlers.push(HandlerEntry {
                    offset: call.ret_addr,
                    handler: *handler,
                    frame_bytes,
                });
            }
            (other, frame_bytes) => {
                return Err(format!(
                    "exceptions are caught by {other:?} in a frame of {frame_bytes:?}"
                ));
            }
        }
    }
    handlers.sort_unstable_by_key(|handler| handler.offset);
    Ok(handlers)
}

/// The number in the trap table for one of Cranelift's trap codes.
fn trap_number(code: ir::TrapCode) -> Result<u32, String> {
    let known = match code {
        ir::TrapCode::STACK_OVERFLOW => Some(TrapCode::StackOverflow),
        ir::TrapCode::HEAP_OUT_OF_BOUNDS => Some(TrapCode::MemoryOutOfBounds),
        ir::TrapCode::INTEGER_OVERFLOW => Some(TrapCode::IntegerOverflow),
        ir::TrapCode::INTEGER_DIVISION_BY_ZERO => Some(TrapCode::IntegerDivideByZero),
        ir::TrapCode::BAD_CONVERSION_TO_INTEGER => Some(TrapCode::InvalidConversionToInteger),
        other => TrapCode::from_number(u32::from(other.as_raw().get())),
    };
    known
        .map(|code| code as u32)
        .ok_or_else(|| format!("trap code {code} is unknown"))
}

#[cfg(test)]
mod tests;
