//! An HTTP server that runs each request in its own sandbox. Guests are components of `wasi:http`,
//! and WASI programs that speak CGI.
//!
//! ```text
//!  connection ─▶ front: route, limits ─▶ Engine::begin: a slot ─▶ the guest, by slices ─▶ front: answer
//!   hyper, tokio      │                                   │         within its deadline       │
//!                     └── 400 404 413 408                 └── 503                             └── 200 502 504
//! ```
//!
//! The future of the connection does all these steps until the head of the answer is there. Then
//! the guest runs on in a task of its own. A drop of the request or of the answer ends the guest
//! and frees the slot.
//!
//! `docs/guide/server.md` describes the environment of guests and how the server handles their
//! results. [`Engine`] is the interface to the runtime. `guest/pirn.rs` implements it for pirn, and
//! `benches/peers` for Wasmtime.

#![forbid(unsafe_code)]

mod limits;
pub mod units;
mod http;
pub mod cgi;
mod guest;
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
pub use config::Config;
pub use guest::engine::{Begun, End, Ended, Engine, Exchange, Slots};
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
