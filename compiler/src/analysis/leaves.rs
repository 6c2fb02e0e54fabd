//! [`Leaves`]: small functions that the compiler inlines: the operators of the function replace the
//! call.
//!
//! clang and Go's compiler inline by themselves. TeaVM, AssemblyScript and unoptimised builds leave
//! many small functions. A call costs more than the callee's few instructions. The callee makes a
//! frame, and the caller spills live values for which no callee-saved register is left.
//!
//! A leaf
//!
//! * has no loop, so that the time between two operators of its caller is bounded;
//! * calls nothing but leaves, [`DEPTH_MAX`] deep, so that only trapping instructions need a record
//!   of the inlined function (`pirn_format::traps::InlinedEntry`);
//! * calls neither the runtime nor the host: no operator that grows, copies, waits, allocates or
//!   throws;
//! * has numbers and vectors as parameters, results and locals, [`VALUES_MAX`] in total;
//! * is small: [`WEIGHT_MAX`] and [`BODY_BYTES_MAX`].
//!
//! A caller may be translated before the leaf's own code, so a leaf is validated here.

use crate::intrinsics::imports::Imports;
use crate::parse::Body;
use crate::parse::types::value_type;
use pirn_format::metadata::Metadata;
use pirn_format::types::ValType;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use wasmparser::{
    BlockType, BranchHint, FuncValidatorAllocations, FunctionBody, Operator, SectionLimited,
};

/// Largest sum of the [`weight`]s of a leaf's operators, including the operators of inlined
/// callees.
const WEIGHT_MAX: u32 = 12;

/// Most bytes of a leaf's body. Source locations of inlined operators have eight bits for the
/// offset in the body (`translate/inlined_calls.rs`).
pub(crate) const BODY_BYTES_MAX: u64 = 120;

/// Most parameters, results and locals of a leaf.
const VALUES_MAX: usize = 16;

/// Most functions of a module that are examined. A leaf takes some hundred bytes of memory, and a
/// module may have a million functions.
const FUNCTIONS_MAX: usize = 1 << 17;

/// Most leaves nested in one another by inlining.
pub(crate) const DEPTH_MAX: u32 = 3;

/// The leaves of a module, by function index.
#[derive(Debug, Default)]
pub(crate) struct Leaves<'a>(HashMap<u32, Leaf<'a>>);

/// A function that the compiler inlines.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    /// The declared locals.
    pub(crate) locals: Vec<(u32, ValType)>,
    /// Offset of the leaf's body in the module's bytes.
    pub(crate) start: u32,
    /// Bytes of the leaf's body and of the bodies inlined in it.
    pub(crate) bytes: u64,
    /// The body and the branch hints of the leaf.
    pub(crate) body: FunctionBody<'a>,
    pub(crate) hints: Option<SectionLimited<'a, BranchHint>>,
    /// The functions that the leaf calls.
    calls: Vec<u32>,
    /// The sum of the weights of the leaf's operators and of the leaves inlined in it.
    pub(crate) weight: u32,
}

/// Why a function is not a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The body has too many bytes.
    Bytes,
    /// The operators weigh too much.
    Weight,
    /// The function has too many parameters, results and locals.
    Values,
    /// A parameter, result or local is a reference.
    Reference,
    /// A block has parameters, or more than one result.
    BlockType,
    /// The function has a loop.
    Loop,
    /// The function calls through a table or a reference, or makes a tail call.
    Call,
    /// The function calls an import, or a function that the compiler provides.
    Import,
    /// Another operator leaves the guest, or belongs to a proposal that is not examined.
    Operator,
    /// The body has more branch hints than operators. Each inlined call reads the hints again.
    Hints,
    /// The body cannot be read. The function's own translation reports the error.
    Invalid,
}

impl<'a> Leaves<'a> {
    /// Finds the leaves among a module's functions, whose bodies are not validated yet.
    pub(crate) fn find(bodies: &[Body<'a>], metadata: &Metadata, intrinsics: &Imports) -> Self {
        let bodies = &bodies[..bodies.len().min(FUNCTIONS_MAX)];
        let looked_at = bodies.par_iter();
        let mut candidates: Vec<(u32, Leaf<'a>)> = looked_at
            .filter_map(|body| Some((body.index, leaf(body, metadata, intrinsics).ok()?)))
            .collect();
        let mut leaves = HashMap::new();
        for _ in 0..DEPTH_MAX {
            let (mut ready, mut rest) = (vec![], vec![]);
            for (index, mut candidate) in candidates {
                match candidate.include(&leaves) {
                    Some(true) => ready.push((index, candidate)),
                    Some(false) => {}
                    None => rest.push((index, candidate)),
                }
            }
            leaves.extend(ready);
            candidates = rest;
        }
        let first = bodies.first().map_or(0, |body| body.index);
        let is_valid = |allocations: &mut FuncValidatorAllocations, index: u32| {
            let body = bodies[(index - first) as usize].again();
            let mut validator = body.validate.into_validator(std::mem::take(allocations));
            let valid = validator.validate(&body.body).is_ok();
            *allocations = validator.into_allocations();
            valid.then_some(index)
        };
        let indices: Vec<u32> = leaves.keys().copied().collect();
        let valid: HashSet<u32> = indices
            .into_par_iter()
            .map_init(FuncValidatorAllocations::default, is_valid)
            .flatten()
            .collect();
        leaves.retain(|index, _| valid.contains(index));
        Self(leaves)
    }

    /// The leaf with this function index.
    pub(crate) fn get(&self, index: u32) -> Option<&Leaf<'a>> {
        self.0.get(&index)
    }
}

impl Leaf<'_> {
    /// Adds the sizes of called leaves to the leaf's size. `Some(false)` if the sum is too large,
    /// `None` if the leaf calls a function that is not in `leaves`.
    fn include(&mut self, leaves: &HashMap<u32, Self>) -> Option<bool> {
        let (mut weight, mut bytes) = (self.weight, self.bytes);
        for call in &self.calls {
            let callee = leaves.get(call)?;
            weight += callee.weight;
            bytes += callee.bytes;
        }
        if weight > WEIGHT_MAX || bytes > BODY_BYTES_MAX {
            return Some(false);
        }
        (self.weight, self.bytes) = (weight, bytes);
        Some(true)
    }
}

