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
//! The names of functions are kept. Debug information and branch hints of the core modules are not.

mod bare;
mod glue;
mod join;
mod numbering;
mod part;
mod shape;
mod shims;
mod size;
mod translate;

use crate::budget::Budget;
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

/// The component of a core module that has its world in a custom section. `None` if it is only a
/// core module.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the module is not valid; [`CompileError::Component`] if its imports
/// and exports are not those of its world; [`CompileError::Work`] if the world of the module costs
/// more than the budget has.
pub(crate) fn of_core_module(
    wasm: &[u8],
    budget: &Budget,
) -> Result<Option<Vec<u8>>, CompileError> {
    match bare::world(wasm) {
        bare::World::None => Ok(None),
        bare::World::Section => bare::encode(wasm, budget).map(Some),
        bare::World::NamesOnly => Err(bare::without_world()),
    }
}

/// Translates a component. Draws what that costs from the budget before it is done.
///
/// # Errors
///
/// [`CompileError::Invalid`] if it is not valid; [`CompileError::Component`] if it uses something
/// that is not supported; [`CompileError::Work`] or [`CompileError::Limit`] if it is too large.
pub(crate) fn translate(wasm: &[u8], budget: &Budget) -> Result<Translated, CompileError> {
    translate::translate(wasm, budget)
}
