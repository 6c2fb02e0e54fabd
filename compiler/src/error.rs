//! [`CompileError`]: why a module was not compiled.

use thiserror::Error;

/// Why a module was not compiled. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The text format could not be parsed.
    #[error("not a WebAssembly text module: {0}")]
    Text(String),
    /// The bytes are an ELF file, as compiled modules are.
    #[error(
        "it is compiled already: an ELF file; run it with `aotrun`, look at it with `aotc inspect`"
    )]
    Compiled,
    /// The bytes are no valid module, or use a feature that is not supported.
    #[error("invalid module: {message} (at offset {offset:#x})")]
    Invalid {
        /// What is wrong, in the validator's words.
        message: String,
        /// Offset in the module's bytes.
        offset: usize,
    },
    /// The module is valid, and larger than this compiler allows.
    #[error("module has {found} {what}, the limit is {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much of it the module has.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// The module is valid as far as it was looked at, and all its functions and their trampolines
    /// together ask for more work than [`Options::work_per_byte`](crate::Options::work_per_byte)
    /// allows.
    #[error(
        "module of {module_bytes} bytes needs more than {limit} units of compile work, the limit for its size; use \
         fewer parameters, results and locals, or raise the work per byte (`aotc --work-per-byte`)"
    )]
    Work {
        /// Units that are allowed.
        limit: u64,
        /// Bytes of the module, which the limit grows with.
        module_bytes: u64,
    },
    /// The module is valid, and one of its functions is made into more than this compiler allows.
    #[error("function {func} has {found} {what}, the limit is {limit}; split it")]
    FunctionLimit {
        /// Index or name of the function.
        func: String,
        /// What there is too much of.
        what: &'static str,
        /// How much of it there is, at least.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// An import of `hw` that is no intrinsic, or a use of one that there is no instruction for.
    #[error("intrinsic hw {name}: {message}")]
    Intrinsic {
        /// Its name in `hw`.
        name: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// An option asks for what does not exist.
    #[error("{0}")]
    Options(String),
    /// The code generator refused a function, which is a fault of this compiler.
    #[error("cannot compile function {func}: {message}; this is a fault of the compiler")]
    Codegen {
        /// Index or name of the function.
        func: String,
        /// What the code generator said.
        message: String,
    },
    /// The object could not be written, which is a fault of this compiler.
    #[error("cannot write the object: {0}; this is a fault of the compiler")]
    Object(String),
}
