//! [`Contents`]: the bytes of one file, in copy-on-write extents above the bytes of the base.

use crate::account::Charge;
use crate::error::FileError;
use crate::limits::{EXTENT_OVERHEAD_BYTES, FILE_BYTES_MAX};
use core::ops::Range;
use std::collections::BTreeMap;

/// Bytes of an extent that is complete. A write to a file of the base copies up to this number of
/// bytes.
pub(crate) const EXTENT_BYTES: usize = 64 << 10;
/// Bytes of the smallest extent. An extent at the end of a file grows by doubling.
const EXTENT_BYTES_MIN: usize = 512;
/// The bytes that a read of a hole returns.
static ZEROS: [u8; EXTENT_BYTES] = [0; EXTENT_BYTES];

/// The bytes of one file.
///
/// Extent `n` holds the bytes from `n * EXTENT_BYTES` on, and replaces the base's bytes. Bytes
/// after its end, up to the next extent, are zero. Where there is no extent, the base's bytes show,
/// and zeros after the base's end.
#[derive(Debug)]
pub(crate) struct Contents {
    size: u64,
    /// The part of the base's bytes that still shows.
    base: Range<usize>,
    extents: BTreeMap<u64, Vec<u8>>,
    charge: Charge,
}

impl Contents {
    /// A file with these bytes of the base. `charge` covers its node.
    pub(crate) fn new(base: Range<usize>, charge: Charge) -> Self {
        Self {
            size: base.len() as u64,
            base,
            extents: BTreeMap::new(),
            charge,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Calls `sink` for at most `len` bytes from `offset` on, in order. `base` is all bytes of the
    /// base. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// The first error of `sink`.
    pub(crate) fn read<E>(
        &self,
        base: &[u8],
        offset: u64,
        len: usize,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let end = self.size.min(offset.saturating_add(len as u64));
        let mut at = offset;
        while at < end {
            let piece = self.piece(base, at, end);
            sink(piece)?;
            at += piece.len() as u64;
        }
        Ok(at.saturating_sub(offset) as usize)
    }

    /// The longest contiguous run of bytes from `at` to at most `end`. The run is not empty.
    fn piece<'a>(&'a self, base: &'a [u8], at: u64, end: u64) -> &'a [u8] {
        let (slot, start) = split(at);
        let slot_end = ((slot + 1) * EXTENT_BYTES as u64).min(end);
        let zeros = || &ZEROS[..(slot_end - at) as usize];
        if let Some(extent) = self.extents.get(&slot) {
            let len = extent
                .len()
                .saturating_sub(start)
                .min((slot_end - at) as usize);
            return match len {
                0 => zeros(),
                _ => &extent[start..start + len],
            };
        }
        if at >= self.base.len() as u64 {
            return zeros();
        }
        let next = self.extents.range(slot..).next();
        let next = next.map_or(u64::MAX, |(slot, _)| slot * EXTENT_BYTES as u64);
        let end = end.min(next).min(self.base.len() as u64);
        &base[self.base.start + at as usize..self.base.start + end as usize]
    }

    /// Calls `fill` with each destination buffer from `offset` on, in order, `len` bytes in total.
    /// `fill` must write the whole buffer. Returns the number of bytes, which is less than `len`
    /// if the instance has no more space.
    ///
    /// # Errors
    ///
    /// [`FileError::NoSpace`] or [`FileError::TooLarge`] if not a single byte could be written, or
    /// the first error of `fill`. Then the buffer of the last call has an unspecified part of the
    /// bytes that `fill` wrote. The file did not get longer.
    pub(crate) fn write<E: From<FileError>>(
        &mut self,
        base: &[u8],
        offset: u64,
        len: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let end = offset.saturating_add(len as u64).min(FILE_BYTES_MAX);
        if end <= offset && len > 0 {
            return Err(FileError::TooLarge.into());
        }
        let mut at = offset;
        while at < end {
            let (slot, start) = split(at);
            let some = ((end - at) as usize).min(EXTENT_BYTES - start);
            let extent = match self.extent(base, slot, start + some) {
                Ok(extent) => extent,
                Err(_) if at > offset => break,
                Err(error) => return Err(error.into()),
            };
            if let Err(error) = fill(&mut extent[start..start + some]) {
                // No byte may stay after the end of the file: it would show once the file grows.
                self.free_behind_end();
                return Err(error);
            }
            at += some as u64;
            self.size = self.size.max(at);
        }
        Ok((at - offset) as usize)
    }

    /// An extent with at least `len` bytes, made or extended if needed.
    fn extent(&mut self, base: &[u8], slot: u64, len: usize) -> Result<&mut [u8], FileError> {
        let found = self.extents.get(&slot).map(Vec::len);
        if found.is_none_or(|found| found < len) {
            let wanted = len
                .next_power_of_two()
                .clamp(EXTENT_BYTES_MIN, EXTENT_BYTES);
            match found {
                Some(found) => {
                    self.charge.more((wanted - found) as u64)?;
                    if let Some(extent) = self.extents.get_mut(&slot) {
                        extent.reserve_exact(wanted - found);
                        extent.resize(wanted, 0);
                    }
                }
                None => self.add(base, slot, wanted)?,
            }
        }
        Ok(self.extents.get_mut(&slot).map_or(&mut [], |extent| extent))
    }

    /// Makes an extent of at least `wanted` bytes, with the bytes of the base.
    fn add(&mut self, base: &[u8], slot: u64, wanted: usize) -> Result<(), FileError> {
        let start = usize::try_from(slot).map_or(usize::MAX, |n| n.saturating_mul(EXTENT_BYTES));
        let start = start.min(self.base.len());
        let end = start.saturating_add(EXTENT_BYTES).min(self.base.len());
        let copied = &base[self.base.start + start..self.base.start + end];
        let len = wanted.max(copied.len());
        self.charge.more(len as u64 + EXTENT_OVERHEAD_BYTES)?;
        let extent = match copied {
            [] => vec![0; len],
            _ => {
                let mut extent = Vec::with_capacity(len);
                extent.extend_from_slice(copied);
                extent.resize(len, 0);
                extent
            }
        };
        self.extents.insert(slot, extent);
        Ok(())
    }

    /// Sets the size. A longer file gets a hole at its end.
    ///
    /// # Errors
    ///
    /// [`FileError::TooLarge`].
    pub(crate) fn set_size(&mut self, size: u64) -> Result<(), FileError> {
        if size > FILE_BYTES_MAX {
            return Err(FileError::TooLarge);
        }
        if size < self.size {
            self.cut(size);
        }
        self.size = size;
        Ok(())
    }

    /// Frees the bytes that a failed write left after the end of the file.
    pub(crate) fn free_behind_end(&mut self) {
        self.cut(self.size);
    }

    /// Frees all bytes from `size` on.
    fn cut(&mut self, size: u64) {
        let (slot, start) = split(size);
        let first = slot + u64::from(start > 0);
        let freed = self.extents.split_off(&first);
        let extents = freed.values();
        let bytes = extents.map(|extent| extent.len() as u64 + EXTENT_OVERHEAD_BYTES);
        let mut bytes: u64 = bytes.sum();
        drop(freed);
        if start > 0
            && let Some(extent) = self.extents.get_mut(&slot)
            && extent.len() > start
        {
            bytes += (extent.len() - start) as u64;
            extent.truncate(start);
            extent.shrink_to_fit();
        }
        // Another thread may allocate the returned bytes at once. So the memory is freed before the
        // counter drops.
        self.charge.less(bytes);
        if size < self.base.len() as u64 {
            self.base.end = self.base.start + size as usize;
        }
    }
}

/// The extent that holds an offset, and the offset within the extent.
fn split(offset: u64) -> (u64, usize) {
    let bytes = EXTENT_BYTES as u64;
    (offset / bytes, (offset % bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;
    use crate::limits::Limits;
    use core::convert::Infallible;
    use std::sync::Arc;

    fn empty(bytes_max: u64) -> (Arc<Account>, Contents) {
        let limits = Limits {
            bytes_max,
            files_max: 1,
        };
        let account = Account::new(limits, 1);
        let contents = Contents::new(0..0, Charge::none(&account));
        (account, contents)
    }

    fn all(contents: &Contents, base: &[u8]) -> Vec<u8> {
        let mut found = vec![];
        let sink = |bytes: &[u8]| {
            found.extend(bytes);
            Ok::<(), Infallible>(())
        };
        contents.read(base, 0, usize::MAX, sink).unwrap();
        found
    }

    fn put(
        contents: &mut Contents,
        base: &[u8],
        at: u64,
        bytes: &[u8],
    ) -> Result<usize, FileError> {
        let mut rest = bytes;
        contents.write(base, at, bytes.len(), |room| {
            let (some, after) = rest.split_at(room.len());
            room.copy_from_slice(some);
            rest = after;
            Ok(())
        })
    }

    #[test]
    fn a_write_copies_one_extent_of_the_base() {
        let base: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        let account = Account::new(Limits::default(), 1);
        let mut contents = Contents::new(10..190_010, Charge::none(&account));
        assert_eq!(all(&contents, &base), base[10..190_010]);
        put(&mut contents, &base, 70_000, &[255; 3]).unwrap();
        let mut expected = base[10..190_010].to_vec();
        expected[70_000..70_003].fill(255);
        assert_eq!(all(&contents, &base), expected);
        assert_eq!(account.bytes(), EXTENT_BYTES as u64 + EXTENT_OVERHEAD_BYTES);
        // Cut the file within the base's bytes, then grow it again: the bytes after the cut are
        // zero.
        contents.set_size(180_000).unwrap();
        contents.set_size(190_000).unwrap();
        expected[180_000..].fill(0);
        assert_eq!(all(&contents, &base), expected);
        contents.set_size(0).unwrap();
        assert_eq!((account.bytes(), all(&contents, &base).len()), (0, 0));
    }

    #[test]
    fn a_sparse_file_costs_one_extent() {
        let (account, mut contents) = empty(1 << 20);
        put(&mut contents, &[], FILE_BYTES_MAX - 1, &[1]).unwrap();
        assert_eq!(contents.size(), FILE_BYTES_MAX);
        assert!(account.bytes() < 70_000, "{}", account.bytes());
        let past = put(&mut contents, &[], FILE_BYTES_MAX, &[1]);
        assert_eq!(past, Err(FileError::TooLarge));
        assert_eq!(
            contents.set_size(FILE_BYTES_MAX + 1),
            Err(FileError::TooLarge)
        );
    }

    #[test]
    fn a_write_past_the_limit_is_cut_short() {
        let (account, mut contents) = empty(100_000);
        let written = put(&mut contents, &[], 0, &vec![7; 200_000]).unwrap();
        assert_eq!(written, EXTENT_BYTES);
        let none = put(&mut contents, &[], EXTENT_BYTES as u64, &vec![7; 65_536]);
        assert_eq!(none, Err(FileError::NoSpace));
        contents.set_size(0).unwrap();
        assert_eq!(account.bytes(), 0);
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind_the_end() {
        let (_, mut contents) = empty(1 << 20);
        put(&mut contents, &[], 0, &[1; 10]).unwrap();
        let failed = contents.write(&[], 5, 100, |room| {
            room.fill(9);
            Err(FileError::Invalid)
        });
        assert_eq!(failed, Err(FileError::Invalid));
        assert_eq!(contents.size(), 10);
        contents.set_size(200).unwrap();
        assert!(all(&contents, &[])[10..].iter().all(|byte| *byte == 0));
    }
}
