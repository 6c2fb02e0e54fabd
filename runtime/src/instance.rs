//! The public face: a prepared module, its instances, and the ways to call them.

mod callee;
mod future;
mod group;
mod handle;
mod in_group;
mod limited;
mod owner;
mod prepared;
mod snapshot;
mod step;
mod suspended;
mod table;

pub use future::CallAsync;
pub use group::{Group, MemberId};
pub use handle::Instance;
pub use in_group::{InGroup, MemberMut, MemberRef};
pub use limited::LimitedCall;
pub use owner::{Alone, Owner, OwnerMut};
pub use prepared::Prepared;
pub use suspended::Step;
pub use table::{Table, TableMut};
