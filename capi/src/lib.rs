//! The runtime and WASI as a C library: `libpirn.so` and `libpirn.a`.
//!
//! `include/pirn.h` is the public face of this crate. cbindgen generates that header from the files
//! of this crate, and its first comment states the rules that all functions keep. Rust programs use
//! `pirn-runtime` and `pirn-wasi` directly.
//!
//! Each function has the same parts: `entry.rs` catches panics and checks pointers, and the rest of
//! the function calls the runtime by its public interface. The types and functions have C names.

#![allow(
    non_camel_case_types,
    reason = "the types have the names that the C header gives them"
)]

mod abi;
mod texts;
mod error;
mod entry;
mod exclusive;
mod poison;
mod bytes;
mod inspect;
mod kinds;
mod references;
mod value;
mod module;
mod region;
mod wasi;
mod caller;
mod data;
mod lend;
mod member;
mod host;
mod linker;
mod prepared;
mod instance;
mod calls;
mod nested;
mod memory;
mod table;
mod shared;
mod steps;
mod kill;
mod group;
mod component;

pub use abi::*;
pub use bytes::*;
pub use caller::*;
pub use calls::*;
pub use component::*;
pub use error::*;
pub use group::*;
pub use host::*;
pub use inspect::*;
pub use instance::*;
pub use kill::*;
pub use kinds::*;
pub use linker::*;
pub use member::*;
pub use memory::*;
pub use module::*;
pub use nested::*;
pub use prepared::*;
pub use region::*;
pub use shared::*;
pub use steps::*;
pub use table::*;
pub use value::*;
pub use wasi::*;

/// The rules of the header about threads, as the compiler checks them.
const _: fn() = || {
    fn any_threads_use<T: Send + Sync>() {}
    fn moves_between_threads<T: Send>() {}
    any_threads_use::<pirn_module_t>();
    any_threads_use::<pirn_region_t>();
    any_threads_use::<pirn_prepared_t>();
    any_threads_use::<pirn_func_t>();
    any_threads_use::<pirn_files_t>();
    any_threads_use::<pirn_capture_t>();
    any_threads_use::<pirn_bytes_t>();
    any_threads_use::<pirn_error_t>();
    any_threads_use::<pirn_kill_switch_t>();
    any_threads_use::<pirn_shared_memory_t>();
    any_threads_use::<pirn_component_t>();
    any_threads_use::<pirn_component_prepared_t>();
    any_threads_use::<pirn_component_func_t>();
    any_threads_use::<pirn_component_owned_t>();
    moves_between_threads::<pirn_linker_t>();
    moves_between_threads::<pirn_wasi_t>();
    moves_between_threads::<pirn_instance_t>();
    moves_between_threads::<pirn_group_t>();
    moves_between_threads::<pirn_component_linker_t>();
    moves_between_threads::<pirn_wasi2_t>();
    moves_between_threads::<pirn_component_instance_t>();
};
