//! [`Engine`]: whatever runs a guest.

mod pirn;
mod wasmi;

pub use self::wasmi::Wasmi;
pub use pirn::Pirn;

use crate::guest::{Plan, Uses};
use crate::value::Run;

/// Whatever runs a guest.
pub trait Engine {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether it runs guests that use these.
    fn takes(&self, uses: &Uses) -> bool;

    /// Instantiates a module, makes the calls of a plan, and looks at what is exported.
    ///
    /// # Errors
    ///
    /// Why the module is not run, which no engine has a reason for.
    fn run(&self, wasm: &[u8], plan: &Plan) -> Result<Run, String>;
}
