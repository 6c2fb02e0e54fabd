//! [`ParsedModule`]: a validated module's description, ready to be translated function by function.

use crate::error::CompileError;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::Metadata;
use wasmparser::{FuncToValidate, FunctionBody, ValidatorResources};

/// A module whose every section but the function bodies is validated and described.
pub(crate) struct ParsedModule<'a> {
    /// The description. `code` and `entries` are empty until the module is linked; data segments
    /// have their own modes, with `start` and `len` counting in the concatenation of [`data`](Self::data).
    pub(crate) metadata: Metadata,
    /// Where the parts of the instance area lie.
    pub(crate) layout: InstanceLayout,
    /// Bytes of every data segment, in order.
    pub(crate) data: Vec<&'a [u8]>,
    /// Bodies of defined functions, in order: the first is of function `metadata.imported_funcs()`.
    pub(crate) bodies: Vec<Body<'a>>,
}

/// The body of one defined function, not yet validated.
pub(crate) struct Body<'a> {
    /// Index of the function, imported ones counted.
    pub(crate) index: u32,
    /// Its locals and operators.
    pub(crate) body: FunctionBody<'a>,
    /// The validator for it.
    pub(crate) validate: FuncToValidate<ValidatorResources>,
}

/// Parses and validates everything but the function bodies.
///
/// # Errors
///
/// [`CompileError::Invalid`] for what is no module, [`CompileError::Limit`] for what is too large.
pub(crate) fn parse(wasm: &[u8]) -> Result<ParsedModule<'_>, CompileError> {
    let _ = wasm;
    Err(CompileError::Options("under construction".to_owned()))
}
