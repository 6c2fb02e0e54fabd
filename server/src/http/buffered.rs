//! [`Buffered`]: counts the bytes of request bodies that the server keeps in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the buffers of bodies, by capacity, of all clients or of one client.
#[derive(Debug, Default, Clone)]
pub(crate) struct Buffered(Arc<AtomicUsize>);

/// The bytes of one body. They count against the server's limit and the client's limit. A drop of
/// the value subtracts them.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// The counters that include the bytes, each with its limit.
    counted: [(Buffered, usize); 2],
    bytes: usize,
}

/// A body would exceed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// Bytes of all bodies that count against the limit, with the refused body.
    pub(crate) needed: usize,
    /// The limit.
    pub(crate) bytes_max: usize,
}

impl Buffered {
    /// Number of counted bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds bytes, unless the sum exceeds a limit. The check and the addition are one step, so that
    /// bodies that grow at the same time do not exceed the limit together.
    fn add(&self, more: usize, bytes_max: usize) -> Result<(), NoRoom> {
        let sum = |bytes: usize| bytes.checked_add(more).filter(|sum| *sum <= bytes_max);
        let added = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
        added.map(drop).map_err(|bytes| NoRoom {
            needed: bytes.saturating_add(more),
            bytes_max,
        })
    }

    fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Reserved {
    /// A reservation of no bytes, for a body that counts against both limits.
    pub(crate) fn new(server: (&Buffered, usize), client: (&Buffered, usize)) -> Self {
        Self {
            counted: [server, client].map(|(counter, bytes_max)| (counter.clone(), bytes_max)),
            bytes: 0,
        }
    }

    /// Raises the number of bytes of the body to `bytes`. Changes nothing if a limit would be
    /// exceeded.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes.saturating_sub(self.bytes);
        let [(server, server_max), (client, client_max)] = &self.counted;
        server.add(more, *server_max)?;
        if let Err(refused) = client.add(more, *client_max) {
            server.subtract(more);
            return Err(refused);
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Most requests have no body. All threads share the counter of the server.
        if self.bytes == 0 {
            return;
        }
        for (counter, _) in &self.counted {
            counter.subtract(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_bounded_together_and_for_each_client() {
        let (server, one, two) = (
            Buffered::default(),
            Buffered::default(),
            Buffered::default(),
        );
        let reserved = |client: &Buffered| Reserved::new((&server, 100), (client, 60));
        let (mut a, mut b) = (reserved(&one), reserved(&one));
        assert_eq!(a.grow(40), Ok(()));
        assert_eq!(b.grow(20), Ok(()));
        let refused = NoRoom {
            needed: 61,
            bytes_max: 60,
        };
        assert_eq!(b.grow(21), Err(refused), "the client has its part");
        assert_eq!((server.bytes(), one.bytes()), (60, 60), "nothing is left");
        let mut c = reserved(&two);
        assert_eq!(c.grow(40), Ok(()));
        let refused = NoRoom {
            needed: 101,
            bytes_max: 100,
        };
        assert_eq!(c.grow(41), Err(refused), "the server is full");
        assert_eq!(c.grow(7), Ok(()), "it never shrinks");
        assert_eq!((server.bytes(), two.bytes()), (100, 40));
        drop(a);
        assert_eq!((server.bytes(), one.bytes()), (60, 20));
        assert_eq!(c.grow(60), Ok(()));
        drop((b, c));
        assert_eq!((server.bytes(), one.bytes(), two.bytes()), (0, 0, 0));
    }

    #[test]
    fn numbers_near_the_end_of_their_range_do_not_wrap() {
        let (server, client) = (Buffered::default(), Buffered::default());
        let all = (&server, usize::MAX);
        let mut huge = Reserved::new(all, (&client, usize::MAX));
        let mut small = Reserved::new(all, (&client, 10));
        assert_eq!(huge.grow(usize::MAX - 1), Ok(()));
        assert!(small.grow(11).is_err());
        drop(huge);
        assert_eq!(small.grow(10), Ok(()));
        assert!(small.grow(usize::MAX).is_err());
        drop(small);
        assert_eq!((server.bytes(), client.bytes()), (0, 0));
    }
}
