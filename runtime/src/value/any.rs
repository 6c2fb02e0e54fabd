//! [`AnyRef`]: references to structs and arrays, and 31-bit numbers, in the host.

use super::{Cell, ExternRef, ForeignRef, HeapType, Stamp, is_own};
use core::fmt;
use core::num::NonZeroU64;
use pirn_format::layout::{HOST_SHIFT, TAG_ARRAY, TAG_BITS, TAG_BOXED, TAG_HOST, TAG_I31};

/// A non-null `anyref`: a reference to a struct or an array of a guest, a 31-bit number, or a
/// converted reference of the host.
///
/// A reference to a struct or an array can be passed back only to the instance or the group that it
/// came from. It is valid as long as that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyRef {
    word: NonZeroU64,
    /// The id of the instance that it belongs to; 0 if it belongs to none.
    stamp: Stamp,
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
    /// A reference of the host. Its number is `None` if it has more than 61 bits.
    Host(Option<ExternRef>),
}

/// References that a guest has converted to `externref` by `extern.convert_any`.
pub(super) mod external {
    use pirn_format::layout::{EXTERNAL_PREFIX, EXTERNAL_SHIFT};

    /// The original reference, if `number` is a converted one.
    #[inline]
    pub(in crate::value) fn inner(number: u64) -> Option<u64> {
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
            stamp: Stamp(0),
        }
    }

    /// A reference of the host, if its number has at most 61 bits.
    #[must_use]
    pub fn host(reference: ExternRef) -> Option<Self> {
        let number = reference.get().get();
        let word = number << HOST_SHIFT | TAG_HOST;
        let fits = word >> HOST_SHIFT == number;
        let word = NonZeroU64::new(word).filter(|_| fits)?;
        let stamp = Stamp(0);
        Some(Self { word, stamp })
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

    /// Whether it has an abstract type, one that no module defines.
    pub(crate) fn is(self, wanted: HeapType) -> bool {
        match self.kind() {
            AnyKind::I31(_) => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::I31),
            AnyKind::Struct => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::Struct),
            AnyKind::Array => matches!(wanted, HeapType::Any | HeapType::Eq | HeapType::Array),
            AnyKind::Host(_) => matches!(wanted, HeapType::Any),
        }
    }

    /// The address of the header of the struct or array that it refers to, if it refers to one.
    pub(crate) fn header(self) -> Option<u64> {
        match self.kind() {
            AnyKind::Struct | AnyKind::Array => Some(self.word.get() & !TAG_BITS),
            _ => None,
        }
    }

    /// The reference in a word that the instance with this id has written; `None` for null.
    pub(crate) fn read(word: u64, stamp: Stamp) -> Option<Self> {
        let word = NonZeroU64::new(word)?;
        let any = Self { word, stamp };
        Some(Self {
            stamp: if any.is_owned() { stamp } else { Stamp(0) },
            ..any
        })
    }

    /// Whether it refers to an object in an instance's heap of structs and arrays.
    fn is_owned(self) -> bool {
        let tag = self.word.get() & TAG_BITS;
        tag & TAG_I31 == 0 && tag != TAG_HOST
    }

    /// The cell of a reference or of null, for the instance with this id.
    #[inline]
    pub(super) fn cell(any: Option<Self>, stamp: Stamp) -> Result<Cell, ForeignRef> {
        match any {
            None => Ok(Cell::default()),
            Some(any) if any.is_owned() && !is_own(any.stamp, stamp) => Err(ForeignRef),
            Some(any) => Ok(Cell::from_u64(any.word.get())),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_instance_is_what_it_was_made_of() {
        for (given, found) in [
            (0, 0),
            (-1, -1),
            (1 << 30, -(1 << 30)),
            ((1 << 30) - 1, (1 << 30) - 1),
        ] {
            assert_eq!(AnyRef::i31(given).kind(), AnyKind::I31(found));
            assert!(AnyRef::cell(Some(AnyRef::i31(given)), Stamp(0)).is_ok());
        }
        let host = |number| ExternRef::new(NonZeroU64::new(number).expect("it is not 0"));
        let most = host((1 << 61) - 1);
        assert_eq!(
            AnyRef::host(most).map(AnyRef::kind),
            Some(AnyKind::Host(Some(most)))
        );
        assert_eq!(AnyRef::host(host(1 << 61)), None);
    }

    #[test]
    fn what_lies_in_an_instance_is_of_that_one() {
        for tag in [0, TAG_ARRAY, TAG_BOXED] {
            let any = AnyRef::read(0x1000 | tag, Stamp(7));
            assert!(AnyRef::cell(any, Stamp(7)).is_ok());
            for other in [Stamp(0), Stamp(8)] {
                assert_eq!(AnyRef::cell(any, other), Err(ForeignRef));
            }
            // A reference with a forged id of 0 is refused as well.
            let forged = AnyRef::read(0x1000 | tag, Stamp(0));
            assert_eq!(AnyRef::cell(forged, Stamp(0)), Err(ForeignRef));
        }
    }
}
