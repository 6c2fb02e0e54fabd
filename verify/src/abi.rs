//! Where parameters and results lie at a call of guest code on x86_64.
//!
//! Source: Cranelift's calling convention `tail`. Parameters are passed as in the System V psABI
//! (x86-64 psABI 3.2.3). Results use eight registers of each class. More results lie in memory of
//! the caller, whose address is the first parameter. The callee removes the parameters on the
//! stack.
//!
//! An i32 in memory is a whole word, because Cranelift's code loads the whole word. Of an f32 in
//! memory, only its 4 bytes are passed.

use pirn_format::types::{FuncType, ValType};

/// Numbers of general registers in instructions.
pub(crate) const RAX: usize = 0;
pub(crate) const RCX: usize = 1;
pub(crate) const RDX: usize = 2;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;

const PARAMETERS: [usize; 6] = [RDI, RSI, RDX, RCX, 8, 9];
const RESULTS: [usize; 8] = [RAX, RCX, RDX, RSI, RDI, 8, 9, 10];

/// Registers that a callee restores.
pub(crate) const PRESERVED: [usize; 6] = [RBX, RBP, 12, 13, 14, 15];

/// Vector registers that carry parameters, and as many that carry results.
const VECTORS: usize = 8;

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    General(usize),
    Vector(usize),
    /// In memory, at this byte of the arguments or of the result area.
    Memory(i32),
}

/// The places of a signature's values. The type of an i32 in memory is i64, because the whole word
/// is written.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The register of the result area's address.
    pub(crate) area: Option<usize>,
    /// The register of the context, or of what an import has in its place.
    pub(crate) context: usize,
    pub(crate) params: Vec<(Place, ValType)>,
    pub(crate) results: Vec<(Place, ValType)>,
    /// Bytes of the arguments on the stack, a multiple of 16.
    pub(crate) argument_bytes: i32,
    /// Bytes of the result area, a multiple of 16.
    pub(crate) area_bytes: i32,
}

impl Places {
    /// The places of a function's parameters and results.
    pub(crate) fn of(ty: &FuncType) -> Self {
        let (results, area_bytes) = assign(&RESULTS, &ty.results);
        let area = (area_bytes > 0).then_some(PARAMETERS[0]);
        let context = PARAMETERS[usize::from(area.is_some())];
        let free = &PARAMETERS[1 + usize::from(area.is_some())..];
        let (params, argument_bytes) = assign(free, &ty.params);
        Self {
            area,
            context,
            params,
            results,
            argument_bytes,
            area_bytes,
        }
    }
}

/// Bytes that a value of a type takes on the stack.
pub(crate) fn stack_bytes(ty: ValType) -> i32 {
    if ty == ValType::V128 { 16 } else { 8 }
}

/// Bytes of a value that its instructions read and write.
pub(crate) fn value_bytes(ty: ValType) -> u32 {
    match ty {
        ValType::I32 | ValType::F32 => 4,
        ValType::I64 | ValType::F64 | ValType::Ref(_) => 8,
        ValType::V128 => 16,
    }
}

fn assign(general: &[usize], types: &[ValType]) -> (Vec<(Place, ValType)>, i32) {
    let (mut general, mut vectors, mut bytes) = (general.iter(), 0..VECTORS, 0_i32);
    let places = types.iter().map(|ty| {
        let register = match ty {
            ValType::I32 | ValType::I64 | ValType::Ref(_) => {
                general.next().map(|register| Place::General(*register))
            }
            ValType::F32 | ValType::F64 | ValType::V128 => vectors.next().map(Place::Vector),
        };
        let place = register.unwrap_or_else(|| {
            let size = stack_bytes(*ty);
            bytes = (bytes + size - 1) & !(size - 1);
            bytes += size;
            Place::Memory(bytes - size)
        });
        let ty = match (place, ty) {
            (Place::Memory(_), ValType::I32) => ValType::I64,
            _ => *ty,
        };
        (place, ty)
    });
    let places = places.collect();
    (places, (bytes + 15) & !15)
}
