//! Guests with several memories: each access meets its own memory, and nothing of any is left over.

#[path = "../common/mod.rs"]
mod common;

mod random;
mod regions;
