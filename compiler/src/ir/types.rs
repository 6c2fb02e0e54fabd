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

/// Number of general registers for parameters of a guest function on x86_64. `vmctx` takes one, and
/// so does the address of the result area, if there is one.
const PARAM_REGISTERS: usize = 6;

/// Number of general registers for results of a guest function on x86_64. Eight vector registers
/// are for results, too.
const RESULT_REGISTERS: usize = 8;

/// The signature of a guest function of this type: `(vmctx, params...) -> results`.
///
/// An i32 that is passed in memory is extended to a whole word, because x86_64's code loads whole
/// words. Otherwise a callee could read 32 bits that earlier code left on the stack. On aarch64,
/// code loads 4 bytes of an i32, and Cranelift ignores the extension.
pub(crate) fn guest_signature(ty: &FuncType) -> Signature {
    let is_vector = |ty: &&ValType| matches!(ty, ValType::F32 | ValType::F64 | ValType::V128);
    let vectors = ty.results.iter().filter(is_vector).count();
    let has_result_area = vectors.max(ty.results.len() - vectors) > RESULT_REGISTERS;
    let free = PARAM_REGISTERS - 1 - usize::from(has_result_area);
    let mut signature = Signature::new(GUEST_CALL_CONV);
    signature.params.push(AbiParam::new(POINTER));
    signature.params.extend(guest_values(&ty.params, free));
    signature
        .returns
        .extend(guest_values(&ty.results, RESULT_REGISTERS));
    signature
}

/// ABI parameters for parameters or results. The first `registers` integers and references are in
/// registers.
fn guest_values(types: &[ValType], mut registers: usize) -> impl Iterator<Item = AbiParam> {
    types.iter().map(move |ty| {
        let value = AbiParam::new(value_type(*ty));
        match ty {
            ValType::F32 | ValType::F64 | ValType::V128 => value,
            _ if registers > 0 => {
                registers -= 1;
                value
            }
            ValType::I32 => value.uext(),
            ValType::I64 | ValType::Ref(_) => value,
        }
    })
}

/// `(word, word, word)` in the C convention: for entry trampolines and for the routines that exit
/// to the host.
pub(crate) fn host_signature() -> Signature {
    let mut signature = Signature::new(HOST_CALL_CONV);
    signature.params = vec![AbiParam::new(POINTER); 3];
    signature
}

/// `(word, word, word, word) -> (word, word)` in the C convention: for the routines that copy and
/// fill.
pub(crate) fn bulk_signature() -> Signature {
    let mut signature = Signature::new(HOST_CALL_CONV);
    signature.params = vec![AbiParam::new(POINTER); 4];
    signature.returns = vec![AbiParam::new(POINTER); 2];
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
