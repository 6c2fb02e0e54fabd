//! Replaces the runtime's `ForkLock` by a mutex of loom. Models do not fork.

use loom::sync::{Mutex, MutexGuard};

pub(crate) struct Rank;

impl Rank {
    pub(crate) fn new(_number: usize) -> Self {
        Self
    }
}

#[derive(Debug)]
pub(crate) struct ForkLock<T>(Mutex<T>);

impl<T> ForkLock<T> {
    pub(crate) fn new(_rank: Rank, value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn take(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}
