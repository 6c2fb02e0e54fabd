//! Builds a file from compiled functions: one text, its tables, and the ELF object around them.

mod dispatch_tables;
pub(crate) mod dwarf;
pub(crate) mod elf;
pub(crate) mod listing;
pub(crate) mod object;
mod symbols;
pub(crate) mod text;
mod unwind;
