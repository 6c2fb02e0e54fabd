//! Rust types as WebAssembly types: [`WasmTy`], [`Params`] and [`Results`].

use super::cell::Cell;
use super::reference::{AnyRef, ExternRef, ForeignRef, FuncRef, InstanceId};
use pirn_format::types::ValType;

/// A Rust type that represents one WebAssembly value.
///
/// `i32` and `u32` represent `i32`, `i64` and `u64` represent `i64`. `f32` and `f64` represent
/// themselves, and `u128` represents `v128` (lane 0 in the lowest bits). `Option<FuncRef>`,
/// `Option<ExternRef>` and `Option<AnyRef>` represent references.
pub trait WasmTy: sealed::Ty {}

/// The parameters of a function: `()`, one [`WasmTy`], or a tuple of up to 16 [`WasmTy`].
pub trait Params: sealed::List {}

/// The results of a function: `()`, one [`WasmTy`], or a tuple of up to 16 [`WasmTy`].
pub trait Results: sealed::List {}

pub(crate) mod sealed {
    use super::{Cell, ForeignRef, InstanceId, ValType};

    /// Conversion of one value to and from a cell.
    pub trait Ty: Sized + 'static {
        /// The WebAssembly type of the value.
        const TYPE: ValType;
        /// Whether the conversion needs the instance id.
        const NEEDS_INSTANCE_ID: bool = false;
        /// Writes the value to a cell.
        fn store(self, cell: &mut Cell, instance_id: InstanceId) -> Result<(), ForeignRef>;
        /// Reads the value from a cell.
        fn load(cell: &Cell, instance_id: InstanceId) -> Self;
    }

    /// Conversion of several values to and from cells.
    pub trait List: Sized + 'static {
        /// The WebAssembly types of the values.
        const TYPES: &'static [ValType];
        /// Whether the conversion of one of the values needs the instance id.
        const NEEDS_INSTANCE_ID: bool;
        /// Whether the number of values is known only at run time. Then `TYPES` has the maximum
        /// number, and `store` and `load` may get fewer cells.
        const IS_FLAT: bool = false;
        /// Writes the values to cells. Unless `IS_FLAT`, there must be a cell for each type.
        fn store(self, cells: &mut [Cell], instance_id: InstanceId) -> Result<(), ForeignRef>;
        /// Reads the values from cells. Unless `IS_FLAT`, there must be a cell for each type.
        fn load(cells: &[Cell], instance_id: InstanceId) -> Self;
    }
}

macro_rules! number {
    ($($rust:ty, $wasm:ident, $from:ident($into:expr), $load:expr;)*) => {$(
        impl WasmTy for $rust {}
        impl sealed::Ty for $rust {
            const TYPE: ValType = ValType::$wasm;
            #[inline]
            fn store(self, cell: &mut Cell, _: InstanceId) -> Result<(), ForeignRef> {
                let into: fn(Self) -> _ = $into;
                *cell = Cell::$from(into(self));
                Ok(())
            }
            #[inline]
            fn load(cell: &Cell, _: InstanceId) -> Self {
                let load: fn(&Cell) -> Self = $load;
                load(cell)
            }
        }
    )*};
}

number! {
    i32, I32, from_u32(|v| v as u32), |cell| cell.u32() as i32;
    u32, I32, from_u32(|v| v), |cell| cell.u32();
    i64, I64, from_u64(|v| v as u64), |cell| cell.u64() as i64;
    u64, I64, from_u64(|v| v), |cell| cell.u64();
    f32, F32, from_u32(f32::to_bits), |cell| f32::from_bits(cell.u32());
    f64, F64, from_u64(f64::to_bits), |cell| f64::from_bits(cell.u64());
    u128, V128, from_u128(|v| v), |cell| cell.u128();
}

macro_rules! reference {
    ($($of:ident, $ty:ident, $cell:path, |$from:ident, $instance_id:ident| $load:expr;)*) => {$(
        impl WasmTy for Option<$of> {}
        impl sealed::Ty for Option<$of> {
            const TYPE: ValType = ValType::$ty;
            const NEEDS_INSTANCE_ID: bool = true;
            #[inline]
            fn store(self, cell: &mut Cell, instance_id: InstanceId) -> Result<(), ForeignRef> {
                *cell = $cell(self, instance_id)?;
                Ok(())
            }
            #[inline]
            fn load($from: &Cell, $instance_id: InstanceId) -> Self {
                $load
            }
        }
    )*};
}

reference! {
    FuncRef, FUNCREF, Cell::from_func_ref, |cell, instance_id| cell.func_ref(instance_id);
    ExternRef, EXTERNREF, Cell::from_extern_ref, |cell, instance_id| cell.extern_ref(instance_id);
    AnyRef, ANYREF, Cell::from_any_ref, |cell, instance_id| AnyRef::read(cell.u64(), instance_id);
}

/// Maximum number of parameters of a function that takes [`FlatParams`]. The canonical ABI passes
/// at most 16 values and an address to a lowered function.
pub(crate) const FLAT_MAX: usize = 17;

