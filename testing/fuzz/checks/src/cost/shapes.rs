//! [`Shape`]: the numbers of a module that repeats a construct, which is small in the module but
//! may be large for the compiler. [`bodies`](super::bodies) makes the function bodies, and
//! [`parts`](super::parts) the other sections.

use crate::random::Random;

/// All kinds of modules, named after the construct that they repeat.
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

/// A module: its kind and its numbers. The meaning of the numbers depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Index into [`KINDS`].
    pub kind: usize,
    /// Functions, imports, types or segments.
    pub count: u32,
    /// How often a function repeats a construct.
    pub repeats: u32,
    /// Parameters, results, fields or values.
    pub arity: u32,
    /// Nesting depth of blocks.
    pub depth: u32,
    /// Locals of a function.
    pub locals: u32,
    /// Number of the value type.
    pub value: u8,
}

/// Most values of a type: the validator's limit.
const ARITY_MAX: u32 = 1000;
/// Most locals of a function: the validator's limit.
const LOCALS_MAX: u32 = 50_000;

/// A number doubled, halved, slightly changed, or 1, as `how` chooses.
pub(super) fn changed(number: u32, how: usize) -> u32 {
    match how {
        0 => number * 2,
        1 => number / 2,
        2 => number + number / 4 + 1,
        3 => number - number / 4,
        _ => 1,
    }
}

impl Shape {
    /// A random small module of this kind.
    pub(super) fn any(kind: usize, random: &mut Random) -> Self {
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

    /// A shape with some numbers doubled, halved, or slightly changed.
    pub(super) fn changed(mut self, random: &mut Random) -> Self {
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
            *number = changed(*number, how);
        }
        self.bounded()
    }

    /// Limits the numbers to what the validator allows, and to modules small enough for a fast
    /// search.
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
}
