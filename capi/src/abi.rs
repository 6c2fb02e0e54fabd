//! The version of the interface, as a number and as a symbol.
//!
//! # Safety
//!
//! This file owns one fact. The names of its symbols contain the prefix `pirn_`, so they clash with
//! no symbol of another library.
#![allow(unsafe_code)]

/// The version of this interface. A version changes when a program that was compiled with the
/// earlier header would misbehave with the new library.
pub const PIRN_ABI_VERSION: u32 = 2;

/// A symbol that only a library of this version has. The header refers to it from each object file
/// that includes the header. So a program fails to link, or to start, with a library of another
/// version.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a C name")]
pub static pirn_abi_2: u32 = PIRN_ABI_VERSION;

/// The version of the library, for programs that load it by dlopen(3) and see no missing symbol.
/// Compare it with PIRN_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_abi_version() -> u32 {
    pirn_abi_2
}
