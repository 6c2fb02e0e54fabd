//! Tests of type numbers, with limits small enough to be reached.

use super::*;
use pirn_format::types::ValType::{F32, F64, I32, I64};
use pirn_format::types::{CompositeType, FuncType, Groups, SUPERTYPES_MAX, ValType};

fn metadata(types: Vec<SubType>, groups: &[(u32, u32)]) -> Metadata {
    Metadata {
        types,
        groups: Groups(groups.to_vec()),
        ..Metadata::default()
    }
}

fn func(params: &[ValType], results: &[ValType]) -> SubType {
    SubType::alone(CompositeType::Func(FuncType {
        params: params.to_vec(),
        results: results.to_vec(),
    }))
}

/// A type that can have subtypes, and may be a subtype.
fn open(supertype: Option<u32>, params: &[ValType]) -> SubType {
    SubType {
        is_final: false,
        supertype,
        ..func(params, &[])
    }
}

/// Parameters that differ for each number.
fn unlike(number: usize) -> Vec<ValType> {
    let digits = (0..12).map(|at| [I32, I64, F32, F64][number >> (2 * at) & 3]);
    digits.collect()
}

/// Numbers a module's types in the table of the process.
fn of(types: Vec<SubType>) -> Numbers {
    number(&metadata(types, &[])).expect("there is memory")
}

/// Holds numbers of a test's own table: [`Known::release`] releases them, instead of the process's
/// table.
struct Held(Option<Numbers>);

impl Held {
    fn new(known: &mut Known, metadata: &Metadata) -> io::Result<Self> {
        known.hold(metadata).map(|numbers| Self(Some(numbers)))
    }

    fn numbers(&self) -> &[u32] {
        self.0.as_ref().expect("it is held").as_slice()
    }

    fn release(mut self, known: &mut Known) {
        let mut numbers = self.0.take().expect("it is held");
        known.release(&std::mem::take(&mut numbers.groups));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(numbers) = &mut self.0 {
            numbers.groups.clear();
        }
    }
}

/// Asserts that no type is held: only free numbers and free blocks remain.
fn assert_empty(known: &Known) {
    assert!(known.groups.is_empty());
    let mut free: Vec<u32> = known.free.iter().copied().collect();
    free.sort_unstable();
    assert_eq!(free, (1..known.next).collect::<Vec<_>>());
    if let Some(table) = &known.table {
        assert!((0..known.next).all(|number| table.chain(number).next().is_none()));
        assert!(table.is_unused());
    }
}

#[test]
fn equal_types_have_equal_numbers() {
    let [a, b, c, d] = [
        (&[I32][..], &[I64][..]),
        (&[I32], &[I64]),
        (&[I64], &[I32]),
        (&[], &[I32]),
    ]
    .map(|(params, results)| of(vec![func(params, results)]));
    assert_eq!(a.as_slice(), b.as_slice());
    assert_ne!(a.as_slice(), c.as_slice());
    assert_ne!(c.as_slice(), d.as_slice());
    for numbers in [&a, &c, &d] {
        assert_ne!(numbers.as_slice(), [0], "no type has number 0");
    }
    assert_ne!(fresh_module(), fresh_module());
}

/// A tree of types.
#[test]
fn all_types_above_one_are_found() {
    let above = [
        None,
        Some(0),
        Some(1),
        Some(1),
        Some(2),
        Some(0),
        Some(5),
        Some(4),
    ];
    let types = above.map(|above| SubType {
        is_final: false,
        supertype: above,
        ..func(&[ValType::V128], &[ValType::V128])
    });
    let held = of(types.to_vec());
    let ids = held.as_slice();
    // Types 2 and 3 are equal, because both are direct subtypes of the same type.
    assert_eq!(ids[2], ids[3]);
    assert_eq!(ids[1], ids[5]);
    for (at, _) in above.iter().enumerate() {
        let mut all = vec![ids[at]];
        let mut next = above[at];
        while let Some(at) = next {
            all.push(ids[at as usize]);
            next = above[at as usize];
        }
        for wanted in ids {
            assert_eq!(is_subtype(ids[at], *wanted), all.contains(wanted));
        }
    }
}

