//! [`Bytes`]: the memory of the guest that calls a preview 1 function, plain or shared.

use crate::wasi_ctx::WasiCtx;
use pirn_runtime::{Caller, HostError, MemoryMut, SharedMemory, Trap, TrapCode};
use wiggle::GuestMemory;

/// The memory that the pointers of a call refer to.
///
/// The host accesses the memory by checked copies, which trap where the kernel refuses a page.
/// wasi-common accesses the memory directly only in ranges that the host has checked and populated.
pub(crate) enum Bytes<'a> {
    /// A memory of the instance. The guest does not run during the call.
    Plain(MemoryMut<'a>),
    /// A shared memory. Other threads may change the memory at any time, so the host must not read
    /// a checked value again.
    Shared(&'a SharedMemory),
}

/// Returns the WASI context in an instance's host data.
pub(crate) type ContextOf<T> = fn(&mut T) -> &mut WasiCtx;

/// The memory that the calling instance exports as `memory`, and the host data of that instance.
pub(crate) fn split<'a, T>(caller: &'a mut Caller<'_, T>) -> (Bytes<'a>, &'a mut T) {
    let (shared, memory, data) = caller.interface_split_shared();
    (shared.map_or(Bytes::Plain(memory), Bytes::Shared), data)
}

impl Bytes<'_> {
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

    /// Checks that a result with this length and alignment fits at an address, and populates its
    /// pages.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and the trap for a page that the kernel refuses.
    #[inline]
    pub(crate) fn check_answer(
        &mut self,
        address: u32,
        (len, align): (usize, u32),
    ) -> Result<(), HostError> {
        self.check(address, len as u64, align)?;
        if let Self::Plain(memory) = self {
            let len = u32::try_from(len).map_err(|_| Trap::new(TrapCode::MemoryOutOfBounds))?;
            memory.populate(address, len)?;
        }
        Ok(())
    }

    /// The whole memory, for wasi-common. The caller must have populated the pages that wasi-common
    /// accesses.
    #[inline]
    pub(crate) fn all(&mut self) -> GuestMemory<'_> {
        match self {
            Self::Plain(memory) => GuestMemory::Unshared(memory.as_mut_slice()),
            Self::Shared(memory) => GuestMemory::Shared(memory.cells()),
        }
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

    /// Reads a 32-bit number.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn number(&self, address: u32) -> Result<u32, Trap> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
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
}
