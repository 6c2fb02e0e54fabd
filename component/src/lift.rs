//! From the guest's representation to values (CanonicalABI, "Loading" and "Flat Lifting").

use crate::component::Info;
use crate::error::{AbiError, AbiResult};
use crate::scopes::Scopes;
use crate::stop::{Progress, Stop};
use crate::strings::{self, STRING_BYTES_MAX};
use crate::value::Resource;
use pirn_format::component::{StringEncoding, ValueType};

/// Reads values of a guest.
pub struct Lift<'a> {
    info: &'a Info,
    memory: &'a [u8],
    encoding: StringEncoding,
    scopes: &'a mut Scopes,
    /// The bytes of the host that the values take.
    spent: usize,
    pub(crate) progress: Progress<'a>,
}

/// Core values of a flattened value.
pub struct Flat<'a> {
    words: &'a [u64],
}

impl<'a> Flat<'a> {
    pub(crate) fn new(words: &'a [u64]) -> Self {
        Self { words }
    }

    #[doc(hidden)]
    pub fn word(&mut self) -> u64 {
        match self.words.split_first() {
            Some((word, rest)) => {
                self.words = rest;
                *word
            }
            // The core type of each function was checked against its flattened type.
            None => 0,
        }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn skip(&mut self, words: usize) {
        self.words = &self.words[words.min(self.words.len())..];
    }
}

impl<'a> Lift<'a> {
    pub(crate) fn new(
        info: &'a Info,
        memory: &'a [u8],
        encoding: StringEncoding,
        scopes: &'a mut Scopes,
        stop: Stop<'a>,
    ) -> Self {
        Self {
            info,
            memory,
            encoding,
            scopes,
            spent: 0,
            progress: Progress::new(stop),
        }
    }

    /// Checks the place of parameters in memory.
    pub(crate) fn check_params(&self, at: u32, bytes: u64, align: u32) -> AbiResult {
        self.check_aligned("the parameters", at, align)?;
        self.bytes("the parameters", at, bytes).map(drop)
    }

    /// Checks the place of a result.
    pub(crate) fn check_result(&self, ty: ValueType, at: u32) -> AbiResult {
        let layout = self.info.layout(ty);
        self.check_aligned("a result", at, layout.align)?;
        self.bytes("a result", at, layout.bytes.into()).map(drop)
    }

    /// A copy of a field's or case's name, for the host's value. Counts the text of the name.
    pub(crate) fn name(&mut self, name: &str) -> AbiResult<String> {
        self.spend(name.len())?;
        Ok(name.to_owned())
    }

    /// Checks a list before the host allocates memory for it. Counts `host_bytes` bytes of the host
    /// for each element, because lists in lists can multiply. Returns the bytes of an element in
    /// the guest's memory.
    pub(crate) fn check_list(
        &mut self,
        ty: ValueType,
        address: u32,
        length: u32,
        host_bytes: usize,
    ) -> AbiResult<u32> {
        let layout = self.info.layout(ty);
        self.check_aligned("a list", address, layout.align)?;
        let bytes = u64::from(layout.bytes) * u64::from(length);
        self.bytes("a list", address, bytes)?;
        self.spend((length as usize).saturating_mul(host_bytes))?;
        Ok(layout.bytes)
    }

    #[doc(hidden)]
    #[must_use]
    pub fn info(&self) -> &'a Info {
        self.info
    }

    pub(crate) fn string(&mut self, address: u32, length: u32) -> AbiResult<String> {
        let (encoding, align, bytes) = strings::of_length(self.encoding, length);
        self.check_aligned("a string", address, align)?;
        if bytes > STRING_BYTES_MAX {
            return Err(self.out_of_bounds("a string", address, bytes));
        }
        let found = self.bytes("a string", address, bytes)?;
        let decoded = strings::decoded_bytes(encoding, found, &self.progress.stop)?;
        self.spend(decoded)?;
        strings::decode(encoding, found, decoded, &self.progress.stop)
    }

    /// The resource of a handle. `ty` is the handle's type, `own` or `borrow`.
    pub(crate) fn handle(&mut self, ty: ValueType, number: u32) -> AbiResult<Resource> {
        match ty {
            ValueType::Own(table) => {
                let rep = self.scopes.take_own(table, number)?;
                self.scopes.give_to_host(table, rep)
            }
            ValueType::Borrow(table) => {
                let rep = self.scopes.lend(table, number)?;
                Ok(self.scopes.resource(table, rep))
            }
            _ => Err(AbiError::NoHandle(number)),
        }
    }

    pub(crate) fn word(&self, at: u32) -> AbiResult<u32> {
        Ok(u32::from_le_bytes(self.number("a u32", at)?))
    }

    /// An unsigned number of 1, 2 or 4 bytes.
    pub(crate) fn unsigned(&self, at: u32, bytes: u32) -> AbiResult<u32> {
        Ok(match bytes {
            1 => u32::from(self.number::<1>("a discriminant", at)?[0]),
            2 => u32::from(u16::from_le_bytes(self.number("a discriminant", at)?)),
            _ => self.word(at)?,
        })
    }

    pub(crate) fn number<const N: usize>(&self, what: &'static str, at: u32) -> AbiResult<[u8; N]> {
        let bytes = self.bytes(what, at, N as u64)?;
        let mut number = [0; N];
        number.copy_from_slice(bytes);
        Ok(number)
    }

    pub(crate) fn bytes(
        &self,
        what: &'static str,
        address: u32,
        bytes: u64,
    ) -> AbiResult<&'a [u8]> {
        let start = address as usize;
        let end = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| start.checked_add(bytes));
        let found = end.and_then(|end| self.memory.get(start..end));
        found.ok_or_else(|| self.out_of_bounds(what, address, bytes))
    }

    fn out_of_bounds(&self, what: &'static str, address: u32, bytes: u64) -> AbiError {
        AbiError::OutOfBounds {
            what,
            bytes,
            address,
            memory_bytes: self.memory.len(),
        }
    }

    fn check_aligned(&self, what: &'static str, address: u32, align: u32) -> AbiResult {
        match address.is_multiple_of(align) {
            true => Ok(()),
            false => Err(AbiError::Unaligned {
                what,
                address,
                align,
            }),
        }
    }

    /// Counts bytes of the host for the values.
    pub(crate) fn spend(&mut self, bytes: usize) -> AbiResult {
        self.scopes
            .account
            .check(self.spent.saturating_add(bytes))?;
        self.spent += bytes;
        self.progress.work(bytes)
    }

    /// The bytes of the host that the values take.
    pub(crate) fn spent(&self) -> usize {
        self.spent
    }
}

/// The next multiple of an alignment.
pub(crate) fn aligned(at: u32, align: u32) -> u32 {
    at.checked_next_multiple_of(align).unwrap_or(u32::MAX)
}
