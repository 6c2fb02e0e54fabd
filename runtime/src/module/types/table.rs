//! The table of types: which types each type is a subtype of, as generated code reads it.
//!
//! All instances share the table. The table is one reservation that never moves. The table has a
//! row for each number, and blocks that hold chains. A chain holds the numbers of all supertypes of
//! a type, the root first. A chain belongs to the last type in it. The rows of all direct subtypes
//! of that type point to the chain.
//!
//! ```text
//! │ row of 0 │ row of 1 │ row of 2 │ ...      │ chain │ chain  │       │ chain ...
//!   0, 0       length of its chain,                1 to 64 numbers, in blocks of 64
//!              offset of its chain
//! ```
//!
//! No type has number 0. Memory that was never written holds 0, so an apparent object there has no
//! type.
//!
//! # Safety
//!
//! Owns the table. Rows and chains are written and cleared under the lock of [`types`](super),
//! while no instance has the number. This is before a module gets the number, or after the last
//! module with the number is gone.
#![allow(unsafe_code)]

use crate::sys::memory::{Access, Reservation};
use core::ops::Range;
use pirn_format::layout::TYPE_ROW_BYTES;
use pirn_format::types::SUPERTYPES_MAX;
use std::collections::{BTreeSet, HashMap};
use std::io;

/// Limit of the numbers of a process, including 0, which no type has. The rows of all numbers take
/// 128 MiB.
pub(super) const NUMBERS_MAX: usize = 1 << 24;

/// Size of the rows, in bytes. The rows become accessible in steps, up to the highest number that a
/// type has had.
const ROWS_BYTES: usize = NUMBERS_MAX * TYPE_ROW_BYTES as usize;

/// Size of a block of chains, in bytes: the longest chain fills one block.
const BLOCK_BYTES: u32 = (SUPERTYPES_MAX as u32 + 1) * 4;

/// Maximum number of blocks of chains: 1 GiB. A block is in use only while it holds a chain, so the
/// limit does not depend on modules that were closed.
pub(super) const BLOCKS_MAX: usize = 1 << 22;

/// Size of the steps in which the table becomes accessible.
const STEP_BYTES: usize = 1 << 20;

const _: () = assert!(BLOCK_BYTES.is_power_of_two() && ROWS_BYTES.is_multiple_of(STEP_BYTES));
const _: () = assert!(ROWS_BYTES + BLOCKS_MAX * (BLOCK_BYTES as usize) < 1 << 32);

/// The table of types.
#[derive(Debug)]
pub(super) struct Table {
    reservation: Reservation,
    /// Size of the accessible rows, in bytes.
    rows: usize,
    chains: Chains,
    /// For each type that has a subtype: offset of the chain that ends with this type.
    ending: HashMap<u32, u32>,
}

/// A buddy allocator for parts of blocks: of 1, 2, 4 ... 64 numbers, each aligned to its size. When
/// both halves of a part are free, they merge.
#[derive(Debug)]
struct Chains {
    /// Offsets of the free parts of each size, from the table's start.
    free: [BTreeSet<u32>; SIZES],
    /// Number of blocks allocated so far.
    blocks: usize,
    blocks_max: usize,
    /// Size of the accessible blocks, in bytes.
    open: usize,
}

/// Number of part sizes.
const SIZES: usize = (BLOCK_BYTES / 4).ilog2() as usize + 1;

/// Size class of a chain of `len` numbers.
fn size_of_chain(len: usize) -> usize {
    len.next_power_of_two().ilog2() as usize
}

/// Size in bytes of a size class.
fn bytes_of(size: usize) -> u32 {
    4 << size
}

impl Table {
    /// # Errors
    ///
    /// The error of the system if it has no address space.
    pub(super) fn new(blocks_max: usize) -> io::Result<Self> {
        let blocks_max = blocks_max.min(BLOCKS_MAX);
        let chains = (blocks_max * BLOCK_BYTES as usize).next_multiple_of(STEP_BYTES);
        Ok(Self {
            reservation: Reservation::new(ROWS_BYTES + chains)?,
            rows: 0,
            chains: Chains {
                free: Default::default(),
                blocks: 0,
                blocks_max,
                open: 0,
            },
            ending: HashMap::new(),
        })
    }

