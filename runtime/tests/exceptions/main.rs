//! Exceptions: thrown and caught by guests that mean harm.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod random;
mod references;
