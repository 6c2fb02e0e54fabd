//! Translation of one WebAssembly function to Cranelift IR, validating as it goes.

use crate::error::CompileError;
use crate::parse::Body;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::Metadata;
use wasmparser::FuncValidatorAllocations;

/// What every function of a module is translated against.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    /// The module.
    pub(crate) metadata: &'a Metadata,
    /// Where its instance area's parts lie.
    pub(crate) layout: &'a InstanceLayout,
    /// The target.
    pub(crate) isa: &'a dyn TargetIsa,
    /// Whether addresses of checked accesses are masked against speculation past the check.
    pub(crate) spectre: bool,
}

/// Buffers that are reused from function to function on one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The builder's.
    pub(crate) builder: FunctionBuilderContext,
    /// The validator's.
    pub(crate) validator: FuncValidatorAllocations,
}

/// Validates and translates one function into `func`, which is empty. The result's name, signature
/// and every `FuncRef` are in place; external names are [`Callee`](crate::names::Callee)s, source
/// locations are offsets in the module's bytes.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the body is not valid.
pub(crate) fn translate(
    env: Env<'_>,
    body: Body<'_>,
    scratch: &mut Scratch,
    func: &mut ir::Function,
) -> Result<(), CompileError> {
    let _ = (env, body, scratch, func);
    Err(CompileError::Options("under construction".to_owned()))
}
