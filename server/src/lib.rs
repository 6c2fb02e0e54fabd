//! An HTTP server that runs each request in its own sandbox. Guests are WASI programs that speak
//! CGI.
//!
//! ```text
//!  connection ─▶ front: route, limits, body ─▶ Engine::run: a slot ─▶ the guest, by slices ─▶ front: answer
//!   hyper, tokio      │                                      │         within its deadline       │
//!                     └── 400 404 413 408                    └── 503                             └── 200 502 504
//! ```
//!
//! One future per connection does all of this. Dropping it ends the guest and frees the slot.
//!
//! `docs/guide/server.md` describes the environment of guests and how the server handles their
//! results. [`Engine`] is the interface to the runtime. `pirn.rs` implements it for pirn, and
//! `benches/compare` for Wasmtime.

#![forbid(unsafe_code)]

mod place;
pub mod guest_body;
pub mod engine;
mod ends;
pub mod grants;
mod handler;
pub mod pirn;
mod refusal;
mod limits;
mod buffered;
mod clients;
pub mod answer;
mod body;
mod stream;
mod authority;
mod environment;
pub mod load;
mod metrics;
mod journal;
mod site;
mod traceparent;
mod utc;
pub mod access;
pub mod units;
mod traces;
mod record;
mod streaming;
mod front;
pub mod admin;
mod server;
mod options;
pub mod config;
pub mod args;
mod manager;
pub mod program;

pub use access::AccessLog;
pub use args::Args;
pub use config::Config;
pub use engine::{Begun, End, Ended, Engine, Exchange, Ran, Running, Slots, Work};
pub use limits::Limits;
pub use pirn::{Pirn, Settings};
pub use place::Place;
pub use refusal::refusal;
pub use server::{Extras, Handle, Server};
pub use site::Mount;
pub use traces::Traces;
