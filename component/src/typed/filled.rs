//! [`Filled`]: a list of bytes that the host makes in the memory of the guest.

use super::Type;
use crate::component::Info;
use crate::error::{AbiResult, RequestError};
use crate::lower::{Collect, Lower, Words};
use pirn_format::component::ValueType;

/// A list of bytes, as the result of a host function. The host makes the bytes in the memory of the
/// guest, 64 KiB at a time, and needs no buffer of its own. After each piece the host looks for a
/// stop of the guest.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    bytes: u32,
    fill: fn(&mut [u8]),
}

impl Filled {
    /// A list of this length. `fill` writes the bytes of each piece.
    #[must_use]
    pub fn new(bytes: u32, fill: fn(&mut [u8])) -> Self {
        Self { bytes, fill }
    }

    fn fill(self, cx: &mut Lower<'_>) -> AbiResult<u32> {
        let address = cx.piece();
        cx.fill(address, self.bytes as usize, self.fill)?;
        Ok(address)
    }
}

impl Type for Filled {
    fn is(info: &Info, ty: ValueType) -> bool {
        <[u8] as Type>::is(info, ty)
    }

    fn request(&self, cx: &mut Collect<'_>, _: ValueType) -> Result<(), RequestError> {
        Ok(cx.requests.push(self.bytes.into(), 1)?)
    }

    fn lower(&self, cx: &mut Lower<'_>, _: ValueType, to: &mut Words) -> AbiResult {
        let address = self.fill(cx)?;
        to.push(address.into());
        to.push(self.bytes.into());
        Ok(())
    }

    fn store(&self, cx: &mut Lower<'_>, _: ValueType, at: u32) -> AbiResult {
        let address = self.fill(cx)?;
        cx.pair(at, address, self.bytes)
    }
}
