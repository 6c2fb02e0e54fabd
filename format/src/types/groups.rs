//! [`Groups`]: the recursion groups of a module's types, and [`number_types`]: equal numbers for
//! equal types.

use super::{CompositeKind, SubType};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Most supertypes in the chain above a type: the validator's limit.
pub const SUPERTYPES_MAX: usize = 63;

/// Marks the position of a type within its recursion group, to distinguish it from a process-wide
/// number.
const WITHIN: u32 = 1 << 31;

/// The recursion groups with more than one type: index of the first type and number of types,
/// ascending.
///
/// Each type that no entry covers is a group of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups(pub Vec<(u32, u32)>);

impl Groups {
    /// First type and number of types of each group, for a module with `types` types.
    ///
    /// Yields `None` once, and then ends, if the groups overlap, descend, are empty or exceed
    /// `types`.
    pub fn ranges(&self, types: usize) -> impl Iterator<Item = Option<(usize, usize)>> {
        let mut several = self.0.iter().peekable();
        let mut at = 0;
        let mut is_sound = true;
        core::iter::from_fn(move || {
            if !is_sound || (at >= types && several.peek().is_none()) {
                return None;
            }
            let len = match several.peek() {
                Some((first, len)) if *first as usize == at => {
                    several.next();
                    *len as usize
                }
                Some((first, _)) if (*first as usize) < at => 0,
                _ => 1,
            };
            is_sound = len > 0 && len <= types.saturating_sub(at);
            let found = (at, len);
            at += len;
            Some(is_sound.then_some(found))
        })
    }
}

/// Assigns a number to each type of a module, so that equal types of all modules have equal numbers
/// (spec 3.0, 3.1.2).
///
/// The function calls `number` for each recursion group. References to types before the group are
/// replaced by their numbers. References to types in the group are replaced by their position in
/// the group, with a flag bit. `number` must append one number for each type of the group to its
/// second argument. `number` must append the same numbers whenever it gets an equal group. Two
/// types are therefore equal if their groups are equal and the types have equal positions in the
/// groups.
///
/// # Panics
///
/// If a type refers to a type after its group, or if the groups are invalid. The validator and the
/// check of [`Metadata`](crate::metadata::Metadata) exclude both. Panics, too, if `number` appends
/// more or fewer numbers than the group has types.
pub fn number_types<'a>(
    types: &'a [SubType],
    groups: &Groups,
    mut number: impl FnMut(Cow<'a, [SubType]>, &mut Vec<u32>),
) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::with_capacity(types.len());
    for range in groups.ranges(types.len()) {
        let (first, len) = range.expect("groups follow each other");
        let group = &types[first..first + len];
        let is_closed = |ty: &SubType| {
            ty.supertype.is_none()
                && (ty.kind() != CompositeKind::Func
                    || ty.values().all(|ty| ty.type_index().is_none()))
        };
        let name = |index: u32| match (index as usize).checked_sub(first) {
            Some(within) => WITHIN | within as u32,
            None => numbers[index as usize],
        };
        let given = match group {
            [alone] if alone.kind() == CompositeKind::Func && is_closed(alone) => {
                Cow::Borrowed(group)
            }
            _ => Cow::Owned(group.iter().map(|ty| ty.renamed(name)).collect()),
        };
        number(given, &mut numbers);
        assert_eq!(numbers.len(), first + len, "a number for each type");
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CompositeType, FieldType, FuncType, HeapType, StorageType, ValType};

    fn func(params: &[ValType]) -> SubType {
        SubType::alone(CompositeType::Func(FuncType {
            params: params.to_vec(),
            results: vec![],
        }))
    }

    fn node(index: u32) -> SubType {
        let ty = ValType::nullable(HeapType::Concrete(CompositeKind::Struct, index));
        SubType::alone(CompositeType::Struct(vec![FieldType {
            storage: StorageType::Val(ty),
            mutable: true,
        }]))
    }

    /// Types of a module, and its recursion groups with several types.
    type Declared<'a> = (&'a [SubType], &'a [(u32, u32)]);

    /// Numbers the types of several modules like a process does, starting at 100.
    fn numbers(modules: &[Declared<'_>]) -> Vec<Vec<u32>> {
        let mut known: Vec<(Vec<SubType>, u32)> = vec![];
        let mut next = 100;
        let mut number = |group: Cow<'_, [SubType]>, numbers: &mut Vec<u32>| {
            let len = group.len() as u32;
            let found = known.iter().find(|(known, _)| *known == *group);
            let first = found.map_or(next, |(_, number)| *number);
            if first == next {
                next += len;
                known.push((group.into_owned(), first));
            }
            numbers.extend(first..first + len);
        };
        let modules = modules.iter();
        modules
            .map(|(types, groups)| number_types(types, &Groups(groups.to_vec()), &mut number))
            .collect()
    }

    #[test]
    fn equal_types_have_equal_numbers_wherever_they_are() {
        let null = |index| ValType::nullable(HeapType::Concrete(CompositeKind::Func, index));
        let some = |index| ValType::non_null(HeapType::Concrete(CompositeKind::Func, index));
        let i32 = || func(&[ValType::I32]);
        let one = [i32(), func(&[null(0)]), func(&[null(1)])];
        let other = [
            func(&[]),
            func(&[null(0)]),
            i32(),
            i32(),
            func(&[null(3)]),
            func(&[some(2)]),
            func(&[null(4)]),
        ];
        let found = numbers(&[(&one, &[]), (&other, &[])]);
        assert_eq!(found[0][..], [100, 101, 102]);
        assert_eq!(found[1][..], [103, 104, 100, 100, 101, 105, 102]);
    }

    #[test]
    fn groups_are_equal_as_a_whole() {
        // `one`: a type that refers to itself, then two types that refer to each other. `other`: a
        // function type, the same two types, the type that refers to itself, and a reference to
        // that type.
        let one = [node(0), node(2), node(1)];
        let other = [func(&[]), node(2), node(1), node(3), node(3)];
        let found = numbers(&[(&one, &[(1, 2)]), (&other, &[(1, 2)])]);
        assert_eq!(found[0][..], [100, 101, 102]);
        assert_eq!(found[1][..], [103, 101, 102, 100, 104]);
    }

    #[test]
    fn what_is_no_division_is_noticed() {
        let whole = |groups: &[(u32, u32)], types| {
            let groups = Groups(groups.to_vec());
            groups.ranges(types).collect::<Option<Vec<_>>>()
        };
        assert_eq!(whole(&[], 2), Some(vec![(0, 1), (1, 1)]));
        assert_eq!(whole(&[(1, 2)], 4), Some(vec![(0, 1), (1, 2), (3, 1)]));
        for (groups, types) in [
            (&[(0, 3)][..], 2),
            (&[(2, 1)], 2),
            (&[(1, 2), (2, 1)], 4),
            (&[(1, 0)], 4),
            (&[(2, 2), (0, 2)], 4),
        ] {
            assert_eq!(whole(groups, types), None, "{groups:?}");
        }
    }
}
