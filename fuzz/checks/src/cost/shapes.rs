//! [`Shape`]: the numbers of a module that repeats something which is small in the module, and may
//! be large for the compiler. [`bodies`](super::bodies) has what functions do,
//! [`parts`](super::parts) the rest.

use super::parts::Parts;
use crate::random::Random;

/// All kinds of modules: what they have many of.
pub const KINDS: [&str; 31] = [
    "imports",
    "imports and functions",
    "types that are imported and exported",
    "catches that return values",
    "catches in catches",
    "throws",
    "calls",
    "calls by a table",
    "calls by reference",
    "tail calls",
    "blocks with parameters and results",
    "blocks in blocks with values",
    "branches with values",
    "tables of branches",
    "loops in loops that change locals",
    "ifs that change locals",
    "values live across operators",
    "vectors live across operators",
    "functions with locals",
    "small functions",
    "exports",
    "globals",
    "segments of data",
    "segments of elements",
    "types in groups",
    "types with supertypes",
    "arrays of values",
    "structs",
    "casts",
    "costly operators",
    "names",
];

/// A module: its kind and its numbers, whose meaning depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Index of its kind.
    pub kind: usize,
    /// Functions, imports, types or segments.
    pub count: u32,
    /// How often a function repeats something.
    pub repeats: u32,
    /// Parameters, results, fields or values.
    pub arity: u32,
    /// How deep blocks are nested.
    pub depth: u32,
    /// Locals of a function.
    pub locals: u32,
    /// Which type values are of.
    pub value: u8,
}

/// Most values of a type, by the validator.
const ARITY_MAX: u32 = 1000;
/// Most locals of a function, by the validator.
const LOCALS_MAX: u32 = 50_000;

impl Shape {
    /// A small module of a kind.
    pub fn any(kind: usize, random: &mut Random) -> Self {
        let mut number = |most: usize| {
            let bits = random.below(most);
            (1 + random.below(1 << bits.max(1))) as u32
        };
        Self {
            kind,
            count: number(8),
            repeats: number(8),
            arity: number(11),
            depth: number(6),
            locals: number(11),
            value: 0,
        }
        .bounded()
    }

    /// One with other numbers: some of them doubled, halved, or a little more or less.
    #[must_use]
    pub fn changed(mut self, random: &mut Random) -> Self {
        for _ in 0..=random.below(3) {
            let (which, how) = (random.below(6), random.below(5));
            let number = match which {
                0 => &mut self.count,
                1 => &mut self.repeats,
                2 => &mut self.arity,
                3 => &mut self.depth,
                4 => &mut self.locals,
                _ => {
                    self.value = how as u8;
                    continue;
                }
            };
            *number = match how {
                0 => *number * 2,
                1 => *number / 2,
                2 => *number + *number / 4 + 1,
                3 => *number - *number / 4,
                _ => 1,
            };
        }
        self.bounded()
    }

    /// Within what the validator allows, and so small that a search goes through many.
    fn bounded(mut self) -> Self {
        self.count = self.count.clamp(1, 20_000);
        self.repeats = self.repeats.clamp(1, 20_000 / self.count.min(100));
        self.arity = self.arity.clamp(1, ARITY_MAX);
        self.depth = self.depth.clamp(1, 500);
        self.locals = self.locals.clamp(1, LOCALS_MAX / 4);
        self
    }

    /// The name of its kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS[self.kind]
    }

    /// The module.
    #[must_use]
    pub fn module(self) -> Vec<u8> {
        Parts::of(self)
    }
}
