//! WASI preview 1 for guests of pirn's runtime, through [`wasi_common`].
//!
//! ```no_run
//! use pirn_runtime::{Linker, Module, Region};
//! use pirn_wasi::{WasiCtx, WasiCtxBuilder};
//!
//! let mut linker = Linker::<WasiCtx>::new();
//! pirn_wasi::link(&mut linker, |wasi| wasi)?;
//! let region = Region::builder().build()?;
//! let hello = region.prepare(&Module::open("hello.so")?, &linker)?;
//! let start = hello.func::<(), ()>("_start")?;
//!
//! let wasi = WasiCtxBuilder::new().inherit_stdio().arg("hello")?.build();
//! let mut instance = hello.instantiate(wasi)?;
//! match instance.call(&start, ()) {
//!     Ok(()) => println!("returned"),
//!     Err(error) => match pirn_wasi::Exit::of(&error) {
//!         Some(exit) => println!("exited with {}", exit.code),
//!         None => return Err(error.into()),
//!     },
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod abi;
mod errno;
mod exit;
mod open_files;
mod wasi_ctx;
mod guest;
mod wait;
mod times;
mod bounded;
mod quota;
mod scratch;
mod buffers;
mod streams;
mod files;
mod memory_dir;
mod virtual_clock;
mod sleep;
mod poll;
mod context;
mod transfer;
mod vectors;
mod pieces;
mod opening;
mod preview1;
mod teavm;
mod descriptors;
mod initialise;

pub use abi::MODULE;
pub use bounded::Bounded;
pub use context::WasiCtxBuilder;
pub use descriptors::open_descriptors;
pub use exit::Exit;
pub use initialise::{InitialiseError, call_after_restore, initialisers};
pub use pirn_memory_files as memory_files;
pub use pirn_memory_files::{MemoryBase, MemoryDir};
pub use preview1::{link, link_async, link_virtual};
pub use quota::Opened;
pub use teavm::link_teavm;
pub use virtual_clock::VirtualClock;
pub use wasi_common::pipe;
pub use wasi_common::sync::{Dir, ambient_authority};
pub use wasi_ctx::WasiCtx;
