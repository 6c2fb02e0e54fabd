//! The module format: everything that `aotc` writes and the runtime reads.
//!
//! This crate is the slab under both wings of the house. It holds no unsafe code, asks nothing of
//! an operating system and knows no compiler. The compiler and the runtime agree on exactly what is
//! written here:
//!
//! * [`layout`]: where the context, globals, tables and function references of an instance lie
//!   relative to the context pointer. Generated code and the runtime take every offset from there.
//! * [`exit`]: the numbers that generated code passes when it leaves the guest.
//! * [`header`], [`sections`]: the fixed part of a compiled module, read before it is mapped.
//! * [`metadata`], [`types`]: the variable part: types, imports, exports, segments, names.
//! * [`traps`], [`image`]: tables that are searched in place, never decoded.
//! * [`read`]: the check of a whole file, before any of it is mapped or run.
//! * [`cpu`]: the instruction-set extensions that a module may ask for.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod error;
pub mod exit;
pub mod header;
pub mod image;
pub mod layout;
pub mod metadata;
pub mod read;
pub mod sections;
pub mod traps;
pub mod types;

pub use error::FormatError;

/// Version of everything in this crate. A module of another version is refused.
///
/// It changes with every change to the layout of the context, to an exit number, to the header, to
/// the metadata or to what generated code relies on: compiler and runtime of one version always agree.
pub const FORMAT_VERSION: u32 = 10;
