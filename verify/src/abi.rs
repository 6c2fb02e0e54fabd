//! Where parameters and results lie at a call of guest code.
//!
//! Sources: Cranelift's calling convention `tail`, and for calls of the host the platform's
//! convention.
//!
//! On x86_64, parameters are passed as in the System V psABI (x86-64 psABI 3.2.3). Results use
//! eight registers of each class. On aarch64, parameters and results use the same registers: x2 to
//! x7, and v0 to v7. More results lie in memory of the caller, whose address is the first parameter
//! on x86_64, and in x8 on aarch64. The callee removes the parameters on the stack.
//!
//! On x86_64 an i32 in memory is a whole word, because Cranelift's code loads the whole word. On
//! aarch64 it has 4 bytes. An f32 in memory has 4 bytes on both.

use pirn_format::types::{FuncType, ValType};

/// Numbers of general registers in instructions of x86_64.
pub(crate) const RAX: usize = 0;
pub(crate) const RCX: usize = 1;
pub(crate) const RDX: usize = 2;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;

/// Numbers of aarch64 registers: the frame pointer, the register of the return address, and the
/// stack pointer. In some operands, number 31 is the zero register.
pub(crate) const X29: usize = 29;
pub(crate) const X30: usize = 30;
pub(crate) const SP: usize = 31;

/// The registers of an architecture, as its calling convention uses them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Convention {
    /// Number of general registers, including the stack pointer.
    pub(crate) registers: usize,
    pub(crate) stack: usize,
    pub(crate) frame: usize,
    /// The register that has the return address when a function is entered. `None` if a call pushes
    /// the return address.
    pub(crate) link: Option<usize>,
    /// Bytes that a call pushes.
    pub(crate) pushed: i32,
    /// Parameters of guest code, the context first.
    pub(crate) parameters: &'static [usize],
    pub(crate) results: &'static [usize],
    /// The register of the address of the memory for results. `None` if the address is the first
    /// parameter.
    pub(crate) area: Option<usize>,
    /// Registers that a callee restores.
    pub(crate) preserved: &'static [usize],
    /// Whether an i32 in memory is a whole word, because code loads the whole word. Otherwise code
    /// does not write the word's upper half, and nothing depends on this half.
    pub(crate) loads_words: bool,
    /// The first three parameters of the host.
    pub(crate) host: [usize; 3],
    /// The parameters of the routines that copy and fill, the context first.
    pub(crate) bulk: [usize; 4],
    /// The results of these routines.
    pub(crate) bulk_results: [usize; 2],
    /// Number of vector registers that code uses.
    pub(crate) vectors: usize,
    /// Vector registers whose lower half the callee restores.
    pub(crate) preserved_vectors: core::ops::Range<usize>,
}

pub(crate) static X86_64: Convention = Convention {
    registers: 16,
    stack: RSP,
    frame: RBP,
    link: None,
    pushed: 8,
    parameters: &[RDI, RSI, RDX, RCX, 8, 9],
    results: &[RAX, RCX, RDX, RSI, RDI, 8, 9, 10],
    area: None,
    preserved: &[RBX, RBP, 12, 13, 14, 15],
    loads_words: true,
    host: [RDI, RSI, RDX],
    bulk: [RDI, RSI, RDX, RCX],
    bulk_results: [RAX, RDX],
    vectors: 16,
    preserved_vectors: 0..0,
};

/// AAPCS64 6.1.1 and 6.1.2, and Cranelift's convention `tail`.
pub(crate) static AARCH64: Convention = Convention {
    registers: 32,
    stack: SP,
    frame: X29,
    link: Some(X30),
    pushed: 0,
    parameters: &[2, 3, 4, 5, 6, 7],
    results: &[2, 3, 4, 5, 6, 7],
    area: Some(8),
    preserved: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, X29],
    loads_words: false,
    host: [0, 1, 2],
    bulk: [0, 1, 2, 3],
    bulk_results: [0, 1],
    vectors: 32,
    preserved_vectors: 8..16,
};

impl Convention {
    /// The register of the parameter of guest code with this number. The context has number 0.
    pub(crate) fn parameter(&self, number: usize) -> usize {
        self.parameters[number]
    }

    /// The distance, modulo 16, from the stack pointer at entry to addresses that are multiples of
    /// 16.
    pub(crate) fn aligned(&self) -> i32 {
        self.pushed
    }
}

/// Number of vector registers that carry parameters. The same number carries results.
pub(crate) const VECTORS: usize = 8;

/// The place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    General(usize),
    Vector(usize),
    /// In memory, at this byte of the arguments or of the result area.
    Memory(i32),
}

/// The places of a signature's values. On x86_64 the type of an i32 in memory is i64, because the
/// whole word is written.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The register of the result area's address.
    pub(crate) area: Option<usize>,
    /// The register of the context. A call of an import passes the import's `vmctx` in this
    /// register.
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
    pub(crate) fn of(abi: &Convention, ty: &FuncType) -> Self {
        let (results, area_bytes) = assign(abi, abi.results, &ty.results);
        let area = (area_bytes > 0).then(|| abi.area.unwrap_or(abi.parameters[0]));
        let first = usize::from(area.is_some() && abi.area.is_none());
        let context = abi.parameters[first];
        let (params, argument_bytes) = assign(abi, &abi.parameters[first + 1..], &ty.params);
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

/// Bytes that an instruction reads or writes for a value of a type.
pub(crate) fn value_bytes(ty: ValType) -> u32 {
    match ty {
        ValType::I32 | ValType::F32 => 4,
        ValType::I64 | ValType::F64 | ValType::Ref(_) => 8,
        ValType::V128 => 16,
    }
}

fn assign(abi: &Convention, general: &[usize], types: &[ValType]) -> (Vec<(Place, ValType)>, i32) {
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
            (Place::Memory(_), ValType::I32) if abi.loads_words => ValType::I64,
            _ => *ty,
        };
        (place, ty)
    });
    let places = places.collect();
    (places, (bytes + 15) & !15)
}
