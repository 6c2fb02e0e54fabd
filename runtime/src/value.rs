//! [`Value`]: a WebAssembly value in the host.

mod cell;
mod reference;
pub(crate) mod typed;

pub(crate) use cell::Cell;
use reference::is_own;
pub use reference::{AnyKind, AnyRef, ExnRef, ExternRef, FuncRef};
pub(crate) use reference::{ForeignRef, InstanceId};

use core::fmt;
use core::num::NonZeroU64;
pub use pirn_format::types::{
    AddrType, CompositeKind, FuncType, GlobalType, HeapType, MemoryType, PageSize, RefType,
    TableType, ValType,
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
    /// The reference is a 31-bit number, a reference to a struct or an array, or a converted
    /// reference of the host.
    AnyRef(Option<AnyRef>),
}

impl Value {
    /// The type of the value. For a reference, this is the nullable type.
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
    /// because this method cannot check that type.
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
        Cell::default().value(ty, InstanceId(0))
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

impl Cell {
    /// Reads a value of a type, which the instance with the id `instance_id` has written.
    #[inline]
    pub(crate) fn value(self, ty: ValType, instance_id: InstanceId) -> Value {
        match ty {
            ValType::I32 => Value::I32(self.u32() as i32),
            ValType::I64 => Value::I64(self.u64() as i64),
            ValType::F32 => Value::F32(self.u32()),
            ValType::F64 => Value::F64(self.u64()),
            ValType::V128 => Value::V128(self.u128()),
            ValType::Ref(ty) => match ty.heap {
                HeapType::Func | HeapType::NoFunc | HeapType::Concrete(CompositeKind::Func, _) => {
                    Value::FuncRef(self.func_ref(instance_id))
                }
                HeapType::Extern | HeapType::NoExtern => {
                    Value::ExternRef(self.extern_ref(instance_id))
                }
                HeapType::Exn | HeapType::NoExn => {
                    let number = NonZeroU64::new(self.u64());
                    Value::ExnRef(number.map(|number| ExnRef {
                        number,
                        instance_id,
                    }))
                }
                HeapType::Any
                | HeapType::Eq
                | HeapType::I31
                | HeapType::Struct
                | HeapType::Array
                | HeapType::None
                | HeapType::Concrete(CompositeKind::Struct | CompositeKind::Array, _) => {
                    Value::AnyRef(AnyRef::read(self.u64(), instance_id))
                }
            },
        }
    }

    /// The cell of a value, for the instance with this id.
    ///
    /// # Errors
    ///
    /// [`ForeignRef`] for a reference of another instance, and for a number that the runtime
    /// reserves.
    #[inline]
    pub(crate) fn from_value(value: Value, instance_id: InstanceId) -> Result<Self, ForeignRef> {
        Ok(match value {
            Value::I32(value) => Self::from_u32(value as u32),
            Value::I64(value) => Self::from_u64(value as u64),
            Value::F32(bits) => Self::from_u32(bits),
            Value::F64(bits) => Self::from_u64(bits),
            Value::V128(bits) => Self::from_u128(bits),
            Value::FuncRef(reference) => Self::from_func_ref(reference, instance_id)?,
            Value::ExternRef(reference) => Self::from_extern_ref(reference, instance_id)?,
            Value::AnyRef(reference) => Self::from_any_ref(reference, instance_id)?,
            Value::ExnRef(None) => Self::default(),
            Value::ExnRef(Some(reference)) if is_own(reference.instance_id, instance_id) => {
                Self::from_u64(reference.number.get())
            }
            Value::ExnRef(Some(_)) => return Err(ForeignRef),
        })
    }
}
