//! [`Random`]: the source of a guest's random bytes.

use crate::errno::Errno;
use rand::rngs::{ChaCha20Rng, SysRng};
use rand::{Rng as _, SeedableRng as _, TryRng as _};
use std::sync::{Mutex, PoisonError};

/// The source of a guest's random bytes.
#[derive(Debug)]
pub struct Random {
    /// `None` for the kernel's generator.
    seeded: Option<Box<Mutex<ChaCha20Rng>>>,
}

impl Random {
    /// getrandom(2) at each call: two guests never share a generator, and a process and its fork do
    /// not share one.
    #[must_use]
    pub fn kernel() -> Self {
        Self { seeded: None }
    }

    /// A generator with a seed, for runs that must repeat exactly.
    #[must_use]
    pub fn seeded(seed: [u8; 32]) -> Self {
        let generator = Box::new(Mutex::new(ChaCha20Rng::from_seed(seed)));
        Self {
            seeded: Some(generator),
        }
    }

    /// Fills bytes.
    ///
    /// # Errors
    ///
    /// [`Errno::IO`] if the kernel has no generator.
    pub fn fill(&self, bytes: &mut [u8]) -> Result<(), Errno> {
        match &self.seeded {
            None => SysRng.try_fill_bytes(bytes).map_err(|_| Errno::IO),
            Some(generator) => {
                let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
                generator.fill_bytes(bytes);
                Ok(())
            }
        }
    }
}
