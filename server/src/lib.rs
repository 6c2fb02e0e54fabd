//! An HTTP server that runs each request in its own sandbox. Guests are WASI programs that speak
//! CGI.
//!
//! ```text
//!  connection ─▶ front: route, limits, body ─▶ Engine::run: a slot ─▶ the guest, by slices ─▶ front: answer
//!   hyper, tokio      │                                      │         within its deadline       │
//!                     └── 400 404 413 408                    └── 503                             └── 200 502 504
//! ```
//!
//! One future per connection does all these steps. A drop of the future ends the guest and frees
//! the slot.
//!
//! `docs/guide/server.md` describes the environment of guests and how the server handles their
//! results. [`Engine`] is the interface to the runtime. `guest/pirn.rs` implements it for pirn, and
//! `benches/peers` for Wasmtime.

#![forbid(unsafe_code)]

mod limits;
pub mod units;
mod http;
mod guest;
mod cgi;
mod operations;
mod site;
mod record;
mod streaming;
mod front;
pub mod admin;
mod server;
mod options;
pub mod config;
pub mod args;
pub mod program;

pub use args::Args;
pub use cgi::answer;
pub use config::Config;
pub use guest::engine::{Begun, End, Ended, Engine, Exchange, Ran, Running, Slots, Work};
pub use guest::pirn::{Pirn, Settings};
pub use guest::place::Place;
pub use guest::refusal::refusal;
pub use guest::{engine, grants, pirn};
pub use http::guest_body;
pub use limits::Limits;
pub use operations::access::AccessLog;
pub use operations::traces::Traces;
pub use operations::{access, load};
pub use server::{Extras, Handle, Server};
pub use site::Mount;
