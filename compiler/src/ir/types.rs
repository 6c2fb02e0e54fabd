//! Converts WebAssembly types to Cranelift's, and builds the signatures of guest functions.

use cranelift_codegen::ir::{self, AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use pirn_format::types::{FuncType, ValType};

/// Calling convention of guest functions. Only entries of guests and exits to the host use the
/// platform's C convention.
pub(crate) const GUEST_CALL_CONV: CallConv = CallConv::Tail;

/// The C calling convention of both targets' psABI.
const HOST_CALL_CONV: CallConv = CallConv::SystemV;

/// Type of addresses: both targets are 64-bit.
pub(crate) const POINTER: ir::Type = types::I64;

/// The Cranelift type of a value. Every v128 is an `i8x16`, whatever its lanes mean: on the operand
/// stack, in locals, globals, parameters and results. References are addresses or handles, 0 for
/// null.
pub(crate) fn value_type(ty: ValType) -> ir::Type {
    match ty {
        ValType::I32 => types::I32,
        ValType::I64 | ValType::Ref(_) => types::I64,
        ValType::F32 => types::F32,
        ValType::F64 => types::F64,
        ValType::V128 => types::I8X16,
    }
}

/// The signature of a guest function of this type: `(vmctx, params...) -> results`.
pub(crate) fn guest_signature(ty: &FuncType) -> Signature {
    let mut signature = Signature::new(GUEST_CALL_CONV);
    signature.params.push(AbiParam::new(POINTER));
    let values = |list: &[ValType]| -> Vec<AbiParam> {
        list.iter()
            .map(|ty| AbiParam::new(value_type(*ty)))
            .collect()
    };
    signature.params.extend(values(&ty.params));
    signature.returns.extend(values(&ty.results));
    signature
}

/// `(word, word, word)` in the C convention: for entry trampolines and for the routines that exit
/// to the host.
pub(crate) fn host_signature() -> Signature {
    let mut signature = Signature::new(HOST_CALL_CONV);
    signature.params = vec![AbiParam::new(POINTER); 3];
    signature
}

/// The signature of a builtin or a stub in the guests' calling convention:
/// `(vmctx, words...) -> words`.
pub(crate) fn word_signature(params: usize, results: usize) -> Signature {
    let mut signature = Signature::new(GUEST_CALL_CONV);
    signature.params = vec![AbiParam::new(POINTER); 1 + params];
    signature.returns = vec![AbiParam::new(POINTER); results];
    signature
}
