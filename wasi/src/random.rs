//! [`Random`]: the source of a guest's random bytes.

use crate::errno::Errno;
use rand::rngs::{ChaCha20Rng, SysRng};
use rand::{Rng as _, SeedableRng as _, TryRng as _};
use std::sync::{Mutex, PoisonError};

/// The source of a guest's random bytes.
#[derive(Debug)]
pub(crate) enum Random {
    /// getrandom(2) at each call: two guests never share a generator, and a process and its fork do
    /// not share one.
    Kernel,
    /// A generator with a seed, for runs that must repeat exactly.
    Seeded(Box<Mutex<ChaCha20Rng>>),
}

impl Random {
    pub(crate) fn seeded(seed: [u8; 32]) -> Self {
        Self::Seeded(Box::new(Mutex::new(ChaCha20Rng::from_seed(seed))))
    }

    /// Fills bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), Errno> {
        match self {
            Self::Kernel => SysRng.try_fill_bytes(bytes).map_err(|_| Errno::IO),
            Self::Seeded(generator) => {
                let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
                generator.fill_bytes(bytes);
                Ok(())
            }
        }
    }
}
