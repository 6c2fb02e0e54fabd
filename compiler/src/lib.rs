//! pirn's ahead-of-time compiler: converts a WebAssembly module to a native shared object.
//!
//! ```text
//! bytes ─ parse ─▶ ParsedModule ─ analysis ─▶ Facts
//!                     │                         │
//!                     └─────── translate ◀──────┘   trampoline          all cores, one function
//!                                  │ Cranelift IR       │               at a time (codegen)
//!                                  └──── optimize ◀─────┘
//!                                            │ machine code
//!                  link: one text, image, metadata, debug information ─▶ .so
//! ```
//!
//! ```
//! let wasm = pirn_compiler::parse_text(b"(module (func (export \"f\")))")?;
//! let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
//! assert!(so.starts_with(b"\x7fELF"));
//! # Ok::<(), pirn_compiler::CompileError>(())
//! ```

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod error;
mod limits;
mod symbol;
mod code;
#[cfg(feature = "faults")]
#[doc(hidden)]
pub mod faults;
mod cache;
mod passes;
mod options;
mod ir;
mod budget;
mod intrinsics;
mod debug;
mod parse;
mod component;
mod analysis;
mod translate;
mod optimize;
mod trampoline;
mod codegen;
mod link;
mod driver;

pub use cache::Cache;
pub use driver::{Compilation, Emit, Emitted, compile};
pub use error::CompileError;
pub use options::{OptLevel, Options, RelaxedSimd, WORK_PER_BYTE};
pub use parse::text::parse_text;
pub use passes::{Pass, Passes};
