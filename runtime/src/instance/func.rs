//! [`Func`]: an exported function, looked up and checked once.

use crate::store::member::Target;
use crate::value::InstanceId;
use crate::value::typed::{Params, Results, sealed};
use core::marker::PhantomData;

/// An exported function of a module, looked up and checked once. It can be called on every instance
/// of the preparation in which it was looked up.
#[derive(Debug)]
pub struct Func<P, R> {
    pub(crate) prepared: InstanceId,
    pub(super) code: usize,
    pub(super) entry: usize,
    /// Offset from the instance's context to the address that the code takes as its first argument.
    pub(super) context: i32,
    pub(super) types: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for Func<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Func<P, R> {}

impl<P: Params, R: Results> Func<P, R> {
    /// Number of cells for a call: the larger of the numbers of parameters and of results.
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        let parameters = <P as sealed::List>::TYPES.len();
        parameters.max(<R as sealed::List>::TYPES.len())
    }

    /// Whether a parameter or a result carries the instance id.
    #[inline]
    pub(crate) fn needs_instance_id(&self) -> bool {
        <P as sealed::List>::NEEDS_INSTANCE_ID || <R as sealed::List>::NEEDS_INSTANCE_ID
    }
}

impl<P, R> Func<P, R> {
    /// Distinguishes the function from others of its preparation. The code alone is not enough:
    /// imported functions of one type share their code.
    pub(crate) fn identity(&self) -> (usize, i32) {
        (self.code, self.context)
    }

    /// The call target in the instance with this context.
    pub(crate) fn target(&self, vmctx: *mut u8) -> Target {
        Target {
            code: self.code,
            entry: self.entry,
            vmctx: vmctx.wrapping_offset(self.context as isize),
        }
    }
}
