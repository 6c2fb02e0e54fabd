//! [`open_descriptors`]: the descriptors that a guest has open.

use std::sync::Arc;
use wasi_common::{Error, WasiCtx};

/// The numbers of the open descriptors of a context, ascending, with the standard streams and the
/// preopened directories.
///
/// Standard streams have the numbers 0 to 2, and preopened directories the numbers from 3 on.
/// Before an embedder takes a snapshot, it looks for other numbers: later instances do not have the
/// descriptors that this guest has opened. This call uses up the next descriptor number.
///
/// A guest may also have replaced a preopened descriptor by a descriptor that it has opened:
/// [`WasiCtxBuilder::opened`](crate::WasiCtxBuilder::opened) counts the opened descriptors.
///
/// # Errors
///
/// If the context has no number left.
pub fn open_descriptors(ctx: &WasiCtx) -> Result<Vec<u32>, Error> {
    let table = ctx.table();
    // wasi-common gives numbers in order, and does not list them. The next number is the end of the
    // used numbers.
    let end = table.push(Arc::new(()))?;
    table.delete::<()>(end);
    Ok((0..end)
        .filter(|number| table.contains_key(*number))
        .collect())
}
