//! [`coded`]: calls methods of sockets. The guest gets errors of these methods as codes.

use super::types::{Answer, Failure, answer};
use crate::table::Resource;
use crate::wasi::View;
use pirn_component::{Borrow, State};

/// Calls a method of a socket.
pub(super) fn coded<T: View, R: Resource, O>(
    state: &mut State<T>,
    this: &Borrow<R>,
    call: impl FnOnce(&mut R) -> Result<O, Failure>,
) -> Answer<O> {
    answer(call(state.data_mut().wasi().table.get(this.rep())?))
}
