//! [`ComponentShape`]: the numbers of a component that repeats a construct.

use super::shapes;
use crate::random::Random;

/// Limits products of numbers that determine the size of a component.
const TEXT_MAX: u32 = 30_000;

/// A component: its kinds and its numbers. The meaning of the numbers depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentShape {
    /// Index into [`COMPONENT_KINDS`](super::COMPONENT_KINDS).
    pub kind: usize,
    /// Index of a second kind, whose component has the same numbers and lies beside the first.
    /// There is none if the index is too large.
    pub second: usize,
    /// How often the component is instantiated.
    pub copies: u32,
    /// Instances, functions or imports.
    pub count: u32,
    /// How often each of them repeats a construct.
    pub repeats: u32,
    /// Fields, cases or parameters; the instances that each level has of the level below.
    pub arity: u32,
    /// Levels of nesting.
    pub depth: u32,
    /// Bytes of a name.
    pub length: u32,
    /// Chooses types, string encodings and the like.
    pub variety: u32,
}

impl ComponentShape {
    /// Number of fields, in the order of their declaration.
    pub const FIELDS: usize = 9;

    /// The smallest component of a kind.
    #[must_use]
    pub fn new(kind: usize) -> Self {
        Self {
            kind,
            second: usize::MAX,
            copies: 1,
            count: 1,
            repeats: 1,
            arity: 1,
            depth: 1,
            length: 1,
            variety: 0,
        }
    }

    /// The numbers of the fields, from which [`of_numbers`](Self::of_numbers) makes the shape.
    #[must_use]
    pub fn numbers(self) -> [u64; Self::FIELDS] {
        let small = [
            self.copies,
            self.count,
            self.repeats,
            self.arity,
            self.depth,
            self.length,
            self.variety,
        ];
        let [copies, count, repeats, arity, depth, length, variety] = small.map(u64::from);
        let [kind, second] = [self.kind, self.second].map(|kind| kind as u64);
        [
            kind, second, copies, count, repeats, arity, depth, length, variety,
        ]
    }

    /// The shape with these numbers. `None` if a number is too large.
    #[must_use]
    pub fn of_numbers(numbers: [u64; Self::FIELDS]) -> Option<Self> {
        let small = |at: usize| u32::try_from(numbers[at]).ok();
        Some(Self {
            kind: usize::try_from(numbers[0]).ok()?,
            second: usize::try_from(numbers[1]).unwrap_or(usize::MAX),
            copies: small(2)?,
            count: small(3)?,
            repeats: small(4)?,
            arity: small(5)?,
            depth: small(6)?,
            length: small(7)?,
            variety: small(8)?,
        })
    }

    /// A random small component of a kind.
    pub(super) fn any(kind: usize, random: &mut Random) -> Self {
        let mut number = |bits: usize| {
            let bits = random.below(bits);
            (1 + random.below(1 << bits.max(1))) as u32
        };
        let shape = Self {
            kind,
            second: usize::MAX,
            copies: number(3),
            count: number(8),
            repeats: number(8),
            arity: number(5),
            depth: number(5),
            length: number(7),
            variety: number(6),
        };
        shape.bounded()
    }

    /// A shape with some numbers doubled, halved, or slightly changed, or with another second kind
    /// of `kinds` kinds.
    pub(super) fn changed(mut self, random: &mut Random, kinds: usize) -> Self {
        for _ in 0..=random.below(3) {
            let (which, how) = (random.below(8), random.below(5));
            let number = match which {
                0 => &mut self.copies,
                1 => &mut self.count,
                2 => &mut self.repeats,
                3 => &mut self.arity,
                4 => &mut self.depth,
                5 => &mut self.length,
                6 => {
                    self.variety = random.below(64) as u32;
                    continue;
                }
                _ => {
                    self.second = random.below(2 * kinds);
                    continue;
                }
            };
            *number = shapes::changed(*number, how);
        }
        self.bounded()
    }

    /// Limits the numbers to components that are small enough for a fast search.
    fn bounded(mut self) -> Self {
        self.copies = self.copies.clamp(1, 3000);
        self.count = self.count.clamp(1, 3000);
        self.repeats = self.repeats.clamp(1, 10_000);
        self.arity = self.arity.clamp(1, 2000);
        self.depth = self.depth.clamp(1, 60);
        self.length = self.length.clamp(1, 4000);
        // The product of two numbers is the size of the text.
        self.repeats = self.repeats.min(1 + TEXT_MAX / self.arity.max(self.length));
        self.count = self.count.min(1 + TEXT_MAX / self.length);
        self.depth = self.depth.min(1 + TEXT_MAX / self.arity.max(self.length));
        self
    }
}
