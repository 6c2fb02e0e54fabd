//! [`Random`]: numbers that follow from a seed.

/// A generator of numbers (SplitMix64).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

/// Numbers at which arithmetic changes: signs, carries, and bounds of 8, 16 and 32 bits.
const SPECIAL: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_01ff_ffff,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn one_of(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A number that is often near the end of an interval.
    pub(crate) fn number(&mut self) -> u64 {
        match self.below(8) {
            0..4 => self.pick(&SPECIAL),
            4 => self
                .pick(&SPECIAL)
                .wrapping_add(self.below(5))
                .wrapping_sub(2),
            5 => self.below(16),
            6 => self.next() >> self.below(64),
            _ => self.next(),
        }
    }

    /// A constant for an instruction.
    pub(crate) fn immediate(&mut self) -> i32 {
        self.number() as u32 as i32
    }
}