/// Reaches the limit, and asks for one number more. Then opens, one after another, many modules
/// whose types no other module has.
#[test]
fn as_many_types_as_there_are_numbers_are_open_at_once_and_any_number_in_turn() {
    let mut known = Known::new(1 << 10, 1 << 8);
    let limit = (1 << 10) - 1;
    let types = |first: usize, count: usize| {
        let types = (first..first + count).map(|number| func(&unlike(number), &[]));
        metadata(types.collect(), &[])
    };
    for round in 0..100 {
        let first = round * 2000;
        let most = Held::new(&mut known, &types(first, limit)).expect("the limit allows them");
        let error = known.hold(&types(first + limit, 1)).expect_err("one more");
        let (found, message) = (limit + 1, error.to_string());
        let wanted = format!(
            "open modules have {found} types, the limit of a process is {limit}; close modules"
        );
        assert!(message.starts_with(&wanted), "{message}");
        // Types that are held already need no numbers.
        let same = Held::new(&mut known, &types(first + 7, 3)).expect("they have numbers");
        assert_eq!(same.numbers(), &most.numbers()[7..10]);
        most.release(&mut known);
        assert_eq!(known.groups.len(), 3);
        same.release(&mut known);
        assert_empty(&known);
    }
    assert_eq!(known.next, 1 << 10, "no number past the last");
}

/// A module that is refused midway leaves neither numbers nor chains of supertypes.
#[test]
fn a_module_that_is_refused_leaves_nothing() {
    let mut known = Known::new(1 << 10, 1);
    // One block of chains has room for 64 chains of one number.
    let tree = |first: usize, count: usize| {
        let roots = (first..first + count).map(|at| open(None, &unlike(at)));
        let leaves = (0..count).map(|at| open(Some(at as u32), &unlike(first + at)));
        metadata(roots.chain(leaves).collect(), &[])
    };
    for round in 0..20 {
        let first = round * 200;
        let held = Held::new(&mut known, &tree(first, 64)).expect("there is room");
        let error = known.hold(&tree(first + 64, 1)).expect_err("there is none");
        let message = error.to_string();
        assert!(
            message.starts_with("open modules have 2 types with subtypes, the limit"),
            "{message}"
        );
        assert_eq!(known.groups.len(), 128, "the groups of the first module");
        held.release(&mut known);
        assert_empty(&known);
        known.hold(&tree(first, 65)).expect_err("a chain too many");
        assert_empty(&known);
    }
}

