//! [`open_descriptors`]: which descriptors a guest has open.

use std::sync::Arc;
use wasi_common::{Error, WasiCtx};

/// The numbers of the open descriptors of a context, ascending. Those that the guest was given are
/// among them.
///
/// Standard streams have the numbers 0 to 2, and preopened directories those from 3 on. Before an
/// embedder takes a snapshot, it looks for others: a descriptor that the guest has opened means
/// nothing to later instances. The next number that the guest would get is used up.
///
/// A guest may also have replaced a descriptor that it was given by one that it has opened:
/// [`WasiCtxBuilder::opened`](crate::WasiCtxBuilder::opened) counts those.
///
/// # Errors
///
/// If the context has no number left.
pub fn open_descriptors(ctx: &WasiCtx) -> Result<Vec<u32>, Error> {
    let table = ctx.table();
    // wasi-common gives numbers in order, and does not list them. Take the next one to see how far
    // they reach.
    let end = table.push(Arc::new(()))?;
    table.delete::<()>(end);
    Ok((0..end)
        .filter(|number| table.contains_key(*number))
        .collect())
}
