//! [`CompileError`]: the reason why a module was not compiled.

use thiserror::Error;

/// The reason why a module was not compiled. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The text format could not be parsed.
    #[error("not a WebAssembly text module: {0}")]
    Text(String),
    /// The bytes are an ELF file, as compiled modules are.
    #[error(
        "it is an ELF file, so it is compiled already; run it with `aotrun`, or inspect it with \
         `aotc inspect`"
    )]
    Compiled,
    /// The bytes are not a valid module, or they use a feature that is not supported.
    #[error("invalid module: {message} (at offset {offset:#x})")]
    Invalid {
        /// The validator's message.
        message: String,
        /// Offset in the module's bytes.
        offset: usize,
    },
    /// The bytes are a component that cannot be compiled.
    #[error("component: {0}")]
    Component(String),
    /// The module is valid, but exceeds a limit of this compiler.
    #[error("module has {found} {what}, the limit is {limit}; use fewer")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The value of the quantity in the module.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The module is valid as far as it was checked, but compilation needs more work than
    /// [`Options::work_per_byte`](crate::Options::work_per_byte) allows. Functions and trampolines
    /// need work, and so do instances, types, adapters and names of a component.
    #[error(
        "module of {module_bytes} bytes needs more than {limit} units of compile work, the limit \
         for its size; use fewer parameters, results and locals, in a component also fewer \
         instances and smaller types, or raise the work per byte (`aotc --work-per-byte`)"
    )]
    Work {
        /// The limit in units of work.
        limit: u64,
        /// Bytes of the module, with which the limit grows.
        module_bytes: u64,
    },
    /// The module is valid, but the code of one of its functions exceeds a limit of this compiler.
    #[error("function {func} has {found} {what}, the limit is {limit}; split the function")]
    FunctionLimit {
        /// Index or name of the function.
        func: String,
        /// The limited quantity.
        what: &'static str,
        /// The value of the quantity, or a lower bound.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// An import of `hw` that is not an intrinsic, or a use of an intrinsic that no instruction can
    /// encode.
    #[error("intrinsic hw {name}: {message}")]
    Intrinsic {
        /// The import's name in `hw`.
        name: String,
        /// The problem, and the remedy.
        message: String,
    },
    /// An option asks for something that does not exist.
    #[error("{0}")]
    Options(String),
    /// The code generator refused a function, which is a fault of this compiler.
    #[error(
        "cannot compile function {func}: {message}; this is a fault of the compiler, report it"
    )]
    Codegen {
        /// Index or name of the function.
        func: String,
        /// The code generator's message.
        message: String,
    },
    /// The object could not be written, which is a fault of this compiler.
    #[error("cannot write the object: {0}; this is a fault of the compiler, report it")]
    Object(String),
}
