//! The module format: everything that `aotc` writes and the runtime reads.
//!
//! Compiler and runtime share only this crate. This crate has no unsafe code, makes no system call
//! of its own and depends on no compiler. Its modules are:
//!
//! * [`layout`]: offsets of the context, globals, tables and function references of an instance,
//!   relative to the context pointer. Generated code and the runtime take every offset from this
//!   module.
//! * [`exit`]: the numbers that generated code passes when it leaves the guest.
//! * [`header`], [`sections`]: the fixed part of a compiled module, read before the file is mapped.
//! * [`metadata`], [`types`]: the variable part: types, imports, exports, segments, names.
//! * [`component`]: the types, imports and exports of a component.
//! * [`traps`], [`image`]: `traps` holds tables that are searched in place, never decoded; `image`
//!   describes the initial contents of memory 0.
//! * [`read`]: the check of a whole file, before the runtime maps or runs any part of it.
//! * [`rewrite`]: the file of a snapshot, from the file of its module.
//! * [`cpu`]: the instruction-set extensions that a module may ask for.
//! * [`text`]: escapes text of guests, clients and files for logs, terminals and error lines.

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
pub mod text;
pub mod error;
pub mod cpu;
pub mod layout;
pub mod exit;
pub mod sections;
pub mod image;
pub mod types;
pub mod traps;
pub mod header;
pub mod component;
pub mod metadata;
pub mod read;
pub mod rewrite;

pub use error::FormatError;

/// Version of everything in this crate. The runtime refuses a module of another version.
///
/// The version changes with every change to the context layout, exit numbers, header or metadata,
/// or to a property that generated code relies on. Compiler and runtime of one version always
/// agree.
pub const FORMAT_VERSION: u32 = 16;
