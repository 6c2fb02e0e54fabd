//! pirn's ahead-of-time compiler: converts a WebAssembly module to a native shared object.
//!
//! ```text
//! bytes ─ parse ─▶ ParsedModule ─ translate (all cores) ─▶ Cranelift IR ─ isa ─▶ machine code
//!                                                      trampolines ─┘              │
//!                       .so ◀─ link::elf ◀─ link::{text,symbols,unwind,dwarf} ◀────┤
//!                                                image, metadata, tables, debug ◀──┘
//! ```
//!
//! ```
//! let wasm = pirn_compiler::parse_text(b"(module (func (export \"f\")))")?;
//! let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
//! assert!(so.starts_with(b"\x7fELF"));
//! # Ok::<(), pirn_compiler::CompileError>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod block;
mod budget;
mod cache;
mod compile;
mod debug;
mod emit;
mod error;
mod hw;
mod idiom;
mod image;
mod isa;
mod link;
mod loads;
mod names;
mod operands;
mod options;
mod parse;
mod progress;
mod schedule;
mod spill;
mod tables;
mod text;
mod trampoline;
mod translate;
mod types;
mod values;
mod work;

pub use cache::Cache;
pub use emit::{Emit, compile, compile_counting, emit, emit_noting};
pub use error::CompileError;
pub use options::{OptLevel, Options, RelaxedSimd, WORK_PER_BYTE};
pub use text::parse_text;