/// Up to 17 numbers, for functions whose type is known only when a module is opened. Floats are
/// passed by their bits. See [`Prepared::func_flat`](crate::Prepared::func_flat).
#[derive(Debug, Clone, Copy)]
pub struct FlatParams {
    words: [u64; FLAT_MAX],
    len: usize,
}

impl FlatParams {
    /// The numbers `words`, at most 17 numbers.
    ///
    /// # Errors
    ///
    /// The number of words, if there are more than 17 words.
    #[inline]
    pub fn new(words: &[u64]) -> Result<Self, usize> {
        let mut params = Self {
            words: [0; FLAT_MAX],
            len: words.len(),
        };
        let place = params.words.get_mut(..words.len());
        place.ok_or(words.len())?.copy_from_slice(words);
        Ok(params)
    }

    /// Adds a number. A number after the seventeenth is left out.
    #[inline]
    pub fn push(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.len) {
            *place = word;
            self.len += 1;
        }
    }

    /// No numbers.
    #[must_use]
    #[inline]
    pub fn none() -> Self {
        Self {
            words: [0; FLAT_MAX],
            len: 0,
        }
    }

    /// The numbers. The upper half of a 32-bit number is unspecified.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

impl Params for FlatParams {}
impl sealed::List for FlatParams {
    const TYPES: &'static [ValType] = &[ValType::I64; FLAT_MAX];
    const NEEDS_INSTANCE_ID: bool = false;
    const IS_FLAT: bool = true;
    #[inline]
    fn store(self, cells: &mut [Cell], _: InstanceId) -> Result<(), ForeignRef> {
        // Cells after the last number get zeros, in case the function has more parameters.
        for (cell, word) in cells.iter_mut().zip(&self.words) {
            *cell = Cell::from_u64(*word);
        }
        Ok(())
    }
    #[inline]
    fn load(cells: &[Cell], _: InstanceId) -> Self {
        let len = cells.len().min(FLAT_MAX);
        let mut words = [0; FLAT_MAX];
        for (word, cell) in words.iter_mut().zip(cells) {
            *word = cell.u64();
        }
        Self { words, len }
    }
}

/// One number, or no result: the result of a function that takes [`FlatParams`]. The upper half of
/// a 32-bit number is unspecified, and so is the whole value if the function has no result.
#[derive(Debug, Clone, Copy)]
pub struct FlatResult(pub u64);

impl Results for FlatResult {}
impl sealed::List for FlatResult {
    const TYPES: &'static [ValType] = &[ValType::I64];
    const NEEDS_INSTANCE_ID: bool = false;
    const IS_FLAT: bool = true;
    #[inline]
    fn store(self, cells: &mut [Cell], _: InstanceId) -> Result<(), ForeignRef> {
        // A function without parameters and result has no cell.
        if let Some(cell) = cells.first_mut() {
            *cell = Cell::from_u64(self.0);
        }
        Ok(())
    }
    #[inline]
    fn load(cells: &[Cell], _: InstanceId) -> Self {
        Self(cells[0].u64())
    }
}

impl<A: WasmTy> Params for A {}
impl<A: WasmTy> Results for A {}
impl<A: WasmTy> sealed::List for A {
    const TYPES: &'static [ValType] = &[A::TYPE];
    const NEEDS_INSTANCE_ID: bool = A::NEEDS_INSTANCE_ID;
    #[inline]
    fn store(self, cells: &mut [Cell], instance_id: InstanceId) -> Result<(), ForeignRef> {
        sealed::Ty::store(self, &mut cells[0], instance_id)
    }
    #[inline]
    fn load(cells: &[Cell], instance_id: InstanceId) -> Self {
        sealed::Ty::load(&cells[0], instance_id)
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt),*) => {
        impl<$($name: WasmTy),*> Params for ($($name,)*) {}
        impl<$($name: WasmTy),*> Results for ($($name,)*) {}
        impl<$($name: WasmTy),*> sealed::List for ($($name,)*) {
            const TYPES: &'static [ValType] = &[$($name::TYPE),*];
            const NEEDS_INSTANCE_ID: bool = false $(|| $name::NEEDS_INSTANCE_ID)*;
            #[allow(unused_variables, reason = "the empty tuple has no cell")]
            #[inline]
            fn store(self, cells: &mut [Cell], instance_id: InstanceId) -> Result<(), ForeignRef> {
                $(sealed::Ty::store(self.$at, &mut cells[$at], instance_id)?;)*
                Ok(())
            }
            #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no cell")]
            #[inline]
            fn load(cells: &[Cell], instance_id: InstanceId) -> Self {
                ($(<$name as sealed::Ty>::load(&cells[$at], instance_id),)*)
            }
        }
    };
}

/// Calls a macro once for each length from 0 to 16, with a name and a position for each element.
macro_rules! for_each_length {
    ($macro:ident) => {
        $macro!();
        $macro!(A 0);
        $macro!(A 0, B 1);
        $macro!(A 0, B 1, C 2);
        $macro!(A 0, B 1, C 2, D 3);
        $macro!(A 0, B 1, C 2, D 3, E 4);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
        $macro!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);
    };
}
pub(crate) use for_each_length;

for_each_length!(tuple);
