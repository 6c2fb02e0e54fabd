//! Compiles functions and trampolines to machine code, one by one, on all processors.

pub(crate) mod isa;
pub(crate) mod progress;
mod portable;
mod machine_code;
mod function;

use crate::analysis::Facts;
use crate::budget::Budget;
use crate::cache::Run;
use crate::code::CompiledFunction;
use crate::error::CompileError;
use crate::optimize::Isas;
use crate::options::Options;
use crate::parse::{Body, ParsedModule};
use crate::symbol::Symbol;
use crate::translate::Env;
use function::{FunctionCompiler, State};
use pirn_format::metadata::Metadata;
use progress::Progress;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The requested outputs, besides the machine code or in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outputs {
    /// Whether to produce the translated Cranelift IR instead of machine code.
    pub(crate) clif: bool,
    /// Whether to produce [`CompiledFunction::locations`].
    pub(crate) locations: bool,
}

/// State that the compilations of all functions of a module share.
pub(crate) struct Shared<'a> {
    pub(crate) budget: &'a Budget,
    /// The run that reads and writes the cache, if there is one.
    pub(crate) run: Option<&'a Run<'a>>,
    pub(crate) progress: &'a Progress<'a>,
}

/// Compiles every function and every trampoline that the module needs, functions first, by index.
/// Also returns the units of work.
///
/// # Errors
///
/// [`CompileError::Work`] if all functions together need too much work. Otherwise the error of the
/// function with the lowest index, so that the same input gives the same error.
pub(crate) fn compile(
    parsed: &mut ParsedModule<'_>,
    facts: &Facts<'_>,
    isas: Isas<'_>,
    options: &Options,
    outputs: Outputs,
    shared: &Shared<'_>,
) -> Result<(Vec<CompiledFunction>, u64), CompileError> {
    let Shared {
        budget,
        run,
        progress,
    } = *shared;
    let bodies = std::mem::take(&mut parsed.bodies);
    let compiler = FunctionCompiler {
        env: Env {
            budget,
            metadata: &parsed.metadata,
            imported: parsed.metadata.imported(),
            layout: &parsed.layout,
            isa: isas.asked,
            passes: options.passes,
            spectre: options.spectre,
            relaxed_simd: options.relaxed_simd,
            cpu: options.cpu,
            intrinsics: &parsed.intrinsics,
            tables: &facts.tables,
            structs: &parsed.structs,
            plain: false,
            #[cfg(feature = "faults")]
            fault: options.fault,
            multiplications: &facts.multiplications,
            leaves: &facts.leaves,
        },
        isas,
        outputs,
        run,
    };
    progress.start(bodies.len());
    let compiled = largest_first(bodies, |state, body| {
        let result = compiler.function(body, state);
        progress.step();
        result
    });
    // The limit of work takes precedence over errors of single functions.
    budget.check()?;
    let mut functions = Vec::with_capacity(compiled.len());
    for function in compiled {
        functions.push(function?);
    }
    let mut compiled = compiler.wrappers(&functions)?;
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

/// Compiles functions on all processors and returns the results in the order of `bodies`. Each
/// thread takes the largest function left, so that no thread starts a large function when the other
/// threads have nothing left to do.
fn largest_first<'a, T: Send>(
    bodies: Vec<Body<'a>>,
    compile: impl Fn(&mut State, Body<'a>) -> T + Sync,
) -> Vec<T> {
    let mut bodies: Vec<_> = bodies.into_iter().enumerate().collect();
    let bytes = |body: &Body<'_>| body.body.range().end - body.body.range().start;
    bodies.sort_by_key(|(_, body)| Reverse(bytes(body)));
    let mut results: Vec<_> = bodies
        .into_iter()
        .par_bridge()
        .map_init(State::default, |state, (place, body)| {
            state.fit(bytes(&body));
            (place, compile(state, body))
        })
        .collect();
    results.sort_unstable_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The trampolines that the module needs, in a fixed order. Every type of an imported function has
/// one, and so has every type of a function that can be referred to. The trampolines that functions
/// call follow.
fn needed(metadata: &Metadata, functions: &[CompiledFunction]) -> Vec<Symbol> {
    let imported = &metadata.funcs[..metadata.imported_funcs() as usize];
    let types: BTreeSet<u32> = imported.iter().copied().collect();
    let mut needed: Vec<_> = types.into_iter().map(Symbol::Import).collect();
    let types: BTreeSet<u32> = metadata
        .address_taken
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
            // Every dispatch table contains the stub.
            Symbol::Mistyped | Symbol::Table(_) => mistyped = Some(Symbol::Mistyped),
            Symbol::Func(_) | Symbol::Import(_) | Symbol::Entry(_) => {}
        }
    }
    needed.extend(builtins.into_iter().map(Symbol::Builtin));
    needed.extend(traps.into_iter().map(Symbol::Trap));
    needed.extend(mistyped);
    needed
}
