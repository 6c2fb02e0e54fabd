//! Limits of a guest's use of the host: [`Quota`] counts objects of one kind, [`KeptBytes`] counts
//! memory.

use crate::limits::KEPT_BYTES_MAX;
use pirn_runtime::HostError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the tokens that exist.
#[derive(Debug, Default)]
pub(crate) struct Quota(Arc<()>);

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(crate) struct Token {
    _counted: Arc<()>,
}

/// A token that several parts of a connection share. The extensions of a request carry it to the
/// name lookup, which counts until getaddrinfo(3) returns.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    _token: Arc<Token>,
}

impl Counted {
    pub(crate) fn new(token: Token) -> Self {
        Self {
            _token: Arc::new(token),
        }
    }
}

impl Quota {
    /// Makes one more token, unless `max` tokens exist.
    pub(crate) fn take(&mut self, max: usize) -> Option<Token> {
        // Only this function makes tokens, so the number can only decrease after this check.
        let given = Arc::strong_count(&self.0) - 1;
        (given < max).then(|| Token {
            _counted: Arc::clone(&self.0),
        })
    }
}

/// Counts the host memory for the resources of a guest. All clones share one counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptBytes(Arc<AtomicUsize>);

/// A number of counted bytes. Dropping it subtracts them from the counter.
#[derive(Debug)]
pub(crate) struct Kept {
    all: KeptBytes,
    bytes: usize,
}

impl KeptBytes {
    /// Counts bytes.
    ///
    /// # Errors
    ///
    /// [`HostError`], which ends the guest, if the sum exceeds the limit.
    pub(crate) fn keep(&self, bytes: usize) -> Result<Kept, HostError> {
        let mut kept = Kept {
            all: self.clone(),
            bytes: 0,
        };
        kept.set(bytes)?;
        Ok(kept)
    }
}

impl Kept {
    /// Replaces the number of counted bytes.
    ///
    /// # Errors
    ///
    /// As [`KeptBytes::keep`].
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), HostError> {
        let all = &self.all.0;
        // Only the guest's own calls add bytes, so the sum can only decrease after this check.
        let kept = all.load(Ordering::Relaxed) - self.bytes;
        if kept.saturating_add(bytes) > KEPT_BYTES_MAX {
            return Err(HostError::message(format!(
                "the guest's resources keep {kept} bytes of the host and want {bytes} more, at \
                 most {KEPT_BYTES_MAX} are allowed; drop some"
            )));
        }
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_up_to_the_limit_and_given_back() {
        let all = KeptBytes::default();
        let mut one = all.keep(KEPT_BYTES_MAX).expect("it is the limit");
        assert!(all.keep(1).is_err());
        assert!(one.set(KEPT_BYTES_MAX + 1).is_err());
        assert!(one.set(usize::MAX).is_err());
        one.set(10).expect("it is less");
        let other = all.keep(KEPT_BYTES_MAX - 10).expect("it is the rest");
        assert!(one.set(11).is_err());
        drop(other);
        drop(one);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }
}
