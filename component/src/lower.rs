//! From values to the guest's representation (CanonicalABI, "Storing" and "Flat Lowering").
//!
//! A value is lowered in two phases. First, [`Collect`] lists the memory that the value's strings
//! and lists need. The guest allocates this memory. Then [`Lower`] writes the value. So the
//! allocator never runs while the host holds a view of the memory. The trait
//! [`Type`](crate::typed::Type) has a method for each phase.

use crate::component::Info;
use crate::error::{AbiError, AbiResult, RequestError, ValueError};
use crate::scopes::Scopes;
use crate::stop::{PIECE_BYTES, Progress, Stop};
use crate::strings;
use crate::value::Resource;
use pirn_format::component::{FLAT_PARAMS_MAX, StringEncoding, ValueType, cut};
use pirn_runtime::FlatParams;
use smallvec::SmallVec;

/// Up to this number of pieces of memory, a call allocates nothing in the host.
const INLINE: usize = 4;

/// Requests for the guest's memory that a value needs.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Bytes and alignment of each piece.
    wanted: SmallVec<[(u32, u32); INLINE]>,
    /// The addresses of the pieces that the guest has allocated: the first pieces of `wanted`.
    given: SmallVec<[u32; INLINE]>,
    /// Bytes of the host that the value takes: its strings, its lists, and a
    /// [`Value`](crate::Value) for each part.
    host_bytes: usize,
}

impl Requests {
    /// Counts bytes of the host for a part of the value.
    pub(crate) fn count(&mut self, host_bytes: usize) {
        self.host_bytes = self.host_bytes.saturating_add(host_bytes);
    }

    /// Bytes of the host for the value and for these requests.
    pub(crate) fn host_bytes(&self) -> usize {
        const EACH: usize = size_of::<(u32, u32)>() + size_of::<u32>();
        let pieces = self.wanted.len().saturating_mul(EACH);
        self.host_bytes.saturating_add(pieces)
    }

    /// The size and alignment of the next piece.
    #[inline]
    pub(crate) fn next(&self) -> Option<(u32, u32)> {
        self.wanted.get(self.given.len()).copied()
    }

    /// Checks and records the address of the next piece, in a memory of `memory_bytes` bytes.
    pub(crate) fn give(&mut self, address: u32, memory_bytes: usize) -> AbiResult {
        let (bytes, align) = self.next().unwrap_or((0, 1));
        let what = "allocated memory";
        if !address.is_multiple_of(align) {
            return Err(AbiError::Unaligned {
                what,
                address,
                align,
            });
        }
        if address as usize + bytes as usize > memory_bytes {
            return Err(AbiError::OutOfBounds {
                what,
                bytes: bytes.into(),
                address,
                memory_bytes,
            });
        }
        self.given.push(address);
        Ok(())
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, bytes: u64, align: u32) -> AbiResult {
        let what = "a value";
        let too_large = AbiError::OutOfBounds {
            what,
            bytes,
            address: 0,
            memory_bytes: u32::MAX as usize,
        };
        let bytes = u32::try_from(bytes).map_err(|_| too_large)?;
        self.wanted.push((bytes, align));
        Ok(())
    }

    #[inline]
    pub(crate) fn given(&self) -> &[u32] {
        &self.given
    }
}

/// The core values of a call or of a result. A function with more than 16 core values passes its
/// parameters in memory.
#[derive(Debug)]
pub struct Words(pub(crate) FlatParams);

impl Words {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(FlatParams::none())
    }

    #[inline]
    #[doc(hidden)]
    pub fn push(&mut self, word: u64) {
        self.0.push(word);
    }

    /// Adds zeros until there are `len` words.
    pub(crate) fn pad(&mut self, len: usize) {
        while self.len() < len.min(FLAT_PARAMS_MAX) {
            self.push(0);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.words().len()
    }
}

/// Lists the memory that values need.
pub struct Collect<'a> {
    pub(crate) info: &'a Info,
    pub(crate) scopes: &'a mut Scopes,
    pub(crate) encoding: StringEncoding,
    pub(crate) requests: &'a mut Requests,
    pub(crate) progress: Progress<'a>,
}

impl<'a> Collect<'a> {
    /// The error of a value that does not have its type.
    pub(crate) fn mismatch(&self, ty: ValueType, found: &str) -> RequestError {
        // Names of a component, and values of the host, may have any length.
        RequestError::Value(ValueError {
            place: String::new(),
            found: cut(found.to_owned(), RequestError::SHOWN_MAX),
            wanted: self.info.component.describe(ty),
        })
    }

