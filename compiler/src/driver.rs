//! [`Compilation`]: the complete compilation from a module's bytes to a file.

use crate::analysis::Facts;
use crate::analysis::image::Image;
use crate::analysis::known_tables::KnownTables;
use crate::budget::Budget;
use crate::cache::Run;
use crate::code::CompiledFunction;
use crate::codegen::isa::OwnedIsas;
use crate::codegen::progress::Progress;
use crate::codegen::{self, Outputs};
use crate::component;
use crate::error::CompileError;
use crate::link::dwarf::Lines;
use crate::link::text::Text;
use crate::link::{elf, listing, object};
use crate::options::Options;
use crate::parse::{self, ParsedModule};
use cranelift_codegen::isa::TargetIsa;
use pirn_format::metadata::{Metadata, Source};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::Hash as _;

/// The kind of a compilation's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emit {
    /// Cranelift IR as text.
    Clif,
    /// Assembly as text, with the offset in the WebAssembly file of each instruction.
    Asm,
    /// A relocatable ELF object with the text and its symbols, for inspection.
    Obj,
    /// The shared object that the runtime opens.
    #[default]
    So,
}

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emitted {
    /// The output file.
    pub bytes: Vec<u8>,
    /// Units of work that the module needed, see [`Options::work_per_byte`]. The number is the same
    /// each time, with or without a cache.
    pub work: u64,
    /// Problems that did not stop the compilation, one line each: missing or omitted debug
    /// information of the guest, if [`Options::debug_info`] is set, and a failed write of
    /// [`Options::cache`].
    pub notes: Vec<String>,
}

/// A compilation of a module or component: its options, its output, and its observer.
pub struct Compilation<'a> {
    options: &'a Options,
    emit: Emit,
    progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// Compiles a binary module to a shared object. The same input gives the same bytes.
///
/// # Errors
///
/// [`CompileError`], always of the first faulty function.
pub fn compile(wasm: &[u8], options: &Options) -> Result<Vec<u8>, CompileError> {
    let emitted = Compilation::new(options).run(wasm)?;
    Ok(emitted.bytes)
}

impl<'a> Compilation<'a> {
    /// A compilation to a shared object.
    #[must_use]
    pub fn new(options: &'a Options) -> Self {
        Self {
            options,
            emit: Emit::So,
            progress: &|_, _| (),
        }
    }

    /// Selects another output.
    #[must_use]
    pub fn emit(mut self, emit: Emit) -> Self {
        self.emit = emit;
        self
    }

    /// Calls `progress`, from many threads, with the number of finished functions and of all
    /// functions.
    #[must_use]
    pub fn progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        self.progress = progress;
        self
    }

    /// Compiles a binary module. The same input gives the same output.
    ///
    /// # Errors
    ///
    /// As [`compile()`].
    pub fn run(&self, wasm: &[u8]) -> Result<Emitted, CompileError> {
        let Self {
            options,
            emit,
            progress,
        } = *self;
        let mut notes = vec![];
        let isas = OwnedIsas::build(options, emit == Emit::Asm)?;
        // The joined module of a component may be larger than the file, so the budget follows the
        // file.
        let budget = Budget::new(wasm.len() as u64, options.work_per_byte);
        let whole = match component::is_component(wasm) {
            true => Some(Cow::Borrowed(wasm)),
            false => component::of_core_module(wasm, &budget)?.map(Cow::Owned),
        };
        let (core, component) = match whole {
            Some(whole) => {
                let translated = component::translate(&whole, &budget)?;
                (Cow::Owned(translated.core), Some(translated.component))
            }
            None => (Cow::Borrowed(wasm), None),
        };
        let mut parsed = parse::parse(&core)?;
        parsed.metadata.component = component;
        parsed.metadata.fuel = options.fuel;
        parsed.metadata.source = source(wasm, options);
        let facts = Facts::of(&mut parsed, options);
        let outputs = Outputs {
            clif: emit == Emit::Clif,
            locations: options.debug_info || emit == Emit::Asm,
        };
        // Cranelift IR is not stored.
        let cache = options.cache.as_deref().filter(|_| !outputs.clif);
        let run = cache.map(|cache| {
            Run::new(cache, isas.all().asked, |state| {
                options.hash_settings(state);
                outputs.locations.hash(state);
            })
        });
        let compiled = codegen::compile(
            &mut parsed,
            &facts,
            isas.all(),
            options,
            outputs,
            &codegen::Shared {
                budget: &budget,
                run: run.as_ref(),
                progress: &Progress::new(progress),
            },
        );
        // Functions compiled before an error are cached as well.
        if let Some(Err(problem)) = run.map(Run::write) {
            notes.push(problem);
        }
        let (functions, work) = compiled?;
        let bytes = match emit {
            Emit::Clif => clif(&functions, &parsed.metadata).into_bytes(),
            _ => {
                let compiled = Compiled {
                    parsed,
                    tables: &facts.tables,
                    functions: &functions,
                    isa: isas.all().asked,
                };
                compiled.link(options, emit, &mut notes)?
            }
        };
        Ok(Emitted { bytes, work, notes })
    }
}

/// The description of a compilation in the metadata. The description depends only on the module,
/// the options and the version, so that the same input gives the same bytes.
fn source(wasm: &[u8], options: &Options) -> Source {
    Source {
        wasm_sha256: Sha256::digest(wasm).into(),
        compiler: format!(
            "pirn-compiler {}, cranelift {}",
            env!("CARGO_PKG_VERSION"),
            cranelift_codegen::VERSION
        ),
        options: options.command_line(),
    }
}

/// A module whose functions are compiled.
struct Compiled<'a> {
    parsed: ParsedModule<'a>,
    tables: &'a KnownTables,
    functions: &'a [CompiledFunction],
    isa: &'a dyn TargetIsa,
}

impl Compiled<'_> {
    /// Places the functions in one text, and writes a listing, an object or the shared object.
    fn link(
        self,
        options: &Options,
        emit: Emit,
        notes: &mut Vec<String>,
    ) -> Result<Vec<u8>, CompileError> {
        let Self {
            parsed,
            tables,
            functions,
            isa,
        } = self;
        let arch = options.cpu.arch();
        let mut metadata = parsed.metadata;
        let text = Text::lay(functions, tables, &mut metadata, isa)?;
        if emit == Emit::Asm {
            return Ok(listing::write(functions, &text, &metadata, arch).into_bytes());
        }
        let lines = options.debug_info.then(|| {
            let (source, left_out) = parsed.debug.read();
            notes.extend(left_out);
            Lines::lay(&source, &parsed.debug, functions, &text)
        });
        if emit == Emit::Obj {
            return object::write(functions, &text, &metadata, lines.as_ref(), arch);
        }
        let image = Image::build(&mut metadata, &parsed.data);
        elf::write(&elf::Parts {
            functions,
            text: &text,
            image: &image,
            metadata: &metadata,
            lines: lines.as_ref(),
            isa,
            cpu: options.cpu,
        })
    }
}

/// The Cranelift IR of all functions, each after a line that names it.
fn clif(functions: &[CompiledFunction], metadata: &Metadata) -> String {
    let mut all = String::new();
    for function in functions {
        let what = function.symbol.describe(metadata);
        // Writing to a string cannot fail.
        let _ = writeln!(all, ";; {what}\n{}", function.clif.trim_end());
    }
    all
}