/// Opens and closes modules of many shapes, and compares the numbers with a model of the types.
/// When numbers are reused, no two types have the same number, and no type gets a supertype that it
/// does not declare.
#[test]
fn numbers_that_are_used_again_are_never_those_of_two_types() {
    let mut known = Known::new(600, 64);
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    // A type, described by the parameters of its supertypes, root first, and its own parameters.
    type What = Vec<Vec<ValType>>;
    // An index for each type: comparing indices is faster than comparing types.
    let mut indices: HashMap<What, u32> = HashMap::new();
    // For each module: its numbers, and for each number the indices of the type and of its
    // supertypes, root first.
    let mut modules: Vec<(Held, Vec<Vec<u32>>)> = vec![];
    let (mut refused, mut highest) = (0, 0);
    for _ in 0..1_500 {
        if modules.len() > 12 || (!modules.is_empty() && random(2) == 0) {
            let (held, _) = modules.swap_remove(random(modules.len()));
            held.release(&mut known);
        } else {
            let count = 1 + random(80);
            let (mut types, mut whats): (Vec<SubType>, Vec<What>) = (vec![], vec![]);
            let mut chains: Vec<Vec<u32>> = vec![];
            for at in 0..count {
                let params = unlike(random(200));
                let above = random(at + 1)
                    .checked_sub(random(3))
                    .filter(|above| *above < at);
                let above = above.filter(|above| whats[*above].len() <= SUPERTYPES_MAX);
                let mut what = above.map_or(vec![], |above| whats[above].clone());
                what.push(params.clone());
                let mut chain = above.map_or(vec![], |above| chains[above].clone());
                let next = indices.len() as u32;
                chain.push(*indices.entry(what.clone()).or_insert(next));
                types.push(open(above.map(|above| above as u32), &params));
                whats.push(what);
                chains.push(chain);
            }
            match Held::new(&mut known, &metadata(types, &[])) {
                Ok(held) => modules.push((held, chains)),
                Err(_) => refused += 1,
            }
        }
        let mut all: HashMap<u32, u32> = HashMap::new();
        let mut by_type: HashMap<u32, u32> = HashMap::new();
        let table = known.table.as_ref();
        for (held, chains) in &modules {
            for (number, chain) in held.numbers().iter().zip(chains) {
                let index = chain[chain.len() - 1];
                highest = highest.max(*number);
                assert_eq!(*all.entry(*number).or_insert(index), index);
                assert_eq!(*by_type.entry(index).or_insert(*number), *number);
            }
            for (number, chain) in held.numbers().iter().zip(chains) {
                let found = table.into_iter().flat_map(|table| table.chain(*number));
                let above = &chain[..chain.len() - 1];
                let wanted = above.iter().map(|index| by_type[index]);
                assert!(found.eq(wanted), "{number}");
            }
        }
    }
    assert!(
        refused > 0 && highest > 400,
        "numbers ran out: {refused}, {highest}"
    );
    for (held, _) in modules {
        held.release(&mut known);
    }
    assert_empty(&known);
}

/// The types of one group name each other. Another module declares these types twice.
#[test]
fn groups_have_any_numbers_that_are_free() {
    let mut known = Known::new(16, 4);
    let alone = |number: usize| metadata(vec![func(&unlike(number), &[])], &[]);
    let mut single: Vec<Held> = (0..8)
        .map(|number| Held::new(&mut known, &alone(number)).expect("there are numbers"))
        .collect();
    for at in [6, 4, 2, 0] {
        single.swap_remove(at).release(&mut known);
    }
    // Four free numbers that are not consecutive, and seven numbers that were never given to a
    // type.
    let group: Vec<_> = (0..11)
        .map(|at: u32| open(at.checked_sub(1), &unlike(at as usize)))
        .collect();
    let group = metadata(group, &[(0, 11)]);
    let held = Held::new(&mut known, &group).expect("there are numbers");
    let numbers = held.numbers().to_vec();
    let table = known.table.as_ref().expect("there are subtypes");
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(table.chain(*number).collect::<Vec<_>>(), numbers[..at]);
    }
    known.hold(&alone(9)).expect_err("no number is left");
    let twice = metadata(
        [&group.types[..], &group.types[..]].concat(),
        &[(0, 11), (11, 11)],
    );
    // The second group refers to types of the first.
    known.hold(&twice).expect_err("these are other types");
    held.release(&mut known);
    for held in single {
        held.release(&mut known);
    }
    assert_empty(&known);
}

/// Freed numbers are reused in the order in which they were freed, and before any unused number.
#[test]
fn the_number_that_waits_longest_is_given_first() {
    let mut known = Known::new(1 << 10, 4);
    let alone = |number: usize| metadata(vec![func(&unlike(number), &[])], &[]);
    let hold = |known: &mut Known, number: usize| {
        Held::new(known, &alone(number)).expect("there are numbers")
    };
    let mut first: Vec<_> = (0..4).map(|at| Some(hold(&mut known, at))).collect();
    for at in [2, 0, 3, 1] {
        let held = first[at].take().expect("each number is freed once");
        held.release(&mut known);
    }
    let then: Vec<_> = (4..9).map(|at| hold(&mut known, at)).collect();
    let numbers: Vec<_> = then.iter().map(|held| held.numbers()[0]).collect();
    assert_eq!(numbers, [3, 1, 4, 2, 5]);
}