    /// Address of the table.
    pub(super) fn start(&self) -> usize {
        self.reservation.range().start
    }

    /// Makes the rows of all numbers below `numbers` accessible.
    ///
    /// # Errors
    ///
    /// The error of the system if it has no memory.
    pub(super) fn reach(&mut self, numbers: usize) -> io::Result<()> {
        let bytes = (numbers * TYPE_ROW_BYTES as usize).next_multiple_of(STEP_BYTES);
        if bytes > self.rows {
            self.open(self.rows..bytes)?;
            self.rows = bytes;
        }
        Ok(())
    }

    /// Makes a part of the table accessible.
    fn open(&self, part: Range<usize>) -> io::Result<()> {
        let start = self.start();
        // SAFETY: the constants ensure that the part is within the reservation. No code uses a part
        // that is not accessible yet.
        unsafe {
            self.reservation
                .protect(start + part.start..start + part.end, Access::ReadWrite)?;
        }
        Ok(())
    }

    /// The supertypes of a type, the root first.
    pub(super) fn chain(&self, number: u32) -> impl Iterator<Item = u32> {
        let [len, offset] = self.row(number);
        let first = (self.start() + offset as usize) as *const u32;
        // SAFETY: a row that is not zero points to a chain of `len` numbers. `forget` releases the
        // chain only when no row points to it.
        (0..len as usize).map(move |at| unsafe { *first.add(at) })
    }

    fn row(&self, number: u32) -> [u32; 2] {
        match self.row_at(number) {
            // SAFETY: the row is accessible. The row is written only under the lock, which the
            // caller holds.
            Some(row) => unsafe { *row },
            None => [0; 2],
        }
    }

    /// Address of the row of a number, if it is accessible.
    fn row_at(&self, number: u32) -> Option<*mut [u32; 2]> {
        let is_there = (number as usize) < self.rows / TYPE_ROW_BYTES as usize;
        let rows = self.start() as *mut [u32; 2];
        is_there.then(|| rows.wrapping_add(number as usize))
    }

    /// Writes a row. A row that is not accessible is zero, and is only ever set to zero.
    fn set_row(&mut self, number: u32, row: [u32; 2]) {
        if let Some(place) = self.row_at(number) {
            // SAFETY: the row is accessible, and no instance has the number, because no module has
            // the number yet, or any more.
            unsafe { *place = row };
        }
    }

    /// Writes the row of a type that is a direct subtype of `supertype`. No instance may have
    /// `number` yet, [`reach`](Self::reach) must have made its row accessible, and `supertype` must
    /// have a number.
    ///
    /// # Errors
    ///
    /// The error of `full` or of the system if there is no room for the chain.
    pub(super) fn write(&mut self, number: u32, supertype: u32) -> io::Result<()> {
        let [len, _] = self.row(supertype);
        let offset = match self.ending.get(&supertype) {
            Some(offset) => *offset,
            None => {
                let chain: Vec<u32> = self.chain(supertype).chain([supertype]).collect();
                let offset = self.take(size_of_chain(chain.len()))?;
                let place = (self.start() + offset as usize) as *mut u32;
                for (at, number) in chain.iter().enumerate() {
                    // SAFETY: the part that was taken has room for the chain and is accessible. No
                    // row points to the chain yet.
                    unsafe { place.add(at).write(*number) };
                }
                self.ending.insert(supertype, offset);
                offset
            }
        };
        self.set_row(number, [len + 1, offset]);
        Ok(())
    }

    /// Clears the row of a number and releases the chain of its type. No instance may have the
    /// number of the type or of a subtype.
    pub(super) fn forget(&mut self, number: u32) {
        if let Some(offset) = self.ending.remove(&number) {
            let [len, _] = self.row(number);
            self.chains.give(offset, size_of_chain(len as usize + 1));
        }
        self.set_row(number, [0; 2]);
    }

