//! [`HostBytes`]: counts the memory that the host keeps for one guest, with one limit for all of
//! it.

use crate::error::{AbiError, AbiResult};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// The default of [`Linker::host_bytes_max`](crate::Linker::host_bytes_max).
pub(crate) const HOST_BYTES_MAX: usize = 128 << 20;

/// Returns the account in the data of an instance.
pub(crate) type AccountOf<T> = fn(&mut T) -> &HostBytes;

/// Counts the bytes that the host keeps for one guest, up to a limit. All clones share one counter.
///
/// Count memory before you allocate it, by its capacity. A [`HeldBytes`] gives its bytes back when
/// it is dropped, on any thread, also after the guest has ended.
#[derive(Debug, Clone)]
pub struct HostBytes(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    max: AtomicUsize,
    held: AtomicUsize,
    peak: AtomicUsize,
}

/// A number of counted bytes. A drop gives the bytes back to the account.
#[derive(Debug)]
pub struct HeldBytes {
    account: HostBytes,
    bytes: usize,
}

impl Default for HostBytes {
    /// An account with the default of [`Linker::host_bytes_max`](crate::Linker::host_bytes_max).
    fn default() -> Self {
        Self::new(HOST_BYTES_MAX)
    }
}

impl HostBytes {
    /// An account that allows `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Counter {
            max: AtomicUsize::new(max),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    /// Counts bytes until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`AbiError::HostBytes`] if the sum would exceed the limit. Then nothing is counted. A host
    /// function that returns this error ends the guest.
    pub fn hold(&self, bytes: usize) -> AbiResult<HeldBytes> {
        self.add(bytes)?;
        let account = self.clone();
        Ok(HeldBytes { account, bytes })
    }

    /// Fails as [`hold`](Self::hold) would, and counts nothing. For a result of a host function:
    /// this crate counts the result when the function has returned.
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold).
    pub fn check(&self, bytes: usize) -> AbiResult {
        let (held, limit) = (self.held(), self.max());
        fits(held, bytes, limit).map(drop)
    }

    /// Bytes that are counted now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Relaxed)
    }

    /// Most bytes that were counted at one time.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.0.peak.load(Relaxed)
    }

    /// The limit.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max.load(Relaxed)
    }

    pub(crate) fn set_max(&self, max: usize) {
        self.0.max.store(max, Relaxed);
    }

    fn add(&self, bytes: usize) -> AbiResult {
        let max = self.max();
        let sum = |held: usize| fits(held, bytes, max).ok();
        match self.0.held.fetch_update(Relaxed, Relaxed, sum) {
            Ok(before) => {
                self.0.peak.fetch_max(before + bytes, Relaxed);
                Ok(())
            }
            Err(held) => fits(held, bytes, max).map(drop),
        }
    }
}

/// The sum of `held` and `asked`, if the sum is within the limit. `asked == 0` always fits, because
/// `set_max` may set a limit below the held bytes.
fn fits(held: usize, asked: usize, limit: usize) -> AbiResult<usize> {
    match held.checked_add(asked) {
        Some(sum) if sum <= limit || asked == 0 => Ok(sum),
        _ => Err(AbiError::HostBytes { held, asked, limit }),
    }
}

