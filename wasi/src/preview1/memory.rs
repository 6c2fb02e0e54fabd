//! [`Memory`]: the memory of the guest that calls a function, plain or shared.

use super::abi::{Layout, PATH_MAX};
use super::failure::Failure;
use crate::errno::Errno;
use pirn_runtime::{HostError, MemoryMut, SharedMemory, Trap, TrapCode};

/// The memory that the pointers of a call refer to.
///
/// The host accesses the memory by checked copies, which trap where the kernel refuses a page.
pub(crate) enum Memory<'a> {
    /// A memory of the instance. The guest does not run during the call.
    Plain(MemoryMut<'a>),
    /// A shared memory. Other threads may change the memory at any time, so the host must not read
    /// a checked value again.
    Shared(&'a SharedMemory),
}

impl Memory<'_> {
    fn len(&self) -> u64 {
        let bytes = match self {
            Self::Plain(memory) => memory.len(),
            Self::Shared(memory) => memory.len(),
        };
        bytes as u64
    }

    /// Checks that `len` bytes at an address lie in the memory, and that the address is aligned.
    ///
    /// # Errors
    ///
    /// The trap for an address outside the memory, or an error that names the alignment. Both end
    /// the call.
    #[inline]
    pub(crate) fn check(&self, address: u32, len: u64, align: u32) -> Result<(), HostError> {
        if u64::from(address) + len > self.len() {
            return Err(Trap::new(TrapCode::MemoryOutOfBounds).into());
        }
        if !address.is_multiple_of(align) {
            return Err(HostError::message(format!(
                "WASI pointer {address} is not a multiple of {align}, the alignment of its type"
            )));
        }
        Ok(())
    }

    /// Checks that a result with this length and alignment fits at an address.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    #[inline]
    pub(crate) fn check_result(&self, address: u32, (len, align): Layout) -> Result<(), HostError> {
        self.check(address, len.into(), align)
    }

    /// Copies bytes out of the memory.
    ///
    /// # Errors
    ///
    /// The trap for bytes outside the memory, or for a page that the kernel refuses.
    #[inline]
    pub(crate) fn read(&self, address: u32, into: &mut [u8]) -> Result<(), Trap> {
        match self {
            Self::Plain(memory) => memory.read(address, into),
            Self::Shared(memory) => memory.read(address.into(), into),
        }
    }

    /// Copies bytes into the memory.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Trap> {
        match self {
            Self::Plain(memory) => memory.write(address, bytes),
            Self::Shared(memory) => memory.write(address.into(), bytes),
        }
    }

    /// Writes a 32-bit number.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub(crate) fn write_u32(&mut self, address: u32, number: u32) -> Result<(), Trap> {
        self.write(address, &number.to_le_bytes())
    }

    /// Writes a 64-bit number.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub(crate) fn write_u64(&mut self, address: u32, number: u64) -> Result<(), Trap> {
        self.write(address, &number.to_le_bytes())
    }

    /// Copies a path.
    ///
    /// # Errors
    ///
    /// `nametoolong` for more than [`PATH_MAX`] bytes, `ilseq` if the path is not UTF-8; the trap
    /// for a path that does not lie in the memory.
    pub(crate) fn path(&self, address: u32, len: u32) -> Result<String, Failure> {
        if len > PATH_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut path = vec![0; len as usize];
        self.read(address, &mut path)?;
        String::from_utf8(path).map_err(|_| Errno::ILSEQ.into())
    }
}
