//! [`Value`]: a WebAssembly value in the host, and [`Cell`], in which a value crosses to or from a
//! guest.

pub(crate) mod any;
pub(crate) mod typed;

use any::external;
pub use any::{AnyKind, AnyRef};
use core::fmt;
use core::num::NonZeroU64;
pub use pirn_format::types::{
    AddrType, FuncType, GlobalType, HeapType, Kind, MemoryType, PageSize, RefType, TableType,
    ValType,
};

/// A WebAssembly value. Floats are kept as bits, so that NaN payloads survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// An `i32`.
    I32(i32),
    /// An `i64`.
    I64(i64),
    /// The bits of an `f32`.
    F32(u32),
    /// The bits of an `f64`.
    F64(u64),
    /// A `v128`, lane 0 in the lowest bits.
    V128(u128),
    /// A reference to a function, or null.
    FuncRef(Option<FuncRef>),
    /// A reference of the host, or null.
    ExternRef(Option<ExternRef>),
    /// A reference to an exception, or null.
    ExnRef(Option<ExnRef>),
    /// A reference of type `anyref`, or null.
    ///
    /// It is a 31-bit number, a reference to a struct or an array, or a converted reference of the
    /// host.
    AnyRef(Option<AnyRef>),
}

impl Value {
    /// Its type. For a reference, this is the nullable type.
    #[must_use]
    pub fn ty(&self) -> ValType {
        match self {
            Self::I32(_) => ValType::I32,
            Self::I64(_) => ValType::I64,
            Self::F32(_) => ValType::F32,
            Self::F64(_) => ValType::F64,
            Self::V128(_) => ValType::V128,
            Self::FuncRef(_) => ValType::FUNCREF,
            Self::ExternRef(_) => ValType::EXTERNREF,
            Self::ExnRef(_) => ValType::EXNREF,
            Self::AnyRef(_) => ValType::ANYREF,
        }
    }

    fn is_null(&self) -> bool {
        matches!(
            self,
            Self::FuncRef(None) | Self::ExternRef(None) | Self::ExnRef(None) | Self::AnyRef(None)
        )
    }

    /// Whether the value has a type. A non-null reference never fits a type that a module defines,
    /// because the host cannot check that type here.
    pub(crate) fn fits(&self, ty: ValType) -> bool {
        let ValType::Ref(ty) = ty else {
            return self.ty() == ty;
        };
        let top = self.ty().heap();
        if self.is_null() {
            return ty.nullable && top == Some(ty.heap.top());
        }
        match (self, ty.heap) {
            (_, HeapType::Concrete(..)) => false,
            (Self::AnyRef(Some(any)), wanted) => any.is(wanted),
            (_, wanted) => top == Some(wanted),
        }
    }

    /// Describes the value in words, for an error about its type.
    pub(crate) fn described(&self) -> String {
        match self {
            null if null.is_null() => format!("null of type {}", self.ty()),
            other => other.ty().to_string(),
        }
    }

    /// Zero or null: the initial value of a local of this type (spec 4.2.1).
    #[must_use]
    pub fn default_of(ty: ValType) -> Self {
        Cell::default().value(ty, Stamp(0))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I32(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::F32(bits) => write!(f, "{}", f32::from_bits(*bits)),
            Self::F64(bits) => write!(f, "{}", f64::from_bits(*bits)),
            Self::V128(bits) => write!(f, "{bits:#034x}"),
            Self::FuncRef(None)
            | Self::ExternRef(None)
            | Self::ExnRef(None)
            | Self::AnyRef(None) => f.write_str("null"),
            Self::AnyRef(Some(any)) => any.fmt(f),
            Self::ExnRef(Some(_)) => f.write_str("exnref"),
            Self::FuncRef(Some(_)) => f.write_str("funcref"),
            Self::ExternRef(Some(reference)) => match reference.any() {
                None => write!(f, "externref {}", reference.get()),
                Some(any) => write!(f, "externref of {any}"),
            },
        }
    }
}

/// A guest's reference to a function, in the host. It can be passed back only to the instance or
/// the group that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FuncRef {
    address: NonZeroU64,
    stamp: Stamp,
}

/// A guest's reference to an exception, in the host.
///
/// It can be passed back only to the instance or the group that it came from. The guest must still
/// have a reference to the exception: the host's reference alone does not keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExnRef {
    number: NonZeroU64,
    stamp: Stamp,
}

/// A reference that the host makes: any number but 0.
///
/// The guest can store it, pass it, convert it and compare it with null. It can also be a reference
/// that a guest has converted by `extern.convert_any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExternRef {
    number: NonZeroU64,
    /// The instance id, for a converted reference to an object of the guest; 0 for a reference that
    /// the host made.
    stamp: Stamp,
}

impl ExternRef {
    /// A reference with this number.
    ///
    /// The runtime reserves the numbers from 2^64 - 2^49 up to 2^64 - 2^48. To pass such a number
    /// to a guest is an error, like passing a reference of another instance.
    #[must_use]
    pub fn new(number: NonZeroU64) -> Self {
        let stamp = Stamp(0);
        Self { number, stamp }
    }

    /// The number. It has no meaning to the host for a reference that a guest has converted.
    #[must_use]
    pub fn get(self) -> NonZeroU64 {
        self.number
    }

    /// The original reference, if a guest has converted it by `extern.convert_any`.
    #[must_use]
    pub fn any(self) -> Option<AnyRef> {
        AnyRef::read(external::inner(self.number.get())?, self.stamp)
    }
}

/// Identifies the instance or the group that a reference belongs to. 0 belongs to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp(pub(crate) u64);

