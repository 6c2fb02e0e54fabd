//! Components: one core module is made of all core modules of a component, and a description of
//! its types, imports and exports.
//!
//! ```text
//! component ─ translate ─▶ instances of core modules, in order ─ join ─▶ one core module
//!                 └──────▶ Component: types, adapters, options, exports
//! ```
//!
//! So a component needs one slot, and calls between its modules are plain calls. The crate
//! `wasmtime-environ` reads and validates the component, resolves its nested instances, and makes
//! the core modules that copy values between two component instances. Those have two memories each.
//!
//! Debug information of the core modules is not kept.

mod glue;
mod join;
mod part;
mod shims;
mod size;
mod translate;

use crate::error::CompileError;
use pirn_format::component::Component;

/// A component as one core module.
pub(crate) struct Translated {
    pub(crate) core: Vec<u8>,
    pub(crate) component: Component,
}

/// Whether the bytes begin as those of a component do ("Binary", preamble).
pub(crate) fn is_component(wasm: &[u8]) -> bool {
    wasm.starts_with(b"\0asm") && wasm.get(6..8) == Some(&[1, 0])
}

/// Translates a component.
///
/// # Errors
///
/// [`CompileError::Invalid`] if it is not valid; [`CompileError::Component`] if it uses something
/// that is not supported.
pub(crate) fn translate(wasm: &[u8]) -> Result<Translated, CompileError> {
    translate::translate(wasm)
}
