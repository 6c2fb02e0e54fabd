//! [`Subtypes`]: equality and subtyping between the types of a module.

use super::{CompositeType, FieldType, Groups, StorageType, SubType, ValType, number_types};
use core::iter;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Compares the types of a module (spec 3.0, 3.3, matching).
///
/// The structure of the types must be checked: no type refers to a type after its recursion group,
/// and each supertype precedes its subtypes. The metadata of [`Checked`](crate::read::Checked) has
/// passed that check.
#[derive(Debug)]
pub struct Subtypes<'a> {
    types: &'a [SubType],
    groups: &'a Groups,
    /// A number for each type: equal types have equal numbers. Few modules have equal types with
    /// different indices, so the numbers are computed only if comparing indices is not enough.
    numbers: OnceLock<Vec<u32>>,
    /// For each struct or array type, whether all its fields or elements have default values.
    defaults: OnceLock<Vec<bool>>,
}

impl<'a> Subtypes<'a> {
    /// Takes the types of a module, and their recursion groups.
    #[must_use]
    pub const fn new(types: &'a [SubType], groups: &'a Groups) -> Self {
        Self {
            types,
            groups,
            numbers: OnceLock::new(),
            defaults: OnceLock::new(),
        }
    }

    /// Whether two type indices name the same type. An index out of range names no type.
    #[must_use]
    pub fn is_same(&self, a: u32, b: u32) -> bool {
        let number = |ty: u32| self.numbers().get(ty as usize);
        let exists = (a as usize) < self.types.len();
        exists && (a == b || number(a) == number(b))
    }

    /// Whether type `found` is type `wanted`, or a declared subtype of type `wanted`.
    #[must_use]
    pub fn is_subtype(&self, found: u32, wanted: u32) -> bool {
        let exists = (found as usize) < self.types.len();
        // Compares indices first, because most comparisons then succeed without numbers.
        exists
            && (self.chain(found).any(|ty| ty == wanted)
                || self.chain(found).any(|ty| self.is_same(ty, wanted)))
    }

    /// Whether each value of type `found` is a value of type `wanted`.
    #[must_use]
    pub fn matches(&self, found: ValType, wanted: ValType) -> bool {
        found.matches(wanted, |found, wanted| self.is_subtype(found, wanted))
    }

    /// Whether a type with structure `found` may be a declared subtype of a type with structure
    /// `wanted` (spec 3.0, 3.3, composite types). Finality is not part of the structure.
    #[must_use]
    pub fn composites_match(&self, found: &CompositeType, wanted: &CompositeType) -> bool {
        match (found, wanted) {
            (CompositeType::Func(found), CompositeType::Func(wanted)) => {
                self.lists_match(&wanted.params, &found.params)
                    && self.lists_match(&found.results, &wanted.results)
            }
            (CompositeType::Struct(found), CompositeType::Struct(wanted)) => {
                let mut fields = found.iter().zip(wanted);
                found.len() >= wanted.len()
                    && fields.all(|(found, wanted)| self.fields_match(*found, *wanted))
            }
            (CompositeType::Array(found), CompositeType::Array(wanted)) => {
                self.fields_match(*found, *wanted)
            }
            _ => false,
        }
    }

    /// Whether a type is a struct or array type whose fields or elements all have default values.
    ///
    /// Looks at each type once: a small expression may make thousands of large structs.
    pub(crate) fn has_defaults(&self, ty: u32) -> bool {
        let defaults = self.defaults.get_or_init(|| {
            let types = self.types.iter().map(|ty| match &ty.composite {
                CompositeType::Func(_) => false,
                _ => ty.values().all(ValType::has_default),
            });
            types.collect()
        });
        defaults.get(ty as usize).copied().unwrap_or(false)
    }

    fn lists_match(&self, found: &[ValType], wanted: &[ValType]) -> bool {
        let mut both = found.iter().zip(wanted);
        found.len() == wanted.len() && both.all(|(found, wanted)| self.matches(*found, *wanted))
    }

    /// The guest reads and writes a mutable field, so both field types must be the same.
    fn fields_match(&self, found: FieldType, wanted: FieldType) -> bool {
        let storage = |found, wanted| match (found, wanted) {
            (StorageType::Val(found), StorageType::Val(wanted)) => self.matches(found, wanted),
            (found, wanted) => found == wanted,
        };
        found.mutable == wanted.mutable
            && storage(found.storage, wanted.storage)
            && (!found.mutable || storage(wanted.storage, found.storage))
    }

    /// A type and all its supertypes.
    fn chain(&self, ty: u32) -> impl Iterator<Item = u32> {
        iter::successors(Some(ty), |ty| {
            let above = self.types.get(*ty as usize)?.supertype;
            // This condition ends the chain even in unchecked types.
            above.filter(|above| above < ty)
        })
    }

