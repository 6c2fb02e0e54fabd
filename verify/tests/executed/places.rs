//! Where the values of a function of x86_64 lie, by the calling convention that `docs/internals`
//! describes. The test does not use the verifier's own table, so that it does not repeat the
//! table's faults.

use pirn_format::types::{FuncType, ValType};

pub(crate) const RAX: usize = 0;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;

/// Registers that a callee must preserve.
pub(crate) const PRESERVED: [usize; 6] = [3, RBP, 12, 13, 14, 15];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    General(usize),
    Vector(usize),
    /// At this byte of the arguments on the stack, or of the memory for results.
    Memory(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) context: usize,
    pub(crate) params: Vec<(Place, ValType)>,
    pub(crate) results: Vec<(Place, ValType)>,
    pub(crate) argument_bytes: usize,
    pub(crate) area_bytes: usize,
}

impl Places {
    pub(crate) fn of(ty: &FuncType) -> Self {
        const PARAMETERS: [usize; 6] = [RDI, RSI, 2, 1, 8, 9];
        const RESULTS: [usize; 8] = [RAX, 1, 2, RSI, RDI, 8, 9, 10];
        let (results, area_bytes) = assign(&RESULTS, &ty.results);
        // The address of the memory for results is the first parameter.
        let context = usize::from(area_bytes > 0);
        let (params, argument_bytes) = assign(&PARAMETERS[context + 1..], &ty.params);
        Self {
            context: PARAMETERS[context],
            params,
            results,
            argument_bytes,
            area_bytes,
        }
    }
}

fn assign(general: &[usize], types: &[ValType]) -> (Vec<(Place, ValType)>, usize) {
    let (mut general, mut vectors, mut bytes) = (general.iter(), 0..8, 0_usize);
    let places = types.iter().map(|ty| {
        let place = match ty {
            ValType::F32 | ValType::F64 | ValType::V128 => vectors.next().map(Place::Vector),
            _ => general.next().map(|register| Place::General(*register)),
        };
        let place = place.unwrap_or_else(|| {
            let size = if *ty == ValType::V128 { 16 } else { 8 };
            bytes = bytes.next_multiple_of(size) + size;
            Place::Memory(bytes - size)
        });
        (place, *ty)
    });
    let places = places.collect();
    (places, bytes.next_multiple_of(16))
}
