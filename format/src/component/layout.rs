//! Size, alignment and core types of values (CanonicalABI, "Alignment", "Element Size" and
//! "Flattening").

use super::{DefinedType, ValueType};
use crate::error::FormatError;
use core::fmt;
use core::ops::Deref;

/// Most bytes of a value in memory. Types of larger values are refused, so that no sum below
/// overflows.
const BYTES_MAX: u32 = 1 << 28;

/// Most core values that a value is flattened to. A value with more core values is passed in
/// memory.
const FLAT_MAX: usize = 16;

/// The core type of a flattened value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlatType {
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl FlatType {
    /// The core type that holds a value of either type (CanonicalABI, `join`).
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            _ if self == other => self,
            (Self::I32, Self::F32) | (Self::F32, Self::I32) => Self::I32,
            _ => Self::I64,
        }
    }
}

/// The core types of a flattened value, at most 16.
#[derive(Clone, Copy)]
pub struct FlatTypes {
    types: [FlatType; FLAT_MAX],
    len: u8,
}

impl FlatTypes {
    const fn new() -> Self {
        Self {
            types: [FlatType::I32; FLAT_MAX],
            len: 0,
        }
    }

    const fn of(ty: FlatType, count: u8) -> Self {
        Self {
            types: [ty; FLAT_MAX],
            len: count,
        }
    }

    /// These types and one more type. `None` if there are too many.
    fn with(mut self, ty: FlatType) -> Option<Self> {
        *self.types.get_mut(usize::from(self.len))? = ty;
        self.len += 1;
        Some(self)
    }
}

impl Deref for FlatTypes {
    type Target = [FlatType];

    fn deref(&self) -> &[FlatType] {
        &self.types[..usize::from(self.len)]
    }
}

impl fmt::Debug for FlatTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for FlatTypes {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for FlatTypes {}

/// The representation of a type of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes in a memory.
    pub bytes: u32,
    /// Alignment in a memory: 1, 2, 4 or 8 bytes.
    pub align: u32,
    /// The core types of a flattened value. `None` if there are more than 16.
    pub flat: Option<FlatTypes>,
    /// For a variant, option, result or enum, the bytes of the discriminant.
    pub discriminant: u32,
    /// For a variant, option or result, the offset of the payload. For a record or tuple, 0.
    pub payload: u32,
    /// Whether a value has memory of its own: the value is or contains a string or a list.
    pub allocates: bool,
}

impl Layout {
    const fn scalar(bytes: u32, flat: FlatType) -> Self {
        Self {
            bytes,
            align: bytes,
            flat: Some(FlatTypes::of(flat, 1)),
            discriminant: 0,
            payload: 0,
            allocates: false,
        }
    }

    const fn pair() -> Self {
        Self {
            bytes: 8,
            align: 4,
            flat: Some(FlatTypes::of(FlatType::I32, 2)),
            discriminant: 0,
            payload: 0,
            allocates: true,
        }
    }
}

/// The layouts of the types of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layouts(Vec<Layout>);

impl Layouts {
    /// The layouts of these types.
    ///
    /// # Errors
    ///
    /// [`FormatError::Damaged`] if a type refers to itself or to a later type, has no case, or has
    /// more than 2^28 bytes.
    pub fn of(types: &[DefinedType]) -> Result<Self, FormatError> {
        let mut layouts = Self(Vec::with_capacity(types.len()));
        for ty in types {
            let layout = layouts.defined(ty)?;
            if layout.bytes > BYTES_MAX {
                let bytes = layout.bytes;
                return damaged(&format!("a type has {bytes} bytes, at most {BYTES_MAX}"));
            }
            layouts.0.push(layout);
        }
        Ok(layouts)
    }

    /// The layout of a type of value.
    ///
    /// # Errors
    ///
    /// [`FormatError::Damaged`] if there is no such type.
    #[inline]
    pub fn value(&self, ty: ValueType) -> Result<&Layout, FormatError> {
        use FlatType::{F32, F64, I32, I64};
        static SCALARS: [Layout; 6] = [
            Layout::scalar(1, I32),
            Layout::scalar(2, I32),
            Layout::scalar(4, I32),
            Layout::scalar(4, F32),
            Layout::scalar(8, I64),
            Layout::scalar(8, F64),
        ];
        static PAIR: Layout = Layout::pair();
        Ok(match ty {
            ValueType::Bool | ValueType::S8 | ValueType::U8 => &SCALARS[0],
            ValueType::S16 | ValueType::U16 => &SCALARS[1],
            ValueType::S32
            | ValueType::U32
            | ValueType::Char
            | ValueType::Own(_)
            | ValueType::Borrow(_) => &SCALARS[2],
            ValueType::F32 => &SCALARS[3],
            ValueType::S64 | ValueType::U64 => &SCALARS[4],
            ValueType::F64 => &SCALARS[5],
            ValueType::String => &PAIR,
            ValueType::Defined(index) => match self.0.get(index as usize) {
                Some(layout) => layout,
                None => return damaged(&format!("type {index} of {}", self.0.len())),
            },
        })
    }

