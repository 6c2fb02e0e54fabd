//! A containerd shim that runs WASI commands and `wasi:http` components as containers.
//!
//! ```text
//!  containerd ─ttrpc─▶ shim ─▶ holder, one a container ─▶ guest's process
//!                      tasks    policy, image, signature,   namespaces, control group,
//!                               cache, aotc, Module::open   image; slots, WASI, HTTP
//! ```
//!
//! The holder makes all decisions on the host, before the container exists. So `ctr run` reports
//! the errors of the holder. `docs/guide/kubernetes.md` is the guide.

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod units;
mod owner;
pub mod policy;
pub mod annotations;
pub mod entry;
pub mod approve;
pub mod cache;
pub mod compile;
mod files;
mod given;
mod outcome;
mod stop;
mod command;
mod serve;
mod prepare;
mod executor;
mod container;
mod artifact;
mod instance;

pub use container::{NAME, clean_up};
pub use instance::Instance;
