//! Exceptions that hostile guests throw and catch.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod random;
mod references;
