//! [`Cell`]: the place in which a value crosses to or from a guest.

use super::reference::{AnyRef, ExternRef, ForeignRef, FuncRef, InstanceId, external, is_own};
use core::num::NonZeroU64;

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

    /// The low 32 bits. The higher bits are unspecified.
    ///
    /// This method makes a 32-bit load, because the guest has just stored 32 bits. A wider load
    /// defeats store forwarding.
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

    #[inline]
    pub(crate) fn func_ref(self, instance_id: InstanceId) -> Option<FuncRef> {
        NonZeroU64::new(self.u64()).map(|address| FuncRef {
            address,
            instance_id,
        })
    }

    #[inline]
    pub(crate) fn extern_ref(self, instance_id: InstanceId) -> Option<ExternRef> {
        let number = NonZeroU64::new(self.u64())?;
        let instance_id = match external::inner(number.get()) {
            None => InstanceId(0),
            Some(_) => instance_id,
        };
        Some(ExternRef {
            number,
            instance_id,
        })
    }

    #[inline]
    pub(crate) fn from_func_ref(
        reference: Option<FuncRef>,
        instance_id: InstanceId,
    ) -> Result<Self, ForeignRef> {
        match reference {
            None => Ok(Self::default()),
            Some(reference) if is_own(reference.instance_id, instance_id) => {
                Ok(Self::from_u64(reference.address.get()))
            }
            Some(_) => Err(ForeignRef),
        }
    }

    #[inline]
    pub(crate) fn from_extern_ref(
        reference: Option<ExternRef>,
        instance_id: InstanceId,
    ) -> Result<Self, ForeignRef> {
        let Some(reference) = reference else {
            return Ok(Self::default());
        };
        let number = reference.number.get();
        if external::inner(number).is_some() && !is_own(reference.instance_id, instance_id) {
            return Err(ForeignRef);
        }
        Ok(Self::from_u64(number))
    }

    /// The cell of a reference or of null, for the instance with this id.
    #[inline]
    pub(crate) fn from_any_ref(
        any: Option<AnyRef>,
        instance_id: InstanceId,
    ) -> Result<Self, ForeignRef> {
        match any {
            None => Ok(Self::default()),
            Some(any) if any.is_owned() && !is_own(any.instance_id, instance_id) => Err(ForeignRef),
            Some(any) => Ok(Self::from_u64(any.word())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::AnyKind;
    use pirn_format::layout::{TAG_ARRAY, TAG_BOXED};

    #[test]
    fn what_belongs_to_no_instance_is_what_it_was_made_of() {
        for (given, found) in [
            (0, 0),
            (-1, -1),
            (1 << 30, -(1 << 30)),
            ((1 << 30) - 1, (1 << 30) - 1),
        ] {
            assert_eq!(AnyRef::i31(given).kind(), AnyKind::I31(found));
            assert!(Cell::from_any_ref(Some(AnyRef::i31(given)), InstanceId(0)).is_ok());
        }
        let host = |number| ExternRef::new(NonZeroU64::new(number).expect("a number but 0"));
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
            let any = AnyRef::read(0x1000 | tag, InstanceId(7));
            assert!(Cell::from_any_ref(any, InstanceId(7)).is_ok());
            for other in [InstanceId(0), InstanceId(8)] {
                assert_eq!(Cell::from_any_ref(any, other), Err(ForeignRef));
            }
            // A reference with a forged id of 0 is refused as well.
            let forged = AnyRef::read(0x1000 | tag, InstanceId(0));
            assert_eq!(Cell::from_any_ref(forged, InstanceId(0)), Err(ForeignRef));
        }
    }
}
