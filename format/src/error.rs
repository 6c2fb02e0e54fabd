//! [`FormatError`]: why bytes are not a compiled module.

use thiserror::Error;

/// Why a compiled module was refused before any of it was mapped or run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not a file that `aotc` writes.
    #[error("not a compiled module: {0}; make one with `aotc module.wasm`")]
    NotAModule(String),
    /// The file was written by a compiler of another format version.
    #[error("module has format version {found}, this runtime reads {expected}; compile it again")]
    Version {
        /// Version stated in the file.
        found: u32,
        /// Version of this crate, [`FORMAT_VERSION`](crate::FORMAT_VERSION).
        expected: u32,
    },
    /// The module was compiled for another architecture.
    #[error(
        "module is for {found}, this machine is {expected}; compile it with --target {expected}"
    )]
    Target {
        /// Architecture the module was compiled for.
        found: &'static str,
        /// Architecture of this machine.
        expected: &'static str,
    },
    /// The module uses instructions that the machine lacks.
    #[error(
        "module is for cpu {needs}, this machine is {found}: it lacks {missing}; compile it with --cpu baseline"
    )]
    Cpu {
        /// CPU that the module was compiled for, as
        /// [`CpuFeatures::name`](crate::cpu::CpuFeatures::name) writes it.
        needs: String,
        /// CPU of this machine, as [`CpuFeatures::name`](crate::cpu::CpuFeatures::name) writes it.
        found: String,
        /// The features that are missing, by name, separated by commas.
        missing: String,
    },
    /// The content of the file does not match the hash that the compiler wrote.
    #[error(
        "module is damaged: its content hash is {found}, its header says {expected}; compile it again"
    )]
    Hash {
        /// First 8 bytes of the hash of the file, in hexadecimal.
        found: String,
        /// First 8 bytes of the hash in the header, in hexadecimal.
        expected: String,
    },
    /// Two parts of the file contradict each other.
    #[error("module is damaged: {0}; compile it again")]
    Damaged(String),
}
