//! [`Val`], [`End`] and [`Run`]: results in a form that all engines share, for comparison.

use crate::random::{Random, mix};
use pirn_runtime::{HeapType, RefType, ValType};

/// The target of a reference, as far as all engines report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ref {
    /// Null.
    Null,
    /// A host reference, by its number.
    Host(u32),
    /// A 31-bit integer.
    I31(i32),
    /// A struct.
    Struct,
    /// An array.
    Array,
}

/// A value, as its bits. Function references are compared only for null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Val {
    /// An `i32`.
    I32(u32),
    /// An `i64`.
    I64(u64),
    /// The bits of an `f32`.
    F32(u32),
    /// The bits of an `f64`.
    F64(u64),
    /// A `v128`, lane 0 in the lowest bits.
    V128(u128),
    /// A function reference: whether it is not null.
    Func(bool),
    /// An `externref`: a host reference, or a converted guest reference.
    Extern(Ref),
    /// A reference of the `any` hierarchy.
    Any(Ref),
    /// An exception reference: whether it is not null.
    Exn(bool),
}

impl Val {
    /// A value of a type from a source of bits. It is null for references that only a guest can
    /// make, and `None` if the type excludes null.
    pub fn of(ty: ValType, bits: &mut impl FnMut() -> u64) -> Option<Self> {
        Some(match ty {
            ValType::I32 => Self::I32(bits() as u32),
            ValType::I64 => Self::I64(bits()),
            ValType::F32 => Self::F32(bits() as u32),
            ValType::F64 => Self::F64(bits()),
            ValType::V128 => Self::V128(u128::from(bits()) << 64 | u128::from(bits())),
            ValType::Ref(RefType { nullable, heap }) => {
                let number = bits() as u32;
                let reference = match heap {
                    _ if nullable && number.is_multiple_of(4) => Ref::Null,
                    HeapType::Extern => Ref::Host(1 + number % 1000),
                    HeapType::Any if number.is_multiple_of(3) => Ref::Host(1 + number % 1000),
                    HeapType::Any | HeapType::Eq | HeapType::I31 => Ref::I31(number as i32 >> 1),
                    _ if nullable => Ref::Null,
                    _ => return None,
                };
                match heap.top() {
                    HeapType::Func => Self::Func(false),
                    HeapType::Exn => Self::Exn(false),
                    HeapType::Extern => Self::Extern(reference),
                    _ => Self::Any(reference),
                }
            }
        })
    }

    /// The value with a canonical NaN: the spec does not say which NaN an operator returns (4.3.3).
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::F32(bits) if f32::from_bits(bits).is_nan() => Self::F32(0x7fc0_0000),
            Self::F64(bits) if f64::from_bits(bits).is_nan() => Self::F64(0x7ff8 << 48),
            other => other,
        }
    }

    fn hash(self) -> u64 {
        match self.canonical() {
            Self::I32(bits) | Self::F32(bits) => mix(bits.into()),
            Self::I64(bits) | Self::F64(bits) => mix(bits),
            Self::V128(bits) => mix(bits as u64 ^ mix((bits >> 64) as u64)),
            Self::Func(is_some) | Self::Exn(is_some) => is_some.into(),
            Self::Extern(reference) | Self::Any(reference) => match reference {
                Ref::Null => 0,
                Ref::Host(number) => number.into(),
                Ref::I31(number) => mix(number as u64),
                Ref::Struct => 1 << 32,
                Ref::Array => 1 << 33,
            },
        }
    }
}

/// Why a guest trapped, as far as engines agree on the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `unreachable`. It also ends guests that would run too long.
    Unreachable,
    /// Past the end of a memory.
    Memory,
    /// Past the end of a table, by whatever operator.
    Table,
    /// A call of a null reference.
    Null,
    /// Use of a null reference, by any other operator.
    NullReference,
    /// A cast of a reference of another type.
    Cast,
    /// Past the end of an array.
    Array,
    /// An atomic access whose address is no multiple of its size.
    Unaligned,
    /// A wait on a memory that is not shared.
    NotShared,
    /// A call of a function of another type.
    Type,
    /// Overflow of a division, or of a conversion.
    Overflow,
    /// Division by zero.
    Zero,
    /// Conversion of NaN.
    Conversion,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It returned these results.
    Returned(Vec<Val>),
    /// It trapped.
    Trapped(Fault),
    /// The guest did not catch an exception.
    Threw,
    /// A host function returned an error.
    Refused,
    /// It reached a limit that differs between engines, such as the stack or system memory. Later
    /// calls cannot be compared.
    Exhausted,
}

