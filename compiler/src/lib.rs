//! pirn's ahead-of-time compiler: a WebAssembly module in, a native shared object out.
//!
//! ```text
//! bytes ─ parse ─▶ ParsedModule ─ translate (all cores) ─▶ Cranelift IR ─ isa ─▶ machine code
//!                                                      trampolines ─┘              │
//!                             .so ◀─ link::elf ◀─ link::{reloc,symbols,unwind} ◀───┤
//!                                                       image, metadata, tables ◀──┘
//! ```

#![forbid(unsafe_code)]

mod error;
mod names;
mod options;
mod parse;
mod translate;
mod types;

pub use error::CompileError;
pub use options::{OptLevel, Options};
