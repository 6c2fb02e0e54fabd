//! WASI 0.2 for components: command line, streams, clocks, random numbers, files, sockets, HTTP.
//!
//! [`link()`] adds the interfaces to a linker of `pirn-component`. The data of an instance
//! implements [`View`], and has a [`Wasi`]: the configuration of the guest, and its resources.
//!
//! ```no_run
//! use pirn_component::{Component, Limits, Linker};
//! use pirn_runtime::{Module, Region};
//! use pirn_wasi2::{RUN, Wasi, WasiBuilder};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let component = Component::new(&Module::open("hello.so")?)?;
//! let region = Region::builder().slots(1).build()?;
//! let mut linker = Linker::<Wasi>::new();
//! pirn_wasi2::link(&mut linker)?;
//! let prepared = linker.prepare(&region, &component)?;
//! let run = prepared.typed::<(), Result<(), ()>>(RUN)?;
//!
//! let wasi = WasiBuilder::new().inherit_stdio().arg("hello").build();
//! let mut instance = prepared.instantiate(wasi)?;
//! let ended = instance.call_typed_async(Limits::default(), &run, ()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Functions that can wait are asynchronous: call components by
//! [`call_typed_async`](pirn_component::Instance::call_typed_async) on a tokio runtime with time
//! and I/O.

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod limits;
mod codes;
mod quota;
mod threads;
mod resolver;
mod network;
mod table;
mod io;
mod pipes;
mod standard;
mod message;
mod preopens;
mod wasi;
mod poll;
mod methods;
mod streams;
mod clocks;
mod random;
mod sockets;
mod cli;
mod filesystem;
pub mod http;
mod link;

pub use cap_std::ambient_authority;
pub use cap_std::fs::Dir;
pub use cli::RUN;
pub use io::{Input, IoError, Output, StreamFailure};
pub use link::link;
pub use network::{Access, Network, NetworkError};
pub use pirn_memory_files::{BaseError, BaseLimits, Limits as MemoryLimits, MemoryBase};
pub use pirn_wasi::pipe::Pipe;
pub use pirn_wasi::{Bounded, Exit};
pub use table::{Resource, Table};
pub use wasi::{View, Wasi, WasiBuilder, WasiConfig};