/// The result of running a guest on an engine.
#[derive(Debug, Default)]
pub struct Run {
    /// How the start and then each call ended, until one exhausted a limit.
    pub ends: Vec<End>,
    /// The exported memories at the end.
    pub memories: Vec<Vec<u8>>,
    /// The exported globals at the end, in the order of their exports.
    pub globals: Vec<Val>,
    /// For each call of a host function, a hash of its arguments.
    pub host: Vec<u64>,
    /// Remaining fuel after each call, if it was counted.
    pub fuel: Vec<u64>,
}

impl Run {
    /// Whether a call reached a limit.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.ends.contains(&End::Exhausted)
    }

    /// Whether the guest could be called: its start function may have failed.
    #[must_use]
    pub fn has_started(&self) -> bool {
        matches!(self.ends.first(), Some(End::Returned(_)))
    }

    /// The first difference between two runs of a guest; `None` if there is none.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let pairs = self.ends.iter().zip(&other.ends).enumerate();
        for (at, (a, b)) in pairs {
            if *a == End::Exhausted || *b == End::Exhausted {
                return None;
            }
            if canonical(a) != canonical(b) {
                return Some(format!("call {at} (0 is the start): {a:x?}, {b:x?}"));
            }
        }
        if self.ends.len() != other.ends.len() {
            return Some(format!("calls: {}, {}", self.ends.len(), other.ends.len()));
        }
        if !self.has_started() {
            // The host's data is lost if the instance was never made.
            return None;
        }
        if let Some(at) = first_difference(&self.host, &other.host) {
            return Some(format!("call {at} of a host function has other arguments"));
        }
        for (n, (a, b)) in self.memories.iter().zip(&other.memories).enumerate() {
            if let Some(at) = first_difference(a, b) {
                let (a, b) = (a.get(at), b.get(at));
                return Some(format!("exported memory {n}, byte {at:#x}: {a:x?}, {b:x?}"));
            }
        }
        let canonical =
            |run: &Self| -> Vec<_> { run.globals.iter().map(|val| val.canonical()).collect() };
        first_difference(&canonical(self), &canonical(other)).map(|at| {
            let value = |run: &Self| run.globals.get(at).copied();
            format!(
                "exported global {at}: {:x?}, {:x?}",
                value(self),
                value(other)
            )
        })
    }
}

fn canonical(end: &End) -> End {
    match end {
        End::Returned(values) => End::Returned(values.iter().map(|val| val.canonical()).collect()),
        other => other.clone(),
    }
}

fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    if a == b {
        return None;
    }
    let same = a.iter().zip(b).take_while(|(a, b)| a == b);
    Some(same.count())
}

/// The host functions, which are equal for all engines. Their results depend on the function, its
/// arguments, and earlier calls.
#[derive(Debug, Default)]
pub struct Host {
    /// A number for each call.
    pub calls: Vec<u64>,
    /// Name of the exported memory that the functions see.
    pub memory: Option<String>,
}

/// The error of a host function.
#[derive(Debug)]
pub struct HostRefuses;

impl std::fmt::Display for HostRefuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the host refuses")
    }
}

impl std::error::Error for HostRefuses {}

impl Host {
    /// Calls function `index` and returns its results. Sometimes writes to the memory, if the guest
    /// exports one.
    ///
    /// # Errors
    ///
    /// [`HostRefuses`], once in 16 calls.
    pub fn call(
        &mut self,
        index: usize,
        params: &[Val],
        results: &[ValType],
        memory: &mut [u8],
    ) -> Result<Vec<Val>, HostRefuses> {
        let last = self.calls.last().copied().unwrap_or(0);
        let fold = |hash: u64, val: &Val| mix(hash ^ val.hash());
        let hash = params.iter().fold(mix(last ^ index as u64), fold);
        self.calls.push(hash);
        let mut random = Random::new(hash);
        if random.once_in(16) {
            return Err(HostRefuses);
        }
        if self.memory.is_some() && memory.len() > 8 && random.once_in(4) {
            let at = random.below(memory.len() - 8);
            memory[at..at + 8].copy_from_slice(&hash.to_le_bytes());
        }
        Ok(results
            .iter()
            .map(|ty| {
                Val::of(*ty, &mut || random.bits())
                    .expect("host functions have only results that they can make")
            })
            .collect())
    }
}
