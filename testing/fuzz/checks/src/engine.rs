//! [`Engine`]: an engine that runs guests.

mod pirn;
mod wasmi;

pub use self::wasmi::Wasmi;
pub use pirn::Pirn;

use crate::guest::{Plan, Uses};
use crate::value::Run;

/// An engine that runs guests.
pub trait Engine {
    /// Name of the engine.
    fn name(&self) -> &'static str;

    /// Whether the engine supports the features in `uses`.
    fn takes(&self, uses: &Uses) -> bool;

    /// Instantiates a module, makes the calls of a plan, and reads the exports.
    ///
    /// # Errors
    ///
    /// Why the module could not run. This should never happen.
    fn run(&self, wasm: &[u8], plan: &Plan) -> Result<Run, String>;
}