impl Stamp {
    /// An id that no other instance of this process has.
    pub(crate) fn fresh() -> Self {
        use core::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only uniqueness matters, and 2^64 instances are never made.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One parameter or result between guest and host: see
/// [`CELL_BYTES`](pirn_format::exit::CELL_BYTES).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cell(pub(crate) [u8; 16]);

const _: () = assert!(size_of::<Cell>() == pirn_format::exit::CELL_BYTES as usize);

impl Cell {
    #[inline]
    pub(crate) fn from_u32(value: u32) -> Self {
        Self::from_u128(u128::from(value))
    }

    #[inline]
    pub(crate) fn from_u64(value: u64) -> Self {
        Self::from_u128(u128::from(value))
    }

    #[inline]
    pub(crate) fn from_u128(value: u128) -> Self {
        Self(value.to_le_bytes())
    }

    /// The low 32 bits. The bits above them are unspecified.
    ///
    /// This is a 32-bit load, because the guest has just stored 32 bits. A wider load defeats store
    /// forwarding.
    #[inline]
    pub(crate) fn u32(&self) -> u32 {
        let [a, b, c, d, ..] = &self.0;
        u32::from_le_bytes([*a, *b, *c, *d])
    }

    /// The low 64 bits, by a load of 64 bits: see [`u32`](Self::u32).
    #[inline]
    pub(crate) fn u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = &self.0;
        u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
    }

    #[inline]
    pub(crate) fn u128(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    /// Reads a value of a type. The instance with this id has written it.
    #[inline]
    pub(crate) fn value(self, ty: ValType, stamp: Stamp) -> Value {
        match ty {
            ValType::I32 => Value::I32(self.u32() as i32),
            ValType::I64 => Value::I64(self.u64() as i64),
            ValType::F32 => Value::F32(self.u32()),
            ValType::F64 => Value::F64(self.u64()),
            ValType::V128 => Value::V128(self.u128()),
            ValType::Ref(ty) => match ty.heap {
                HeapType::Func | HeapType::NoFunc | HeapType::Concrete(Kind::Func, _) => {
                    Value::FuncRef(self.func_ref(stamp))
                }
                HeapType::Extern | HeapType::NoExtern => Value::ExternRef(self.extern_ref(stamp)),
                HeapType::Exn | HeapType::NoExn => {
                    let number = NonZeroU64::new(self.u64());
                    Value::ExnRef(number.map(|number| ExnRef { number, stamp }))
                }
                HeapType::Any
                | HeapType::Eq
                | HeapType::I31
                | HeapType::Struct
                | HeapType::Array
                | HeapType::None
                | HeapType::Concrete(Kind::Struct | Kind::Array, _) => {
                    Value::AnyRef(AnyRef::read(self.u64(), stamp))
                }
            },
        }
    }

    #[inline]
    pub(crate) fn func_ref(self, stamp: Stamp) -> Option<FuncRef> {
        NonZeroU64::new(self.u64()).map(|address| FuncRef { address, stamp })
    }

    #[inline]
    pub(crate) fn extern_ref(self, stamp: Stamp) -> Option<ExternRef> {
        let number = NonZeroU64::new(self.u64())?;
        let stamp = match external::inner(number.get()) {
            None => Stamp(0),
            Some(_) => stamp,
        };
        Some(ExternRef { number, stamp })
    }

    /// The cell of a value, for the instance with this id.
    ///
    /// # Errors
    ///
    /// [`ForeignRef`] for a reference of another instance, and for a number that the runtime
    /// reserves.
    #[inline]
    pub(crate) fn from_value(value: Value, stamp: Stamp) -> Result<Self, ForeignRef> {
        Ok(match value {
            Value::I32(value) => Self::from_u32(value as u32),
            Value::I64(value) => Self::from_u64(value as u64),
            Value::F32(bits) => Self::from_u32(bits),
            Value::F64(bits) => Self::from_u64(bits),
            Value::V128(bits) => Self::from_u128(bits),
            Value::FuncRef(reference) => Self::from_func_ref(reference, stamp)?,
            Value::ExternRef(reference) => Self::from_extern_ref(reference, stamp)?,
            Value::AnyRef(reference) => AnyRef::cell(reference, stamp)?,
            Value::ExnRef(None) => Self::default(),
            Value::ExnRef(Some(reference)) if is_own(reference.stamp, stamp) => {
                Self::from_u64(reference.number.get())
            }
            Value::ExnRef(Some(_)) => return Err(ForeignRef),
        })
    }

    #[inline]
    pub(crate) fn from_func_ref(
        reference: Option<FuncRef>,
        stamp: Stamp,
    ) -> Result<Self, ForeignRef> {
        match reference {
            None => Ok(Self::default()),
            Some(reference) if is_own(reference.stamp, stamp) => {
                Ok(Self::from_u64(reference.address.get()))
            }
            Some(_) => Err(ForeignRef),
        }
    }

    #[inline]
    pub(crate) fn from_extern_ref(
        reference: Option<ExternRef>,
        stamp: Stamp,
    ) -> Result<Self, ForeignRef> {
        let Some(reference) = reference else {
            return Ok(Self::default());
        };
        let number = reference.number.get();
        if external::inner(number).is_some() && !is_own(reference.stamp, stamp) {
            return Err(ForeignRef);
        }
        Ok(Self::from_u64(number))
    }
}

/// Whether a reference with the id `found` belongs to the instance or group with the id `own`.
#[inline]
fn is_own(found: Stamp, own: Stamp) -> bool {
    found == own && own != Stamp(0)
}

/// A reference was given to an instance that it does not belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reference of another instance; pass only what this instance gave")]
pub struct ForeignRef;