impl HeldBytes {
    /// Replaces the number of counted bytes.
    ///
    /// # Errors
    ///
    /// As [`HostBytes::hold`]. After an error the number is unchanged.
    pub fn set(&mut self, bytes: usize) -> AbiResult {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.add(more)?,
            None => {
                let fewer = self.bytes - bytes;
                self.account.0.held.fetch_sub(fewer, Relaxed);
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The account that counts the bytes.
    #[must_use]
    pub fn account(&self) -> &HostBytes {
        &self.account
    }

    /// Number of counted bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.account.0.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// The account of an instance. The first counted bytes create it, so an instance for which the host
/// keeps nothing allocates nothing.
#[derive(Debug)]
pub(crate) struct Account {
    made: OnceLock<HostBytes>,
    max: usize,
    /// Bytes of the instance's own tables of handles.
    tables: Option<HeldBytes>,
}

impl Account {
    /// An account with the limit `max`. `made` is the account in the data of the instance, if there
    /// is one.
    pub(crate) fn new(made: Option<HostBytes>, max: usize) -> Self {
        if let Some(made) = &made {
            made.set_max(max);
        }
        Self {
            made: made.map_or_else(OnceLock::new, OnceLock::from),
            max,
            tables: None,
        }
    }

    pub(crate) fn get(&self) -> &HostBytes {
        self.made.get_or_init(|| HostBytes::new(self.max))
    }

    /// As [`HostBytes::check`].
    pub(crate) fn check(&self, bytes: usize) -> AbiResult {
        match self.made.get() {
            Some(made) => made.check(bytes),
            None => fits(0, bytes, self.max).map(drop),
        }
    }

    /// As [`HostBytes::hold`]. `None` for no bytes.
    pub(crate) fn hold(&self, bytes: usize) -> AbiResult<Option<HeldBytes>> {
        match bytes {
            0 => Ok(None),
            bytes => self.get().hold(bytes).map(Some),
        }
    }

    /// Counts the bytes by which a table of the instance grows.
    pub(crate) fn grow(&mut self, bytes: usize) -> AbiResult {
        match &mut self.tables {
            Some(tables) => tables.set(tables.bytes().saturating_add(bytes)),
            None => {
                self.tables = self.hold(bytes)?;
                Ok(())
            }
        }
    }

    /// Gives bytes of a table back that [`grow`](Self::grow) has counted.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Some(tables) = &mut self.tables {
            // Fewer bytes than before always fit.
            let _ = tables.set(tables.bytes().saturating_sub(bytes));
        }
    }

    /// Makes room for one more entry of a table. Counts the memory before the table grows.
    pub(crate) fn room<T>(&mut self, table: &mut Vec<T>) -> AbiResult {
        const FIRST: usize = 4;
        self.room_for(table, (table.len() + 1).max(FIRST))
    }

    /// Makes room for `len` entries of a table. Counts the memory before the table grows.
    pub(crate) fn room_for<T>(&mut self, table: &mut Vec<T>, len: usize) -> AbiResult {
        let capacity = table.capacity();
        if capacity < len {
            let wanted = len.max(2 * capacity);
            self.grow((wanted - capacity).saturating_mul(size_of::<T>()))?;
            table.reserve_exact(wanted - table.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_up_to_the_limit_and_given_back() {
        let all = HostBytes::new(100);
        let mut one = all.hold(100).expect("it is the limit");
        let refused = AbiError::HostBytes {
            held: 100,
            asked: 1,
            limit: 100,
        };
        assert_eq!(all.check(1), Err(refused.clone()));
        assert_eq!(all.hold(1).map(drop), Err(refused));
        assert!(one.set(101).is_err());
        assert!(one.set(usize::MAX).is_err());
        assert_eq!((one.bytes(), all.held()), (100, 100));
        one.set(10).expect("it is less");
        let other = all.hold(90).expect("it is the rest");
        assert!(one.set(11).is_err());
        drop(other);
        drop(one);
        assert_eq!((all.held(), all.peak()), (0, 100));
    }

    #[test]
    fn a_limit_below_the_held_bytes_refuses_more_and_lets_bytes_go() {
        let all = HostBytes::default();
        let mut held = all.hold(1000).expect("it fits");
        all.set_max(10);
        assert!(all.hold(1).is_err());
        assert!(all.hold(0).is_ok() && all.check(0).is_ok());
        held.set(999).expect("it is less");
        held.set(5).expect("it is less");
        assert!(all.hold(5).is_ok() && all.hold(6).is_err());
    }

    #[test]
    fn tables_count_their_capacity() {
        let mut account = Account::new(None, 64);
        let mut table = vec![];
        assert!(account.check(64).is_ok() && account.check(65).is_err());
        for entry in 0..8_u64 {
            account.room(&mut table).expect("8 entries fit");
            table.push(entry);
        }
        assert_eq!((account.get().held(), table.capacity()), (64, 8));
        assert!(account.room(&mut table).is_err());
        assert_eq!(table.capacity(), 8);
        account.shrink(64);
        assert_eq!(account.get().held(), 0);
    }
}
