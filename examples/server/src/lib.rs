//! An HTTP server that gives each request a sandbox of its own: guests are WASI programs that speak CGI.
//!
//! ```text
//!  connection ─▶ front: route, body, limits ─▶ Engine::run: a slot ─▶ the guest, by slices ─▶ front: answer
//!   hyper, tokio      │                                      │         within its deadline       │
//!                     └── 404 400 413 408                    └── 503                             └── 200 502 504
//! ```
//!
//! All of it is one future, the connection's: whoever drops that ends the guest and frees the slot.
//!
//! `docs/SERVER.md` has what guests are given and what becomes of what they do. [`Engine`] is all that the
//! server knows of who runs them: `pirn.rs` is pirn's, `benches/compare` has Wasmtime's.

#![forbid(unsafe_code)]

pub mod answer;
pub mod args;
mod body;
mod clients;
pub mod engine;
mod environment;
mod front;
mod journal;
pub mod load;
mod metrics;
pub mod pirn;
mod place;
mod server;
mod stream;

pub use engine::{End, Engine, Ran, Running, Slots, Work};
pub use pirn::{Pirn, Settings};
pub use place::Place;
pub use server::{Limits, Server};
