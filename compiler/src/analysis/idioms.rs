//! Recognises functions by the expression that they compute, whatever their names are.
//!
//! WebAssembly 2.0 has no 64 by 64 bit multiplication with a 128-bit result. Compilers that do not
//! rely on wide arithmetic call `__multi3` of their runtime library: `(address, a low, a high, b
//! low, b high)`. `__multi3` stores the lower 128 bits of the product. The function takes a dozen
//! instructions and four multiplications, where processors have one instruction. Whole-module
//! optimisers such as `wasm-opt`, which clang runs if installed, remove the upper halves if every
//! call passes 0 for them: `(address, a, b)`.
//!
//! A body matches only if it computes exactly the same expressions as one of the known bodies, up
//! to commutativity and associativity. The compiler does not run the body and does not trust its
//! name.

use crate::parse::Body;
use pirn_format::metadata::Metadata;
use pirn_format::types::ValType;
use rayon::prelude::*;
use std::collections::HashMap;
use wasmparser::{FunctionBody, MemArgTarget, Operator};

/// The functions of a module that multiply to 128 bits, by function index.
pub(crate) type Multiplications = HashMap<u32, Multiplication>;

/// A function that stores the lower 128 bits of a product of 128-bit or 64-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiplication {
    /// Whether the parameters have upper halves.
    pub(crate) is_wide: bool,
    /// Whether the function stores the upper half, at offset 8, before the lower half, at offset 0.
    /// If the second store is out of bounds, the first one must already have been made.
    pub(crate) high_first: bool,
}

/// Longest body that is examined, in bytes. The known bodies have about 130.
const BODY_BYTES_MAX: u64 = 400;

/// Most addends of a sum. The known bodies have five, and adding a sum to itself doubles the
/// number.
const ADDENDS_MAX: usize = 16;

