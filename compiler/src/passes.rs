//! [`Pass`] and [`Passes`]: optimiser passes that a compilation can leave out, to find the pass
//! that causes a fault.

/// An optimiser pass that a compilation can leave out. Without the pass, the results of the guest
/// are the same, except for the bits of NaNs, which WebAssembly leaves open (spec 4.3.3). Inlining
/// has an option of its own, [`Options::inline`](crate::Options::inline).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pass {
    /// Calls of functions that compute a 128-bit product become instructions.
    WideProducts,
    /// Indirect calls use the known elements of tables that never change.
    KnownTables,
    /// Branches with a constant skip the branch table that a loop starts with.
    ThreadJumps,
    /// Constants that are added to an index become displacements (x86_64).
    FoldAddresses,
    /// Long blocks are also compiled in an order that needs fewer registers.
    Schedule,
    /// After `Schedule`, values are stored to the frame before the register allocator has to
    /// (x86_64).
    Spill,
    /// Operators with a constant are moved out of innermost loops.
    Hoist,
    /// Loops of one block compare the next value of their counter.
    CompareNext,
    /// Indices of accesses are computed in 64 bits to save an instruction (x86_64).
    Widen,
    /// Operators overwrite an operand that is not used again. MOVZX, LEA and stores of immediates
    /// replace costlier instructions (x86_64).
    TwoAddress,
    /// Loads become memory operands of their users (x86_64).
    FoldLoads,
}

impl Pass {
    /// All passes, in the order in which they run.
    pub const ALL: [Self; 11] = [
        Self::WideProducts,
        Self::KnownTables,
        Self::ThreadJumps,
        Self::FoldAddresses,
        Self::Schedule,
        Self::Spill,
        Self::Hoist,
        Self::CompareNext,
        Self::Widen,
        Self::TwoAddress,
        Self::FoldLoads,
    ];

    /// The name on the command line, such as `thread-jumps`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WideProducts => "wide-products",
            Self::KnownTables => "known-tables",
            Self::ThreadJumps => "thread-jumps",
            Self::FoldAddresses => "fold-addresses",
            Self::Schedule => "schedule",
            Self::Spill => "spill",
            Self::Hoist => "hoist",
            Self::CompareNext => "compare-next",
            Self::Widen => "widen",
            Self::TwoAddress => "two-address",
            Self::FoldLoads => "fold-loads",
        }
    }
}

/// A set of optimiser passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Passes(u16);

impl Passes {
    /// Every pass.
    pub const ALL: Self = Self(u16::MAX);
    /// No pass.
    pub const NONE: Self = Self(0);

    /// The set with a pass.
    #[must_use]
    pub const fn with(self, pass: Pass) -> Self {
        Self(self.0 | 1 << pass as u16)
    }

    /// The set without a pass.
    #[must_use]
    pub const fn without(self, pass: Pass) -> Self {
        Self(self.0 & !(1 << pass as u16))
    }

    /// Whether the set has a pass.
    #[must_use]
    pub const fn has(self, pass: Pass) -> bool {
        self.0 & 1 << pass as u16 != 0
    }
}

impl Default for Passes {
    fn default() -> Self {
        Self::ALL
    }
}
