//! The hard limits of this compiler, in addition to the validator's: a million types, functions,
//! imports, exports and globals, 100,000 segments, 50,000 locals and 7.6 MB per function.

use crate::error::CompileError;
use pirn_format::layout::{
    CONSTANT_OPERATORS_MAX, INSTANCE_AREA_BYTES_MAX, MEMORY_BYTES_MAX, MEMORY_PAGES_MAX,
};

/// A limit with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    what: &'static str,
    most: u64,
}

/// Offsets in the WebAssembly file are 32 bits wide in every table. 1 GiB also bounds the
/// compiler's memory.
pub(crate) const MODULE_BYTES: Limit = Limit {
    what: "bytes",
    most: 1 << 30,
};

/// Globals, imports and function references must be in reach of a 32-bit displacement.
pub(crate) const INSTANCE_AREA_BYTES: Limit = Limit {
    what: "or more bytes of globals, imports and function references",
    most: INSTANCE_AREA_BYTES_MAX,
};

/// No memory can have the last 64 KiB page below 4 GiB, so a module with a larger initial size
/// could not run.
pub(crate) const MEMORY_PAGES: Limit = Limit {
    what: "initial pages of memory",
    most: MEMORY_PAGES_MAX,
};

/// The limit of the initial size of a memory in bytes.
pub(crate) const MEMORY_BYTES: Limit = Limit {
    what: "initial bytes of memory",
    most: MEMORY_BYTES_MAX,
};

/// The runtime evaluates a constant expression each time that an element segment is copied or an
/// instance is created. The largest array of an expression has 10,000 values.
pub(crate) const CONSTANT_OPERATORS: Limit = Limit {
    what: "operators in a constant expression",
    most: CONSTANT_OPERATORS_MAX,
};

/// Offsets in the machine code are 32 bits wide, and calls reach 2 GiB.
pub(crate) const TEXT_BYTES: Limit = Limit {
    what: "bytes of machine code",
    most: 1 << 30,
};

/// Each import of an intrinsic or a known function becomes a function of the module. Fewer than a
/// hundred intrinsics and known functions exist.
pub(crate) const INTRINSICS: Limit = Limit {
    what: "imports of hw or of known functions",
    most: 1000,
};

/// Debug information is read into memory, and a row of a line table takes ten times its size in the
/// module. Modules of the largest programs have a few hundred MiB.
pub(crate) const DEBUG_BYTES: Limit = Limit {
    what: "bytes of debug information",
    most: 512 << 20,
};

/// An abbreviation takes about fifty times its size in memory.
pub(crate) const DEBUG_ABBREV_BYTES: Limit = Limit {
    what: "bytes of .debug_abbrev",
    most: 16 << 20,
};

/// A unit has its own entries, tables and strings. A large program has about ten thousand.
pub(crate) const DEBUG_UNITS: Limit = Limit {
    what: "units of debug information",
    most: 1 << 17,
};

/// Bounds the files and folders of one unit. A file or folder takes a hundred bytes in memory.
pub(crate) const DEBUG_LINE_HEADER_BYTES: Limit = Limit {
    what: "bytes in the header of a line program",
    most: 4 << 20,
};

/// A row takes 20 bytes in memory.
pub(crate) const DEBUG_ROWS: Limit = Limit {
    what: "rows of line tables",
    most: 1 << 24,
};

/// A value, instruction or block takes some kilobytes during code generation. The largest function
/// of a Ruby interpreter has 700,000 in total.
pub(crate) const FUNCTION_NODES: Limit = Limit {
    what: "values, instructions and blocks of intermediate code",
    most: 1 << 23,
};

/// The operands of branches, calls and other instructions. The largest function of a Ruby
/// interpreter has fewer than 2,100,000.
pub(crate) const FUNCTION_OPERANDS: Limit = Limit {
    what: "operands of intermediate code",
    most: 1 << 26,
};

/// For each pair of locals used in a loop, Cranelift may move a block parameter: 1.3 ns.
pub(crate) const FUNCTION_LOOPS: Limit = Limit {
    what: "pairs of locals that its loops use",
    most: 1 << 32,
};

/// For each instruction in a live range, the register allocator may examine the value once per
/// register: 20 ns.
pub(crate) const FUNCTION_LIVE_RANGES: Limit = Limit {
    what: "instructions across which its values are live",
    most: 1 << 31,
};

/// Instances of a component, with all instances within them.
pub(crate) const INSTANCES: Limit = Limit {
    what: "instances",
    most: 100_000,
};

/// Levels of types within each other: the validator's limit. Dropping a nested type takes a stack
/// frame for each level.
pub(crate) const DEPTH: Limit = Limit {
    what: "levels of instances and components within each other",
    most: 100,
};

/// Each repeated instance copies the bytes of its core module to the joined module.
pub(crate) const REPEATED_BYTES: Limit = Limit {
    what: "bytes of core modules that are instantiated again",
    most: 64 << 20,
};

/// The library that reads the worlds of a core module merges each world with all earlier worlds.
pub(crate) const WORLDS: Limit = Limit {
    what: "custom sections component-type",
    most: 64,
};

impl Limit {
    /// The limit's value.
    pub(crate) fn most(self) -> u64 {
        self.most
    }

    /// This limit, or `most` if `most` is lower.
    pub(crate) fn at_most(self, most: u64) -> Self {
        let most = self.most.min(most);
        Self { most, ..self }
    }

    /// Refuses a value above the limit in one function, which `func` describes.
    pub(crate) fn check_function(
        self,
        found: u64,
        func: impl FnOnce() -> String,
    ) -> Result<(), CompileError> {
        let Self { what, most: limit } = self;
        if found > limit {
            let func = func();
            return Err(CompileError::FunctionLimit {
                func,
                what,
                found,
                limit,
            });
        }
        Ok(())
    }

    /// Refuses a value above the limit.
    pub(crate) fn check(self, found: u64) -> Result<(), CompileError> {
        let Self { what, most: limit } = self;
        if found > limit {
            return Err(CompileError::Limit { what, found, limit });
        }
        Ok(())
    }

    /// Refuses a value that is known to be above the limit.
    pub(crate) fn exceeded<T>(self) -> Result<T, CompileError> {
        let Self { what, most: limit } = self;
        let found = limit + 1;
        Err(CompileError::Limit { what, found, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_allowed_and_one_more_is_not() {
        for limit in [
            MODULE_BYTES,
            INSTANCE_AREA_BYTES,
            MEMORY_PAGES,
            MEMORY_BYTES,
            TEXT_BYTES,
            DEBUG_BYTES,
            DEBUG_ABBREV_BYTES,
            DEBUG_UNITS,
            DEBUG_LINE_HEADER_BYTES,
            DEBUG_ROWS,
            INSTANCES,
            DEPTH,
            REPEATED_BYTES,
            WORLDS,
        ] {
            assert!(limit.check(limit.most).is_ok());
            let error = limit.check(limit.most + 1).unwrap_err().to_string();
            assert!(error.contains(&(limit.most + 1).to_string()), "{error}");
            assert!(error.contains(&limit.most.to_string()), "{error}");
        }
    }
}
