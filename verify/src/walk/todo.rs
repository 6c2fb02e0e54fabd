//! [`Todo`]: blocks that the walk must visit.

/// A set of text offsets in one function. The walk takes the least offset first.
pub(super) struct Todo {
    start: u32,
    /// A bit for each byte of the function.
    words: Vec<u64>,
    /// No word before this index has a bit.
    first: usize,
}

impl Todo {
    pub(super) fn new(start: u32, bytes: usize) -> Self {
        Self {
            start,
            words: vec![0; bytes.div_ceil(64)],
            first: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        self.first = 0;
    }

    /// Adds a text offset in the function.
    pub(super) fn insert(&mut self, at: u32) {
        let index = (at - self.start) as usize;
        self.words[index / 64] |= 1 << (index % 64);
        self.first = self.first.min(index / 64);
    }

    pub(super) fn pop_first(&mut self) -> Option<u32> {
        let rest = &self.words[self.first..];
        let skipped = rest.iter().position(|word| *word != 0);
        self.first += skipped.unwrap_or(rest.len());
        let word = self.words.get_mut(self.first)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(self.start + self.first as u32 * 64 + bit)
    }
}
