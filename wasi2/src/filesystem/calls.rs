//! Access to the descriptors of a guest, for functions of `wasi:filesystem`.

use super::descriptor::{Descriptor, OpenFile};
use super::error::ErrorCode;
use crate::table::Table;
use crate::wasi::View;
use pirn_component::{Borrow, State};
use pirn_runtime::HostError;
use pirn_wasi::files::Folder;
use std::sync::Arc;

/// A borrowed descriptor.
pub(crate) type This = Borrow<Descriptor>;
/// The result of an operation. The inner result goes to the guest; the outer error ends the guest.
pub(crate) type Answer<R> = Result<Result<R, ErrorCode>, HostError>;

/// The resources of the guest.
pub(crate) fn table<T: View>(state: &mut State<T>) -> &mut Table {
    &mut state.data_mut().wasi().table
}

/// Calls a method that uses the whole state.
pub(crate) fn with_state<T, O>(
    state: &mut State<T>,
    this: &This,
    call: impl FnOnce(&mut State<T>, &This) -> Result<O, HostError>,
) -> Result<O, HostError> {
    call(state, this)
}

/// Uses a descriptor.
pub(crate) fn with<T: View, R>(
    state: &mut State<T>,
    this: &This,
    use_it: impl FnOnce(&Descriptor) -> Result<R, ErrorCode>,
) -> Answer<R> {
    Ok(use_it(table(state).get::<Descriptor>(this.rep())?))
}

/// Uses a file. Fails for a directory.
pub(crate) fn with_file<T: View, R>(
    state: &mut State<T>,
    this: &This,
    use_it: impl FnOnce(&Arc<OpenFile>) -> Result<R, ErrorCode>,
) -> Answer<R> {
    with(state, this, |found| use_it(found.file()?))
}

/// Uses a directory. Fails for a file.
pub(crate) fn with_folder<T: View, R>(
    state: &mut State<T>,
    this: &This,
    use_it: impl FnOnce(&Folder) -> Result<R, ErrorCode>,
) -> Answer<R> {
    with(state, this, |found| use_it(found.folder()?))
}

/// Uses two descriptors.
pub(crate) fn with_both<T: View, R>(
    state: &mut State<T>,
    this: &This,
    other: &This,
    use_them: impl FnOnce(&Descriptor, &Descriptor) -> R,
) -> Result<R, HostError> {
    let other = table(state).get::<Descriptor>(other.rep())?.clone();
    let this = table(state).get::<Descriptor>(this.rep())?;
    Ok(use_them(this, &other))
}

/// Adds the result of an operation to the resources of the guest.
pub(crate) fn add<R, H>(
    made: Result<R, ErrorCode>,
    add: impl FnOnce(R) -> Result<H, HostError>,
) -> Answer<H> {
    match made {
        Ok(made) => add(made).map(Ok),
        Err(code) => Ok(Err(code)),
    }
}
