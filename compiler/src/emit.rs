//! [`compile()`] and [`emit()`]: the whole way from a module's bytes to a file.

use crate::compile::{self, Isas, Listing, Piece, describe};
use crate::error::CompileError;
use crate::image::Image;
use crate::isa;
use crate::link::text::Text;
use crate::link::{elf, object};
use crate::options::{OptLevel, Options};
use crate::parse;
use crate::progress::Progress;
use pirn_format::metadata::Metadata;
use std::fmt::Write as _;

/// What to make of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emit {
    /// Cranelift IR as text.
    Clif,
    /// Assembly as text.
    Asm,
    /// A relocatable ELF object with the text and its symbols, to look at.
    Obj,
    /// The shared object that the runtime opens.
    #[default]
    So,
}

/// Compiles a binary module to a shared object. The same input gives the same bytes.
///
/// # Errors
///
/// [`CompileError`], always of the first function that is wrong.
pub fn compile(wasm: &[u8], options: &Options) -> Result<Vec<u8>, CompileError> {
    emit(wasm, options, Emit::So, &|_, _| ())
}

/// Compiles a binary module to what is asked for. `progress` is told, from many threads, how many
/// functions are done and how many there are.
///
/// # Errors
///
/// As [`compile()`].
pub fn emit(
    wasm: &[u8],
    options: &Options,
    emit: Emit,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<u8>, CompileError> {
    let isa = isa::build(options, true)?;
    let unchecked = isa::build(options, false)?;
    let mut plain = options.clone();
    plain.opt_level = OptLevel::None;
    let plain = isa::build(&plain, false)?;
    let isas = Isas {
        checked: &*isa,
        unchecked: &*unchecked,
        plain: &*plain,
    };
    let mut parsed = parse::parse(wasm)?;
    parsed.metadata.fuel = options.fuel;
    let listing = match emit {
        Emit::Clif => Listing::Clif,
        Emit::Asm => Listing::Asm,
        Emit::Obj | Emit::So => Listing::None,
    };
    let progress = Progress::new(progress);
    let pieces = compile::compile(&mut parsed, isas, options, listing, &progress)?;
    if listing != Listing::None {
        return Ok(listings(&pieces, &parsed.metadata).into_bytes());
    }
    let mut metadata = parsed.metadata;
    let text = Text::lay(&pieces, &mut metadata, &*isa)?;
    if emit == Emit::Obj {
        return object::write(&pieces, &text, &metadata, options.cpu.arch());
    }
    let image = Image::build(&mut metadata, &parsed.data);
    elf::write(&elf::Parts {
        pieces: &pieces,
        text: &text,
        image: &image,
        metadata: &metadata,
        isa: &*isa,
        cpu: options.cpu,
    })
}

/// The listings of all pieces, each under a line that names it.
fn listings(pieces: &[Piece], metadata: &Metadata) -> String {
    let mut all = String::new();
    for piece in pieces {
        let what = describe(piece.callee, metadata);
        // Writing to a string cannot fail.
        let _ = writeln!(all, ";; {what}\n{}", piece.text.trim_end());
    }
    all
}
