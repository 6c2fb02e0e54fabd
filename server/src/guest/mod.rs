//! The guests of routes, and what runs them.

pub(crate) mod place;
pub mod engine;
mod errors;
pub mod grants;
mod handler;
pub mod pirn;
pub(crate) mod refusal;
