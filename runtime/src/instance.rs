//! The public face: a prepared module, its instances, and the ways to call them.

mod func;
mod future;
mod group;
mod handle;
mod limited;
mod prepared;
mod step;
mod suspended;

pub use func::Func;
pub use future::CallAsync;
pub use group::{Group, MemberId};
pub use handle::Instance;
pub use limited::Limited;
pub use prepared::Prepared;
pub use step::Step;