/// Finds the multiplications among a module's functions.
pub(crate) fn multiplications(bodies: &[Body<'_>], metadata: &Metadata) -> Multiplications {
    use ValType::I64;
    let address = metadata.memory_address(0).val_type();
    let looked_at = bodies.par_iter().filter(|body| {
        let ty = metadata.funcs[body.index as usize];
        let (ty, bytes) = (metadata.func_type(ty), body.body.range());
        matches!(ty.params[..], [_, I64, I64] | [_, I64, I64, I64, I64])
            && ty.params[0] == address
            && ty.results.is_empty()
            && bytes.end - bytes.start <= BODY_BYTES_MAX
    });
    looked_at
        .filter_map(|body| {
            let ty = metadata.funcs[body.index as usize];
            let params = metadata.func_type(ty).params.len() as u32;
            Some((body.index, multiplication(&body.body, params)?))
        })
        .collect()
}

/// The index of the parameter with the address. Both numbers follow, lower half first.
const ADDRESS: u32 = 0;

/// Matches a body against the product of its parameters.
fn multiplication(body: &FunctionBody<'_>, params: u32) -> Option<Multiplication> {
    let mut terms = Terms::default();
    let params: Vec<_> = (ADDRESS..params)
        .map(|param| terms.add_term(Term::Param(param)))
        .collect();
    let stored = stores(body, params.clone(), &mut terms)?;
    let (a, b, upper_halves) = match params[..] {
        [_, a, b] => (a, b, None),
        [_, a, a_high, b, b_high] => (a, b, Some((a_high, b_high))),
        _ => return None,
    };
    let mut crossed = vec![];
    if let Some((a_high, b_high)) = upper_halves {
        crossed = vec![terms.product(a, b_high), terms.product(a_high, b)];
    }
    for [a, b] in [[a, b], [b, a]] {
        for [low, high] in [terms.by_halves(a, b), terms.by_carries(a, b)] {
            let addends: Vec<_> = [high].iter().chain(&crossed).copied().collect();
            let high = terms.sum(&addends);
            let (low, high) = ((0, low), (8, high));
            if stored == [low, high] || stored == [high, low] {
                return Some(Multiplication {
                    is_wide: upper_halves.is_some(),
                    high_first: stored[0] == high,
                });
            }
        }
    }
    None
}

/// The two stores that a body makes at the address in parameter [`ADDRESS`], by offset and value.
/// `None` for a body with any other effect. `locals` are the parameters. The body is not validated
/// yet.
fn stores(
    body: &FunctionBody<'_>,
    mut locals: Vec<TermId>,
    terms: &mut Terms,
) -> Option<[(u64, TermId); 2]> {
    for group in body.get_locals_reader().ok()? {
        let (count, ty) = group.ok()?;
        if ty != wasmparser::ValType::I64 || u64::from(count) > BODY_BYTES_MAX {
            return None;
        }
        let zero = terms.add_term(Term::Const(0));
        locals.resize(locals.len() + count as usize, zero);
    }
    let (mut stack, mut found, mut ended) = (vec![], vec![], false);
    let mut operators = body.get_operators_reader().ok()?;
    while !operators.eof() {
        let op = operators.read().ok()?;
        if ended {
            return None;
        }
        match op {
            Operator::LocalGet { local_index } => stack.push(*locals.get(local_index as usize)?),
            Operator::LocalSet { local_index } => {
                *locals.get_mut(local_index as usize)? = stack.pop()?;
            }
            Operator::LocalTee { local_index } => {
                *locals.get_mut(local_index as usize)? = *stack.last()?;
            }
            Operator::I64Const { value } => {
                stack.push(terms.add_term(Term::Const(value.cast_unsigned())));
            }
            Operator::I64Store { memarg } if memarg.target == MemArgTarget::Memory(0) => {
                let (value, address) = (stack.pop()?, stack.pop()?);
                if terms.terms[address.0] != Term::Param(ADDRESS) {
                    return None;
                }
                found.push((memarg.offset, value));
            }
            // 0 and 1 are equal in 32 and 64 bits, and no other operator here takes an i32.
            Operator::I64ExtendI32U => {
                let value = *stack.last()?;
                if !matches!(terms.terms[value.0], Term::Less(..)) {
                    return None;
                }
            }
            Operator::End => ended = true,
            op => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                stack.push(terms.binary(&op, left, right)?);
            }
        }
    }
    (ended && stack.is_empty()).then_some(())?;
    found.try_into().ok()
}

/// Identifies a term. Two terms are equal if and only if their ids are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct TermId(usize);

/// An expression modulo 2^64.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Term {
    Param(u32),
    Const(u64),
    /// Sorted; none of the addends is a sum.
    Sum(Vec<TermId>),
    /// Sorted.
    Product([TermId; 2]),
    And([TermId; 2]),
    Or([TermId; 2]),
    ShiftLeft(TermId, TermId),
    ShiftRight(TermId, TermId),
    /// 1 if the first operand is less than the second, unsigned, else 0.
    Less(TermId, TermId),
}

/// Sorts the operands of a commutative operator.
fn ascending(left: TermId, right: TermId) -> [TermId; 2] {
    [left.min(right), left.max(right)]
}

/// Hash-consed terms of one function and of the known bodies.
#[derive(Default)]
struct Terms {
    terms: Vec<Term>,
    names: HashMap<Term, TermId>,
}

impl Terms {
    fn add_term(&mut self, term: Term) -> TermId {
        if let Some(known) = self.names.get(&term) {
            return *known;
        }
        let name = TermId(self.terms.len());
        self.terms.push(term.clone());
        self.names.insert(term, name);
        name
    }

