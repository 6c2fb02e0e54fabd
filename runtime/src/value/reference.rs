//! References of guests in the host: [`FuncRef`], [`ExternRef`], [`ExnRef`] and [`AnyRef`]. Each
//! reference knows the instance to which it belongs.

use core::fmt;
use core::num::NonZeroU64;
use pirn_format::layout::{HOST_SHIFT, TAG_ARRAY, TAG_BITS, TAG_BOXED, TAG_HOST, TAG_I31};
use pirn_format::types::HeapType;

/// Identifies the instance or the group to which a reference belongs. A reference with id 0 belongs
/// to no instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstanceId(pub(crate) u64);

impl InstanceId {
    /// An id that no other instance of this process has.
    pub(crate) fn fresh() -> Self {
        use core::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only uniqueness matters, and 2^64 instances are never made.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Whether a reference with the id `found` belongs to the instance or group with the id `own`.
#[inline]
pub(super) fn is_own(found: InstanceId, own: InstanceId) -> bool {
    found == own && own != InstanceId(0)
}

/// A reference was given to an instance to which it does not belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reference of another instance; pass only references that this instance gave")]
pub struct ForeignRef;

/// A guest's reference to a function, in the host. The host can pass the reference back only to the
/// instance or the group from which it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FuncRef {
    pub(super) address: NonZeroU64,
    pub(super) instance_id: InstanceId,
}

/// A guest's reference to an exception, in the host.
///
/// The host can pass the reference back only to the instance or the group from which it came. The
/// guest must still have a reference to the exception: the host's reference alone does not keep the
/// exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExnRef {
    pub(super) number: NonZeroU64,
    pub(super) instance_id: InstanceId,
}

/// A reference that the host makes: any number but 0.
///
/// The guest can store, pass and convert the reference, and compare it with null. An `ExternRef`
/// can also be a reference that a guest has converted by `extern.convert_any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExternRef {
    pub(super) number: NonZeroU64,
    /// The instance id, for a converted reference to an object of the guest; 0 for a reference that
    /// the host made.
    pub(super) instance_id: InstanceId,
}

impl ExternRef {
    /// A reference with this number.
    ///
    /// The runtime reserves the numbers from 2^64 - 2^49 up to 2^64 - 2^48. Passing such a number
    /// to a guest is an error, like passing a reference of another instance.
    #[must_use]
    pub fn new(number: NonZeroU64) -> Self {
        let instance_id = InstanceId(0);
        Self {
            number,
            instance_id,
        }
    }

    /// The number. The number of a reference that a guest has converted has no meaning to the host.
    #[must_use]
    pub fn get(self) -> NonZeroU64 {
        self.number
    }

    /// The original reference, if a guest has converted it by `extern.convert_any`.
    #[must_use]
    pub fn any(self) -> Option<AnyRef> {
        AnyRef::read(external::inner(self.number.get())?, self.instance_id)
    }
}

/// A non-null `anyref`: a reference to a struct or an array of a guest, a 31-bit number, or a
/// converted reference of the host.
///
/// The host can pass a reference to a struct or an array back only to the instance or the group
/// from which it came. Such a reference is valid as long as that instance or group lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyRef {
    word: NonZeroU64,
    /// The id of the instance to which the reference belongs; 0 if it belongs to no instance.
    pub(super) instance_id: InstanceId,
}

/// The kind of an [`AnyRef`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnyKind {
    /// A signed 31-bit number.
    I31(i32),
    /// A reference to a struct.
    Struct,
    /// A reference to an array.
    Array,
    /// A reference of the host; `None` if its number has more than 61 bits.
    Host(Option<ExternRef>),
}

/// References that a guest has converted to `externref` by `extern.convert_any`.
pub(super) mod external {
    use pirn_format::layout::{EXTERNAL_PREFIX, EXTERNAL_SHIFT};

    /// The original reference, if `number` is a converted reference.
    #[inline]
    pub(crate) fn inner(number: u64) -> Option<u64> {
        let is_guests = number >> EXTERNAL_SHIFT == EXTERNAL_PREFIX;
        is_guests.then_some(number & ((1 << EXTERNAL_SHIFT) - 1))
    }
}

impl AnyRef {
    /// A 31-bit number: the lowest 31 bits of `value`.
    #[must_use]
    pub fn i31(value: i32) -> Self {
        let word = u64::from((value as u32) << 1) | TAG_I31;
        Self {
            word: NonZeroU64::MIN.saturating_add(word - 1),
            instance_id: InstanceId(0),
        }
    }

    /// A reference of the host, if its number has at most 61 bits.
    #[must_use]
    pub fn host(reference: ExternRef) -> Option<Self> {
        let number = reference.get().get();
        let word = number << HOST_SHIFT | TAG_HOST;
        let fits = word >> HOST_SHIFT == number;
        let word = NonZeroU64::new(word).filter(|_| fits)?;
        let instance_id = InstanceId(0);
        Some(Self { word, instance_id })
    }

    /// The kind of the reference.
    #[must_use]
    pub fn kind(self) -> AnyKind {
        let word = self.word.get();
        match word & TAG_BITS {
            0 => AnyKind::Struct,
            TAG_ARRAY => AnyKind::Array,
            TAG_HOST => {
                let number = NonZeroU64::new(word >> HOST_SHIFT);
                AnyKind::Host(number.map(ExternRef::new))
            }
            TAG_BOXED => AnyKind::Host(None),
            // The lowest bit is the tag. The sign is the highest of the low 32 bits.
            _ => AnyKind::I31(word as i32 >> 1),
        }
    }

    /// Whether the reference has the abstract type `wanted`. No module defines an abstract type.
    pub(crate) fn is(self, wanted: HeapType) -> bool {
        match self.kind() {
            AnyKind::I31(_) => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::I31),
            AnyKind::Struct => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::Struct),
            AnyKind::Array => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::Array),
            AnyKind::Host(_) => matches!(wanted, HeapType::Any),
        }
    }

    /// The address of the object header, if this is a reference to a struct or array.
    pub(crate) fn header(self) -> Option<u64> {
        match self.kind() {
            AnyKind::Struct | AnyKind::Array => Some(self.word.get() & !TAG_BITS),
            _ => None,
        }
    }

    /// The reference in a word that the instance with this id has written; `None` for null.
    pub(crate) fn read(word: u64, instance_id: InstanceId) -> Option<Self> {
        let word = NonZeroU64::new(word)?;
        let any = Self { word, instance_id };
        Some(Self {
            instance_id: if any.is_owned() {
                instance_id
            } else {
                InstanceId(0)
            },
            ..any
        })
    }

    /// The word by which guests know the reference.
    #[inline]
    pub(super) fn word(self) -> u64 {
        self.word.get()
    }

    /// Whether the reference is to an object in an instance's heap of structs and arrays.
    pub(super) fn is_owned(self) -> bool {
        let tag = self.word.get() & TAG_BITS;
        tag & TAG_I31 == 0 && tag != TAG_HOST
    }
}

impl fmt::Display for AnyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            AnyKind::I31(value) => write!(f, "i31 {value}"),
            AnyKind::Struct => f.write_str("structref"),
            AnyKind::Array => f.write_str("arrayref"),
            AnyKind::Host(Some(reference)) => write!(f, "host {}", reference.get()),
            AnyKind::Host(None) => f.write_str("host"),
        }
    }
}
