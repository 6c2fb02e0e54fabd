//! An HTTP server that gives each request a sandbox of its own: guests are WASI programs that speak CGI.
//!
//! ```text
//!  connection ─▶ front: route, body, limits ─▶ queue ─▶ worker thread: Engine::run ─▶ front: answer
//!   hyper, tokio      │                          │            a slot, the guest           │
//!                     └── 404 400 413 408        └── 503      within its deadline         └── 200 502 504
//! ```
//!
//! `docs/SERVER.md` has what guests are given and what becomes of what they do. [`Engine`] is all that the
//! server knows of who runs them: `pirn.rs` is pirn's, `benches/compare` has Wasmtime's.

#![forbid(unsafe_code)]

pub mod answer;
pub mod args;
pub mod engine;
mod environment;
mod front;
pub mod load;
mod metrics;
pub mod pirn;
mod queue;
mod server;
mod ticket;

pub use engine::{End, Engine, Ran, Slots, Work};
pub use pirn::{Pirn, Settings};
pub use server::{Limits, Server};
pub use ticket::Ticket;
