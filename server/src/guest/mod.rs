//! The guests of routes, and what runs them.

pub(crate) mod place;
pub mod engine;
mod bounds;
mod errors;
pub mod grants;
mod handler;
mod program;
pub mod pirn;
pub(crate) mod refusal;
