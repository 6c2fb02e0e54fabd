//! [`Piece`]s: the machine code of every function and trampoline, before it is laid into one text.

use crate::error::CompileError;
use crate::idiom::{self, Multiplications};
use crate::names::Callee;
use crate::parse::{Body, ParsedModule};
use crate::progress::Progress;
use crate::trampoline;
use crate::translate::{self, Env, Scratch};
use cranelift_codegen::binemit::{Addend, Reloc};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::isa::unwind::systemv;
use cranelift_codegen::{CompiledCode, Context, FinalizedRelocTarget};
use pirn_format::exit::TrapCode;
use pirn_format::metadata::Metadata;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// The machine code of one function or trampoline. All offsets are from its start.
pub(crate) struct Piece {
    /// What it is.
    pub(crate) callee: Callee,
    /// Its bytes, with calls not yet resolved.
    pub(crate) code: Vec<u8>,
    /// Alignment in bytes.
    pub(crate) align: u32,
    /// Calls of other pieces.
    pub(crate) relocs: Vec<PieceReloc>,
    /// Instructions that may fault, ascending, and their trap codes' numbers.
    pub(crate) traps: Vec<(u32, u32)>,
    /// Trapping instructions and return addresses, ascending, and their WebAssembly offsets.
    pub(crate) sites: Vec<(u32, u32)>,
    /// How to unwind through it.
    pub(crate) unwind: Option<systemv::UnwindInfo>,
    /// Where its body lies in the WebAssembly file; empty for a trampoline.
    pub(crate) body: Range<u32>,
    /// Ascending: what is of which instruction. Only where [`Wanted::locations`] is.
    pub(crate) locations: Vec<Location>,
    /// Intermediate code. Only where [`Wanted::clif`] is, and then nothing else is there.
    pub(crate) clif: String,
}

/// Bytes of a piece that one WebAssembly instruction was made into, or a part of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Offset of the instruction in the WebAssembly file.
    pub(crate) wasm: u32,
}

/// A place in a piece that refers to another.
pub(crate) struct PieceReloc {
    /// Where.
    pub(crate) offset: u32,
    /// How.
    pub(crate) kind: Reloc,
    /// What is added.
    pub(crate) addend: Addend,
    /// To what.
    pub(crate) target: Callee,
}

/// What is wanted beside the machine code, or in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Whether the Cranelift IR is, as translated; then no machine code is made.
    pub(crate) clif: bool,
    /// Whether [`Piece::locations`] is.
    pub(crate) locations: bool,
}

/// Compiles every function and every trampoline that the module needs, functions first, by index.
///
/// # Errors
///
/// That of the function of the lowest index, so that the same input gives the same error.
pub(crate) fn compile(
    parsed: &mut ParsedModule<'_>,
    isa: &dyn TargetIsa,
    spectre: bool,
    wanted: Wanted,
    progress: &Progress<'_>,
) -> Result<Vec<Piece>, CompileError> {
    let bodies = std::mem::take(&mut parsed.bodies);
    // Fuel is counted operator by operator, in called functions, too.
    let multiplications = match parsed.metadata.fuel {
        true => Multiplications::new(),
        false => idiom::multiplications(&bodies, &parsed.metadata),
    };
    let compiler = Compiler {
        env: Env {
            metadata: &parsed.metadata,
            layout: &parsed.layout,
            isa,
            spectre,
            multiplications: &multiplications,
        },
        wanted,
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
    let mut pieces = Vec::with_capacity(compiled.len());
    let mut changes_tables = false;
    for function in compiled {
        let (piece, facts) = function?;
        changes_tables |= facts.changes_tables;
        pieces.push(piece);
    }
    let needed = needed(&parsed.metadata, &pieces);
    let trampolines: Vec<_> = needed
        .into_par_iter()
        .map_init(State::default, |state, callee| {
            compiler.trampoline(callee, state)
        })
        .collect();
    for trampoline in trampolines {
        pieces.push(trampoline?);
    }
    parsed.metadata.tables_change |= changes_tables;
    Ok(pieces)
}

/// The trampolines that the module needs: one for every import, one for every type of a function
/// that can be referred to, and those that its functions call. In a fixed order.
fn needed(metadata: &Metadata, pieces: &[Piece]) -> Vec<Callee> {
    let mut needed: Vec<_> = (0..metadata.imported_funcs()).map(Callee::Func).collect();
    let types: BTreeSet<u32> = metadata
        .escaped
        .iter()
        .map(|func| metadata.funcs[*func as usize])
        .collect();
    needed.extend(types.into_iter().map(Callee::Entry));
    let called = pieces.iter().flat_map(|piece| &piece.relocs);
    let (mut builtins, mut traps) = (BTreeSet::new(), BTreeSet::new());
    for reloc in called {
        match reloc.target {
            Callee::Builtin(builtin) => {
                builtins.insert(builtin);
            }
            Callee::Trap(code) => {
                traps.insert(code);
            }
            Callee::Func(_) | Callee::Entry(_) => {}
        }
    }
    needed.extend(builtins.into_iter().map(Callee::Builtin));
    needed.extend(traps.into_iter().map(Callee::Trap));
    needed
}

/// What one thread keeps from function to function.
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
    wanted: Wanted,
}

