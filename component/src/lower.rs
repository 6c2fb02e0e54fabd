//! From values to the guest's representation (CanonicalABI, "Storing" and "Flat Lowering").
//!
//! A value is lowered in two phases. First, [`Collect`] checks the value's type, and lists the
//! memory that its strings and lists need. The guest allocates this memory. Then [`Lower`] writes
//! the value. So the allocator never runs while the host holds a view of the memory.

use crate::component::Info;
use crate::error::{AbiError, ValueError};
use crate::lift::aligned;
use crate::scopes::Scopes;
use crate::stop::{PIECE_BYTES, Progress, Stop};
use crate::strings::{self, STRING_BYTES_MAX};
use crate::value::{Resource, Value};
use pirn_format::component::{DefinedType, FLAT_PARAMS_MAX, StringEncoding, ValueType, cut};
use pirn_runtime::FlatParams;
use smallvec::SmallVec;

/// Up to this number of pieces of memory, a call allocates nothing in the host.
const INLINE: usize = 4;

/// Requests for the guest's memory that a value needs.
#[derive(Debug, Default)]
pub struct Requests {
    /// Bytes and alignment of each piece.
    wanted: SmallVec<[(u32, u32); INLINE]>,
    /// The addresses of the pieces that the guest has allocated: the first pieces of `wanted`.
    given: SmallVec<[u32; INLINE]>,
    /// Bytes of the host that the value takes: its strings, its lists, and a [`Value`] for each
    /// part.
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
    pub(crate) fn give(&mut self, address: u32, memory_bytes: usize) -> Result<(), AbiError> {
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
    pub(crate) fn push(&mut self, bytes: u64, align: u32) -> Result<(), AbiError> {
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

/// The reason for which a value cannot be lowered.
#[derive(Debug)]
pub(crate) enum LowerError {
    Abi(AbiError),
    Value(ValueError),
}

impl From<AbiError> for LowerError {
    fn from(error: AbiError) -> Self {
        Self::Abi(error)
    }
}

/// Checks values against their types, and lists the memory that they need.
pub(crate) struct Collect<'a> {
    pub(crate) info: &'a Info,
    pub(crate) scopes: &'a mut Scopes,
    pub(crate) encoding: StringEncoding,
    pub(crate) requests: &'a mut Requests,
    /// The parameter or result, for messages.
    pub(crate) place: &'a str,
}

impl Collect<'_> {
    pub(crate) fn value(&mut self, ty: ValueType, value: &Value) -> Result<(), LowerError> {
        self.requests.count(size_of::<Value>());
        match (ty, value) {
            (ValueType::Bool, Value::Bool(_))
            | (ValueType::S8, Value::S8(_))
            | (ValueType::U8, Value::U8(_))
            | (ValueType::S16, Value::S16(_))
            | (ValueType::U16, Value::U16(_))
            | (ValueType::S32, Value::S32(_))
            | (ValueType::U32, Value::U32(_))
            | (ValueType::S64, Value::S64(_))
            | (ValueType::U64, Value::U64(_))
            | (ValueType::F32, Value::F32(_))
            | (ValueType::F64, Value::F64(_))
            | (ValueType::Char, Value::Char(_)) => Ok(()),
            (ValueType::String, Value::String(text)) => {
                let (_, align, bytes, _) = strings::plan(self.encoding, text);
                if bytes > STRING_BYTES_MAX {
                    return Err(self.mismatch(ty, "a longer string"));
                }
                self.requests.count(text.len());
                Ok(self.requests.push(bytes, align)?)
            }
            (ValueType::Own(table), Value::Own(resource))
            | (ValueType::Borrow(table), Value::Borrow(resource)) => {
                match self.scopes.fits(table, *resource) {
                    true => Ok(()),
                    false => Err(self.mismatch(
                        ty,
                        "a resource of another type or instance, or one that the host does not own",
                    )),
                }
            }
            (ValueType::Defined(index), _) => self.defined(index, value),
            _ => Err(self.mismatch(ty, value.kind())),
        }
    }

    fn defined(&mut self, index: u32, value: &Value) -> Result<(), LowerError> {
        let info = self.info;
        let ty = ValueType::Defined(index);
        match (info.defined(index), value) {
            (DefinedType::Record(fields), Value::Record(values))
                if fields.len() == values.len() =>
            {
                for ((name, ty), (given, value)) in fields.iter().zip(values) {
                    if name != given {
                        return Err(self.mismatch(*ty, &format!("a field {given:?}")));
                    }
                    self.value(*ty, value)?;
                }
                Ok(())
            }
            (DefinedType::Tuple(types), Value::Tuple(values)) if types.len() == values.len() => {
                let mut all = types.iter().zip(values);
                all.try_for_each(|(ty, value)| self.value(*ty, value))
            }
            (DefinedType::List(element), Value::List(values)) => {
                let layout = info.layout(*element);
                let bytes = u64::from(layout.bytes) * values.len() as u64;
                self.requests.push(bytes, layout.align)?;
                let mut values = values.iter();
                values.try_for_each(|value| self.value(*element, value))
            }
            (DefinedType::Flags(names), Value::Flags(set)) => {
                match set.iter().find(|set| !names.contains(set)) {
                    None => Ok(()),
                    Some(unknown) => Err(self.mismatch(ty, &format!("a flag {unknown:?}"))),
                }
            }
            (of, value) => match case(of, value) {
                Some((_, Some(ty), Some(payload))) => self.value(ty, payload),
                Some((_, None, None)) => Ok(()),
                _ => Err(self.mismatch(ty, value.kind())),
            },
        }
    }

    fn mismatch(&self, ty: ValueType, found: &str) -> LowerError {
        // Names of a component, and values of the host, may have any length.
        const SHOWN_MAX: usize = 100;
        LowerError::Value(ValueError {
            place: cut(self.place.to_owned(), SHOWN_MAX),
            found: cut(found.to_owned(), SHOWN_MAX),
            wanted: self.info.component.describe(ty),
        })
    }
}

/// The number of the case of a value, the type of its payload, and the payload.
fn case<'a>(
    ty: &DefinedType,
    value: &'a Value,
) -> Option<(u32, Option<ValueType>, Option<&'a Value>)> {
    let found = match (ty, value) {
        (DefinedType::Variant(cases), Value::Variant(name, payload)) => {
            let at = cases.iter().position(|(case, _)| case == name)?;
            (at as u32, cases[at].1, payload.as_deref())
        }
        (DefinedType::Enum(names), Value::Enum(name)) => {
            let at = names.iter().position(|case| case == name)?;
            (at as u32, None, None)
        }
        (DefinedType::Option(_), Value::Option(None)) => (0, None, None),
        (DefinedType::Option(ty), Value::Option(Some(some))) => (1, Some(*ty), Some(&**some)),
        (DefinedType::Result(ty, _), Value::Result(Ok(ok))) => (0, *ty, ok.as_deref()),
        (DefinedType::Result(_, ty), Value::Result(Err(error))) => (1, *ty, error.as_deref()),
        _ => return None,
    };
    Some(found)
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
    ) -> Result<(), AbiError> {
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

    /// A value as core values.
    pub(crate) fn flat(
        &mut self,
        ty: ValueType,
        value: &Value,
        words: &mut Words,
    ) -> Result<(), AbiError> {
        let word = match value {
            Value::Bool(value) => u64::from(*value),
            Value::S8(value) => u64::from(i32::from(*value).cast_unsigned()),
            Value::U8(value) => u64::from(*value),
            Value::S16(value) => u64::from(i32::from(*value).cast_unsigned()),
            Value::U16(value) => u64::from(*value),
            Value::S32(value) => u64::from(value.cast_unsigned()),
            Value::U32(value) => u64::from(*value),
            Value::S64(value) => value.cast_unsigned(),
            Value::U64(value) => *value,
            Value::F32(value) => u64::from(value.to_bits()),
            Value::F64(value) => value.to_bits(),
            Value::Char(value) => u64::from(*value),
            Value::Own(resource) | Value::Borrow(resource) => {
                u64::from(self.handle(ty, *resource)?)
            }
            Value::String(text) => {
                let (address, length) = self.string(text)?;
                words.push(address.into());
                length.into()
            }
            _ => return self.flat_defined(ty, value, words),
        };
        words.push(word);
        Ok(())
    }

    fn flat_defined(
        &mut self,
        ty: ValueType,
        value: &Value,
        words: &mut Words,
    ) -> Result<(), AbiError> {
        let ValueType::Defined(index) = ty else {
            return Ok(());
        };
        let info = self.info;
        match (info.defined(index), value) {
            (DefinedType::Record(fields), Value::Record(values)) => {
                let mut all = fields.iter().zip(values);
                all.try_for_each(|((_, ty), (_, value))| self.flat(*ty, value, words))
            }
            (DefinedType::Tuple(types), Value::Tuple(values)) => {
                let mut all = types.iter().zip(values);
                all.try_for_each(|(ty, value)| self.flat(*ty, value, words))
            }
            (DefinedType::List(element), Value::List(values)) => {
                let address = self.list(*element, values)?;
                words.push(address.into());
                words.push(values.len() as u64);
                Ok(())
            }
            (DefinedType::Flags(names), Value::Flags(set)) => {
                words.push(bits(names, set).into());
                Ok(())
            }
            (of, value) => {
                let Some((number, ty, payload)) = case(of, value) else {
                    return Ok(());
                };
                let count = info.layout(ValueType::Defined(index)).flat;
                let end = words.len() + count.map_or(1, |flat| flat.len());
                words.push(number.into());
                if let (Some(ty), Some(payload)) = (ty, payload) {
                    self.flat(ty, payload, words)?;
                }
                words.pad(end);
                Ok(())
            }
        }
    }

    /// Checks the address where the guest wants a result.
    pub(crate) fn check_result(&mut self, ty: ValueType, at: u32) -> Result<(), AbiError> {
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

    /// Writes a value to memory.
    pub(crate) fn store(&mut self, ty: ValueType, value: &Value, at: u32) -> Result<(), AbiError> {
        match value {
            Value::Bool(value) => self.write(at, &[u8::from(*value)]),
            Value::S8(value) => self.write(at, &value.to_le_bytes()),
            Value::U8(value) => self.write(at, &value.to_le_bytes()),
            Value::S16(value) => self.write(at, &value.to_le_bytes()),
            Value::U16(value) => self.write(at, &value.to_le_bytes()),
            Value::S32(value) => self.write(at, &value.to_le_bytes()),
            Value::U32(value) => self.write(at, &value.to_le_bytes()),
            Value::S64(value) => self.write(at, &value.to_le_bytes()),
            Value::U64(value) => self.write(at, &value.to_le_bytes()),
            Value::F32(value) => self.write(at, &value.to_le_bytes()),
            Value::F64(value) => self.write(at, &value.to_le_bytes()),
            Value::Char(value) => self.write(at, &u32::from(*value).to_le_bytes()),
            Value::Own(resource) | Value::Borrow(resource) => {
                let number = self.handle(ty, *resource)?;
                self.write(at, &number.to_le_bytes())
            }
            Value::String(text) => {
                let (address, length) = self.string(text)?;
                self.pair(at, address, length)
            }
            _ => self.store_defined(ty, value, at),
        }
    }

    fn store_defined(&mut self, ty: ValueType, value: &Value, at: u32) -> Result<(), AbiError> {
        let ValueType::Defined(index) = ty else {
            return Ok(());
        };
        let info = self.info;
        let layout = info.layout(ty);
        let mut place = at;
        let mut field = |lower: &mut Self, ty: ValueType, value: &Value| {
            let layout = info.layout(ty);
            place = aligned(place, layout.align);
            let stored = lower.store(ty, value, place);
            place = place.saturating_add(layout.bytes);
            stored
        };
        match (info.defined(index), value) {
            (DefinedType::Record(fields), Value::Record(values)) => {
                let mut all = fields.iter().zip(values);
                all.try_for_each(|((_, ty), (_, value))| field(self, *ty, value))
            }
            (DefinedType::Tuple(types), Value::Tuple(values)) => {
                let mut all = types.iter().zip(values);
                all.try_for_each(|(ty, value)| field(self, *ty, value))
            }
            (DefinedType::List(element), Value::List(values)) => {
                let address = self.list(*element, values)?;
                self.pair(at, address, values.len() as u32)
            }
            (DefinedType::Flags(names), Value::Flags(set)) => {
                let bits = bits(names, set).to_le_bytes();
                self.write(at, &bits[..layout.bytes as usize])
            }
            (of, value) => {
                let Some((number, ty, payload)) = case(of, value) else {
                    return Ok(());
                };
                let number = number.to_le_bytes();
                self.write(at, &number[..layout.discriminant as usize])?;
                match (ty, payload) {
                    (Some(ty), Some(payload)) => {
                        self.store(ty, payload, at.saturating_add(layout.payload))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Writes the elements of a list to the next piece of memory.
    fn list(&mut self, ty: ValueType, values: &[Value]) -> Result<u32, AbiError> {
        let (address, bytes) = (self.piece(), self.info.layout(ty).bytes);
        for (at, value) in (0..).zip(values) {
            self.store(ty, value, address + at * bytes)?;
            self.progress.work(size_of::<Value>())?;
        }
        Ok(address)
    }

    /// Writes a string to the next piece of memory. Returns its address and length.
    pub(crate) fn string(&mut self, text: &str) -> Result<(u32, u32), AbiError> {
        let (encoding, _, bytes, length) = strings::plan(self.encoding, text);
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

    /// The number of a new handle to a resource. Linking has compared the types. Fails if the host
    /// no longer owns the resource.
    pub(crate) fn checked_handle(
        &mut self,
        ty: ValueType,
        resource: Resource,
    ) -> Result<u32, AbiError> {
        let (ValueType::Own(table) | ValueType::Borrow(table)) = ty else {
            return Ok(0);
        };
        match self.scopes.fits(table, resource) {
            true => self.handle(ty, resource),
            false => Err(AbiError::NotOwnedByHost(resource.rep)),
        }
    }

    /// The number of a new handle to a resource.
    fn handle(&mut self, ty: ValueType, resource: Resource) -> Result<u32, AbiError> {
        let rep = resource.rep;
        match ty {
            // The host may have given the resource twice in one call.
            ValueType::Own(_) if resource.of != 0 && !self.scopes.take_from_host(resource) => {
                Err(AbiError::NotOwnedByHost(rep))
            }
            ValueType::Own(table) => self.scopes.add_own(table, rep),
            ValueType::Borrow(table) => self.scopes.add_borrow(table, rep),
            _ => Ok(0),
        }
    }

    pub(crate) fn pair(&mut self, at: u32, address: u32, length: u32) -> Result<(), AbiError> {
        self.write(at, &address.to_le_bytes())?;
        self.write(at.saturating_add(4), &length.to_le_bytes())
    }

    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), AbiError> {
        self.bytes(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn bytes(&mut self, address: u32, bytes: usize) -> Result<&mut [u8], AbiError> {
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

/// The bits of the flags in `set`. Bit `n` stands for name `n` of the type.
fn bits(names: &[String], set: &[String]) -> u32 {
    let names = names.iter().enumerate();
    let set = names.filter(|(_, name)| set.contains(name));
    set.fold(0, |bits, (bit, _)| bits | 1 << bit)
}
