//! Reads values from flattened words and memory, by the specification and without pirn's code. A
//! handle becomes a resource of the host whose representation is the handle's index.

use super::types::Ty;
use pirn_component::{Resource, Value};

/// The encoding of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
    Latin1,
}

impl Encoding {
    pub(super) const ALL: [Self; 3] = [Self::Utf8, Self::Utf16, Self::Latin1];

    /// As the text format has it.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Utf16 => "utf16",
            Self::Latin1 => "latin1+utf16",
        }
    }
}

/// The memory of a guest.
pub(super) struct Reader<'a> {
    pub(super) memory: &'a [u8],
    pub(super) encoding: Encoding,
}

impl Reader<'_> {
    /// A value from words. If it has more than `flat_max` core values, from memory at an address.
    pub(super) fn value(
        &self,
        ty: &Ty,
        mut words: &[u64],
        flat_max: usize,
        at: u32,
    ) -> Option<Value> {
        match ty.flat().len() <= flat_max {
            true => self.flat(ty, &mut words),
            false => self.load(ty, at),
        }
    }

    /// A value from words. `None` if it is not well-formed.
    fn flat(&self, ty: &Ty, words: &mut &[u64]) -> Option<Value> {
        let next = |words: &mut &[u64]| {
            let (first, rest) = words.split_first()?;
            *words = rest;
            Some(*first)
        };
        Some(match ty {
            Ty::Scalar(name) => scalar(name, next(words)?)?,
            Ty::String | Ty::List(_) => {
                let (address, length) = (next(words)? as u32, next(words)? as u32);
                self.pair(ty, address, length)?
            }
            Ty::Flags(count) => flags(*count, next(words)?),
            Ty::Own => Value::Own(Resource::host(next(words)? as u32)),
            Ty::Borrow => Value::Borrow(Resource::host(next(words)? as u32)),
            Ty::Tuple(types) => Value::Tuple(
                types
                    .iter()
                    .map(|ty| self.flat(ty, words))
                    .collect::<Option<_>>()?,
            ),
            Ty::Record(types) => {
                let fields = types.iter().enumerate();
                let fields = fields.map(|(at, ty)| Some((format!("f{at}"), self.flat(ty, words)?)));
                Value::Record(fields.collect::<Option<_>>()?)
            }
            _ => {
                let (mut own, rest) = words.split_at_checked(ty.flat().len())?;
                *words = rest;
                let at = next(&mut own)? as u32 as usize;
                let payload = match ty.cases()?.get(at)? {
                    Some(payload) => Some(self.flat(payload, &mut own)?),
                    None => None,
                };
                ty.case(at, payload)
            }
        })
    }

    /// A value from memory.
    fn load(&self, ty: &Ty, at: u32) -> Option<Value> {
        let (bytes, align) = ty.size();
        if !at.is_multiple_of(align) {
            return None;
        }
        Some(match ty {
            Ty::Scalar(name) => scalar(name, self.number(at, bytes)?)?,
            Ty::String | Ty::List(_) => {
                let (address, length) = (self.number(at, 4)?, self.number(at + 4, 4)?);
                self.pair(ty, address as u32, length as u32)?
            }
            Ty::Flags(count) => flags(*count, self.number(at, bytes)?),
            Ty::Own => Value::Own(Resource::host(self.number(at, 4)? as u32)),
            Ty::Borrow => Value::Borrow(Resource::host(self.number(at, 4)? as u32)),
            Ty::Tuple(types) => Value::Tuple(self.fields(types, at)?),
            Ty::Record(types) => {
                let fields = self.fields(types, at)?.into_iter().enumerate();
                Value::Record(
                    fields
                        .map(|(at, value)| (format!("f{at}"), value))
                        .collect(),
                )
            }
            _ => {
                let cases = ty.cases()?;
                let tag = Ty::discriminant(cases.len());
                let case = self.number(at, tag)? as usize;
                // The payload is aligned for the case with the largest alignment.
                let aligns = cases.iter().flatten().map(|ty| ty.size().1);
                let payload_at = at + tag.next_multiple_of(aligns.max().unwrap_or(1));
                let payload = match cases.get(case)? {
                    Some(payload) => Some(self.load(payload, payload_at)?),
                    None => None,
                };
                ty.case(case, payload)
            }
        })
    }

    fn fields(&self, types: &[Ty], mut at: u32) -> Option<Vec<Value>> {
        let mut values = vec![];
        for ty in types {
            let (bytes, align) = ty.size();
            at = at.next_multiple_of(align);
            values.push(self.load(ty, at)?);
            at += bytes;
        }
        Some(values)
    }

    /// A little-endian number.
    fn number(&self, at: u32, bytes: u32) -> Option<u64> {
        let bytes = self.memory.get(at as usize..(at + bytes) as usize)?;
        let number = bytes.iter().rev();
        Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A string or a list.
    fn pair(&self, ty: &Ty, address: u32, length: u32) -> Option<Value> {
        if let Ty::List(element) = ty {
            let (bytes, align) = element.size();
            let places = (0..length).map(|at| address + at * bytes);
            let aligned = address.is_multiple_of(align);
            let values = places.map(|at| self.load(element, at));
            return aligned.then(|| values.collect::<Option<_>>().map(Value::List))?;
        }
        const TAG: u32 = 1 << 31;
        let wide = self.encoding == Encoding::Utf16
            || (self.encoding == Encoding::Latin1 && length & TAG != 0);
        let units = if self.encoding == Encoding::Latin1 {
            length & !TAG
        } else {
            length
        };
        let bytes = units * if wide { 2 } else { 1 };
        let bytes = self
            .memory
            .get(address as usize..(address + bytes) as usize)?;
        if wide {
            let units = bytes
                .chunks(2)
                .map(|two| u16::from_le_bytes([two[0], two[1]]));
            let units: Vec<u16> = units.collect();
            let aligned = address.is_multiple_of(2);
            return String::from_utf16(&units)
                .ok()
                .filter(|_| aligned)
                .map(Value::String);
        }
        Some(Value::String(match self.encoding {
            Encoding::Utf8 => String::from_utf8(bytes.to_vec()).ok()?,
            _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
        }))
    }
}

/// A number, of which only the lower bits count.
fn scalar(name: &str, bits: u64) -> Option<Value> {
    Some(match name {
        "bool" => Value::Bool(bits & 0xff != 0),
        "s8" => Value::S8(bits as i8),
        "u8" => Value::U8(bits as u8),
        "s16" => Value::S16(bits as i16),
        "u16" => Value::U16(bits as u16),
        "s32" => Value::S32(bits as i32),
        "u32" => Value::U32(bits as u32),
        "s64" => Value::S64(bits as i64),
        "u64" => Value::U64(bits),
        "f32" => Value::F32(f32::from_bits(bits as u32)),
        "f64" => Value::F64(f64::from_bits(bits)),
        _ => Value::Char(char::from_u32(bits as u32)?),
    })
}

fn flags(count: usize, bits: u64) -> Value {
    let set = (0..count).filter(|bit| bits >> bit & 1 == 1);
    Value::Flags(set.map(|bit| format!("b{bit}")).collect())
}