    fn defined(&self, ty: &DefinedType) -> Result<Layout, FormatError> {
        match ty {
            DefinedType::Record(fields) => self.record(fields.iter().map(|(_, ty)| *ty)),
            DefinedType::Tuple(fields) => self.record(fields.iter().copied()),
            DefinedType::List(element) => {
                self.value(*element)?;
                Ok(Layout::pair())
            }
            DefinedType::Flags(names) => flags(names.len()),
            DefinedType::Enum(names) => self.variant(names.len(), names.iter().map(|_| None)),
            DefinedType::Variant(cases) => {
                self.variant(cases.len(), cases.iter().map(|(_, ty)| *ty))
            }
            DefinedType::Option(some) => self.variant(2, [None, Some(*some)].into_iter()),
            DefinedType::Result(ok, error) => self.variant(2, [*ok, *error].into_iter()),
        }
    }

    /// A record or tuple: its fields one after the other.
    fn record(&self, fields: impl Iterator<Item = ValueType>) -> Result<Layout, FormatError> {
        let (mut bytes, mut align, mut flat) = (0u32, 1, Some(FlatTypes::new()));
        let mut allocates = false;
        for field in fields {
            let field = self.value(field)?;
            bytes = bytes
                .checked_next_multiple_of(field.align)
                .and_then(|at| at.checked_add(field.bytes))
                .unwrap_or(u32::MAX)
                .min(BYTES_MAX + 1);
            align = align.max(field.align);
            flat = joined(flat, field.flat);
            allocates |= field.allocates;
        }
        Ok(Layout {
            bytes: bytes.next_multiple_of(align),
            align,
            flat,
            discriminant: 0,
            payload: 0,
            allocates,
        })
    }

    /// A variant: a discriminant, and the payload of one of its cases.
    fn variant(
        &self,
        count: usize,
        cases: impl Iterator<Item = Option<ValueType>>,
    ) -> Result<Layout, FormatError> {
        let discriminant = match count {
            0 => return damaged("a variant has no case"),
            1..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        let (mut bytes, mut align, mut allocates) = (0, discriminant, false);
        let mut flat = Some(FlatTypes::new());
        for case in cases.flatten() {
            let case = self.value(case)?;
            bytes = bytes.max(case.bytes);
            align = align.max(case.align);
            allocates |= case.allocates;
            flat = match (flat, case.flat) {
                (Some(all), Some(one)) => Some(either(all, one)),
                _ => None,
            };
        }
        let payload = discriminant.next_multiple_of(align);
        Ok(Layout {
            bytes: (payload + bytes).next_multiple_of(align),
            align,
            flat: joined(Some(FlatTypes::of(FlatType::I32, 1)), flat),
            discriminant,
            payload,
            allocates,
        })
    }
}

/// A bit for each flag: 1, 2 or 4 bytes. A component has at most 32 flags in one type.
fn flags(count: usize) -> Result<Layout, FormatError> {
    match count {
        1..=8 => Ok(Layout::scalar(1, FlatType::I32)),
        9..=16 => Ok(Layout::scalar(2, FlatType::I32)),
        17..=32 => Ok(Layout::scalar(4, FlatType::I32)),
        _ => damaged(&format!(
            "a type has {count} flags, between 1 and 32 are allowed"
        )),
    }
}

/// The core types of one value and another.
fn joined(first: Option<FlatTypes>, second: Option<FlatTypes>) -> Option<FlatTypes> {
    let second = second?;
    let mut types = second.iter();
    types.try_fold(first?, |all, ty| all.with(*ty))
}

/// The core types that hold one value or another.
fn either(mut all: FlatTypes, one: FlatTypes) -> FlatTypes {
    let len = usize::from(all.len.max(one.len));
    for (at, ty) in one.iter().enumerate() {
        all.types[at] = match at < usize::from(all.len) {
            true => all.types[at].join(*ty),
            false => *ty,
        };
    }
    all.len = len as u8;
    all
}

fn damaged<T>(damage: &str) -> Result<T, FormatError> {
    Err(FormatError::Damaged(format!("component: {damage}")))
}
