//! WASI preview 1 for guests of pirn's runtime, and the files of all WASI interfaces ([`files`]).
//! Apart from WASI, [`conventions`] has what some guests import and export besides.
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

mod errno;
mod exit;
mod fdflags;
mod bounded;
pub mod pipe;
mod scratch;
mod strings;
mod random;
mod virtual_clock;
mod clock;
mod quota;
pub mod files;
mod cookies;
mod source;
mod stream;
mod descriptors;
mod context;
mod preview1;
pub mod conventions;

pub use bounded::Bounded;
pub use cap_std::ambient_authority;
pub use cap_std::fs::Dir;
pub use clock::{Clock, Clocks};
pub use context::{PreopenError, WasiCtx, WasiCtxBuilder};
pub use errno::{Errno, of_io};
pub use exit::Exit;
pub use pirn_memory_files as memory_files;
pub use pirn_memory_files::{MemoryBase, MemoryDir};
pub use preview1::{MODULE, link, link_async, link_virtual};
pub use quota::{FileQuota, FileQuotaMax, Held, Opened};
pub use random::Random;
pub use source::Source;
pub use strings::StringsError;
pub use virtual_clock::VirtualClock;
