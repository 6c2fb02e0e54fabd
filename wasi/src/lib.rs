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

mod bounded;
mod buffers;
mod context;
mod errno;
mod exit;
mod files;
mod guest;
mod pieces;
mod poll;
mod preview1;
mod quota;
mod scratch;
mod sleep;
mod streams;
mod vectors;
mod wait;

pub use bounded::Bounded;
pub use context::WasiCtxBuilder;
pub use exit::Exit;
pub use preview1::{MODULE, link, link_async};
pub use wasi_common::WasiCtx;
pub use wasi_common::pipe;
pub use wasi_common::sync::{Dir, ambient_authority};
