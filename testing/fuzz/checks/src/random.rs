//! [`Random`]: pseudo-random numbers and bytes that depend only on the seed.

/// A generator (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator for an input, each byte of which counts.
    #[must_use]
    pub fn of_input(data: &[u8]) -> Self {
        Self(
            data.iter()
                .fold(data.len() as u64, |sum, byte| mix(sum ^ u64::from(*byte))),
        )
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end as u64) as usize
    }

    /// True with probability 1 in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number that often exposes errors: small, large, near a power of two, or arbitrary.
    pub fn bits(&mut self) -> u64 {
        let any = self.any();
        match self.below(8) {
            0 => any % 16,
            1 => (any % 16).wrapping_neg(),
            2 => (1 << (any % 64)) - (any >> 63),
            3 => (any % (1 << 20)).wrapping_mul(8),
            4 => SPECIAL[self.below(SPECIAL.len())],
            _ => any,
        }
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.any().to_le_bytes());
        words.take(len).collect()
    }
}

/// Edge values of integers, and of floats of both widths: infinity, NaN, -0, and where conversions
/// start to fail.
const SPECIAL: [u64; 14] = [
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x7f80_0000,
    0x7fc0_0000,
    0xff80_0000,
    0x4f00_0000,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x41e0_0000_0000_0000,
    0x43e0_0000_0000_0000,
];

/// Mixes a number: each output bit depends on all input bits.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
