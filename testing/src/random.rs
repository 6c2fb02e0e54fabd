//! [`Random`]: pseudo-random numbers for tests. Each run gets the same numbers.

/// A generator with its state: Steele and Vigna, "SplitMix64".
pub struct Random(pub u64);

impl Random {
    /// A number with 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number with 128 random bits.
    pub fn u128(&mut self) -> u128 {
        u128::from(self.u64()) << 64 | u128::from(self.u64())
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.u64() % end
    }
}