    /// A number for each type. Equal types have equal numbers.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        self.numbers.get_or_init(|| {
            let (mut first, mut index) = (HashMap::<Cow<'_, [SubType]>, u32>::new(), 0);
            number_types(self.types, self.groups, |group, numbers| {
                let len = group.len() as u32;
                let number = *first.entry(group).or_insert(index);
                index += len;
                numbers.extend(number..number + len);
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CompositeKind, FuncType, HeapType};

    const fn field(storage: StorageType, mutable: bool) -> FieldType {
        FieldType { storage, mutable }
    }

    fn strukt(fields: &[FieldType]) -> CompositeType {
        CompositeType::Struct(fields.to_vec())
    }

    fn func(params: &[ValType], results: &[ValType]) -> CompositeType {
        CompositeType::Func(FuncType {
            params: params.to_vec(),
            results: results.to_vec(),
        })
    }

    const fn to(index: u32) -> ValType {
        ValType::nullable(HeapType::Concrete(CompositeKind::Struct, index))
    }

    fn open(composite: CompositeType, supertype: Option<u32>) -> SubType {
        SubType {
            is_final: false,
            supertype,
            composite,
        }
    }

    /// Two equal structs, each with a subtype, and a subtype of one of these subtypes.
    fn declared() -> [SubType; 5] {
        let i32 = field(StorageType::Val(ValType::I32), false);
        let (base, more) = (strukt(&[i32]), strukt(&[i32, i32]));
        [
            open(base.clone(), None),
            open(base, None),
            open(more.clone(), Some(0)),
            open(more.clone(), Some(1)),
            open(more, Some(3)),
        ]
    }

    #[test]
    fn types_are_compared_by_what_they_are_and_not_by_index() {
        let (types, groups) = (declared(), Groups::default());
        let subtypes = Subtypes::new(&types, &groups);
        let same = |a| {
            (0..6)
                .filter(|b| subtypes.is_same(a, *b))
                .collect::<Vec<_>>()
        };
        assert_eq!(same(0), [0, 1]);
        assert_eq!(same(2), [2, 3]);
        assert_eq!(same(4), [4]);
        assert_eq!(same(5), [0; 0], "there is no such type");
        let above = |a| {
            let all = (0..6).filter(|b| subtypes.is_subtype(a, *b));
            all.collect::<Vec<_>>()
        };
        assert_eq!(above(0), [0, 1]);
        assert_eq!(above(2), [0, 1, 2, 3]);
        assert_eq!(above(4), [0, 1, 2, 3, 4]);
        assert_eq!(above(5), [0; 0], "there is no such type");
    }

    /// In one recursion group, the first two types have the same structure, but are different
    /// types.
    #[test]
    fn types_of_a_group_differ_by_their_place() {
        let (types, groups) = (declared(), Groups(vec![(0, 2)]));
        let subtypes = Subtypes::new(&types, &groups);
        assert!(!subtypes.is_same(0, 1));
        assert!(!subtypes.is_subtype(2, 1));
        assert!(subtypes.is_subtype(2, 0));
    }

    #[test]
    fn composites_match_by_variance_width_and_depth() {
        const I8: StorageType = StorageType::I8;
        const I16: StorageType = StorageType::I16;
        const fn val(ty: ValType, mutable: bool) -> FieldType {
            field(StorageType::Val(ty), mutable)
        }
        let (types, groups) = (declared(), Groups::default());
        let subtypes = Subtypes::new(&types, &groups);
        let (above, below, equal) = (to(0), to(4), to(1));
        let array = CompositeType::Array;
        let matching = [
            (func(&[above], &[below]), func(&[below], &[above])),
            (func(&[ValType::ANYREF], &[]), func(&[below], &[])),
            (func(&[above], &[above]), func(&[equal], &[equal])),
            (strukt(&[val(below, false)]), strukt(&[val(above, false)])),
            (strukt(&[val(above, true)]), strukt(&[val(equal, true)])),
            (
                strukt(&[field(I8, true), field(I16, false)]),
                strukt(&[field(I8, true)]),
            ),
            (strukt(&[]), strukt(&[])),
            (array(val(below, false)), array(val(above, false))),
            (array(field(I16, true)), array(field(I16, true))),
        ];
        for (found, wanted) in &matching {
            assert!(subtypes.composites_match(found, wanted), "{found} {wanted}");
        }
        let others = [
            (func(&[below], &[]), func(&[above], &[])),
            (func(&[], &[above]), func(&[], &[below])),
            (func(&[ValType::I32], &[]), func(&[ValType::I64], &[])),
            (func(&[], &[ValType::I64]), func(&[], &[ValType::FUNCREF])),
            (func(&[], &[]), func(&[above], &[])),
            (func(&[], &[above]), func(&[], &[])),
            (strukt(&[val(above, false)]), strukt(&[val(below, false)])),
            (strukt(&[val(below, true)]), strukt(&[val(above, true)])),
            (strukt(&[val(above, true)]), strukt(&[val(above, false)])),
            (strukt(&[val(above, false)]), strukt(&[val(above, true)])),
            (
                strukt(&[val(ValType::I64, false)]),
                strukt(&[val(above, false)]),
            ),
            (strukt(&[field(I8, false)]), strukt(&[field(I16, false)])),
            (
                strukt(&[field(I8, false)]),
                strukt(&[val(ValType::I32, false)]),
            ),
            (strukt(&[]), strukt(&[field(I8, false)])),
            (array(val(below, true)), array(val(above, true))),
            (array(field(I8, false)), strukt(&[field(I8, false)])),
            (func(&[], &[]), strukt(&[])),
        ];
        for (found, wanted) in &others {
            assert!(
                !subtypes.composites_match(found, wanted),
                "{found} {wanted}"
            );
        }
    }
}
