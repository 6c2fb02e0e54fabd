//! One complete file per architecture. A port adds one file here, and one in `bulk`.
//!
//! The registers of an interrupted thread are read and written in libc's `ucontext_t`: nix has no
//! access to these registers.

pub(crate) mod bulk;
pub(crate) mod touch;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!(
    "pirn-runtime has no context switch for this architecture; aarch64 and x86_64 have one"
);