    fn binary(&mut self, op: &Operator<'_>, left: TermId, right: TermId) -> Option<TermId> {
        Some(match op {
            Operator::I64Add => {
                let addends = [left, right].map(|term| match &self.terms[term.0] {
                    Term::Sum(parts) => parts.len(),
                    _ => 1,
                });
                (addends[0] + addends[1] <= ADDENDS_MAX).then(|| self.sum(&[left, right]))?
            }
            Operator::I64Mul => self.product(left, right),
            Operator::I64And => self.and(left, right),
            Operator::I64Or => self.or(left, right),
            Operator::I64Shl => self.add_term(Term::ShiftLeft(left, right)),
            Operator::I64ShrU => self.add_term(Term::ShiftRight(left, right)),
            Operator::I64LtU => self.add_term(Term::Less(left, right)),
            Operator::I64GtU => self.add_term(Term::Less(right, left)),
            _ => return None,
        })
    }

    fn sum(&mut self, addends: &[TermId]) -> TermId {
        let mut flat = vec![];
        for addend in addends {
            match &self.terms[addend.0] {
                Term::Sum(parts) => flat.extend_from_slice(parts),
                _ => flat.push(*addend),
            }
        }
        flat.sort_unstable();
        self.add_term(Term::Sum(flat))
    }

    fn product(&mut self, left: TermId, right: TermId) -> TermId {
        self.add_term(Term::Product(ascending(left, right)))
    }

    fn and(&mut self, left: TermId, right: TermId) -> TermId {
        self.add_term(Term::And(ascending(left, right)))
    }

    fn or(&mut self, left: TermId, right: TermId) -> TermId {
        self.add_term(Term::Or(ascending(left, right)))
    }

    fn low(&mut self, term: TermId) -> TermId {
        let mask = self.add_term(Term::Const(u64::from(u32::MAX)));
        self.and(term, mask)
    }

    fn shift_left(&mut self, term: TermId) -> TermId {
        let half = self.add_term(Term::Const(32));
        self.add_term(Term::ShiftLeft(term, half))
    }

    fn shift_right(&mut self, term: TermId) -> TermId {
        let half = self.add_term(Term::Const(32));
        self.add_term(Term::ShiftRight(term, half))
    }

    /// The product of two 64-bit numbers, lower half first, with digits of 32 bits, in the way of
    /// compiler-rt.
    fn by_halves(&mut self, a: TermId, b: TermId) -> [TermId; 2] {
        let [a0, b0] = [a, b].map(|number| self.low(number));
        let [a1, b1] = [a, b].map(|number| self.shift_right(number));
        let lowest = self.product(a0, b0);
        let (carried, crossed) = (self.shift_right(lowest), self.product(a1, b0));
        let middle = self.sum(&[carried, crossed]);
        let (kept, crossed) = (self.low(middle), self.product(a0, b1));
        let second = self.sum(&[crossed, kept]);
        let (digit, upper) = (self.low(lowest), self.shift_left(second));
        let low = self.or(digit, upper);
        let highest = self.product(a1, b1);
        let (middle, second) = (self.shift_right(middle), self.shift_right(second));
        [low, self.sum(&[highest, middle, second])]
    }

    /// The product of two 64-bit numbers with carries found by comparison, in the way of LLVM.
    fn by_carries(&mut self, a: TermId, b: TermId) -> [TermId; 2] {
        let [a0, b0] = [a, b].map(|number| self.low(number));
        let [a1, b1] = [a, b].map(|number| self.shift_right(number));
        let (lowest, crossed, other) = (
            self.product(a0, b0),
            self.product(b1, a0),
            self.product(b0, a1),
        );
        let middle = self.sum(&[crossed, other]);
        let shifted = self.shift_left(middle);
        let low = self.sum(&[lowest, shifted]);
        let carry = self.add_term(Term::Less(middle, crossed));
        let (carry, upper) = (self.shift_left(carry), self.shift_right(middle));
        let upper = self.or(carry, upper);
        let carry = self.add_term(Term::Less(low, lowest));
        let highest = self.product(a1, b1);
        [low, self.sum(&[highest, upper, carry])]
    }
}
