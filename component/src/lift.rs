//! From the guest's representation to values (CanonicalABI, "Loading" and "Flat Lifting").

use crate::component::Info;
use crate::error::AbiError;
use crate::scopes::Scopes;
use crate::stop::{Progress, Stop};
use crate::strings::{self, STRING_BYTES_MAX};
use crate::value::{Resource, Value};
use pirn_format::component::{DefinedType, StringEncoding, ValueType};

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

    fn next_u32(&mut self) -> u32 {
        self.word() as u32
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

    /// Values of these types, from core values, or from memory if the types have more than
    /// `flat_max` core values.
    pub(crate) fn values(
        &mut self,
        types: impl Iterator<Item = ValueType> + Clone,
        flat: &mut Flat<'_>,
        flat_max: usize,
    ) -> Result<Vec<Value>, AbiError> {
        let info = self.info;
        let count = types.clone().map(|ty| match info.layout(ty).flat {
            Some(flat) => flat.len(),
            None => usize::MAX,
        });
        if count.fold(0, usize::saturating_add) <= flat_max {
            return exactly(types.map(|ty| self.flat(ty, flat)));
        }
        let mut at = flat.next_u32();
        let layouts = types.clone().map(|ty| info.layout(ty));
        let align = layouts.clone().map(|layout| layout.align).max();
        let end = layouts.clone().fold(0u64, |end, layout| {
            end.next_multiple_of(layout.align.into()) + u64::from(layout.bytes)
        });
        self.check_params(at, end, align.unwrap_or(1))?;
        exactly(types.zip(layouts).map(|(ty, layout)| {
            at = aligned(at, layout.align);
            let value = self.load(ty, at);
            at = at.saturating_add(layout.bytes);
            value
        }))
    }

    /// Checks the place of parameters in memory.
    pub(crate) fn check_params(&self, at: u32, bytes: u64, align: u32) -> Result<(), AbiError> {
        self.check_aligned("the parameters", at, align)?;
        self.bytes("the parameters", at, bytes).map(drop)
    }

    /// A value from core values.
    pub(crate) fn flat(&mut self, ty: ValueType, flat: &mut Flat<'_>) -> Result<Value, AbiError> {
        self.spend(size_of::<Value>())?;
        Ok(match ty {
            ValueType::Bool => Value::Bool(flat.next_u32() != 0),
            ValueType::S8 => Value::S8(flat.word() as i8),
            ValueType::U8 => Value::U8(flat.word() as u8),
            ValueType::S16 => Value::S16(flat.word() as i16),
            ValueType::U16 => Value::U16(flat.word() as u16),
            ValueType::S32 => Value::S32(flat.word() as i32),
            ValueType::U32 => Value::U32(flat.next_u32()),
            ValueType::S64 => Value::S64(flat.word() as i64),
            ValueType::U64 => Value::U64(flat.word()),
            ValueType::F32 => Value::F32(f32::from_bits(flat.next_u32())),
            ValueType::F64 => Value::F64(f64::from_bits(flat.word())),
            ValueType::Char => Value::Char(scalar(flat.next_u32())?),
            ValueType::String => {
                let (address, length) = (flat.next_u32(), flat.next_u32());
                Value::String(self.string(address, length)?)
            }
            ValueType::Own(table) => self.own(table, flat.next_u32())?,
            ValueType::Borrow(table) => self.borrow(table, flat.next_u32())?,
            ValueType::Defined(index) => self.flat_defined(index, flat)?,
        })
    }

    fn flat_defined(&mut self, index: u32, flat: &mut Flat<'_>) -> Result<Value, AbiError> {
        let info = self.info;
        Ok(match info.defined(index) {
            DefinedType::Record(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, ty)| Ok((self.name(name)?, self.flat(*ty, flat)?)));
                Value::Record(exactly(fields)?)
            }
            DefinedType::Tuple(types) => {
                let types = types.iter();
                Value::Tuple(exactly(types.map(|ty| self.flat(*ty, flat)))?)
            }
            DefinedType::List(element) => {
                let (address, length) = (flat.next_u32(), flat.next_u32());
                Value::List(self.list(*element, address, length)?)
            }
            DefinedType::Flags(names) => Value::Flags(self.set(names, flat.next_u32())?),
            ty => {
                let layout = info.layout(ValueType::Defined(index));
                let words = layout.flat.map_or(1, |flat| flat.len());
                let end = flat.remaining().saturating_sub(words);
                let case = case(ty, flat.next_u32())?;
                let payload = case.ty.map(|ty| self.flat(ty, flat)).transpose()?;
                flat.skip(flat.remaining().saturating_sub(end));
                case.value(self, payload)?
            }
        })
    }

    /// A result from memory.
    pub(crate) fn result(&mut self, ty: ValueType, at: u32) -> Result<Value, AbiError> {
        self.check_result(ty, at)?;
        self.load(ty, at)
    }

    /// Checks the place of a result.
    pub(crate) fn check_result(&self, ty: ValueType, at: u32) -> Result<(), AbiError> {
        let layout = self.info.layout(ty);
        self.check_aligned("a result", at, layout.align)?;
        self.bytes("a result", at, layout.bytes.into()).map(drop)
    }

    /// A value from memory. The caller has checked that its bytes are in the memory.
    fn load(&mut self, ty: ValueType, at: u32) -> Result<Value, AbiError> {
        self.spend(size_of::<Value>())?;
        self.load_counted(ty, at)
    }

    /// As [`load`](Self::load), for a value whose `size_of::<Value>()` bytes are already counted.
    fn load_counted(&mut self, ty: ValueType, at: u32) -> Result<Value, AbiError> {
        Ok(match ty {
            ValueType::Bool => Value::Bool(self.number::<1>("a bool", at)?[0] != 0),
            ValueType::S8 => Value::S8(i8::from_le_bytes(self.number("an s8", at)?)),
            ValueType::U8 => Value::U8(u8::from_le_bytes(self.number("a u8", at)?)),
            ValueType::S16 => Value::S16(i16::from_le_bytes(self.number("an s16", at)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(self.number("a u16", at)?)),
            ValueType::S32 => Value::S32(i32::from_le_bytes(self.number("an s32", at)?)),
            ValueType::U32 => Value::U32(self.word(at)?),
            ValueType::S64 => Value::S64(i64::from_le_bytes(self.number("an s64", at)?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(self.number("a u64", at)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.number("an f32", at)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.number("an f64", at)?)),
            ValueType::Char => Value::Char(scalar(self.word(at)?)?),
            ValueType::String => {
                let (address, length) = (self.word(at)?, self.word(at.saturating_add(4))?);
                Value::String(self.string(address, length)?)
            }
            ValueType::Own(table) => {
                let number = self.word(at)?;
                self.own(table, number)?
            }
            ValueType::Borrow(table) => {
                let number = self.word(at)?;
                self.borrow(table, number)?
            }
            ValueType::Defined(index) => self.load_defined(index, at)?,
        })
    }

    fn load_defined(&mut self, index: u32, at: u32) -> Result<Value, AbiError> {
        let info = self.info;
        let layout = info.layout(ValueType::Defined(index));
        let mut place = at;
        let mut field = |lift: &mut Self, ty: ValueType| {
            let layout = info.layout(ty);
            place = aligned(place, layout.align);
            let value = lift.load(ty, place);
            place = place.saturating_add(layout.bytes);
            value
        };
        Ok(match info.defined(index) {
            DefinedType::Record(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, ty)| Ok((self.name(name)?, field(self, *ty)?)));
                Value::Record(exactly(fields)?)
            }
            DefinedType::Tuple(types) => {
                let types = types.iter();
                Value::Tuple(exactly(types.map(|ty| field(self, *ty)))?)
            }
            DefinedType::List(element) => {
                let (address, length) = (self.word(at)?, self.word(at.saturating_add(4))?);
                Value::List(self.list(*element, address, length)?)
            }
            DefinedType::Flags(names) => {
                let bits = self.unsigned(at, layout.bytes)?;
                Value::Flags(self.set(names, bits)?)
            }
            ty => {
                let discriminant = self.unsigned(at, layout.discriminant)?;
                let case = case(ty, discriminant)?;
                let payload = at.saturating_add(layout.payload);
                let payload = case.ty.map(|ty| self.load(ty, payload)).transpose()?;
                case.value(self, payload)?
            }
        })
    }

    /// A copy of a field's or case's name, for the host's value.
    fn name(&mut self, name: &str) -> Result<String, AbiError> {
        self.spend(size_of::<String>() + name.len())?;
        Ok(name.to_owned())
    }

    /// The names of the bits that are set.
    fn set(&mut self, names: &[String], bits: u32) -> Result<Vec<String>, AbiError> {
        let names = names.iter().enumerate();
        let set: Vec<_> = names.filter(|(bit, _)| bits >> bit & 1 == 1).collect();
        exactly(set.iter().map(|(_, name)| self.name(name)))
    }

    fn list(&mut self, ty: ValueType, address: u32, length: u32) -> Result<Vec<Value>, AbiError> {
        // All elements are counted before the allocation, because lists in lists can multiply.
        let bytes = self.check_list(ty, address, length, size_of::<Value>())?;
        let places = (0..length).map(|n| address + n * bytes);
        exactly(places.map(|at| {
            self.progress.work(size_of::<Value>())?;
            self.load_counted(ty, at)
        }))
    }

    /// Checks a list before the host allocates memory for it. Counts `host_bytes` bytes of the host
    /// for each element. Returns the bytes of an element in the guest's memory.
    pub(crate) fn check_list(
        &mut self,
        ty: ValueType,
        address: u32,
        length: u32,
        host_bytes: usize,
    ) -> Result<u32, AbiError> {
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

    pub(crate) fn string(&mut self, address: u32, length: u32) -> Result<String, AbiError> {
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
    pub(crate) fn handle(&mut self, ty: ValueType, number: u32) -> Result<Resource, AbiError> {
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

    fn own(&mut self, table: u32, number: u32) -> Result<Value, AbiError> {
        self.handle(ValueType::Own(table), number).map(Value::Own)
    }

    fn borrow(&mut self, table: u32, number: u32) -> Result<Value, AbiError> {
        self.handle(ValueType::Borrow(table), number)
            .map(Value::Borrow)
    }

    pub(crate) fn word(&self, at: u32) -> Result<u32, AbiError> {
        Ok(u32::from_le_bytes(self.number("a u32", at)?))
    }

    /// An unsigned number of 1, 2 or 4 bytes.
    pub(crate) fn unsigned(&self, at: u32, bytes: u32) -> Result<u32, AbiError> {
        Ok(match bytes {
            1 => u32::from(self.number::<1>("a discriminant", at)?[0]),
            2 => u32::from(u16::from_le_bytes(self.number("a discriminant", at)?)),
            _ => self.word(at)?,
        })
    }

    pub(crate) fn number<const N: usize>(
        &self,
        what: &'static str,
        at: u32,
    ) -> Result<[u8; N], AbiError> {
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
    ) -> Result<&'a [u8], AbiError> {
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

    fn check_aligned(&self, what: &'static str, address: u32, align: u32) -> Result<(), AbiError> {
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
    fn spend(&mut self, bytes: usize) -> Result<(), AbiError> {
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

/// Collects values without spare capacity, because the account counts only the values.
fn exactly<V>(values: impl Iterator<Item = Result<V, AbiError>>) -> Result<Vec<V>, AbiError> {
    let mut all = Vec::with_capacity(values.size_hint().0);
    for value in values {
        all.push(value?);
    }
    Ok(all)
}

fn scalar(number: u32) -> Result<char, AbiError> {
    char::from_u32(number).ok_or(AbiError::Char(number))
}

/// A case of a variant, enum, option or result.
struct Case<'a> {
    ty: Option<ValueType>,
    of: &'a DefinedType,
    number: u32,
}

/// The case with the discriminant `number`.
fn case(of: &DefinedType, number: u32) -> Result<Case<'_>, AbiError> {
    let (cases, ty) = match of {
        DefinedType::Variant(cases) => {
            let ty = cases.get(number as usize).and_then(|(_, ty)| *ty);
            (cases.len(), ty)
        }
        DefinedType::Enum(names) => (names.len(), None),
        DefinedType::Option(some) => (2, (number == 1).then_some(*some)),
        DefinedType::Result(ok, error) => (2, if number == 0 { *ok } else { *error }),
        _ => (0, None),
    };
    match (number as usize) < cases {
        true => Ok(Case { ty, of, number }),
        false => Err(AbiError::Discriminant {
            found: number,
            cases,
        }),
    }
}

impl Case<'_> {
    /// The case as a value with this payload.
    fn value(&self, lift: &mut Lift<'_>, payload: Option<Value>) -> Result<Value, AbiError> {
        let payload = payload.map(Box::new);
        Ok(match self.of {
            DefinedType::Variant(cases) => {
                Value::Variant(lift.name(&cases[self.number as usize].0)?, payload)
            }
            DefinedType::Enum(names) => Value::Enum(lift.name(&names[self.number as usize])?),
            DefinedType::Result(..) if self.number == 0 => Value::Result(Ok(payload)),
            DefinedType::Result(..) => Value::Result(Err(payload)),
            _ => Value::Option(payload),
        })
    }
}