impl Compiler<'_> {
    fn function(
        &self,
        body: Body<'_>,
        state: &mut State,
    ) -> Result<(Piece, translate::Facts), CompileError> {
        let callee = Callee::Func(body.index);
        let range = body.body.range();
        state.context.clear();
        let func = &mut state.context.func;
        let result = translate::translate(self.env, body, &mut state.scratch, func);
        // A builder that was left half-way is of no use for the next function.
        let facts = result.inspect_err(|_| state.scratch = Scratch::default())?;
        let mut piece = self.finish(callee, &mut state.context)?;
        // In range: the whole module is.
        piece.body = range.start as u32..range.end as u32;
        Ok((piece, facts))
    }

    fn trampoline(&self, callee: Callee, state: &mut State) -> Result<Piece, CompileError> {
        state.context.clear();
        trampoline::build(
            callee,
            self.env,
            &mut state.scratch.builder,
            &mut state.context.func,
        );
        self.finish(callee, &mut state.context)
    }

    /// Generates the machine code of what is in the context.
    fn finish(&self, callee: Callee, context: &mut Context) -> Result<Piece, CompileError> {
        let fault = |message: String| CompileError::Codegen {
            func: describe(callee, self.env.metadata),
            message: message.replace('\n', " "),
        };
        let mut piece = Piece {
            callee,
            code: vec![],
            align: 1,
            relocs: vec![],
            traps: vec![],
            sites: vec![],
            unwind: None,
            body: 0..0,
            locations: vec![],
            clif: String::new(),
        };
        if self.wanted.clif {
            piece.clif = context.func.display().to_string();
            return Ok(piece);
        }
        let mut control = ControlPlane::default();
        context
            .compile(self.env.isa, &mut control)
            .map_err(|error| fault(error.inner.to_string()))?;
        let Some(compiled) = context.take_compiled_code() else {
            return Err(fault("no code was made".to_owned()));
        };
        piece.align = compiled
            .buffer
            .alignment
            .max(self.env.isa.function_alignment().preferred);
        piece.code = compiled.code_buffer().to_vec();
        (piece.traps, piece.sites) = sites(&compiled).map_err(fault)?;
        if self.wanted.locations {
            piece.locations = locations(&compiled);
        }
        piece.unwind = match compiled
            .create_unwind_info(self.env.isa)
            .map_err(|error| fault(error.to_string()))?
        {
            Some(UnwindInfo::SystemV(info)) => Some(info),
            _ => None,
        };
        piece.relocs = relocs(&compiled, &context.func).map_err(fault)?;
        Ok(piece)
    }
}

/// What a piece is, for messages and listings.
pub(crate) fn describe(callee: Callee, metadata: &Metadata) -> String {
    match callee {
        Callee::Func(index) => match metadata.func_name(index) {
            Some(name) => format!("{index} ({})", name.escape_debug()),
            None => index.to_string(),
        },
        Callee::Entry(ty) => format!("trampoline of type {ty}"),
        Callee::Builtin(builtin) => format!("trampoline of {}", builtin.name()),
        Callee::Trap(code) => format!("stub of trap \"{code}\""),
    }
}

/// Resolves names in relocations. A call to anything but a piece of this module is refused: a
/// compiled module has no undefined symbols.
fn relocs(compiled: &CompiledCode, func: &ir::Function) -> Result<Vec<PieceReloc>, String> {
    let names = func.params.user_named_funcs();
    let resolve = |target: &FinalizedRelocTarget| match target {
        FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
            Callee::from_name(&names[*name])
        }
        _ => None,
    };
    let relocs = compiled.buffer.relocs().iter();
    relocs
        .map(|reloc| {
            let target = resolve(&reloc.target).ok_or_else(|| {
                let target = reloc.target.display(Some(&func.params));
                format!("it refers to {target}, which is not in the module")
            })?;
            Ok(PieceReloc {
                offset: reloc.offset,
                kind: reloc.kind,
                addend: reloc.addend,
                target,
            })
        })
        .collect()
}

/// What is of which instruction, as far as that is known.
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

/// Offsets in a piece with a number each: a trap code's, or an offset in the WebAssembly file.
type Numbered = Vec<(u32, u32)>;

/// The trapping instructions, and with the return addresses of calls their WebAssembly offsets.
fn sites(compiled: &CompiledCode) -> Result<(Numbered, Numbered), String> {
    let locations = compiled.buffer.get_srclocs_sorted();
    // The location of the instruction that holds a byte.
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
    for call in compiled.buffer.call_sites() {
        // A return address lies behind its call, and may lie behind the whole function.
        sites.extend(wasm(call.ret_addr - 1).map(|wasm| (call.ret_addr, wasm)));
    }
    traps.sort_unstable();
    // Two records at one offset: the first is the reason that the code generator saw first.
    traps.dedup_by_key(|(offset, _)| *offset);
    sites.sort_unstable();
    Ok((traps, sites))
}

/// The number in the trap table of a code generator's trap code.
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
