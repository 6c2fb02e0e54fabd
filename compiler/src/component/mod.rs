//! Components: joins all core modules of a component into one core module, and describes the
//! component's types, imports and exports.
//!
//! ```text
//! component ─ translate ─▶ instances of core modules, in order ─ join ─▶ one core module
//!                 └──────▶ Component: types, adapters, options, exports
//! ```
//!
//! So a component needs one slot, and calls between its modules are plain calls. The crate
//! `wasmtime-environ` reads and validates the component, resolves its nested instances, and makes
//! core modules that copy values between two component instances. Such a module has two memories.
//!
//! The names of functions are kept. Debug information and branch hints of the core modules are not.

mod bare;
mod glue;
mod items;
mod join;
mod numbering;
mod part;
mod price;
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

/// Whether the bytes begin like a component ("Binary", preamble).
pub(crate) fn is_component(wasm: &[u8]) -> bool {
    wasm.starts_with(b"\0asm") && wasm.get(6..8) == Some(&[1, 0])
}

/// The component of a core module that has its world in a custom section. `None` for a module
/// without names of a component.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the module is not valid; [`CompileError::Component`] if its imports
/// and exports do not match its world; [`CompileError::Work`] if the world of the module costs more
/// than the budget has.
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

/// Translates a component. Draws the cost from the budget before the translation.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the component is not valid; [`CompileError::Component`] if the
/// component uses an unsupported feature; [`CompileError::Work`] or [`CompileError::Limit`] if the
/// component is too large.
pub(crate) fn translate(wasm: &[u8], budget: &Budget) -> Result<Translated, CompileError> {
    translate::translate(wasm, budget)
}