    #[doc(hidden)]
    #[must_use]
    pub fn info(&self) -> &'a Info {
        self.info
    }
}

/// Writes values whose types were compared, and whose memory is allocated.
pub struct Lower<'a> {
    info: &'a Info,
    memory: &'a mut [u8],
    encoding: StringEncoding,
    scopes: &'a mut Scopes,
    /// The addresses of the pieces that were requested.
    given: &'a [u32],
    pub(crate) progress: Progress<'a>,
}

impl<'a> Lower<'a> {
    pub(crate) fn new(
        info: &'a Info,
        memory: &'a mut [u8],
        encoding: StringEncoding,
        scopes: &'a mut Scopes,
        given: &'a [u32],
        stop: Stop<'a>,
    ) -> Self {
        Self {
            info,
            memory,
            encoding,
            scopes,
            given,
            progress: Progress::new(stop),
        }
    }

    /// Lets `fill` write `bytes` bytes at `address`, a piece at a time, with a look for a stop
    /// after each piece.
    pub(crate) fn fill(
        &mut self,
        address: u32,
        bytes: usize,
        fill: impl Fn(&mut [u8]),
    ) -> AbiResult {
        self.bytes(address, bytes)?;
        let mut done = 0;
        while done < bytes {
            let some = (bytes - done).min(PIECE_BYTES);
            // The whole range is in the memory.
            fill(self.bytes(address + done as u32, some)?);
            done += some;
            self.progress.work(some)?;
        }
        Ok(())
    }

    /// The address of the next piece of memory.
    pub(crate) fn piece(&mut self) -> u32 {
        match self.given.split_first() {
            Some((address, rest)) => {
                self.given = rest;
                *address
            }
            // Never happens: `Collect` requested a piece for each call of `piece`, in the same
            // order.
            None => u32::MAX,
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn info(&self) -> &'a Info {
        self.info
    }

    /// Checks the address where the guest wants a result.
    pub(crate) fn check_result(&mut self, ty: ValueType, at: u32) -> AbiResult {
        let layout = self.info.layout(ty);
        if !at.is_multiple_of(layout.align) {
            return Err(AbiError::Unaligned {
                what: "a result",
                address: at,
                align: layout.align,
            });
        }
        self.bytes(at, layout.bytes as usize).map(drop)
    }

    /// Writes a string to the next piece of memory. Returns its address and length.
    pub(crate) fn string(&mut self, text: &str) -> AbiResult<(u32, u32)> {
        let (encoding, _, bytes, length) = strings::plan(self.encoding, text, &mut self.progress)?;
        let (address, bytes) = (self.piece(), bytes as usize);
        self.bytes(address, bytes)?;
        let mut done = 0;
        for piece in strings::pieces(text) {
            // The whole range is in the memory.
            let place = self.bytes(address + done as u32, bytes - done)?;
            done += strings::encode(encoding, piece, place);
            self.progress.work(piece.len())?;
        }
        Ok((address, length))
    }

    /// The number of a new handle to a resource. Linking, or the request for memory, has compared
    /// the types. The host may have given the resource away since, also within the same call.
    pub(crate) fn handle(&mut self, ty: ValueType, resource: Resource) -> AbiResult<u32> {
        let rep = resource.rep;
        match ty {
            ValueType::Own(table) | ValueType::Borrow(table)
                if !self.scopes.fits(table, resource) =>
            {
                Err(AbiError::NotOwnedByHost(rep))
            }
            ValueType::Own(table) => {
                if resource.of != 0 {
                    self.scopes.take_from_host(resource);
                }
                self.scopes.add_own(table, rep)
            }
            ValueType::Borrow(table) => self.scopes.add_borrow(table, rep),
            _ => Ok(0),
        }
    }

    pub(crate) fn pair(&mut self, at: u32, address: u32, length: u32) -> AbiResult {
        self.write(at, &address.to_le_bytes())?;
        self.write(at.saturating_add(4), &length.to_le_bytes())
    }

    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> AbiResult {
        self.bytes(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn bytes(&mut self, address: u32, bytes: usize) -> AbiResult<&mut [u8]> {
        let memory_bytes = self.memory.len();
        let start = address as usize;
        let end = start.checked_add(bytes);
        let found = end.and_then(|end| self.memory.get_mut(start..end));
        found.ok_or(AbiError::OutOfBounds {
            what: "a value",
            bytes: bytes as u64,
            address,
            memory_bytes,
        })
    }
}
