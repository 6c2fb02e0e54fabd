//! Exceptions that hostile guests throw and catch.

mod attacks;
mod random;
mod references;