/// Examines one function.
fn leaf<'a>(
    body: &Body<'a>,
    metadata: &Metadata,
    intrinsics: &Imports,
) -> Result<Leaf<'a>, Refusal> {
    let range = body.body.range();
    if range.end - range.start > BODY_BYTES_MAX {
        return Err(Refusal::Bytes);
    }
    let ty = metadata.func_type(metadata.funcs[body.index as usize]);
    let mut values = ty.params.len() + ty.results.len();
    if !ty.params.iter().chain(&ty.results).all(|ty| is_number(*ty)) {
        return Err(Refusal::Reference);
    }
    let mut locals = vec![];
    for group in body
        .body
        .get_locals_reader()
        .map_err(|_| Refusal::Invalid)?
    {
        let (count, ty) = group.map_err(|_| Refusal::Invalid)?;
        values += count as usize;
        let ty = value_type(ty, |index| metadata.kind(index)).map_err(|()| Refusal::Invalid)?;
        if !is_number(ty) {
            return Err(Refusal::Reference);
        }
        locals.push((count, ty));
        if values > VALUES_MAX {
            break;
        }
    }
    if values > VALUES_MAX {
        return Err(Refusal::Values);
    }
    let mut leaf = Leaf {
        locals,
        start: range.start as u32,
        bytes: range.end - range.start,
        body: body.body.clone(),
        hints: body.hints.clone(),
        calls: vec![],
        weight: 0,
    };
    let operators = body.body.get_operators_reader();
    let mut operators = operators.map_err(|_| Refusal::Invalid)?;
    let mut count = 0;
    while !operators.eof() {
        let op = operators.read().map_err(|_| Refusal::Invalid)?;
        count += 1;
        leaf.weight += weight(&op)?;
        if leaf.weight > WEIGHT_MAX {
            return Err(Refusal::Weight);
        }
        if let Operator::Call { function_index } = op {
            let index = intrinsics.index(function_index);
            if index < metadata.imported_funcs() || intrinsics.provided(index).is_some() {
                return Err(Refusal::Import);
            }
            leaf.calls.push(index);
        }
    }
    match &leaf.hints {
        Some(hints) if hints.count() > count => Err(Refusal::Hints),
        _ => Ok(leaf),
    }
}

fn is_number(ty: ValType) -> bool {
    matches!(
        ty,
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64 | ValType::V128
    )
}

/// The approximate number of instructions of an operator, if a leaf may have the operator.
/// Operators of proposals that are not named here are refused.
fn weight(op: &Operator<'_>) -> Result<u32, Refusal> {
    macro_rules! is_examined {
        ($(@$proposal:ident $op:ident $({ $($arg:ident: $ty:ty),* })? => $visit:ident
            ($($arity:tt)*))*) => {
            match op {
                $(Operator::$op $({ $($arg: _),* })? => is_examined!(@one $proposal),)*
                _ => false,
            }
        };
        (@one mvp) => { true };
        (@one sign_extension) => { true };
        (@one saturating_float_to_int) => { true };
        (@one wide_arithmetic) => { true };
        (@one simd) => { true };
        (@one relaxed_simd) => { true };
        (@one $proposal:ident) => { false };
    }
    match op {
        Operator::LocalGet { .. }
        | Operator::LocalSet { .. }
        | Operator::LocalTee { .. }
        | Operator::I32Const { .. }
        | Operator::I64Const { .. }
        | Operator::F32Const { .. }
        | Operator::F64Const { .. }
        | Operator::Nop
        | Operator::Drop
        | Operator::End
        | Operator::Else
        | Operator::Return
        // The callee's operators have weights of their own.
        | Operator::Call { .. } => Ok(0),
        Operator::Block {
            blockty: BlockType::FuncType(_),
        }
        | Operator::If {
            blockty: BlockType::FuncType(_),
        } => Err(Refusal::BlockType),
        Operator::Block { .. } => Ok(0),
        Operator::If { .. } => Ok(1),
        Operator::Loop { .. } => Err(Refusal::Loop),
        Operator::CallIndirect { .. }
        | Operator::ReturnCall { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::ReturnCallRef { .. } => Err(Refusal::Call),
        Operator::MemoryGrow { .. } => Err(Refusal::Operator),
        // Each entry may become an edge with its own moves.
        Operator::BrTable { targets } => Ok(2 + targets.len()),
        // Divisions, with the checks of their operands.
        Operator::I32DivS | Operator::I64DivS | Operator::I32RemS | Operator::I64RemS => Ok(4),
        Operator::I32DivU | Operator::I64DivU | Operator::I32RemU | Operator::I64RemU => Ok(2),
        _ if wasmparser::for_each_operator!(is_examined) => Ok(1),
        _ => Err(Refusal::Operator),
    }
}

#[cfg(test)]
mod tests;