    /// Whether no row points to a chain, and all blocks are free.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.ending.is_empty() && self.chains.free[SIZES - 1].len() == self.chains.blocks
    }

    /// Takes a free part of a size class, and returns its offset.
    fn take(&mut self, size: usize) -> io::Result<u32> {
        if let Some(offset) = self.chains.take(size) {
            return Ok(offset);
        }
        let (blocks, limit) = (self.chains.blocks + 1, self.chains.blocks_max);
        if blocks > limit {
            return Err(full("types with subtypes", blocks, limit));
        }
        let end = blocks * BLOCK_BYTES as usize;
        if end > self.chains.open {
            let open = end.next_multiple_of(STEP_BYTES);
            self.open(ROWS_BYTES + self.chains.open..ROWS_BYTES + open)?;
            self.chains.open = open;
        }
        self.chains.blocks = blocks;
        // The constants ensure that the offset is less than 2^32.
        let start = (ROWS_BYTES + end) as u32 - BLOCK_BYTES;
        self.chains.give(start, SIZES - 1);
        Ok(self.chains.take(size).expect("a whole block is free"))
    }
}

impl Chains {
    /// Takes the first free part of the smallest sufficient size. Splits the part, and releases the
    /// unneeded halves.
    fn take(&mut self, size: usize) -> Option<u32> {
        let mut found = (size..SIZES).find(|size| !self.free[*size].is_empty())?;
        let offset = self.free[found].pop_first()?;
        while found > size {
            found -= 1;
            self.free[found].insert(offset + bytes_of(found));
        }
        Some(offset)
    }

    fn give(&mut self, mut offset: u32, mut size: usize) {
        while size < SIZES - 1 && self.free[size].remove(&(offset ^ bytes_of(size))) {
            offset &= !bytes_of(size);
            size += 1;
        }
        self.free[size].insert(offset);
    }
}

/// The error of a limit of the process that is reached.
pub(super) fn full(what: &str, found: usize, limit: usize) -> io::Error {
    let message = format!(
        "open modules have {found} {what}, the limit of a process is {limit}; close modules, or \
         open this one in another process"
    );
    io::Error::other(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Takes and releases parts of random sizes in random order. No new part overlaps another part,
    /// and in the end all parts are merged into blocks.
    #[test]
    fn parts_never_overlap_and_become_blocks_again() {
        let mut table = Table::new(64).expect("there is address space");
        let mut seed = 1_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        let mut taken: Vec<(u32, usize)> = vec![];
        // The end of each taken part, by its offset.
        let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
        let mut refused = 0;
        for round in 0..20_000 {
            // The sizes and the balance of taking and releasing vary, so that parts of one size
            // reuse space of another size.
            if random(5) > usize::from(round % 4_000 > 2_000) * 2 {
                let size = (round / 700 + random(2)) % SIZES;
                match table.take(size) {
                    Ok(offset) => {
                        let end = offset + bytes_of(size);
                        let before = ends.range(..end).next_back();
                        let is_apart = before.is_none_or(|(_, before)| *before <= offset);
                        assert!(is_apart, "round {round}: {offset}, {size}: {ends:?}");
                        ends.insert(offset, end);
                        taken.push((offset, size));
                    }
                    Err(_) => refused += 1,
                }
            } else if !taken.is_empty() {
                let (offset, size) = taken.swap_remove(random(taken.len()));
                ends.remove(&offset);
                table.chains.give(offset, size);
            }
        }
        assert!(refused > 0, "the table was full in some rounds");
        for (offset, size) in taken {
            table.chains.give(offset, size);
        }
        let whole = table.chains.free[SIZES - 1].len();
        assert_eq!((whole, table.chains.blocks), (64, 64));
        assert!(
            table.chains.free[..SIZES - 1]
                .iter()
                .all(BTreeSet::is_empty)
        );
    }
}
