//! [`InlinedCalls`]: the calls of a function that are inlined, and source locations in them.
//!
//! Source locations say which inlined call an operator belongs to. Source locations count from the
//! first operator of the function that is compiled, as the cache's key does:
//!
//! ```text
//! start + n                        an operator of the function itself, n < BODY
//! start + BODY + (call << 8) + n   the operator at byte n of the leaf that call `call` inlines
//! ```
//!
//! [`InlinedCalls::resolve`] replaces source locations by offsets in the module's bytes.

use crate::analysis::leaves::{BODY_BYTES_MAX, DEPTH_MAX, Leaf};
use crate::code::CompiledFunction;
use cranelift_codegen::ir::Type;
use cranelift_frontend::Variable;
use pirn_format::traps::InlinedEntry;

/// Every function has fewer bytes: the validator's limit is 7.6 MB.
const BODY: u32 = 1 << 23;

/// Bits of an offset in a leaf.
const LEAF_BITS: u32 = 8;

const _: () = assert!(BODY_BYTES_MAX <= 1 << LEAF_BITS);

/// Most inlined calls of one function. Source locations have 32 bits, and a module has at most 1
/// GiB.
const CALLS_MAX: usize = 1 << 20;

/// The leaves that a function inlines may have as many bytes as its own body plus [`BYTES_FREE`],
/// but at most [`BYTES_MAX`]. Without a limit, 100,000 calls of the largest leaf would make a
/// function of 200 KB as costly as one of 12 MB. The price of block parameters grows by their
/// square (`budget/work.rs`), so there is a limit for large functions, too.
const BYTES_FREE: u64 = 64;
const BYTES_MAX: u64 = 1 << 14;

/// The fewest bytes that one inlined call draws, and the fewest for each unit of its leaf's weight.
/// A checked division and its `local.get` have three bytes and become about four instructions.
const CALL_BYTES: u64 = 8;
const WEIGHT_BYTES: u64 = 4;

/// A call that is replaced by the operators of a leaf.
#[derive(Debug, Clone, Copy)]
struct InlinedCall {
    /// The inlined call that contains this call, if this call is in a leaf.
    parent: Option<u32>,
    /// Offset of the call in the module's bytes.
    at: u32,
    /// The leaf.
    func: u32,
    /// Offset of the leaf's body in the module's bytes.
    start: u32,
}

/// The inlined calls of a function.
#[derive(Debug, Default)]
pub(crate) struct InlinedCalls {
    /// Offset of the function's first operator in the module's bytes.
    start: u32,
    calls: Vec<InlinedCall>,
}

impl InlinedCalls {
    /// Replaces the source locations in a compiled function by offsets in the module's bytes, and
    /// adds the inlined functions.
    pub(crate) fn resolve(&self, function: &mut CompiledFunction) {
        if self.calls.is_empty() {
            return;
        }
        for (offset, wasm) in &mut function.address_map {
            let offset = *offset;
            *wasm = self.describe(*wasm, |func, wasm| {
                function.inlined.push(InlinedEntry { offset, func, wasm });
            });
        }
        for location in &mut function.locations {
            location.wasm = self.describe(location.wasm, |func, wasm| {
                location.inlined.get_or_insert((func, wasm));
            });
        }
    }

    /// The offset of a source location in the module's bytes; in a leaf, the offset of the
    /// outermost inlined call. Calls `inlined` with each inlined function that contains the
    /// location, innermost first, and with the offset of the operator or inner call in that
    /// function.
    fn describe(&self, location: u32, mut inlined: impl FnMut(u32, u32)) -> u32 {
        let Some(number) = location.wrapping_sub(self.start).checked_sub(BODY) else {
            return location;
        };
        let (mut at, mut call) = (None, Some(number >> LEAF_BITS));
        while let Some(InlinedCall {
            parent,
            at: called_at,
            func,
            start,
        }) = call.and_then(|call| self.calls.get(call as usize))
        {
            let in_leaf = at.unwrap_or(start + (number & ((1 << LEAF_BITS) - 1)));
            inlined(*func, in_leaf);
            (at, call) = (Some(*called_at), *parent);
        }
        at.unwrap_or(location)
    }
}

/// The state of inlining during the translation of a function.
#[derive(Default)]
pub(super) struct Inlining {
    pub(super) calls: InlinedCalls,
    /// The inlined call whose leaf is being translated.
    current: Option<u32>,
    /// The number of inlined calls around the current operator.
    depth: u32,
    /// Bytes that calls may still draw.
    left: u64,
    /// Bytes that inlined calls have drawn.
    pub(super) bytes: u64,
    /// Variables of leaves whose translation has ended.
    pub(super) spare: Vec<(Type, Variable)>,
}

impl Inlining {
    /// Starts a function of `bytes` bytes whose first operator is at the offset `start`.
    pub(super) fn new(start: u32, bytes: u64) -> Self {
        Self {
            calls: InlinedCalls {
                start,
                calls: vec![],
            },
            left: (BYTES_FREE + bytes).min(BYTES_MAX),
            ..Self::default()
        }
    }

    /// The source location of the operator at an offset in the module's bytes.
    pub(super) fn location(&self, offset: u32) -> u32 {
        let InlinedCalls { start, calls } = &self.calls;
        match self.current {
            Some(call) => {
                let in_leaf = offset - calls[call as usize].start;
                start + BODY + (call << LEAF_BITS) + in_leaf
            }
            None => offset,
        }
    }

    /// Draws the bytes of a leaf for a call. Returns whether the call can be inlined. `is_cold`:
    /// whether the call is in unlikely code, which must not grow.
    pub(super) fn draw(&mut self, leaf: &Leaf<'_>, is_cold: bool) -> bool {
        if self.calls.calls.len() >= CALLS_MAX || self.depth >= DEPTH_MAX {
            return false;
        }
        // The leaf that contains this call has drawn the bytes of this call, too.
        if self.current.is_some() {
            return true;
        }
        let weight_bytes = u64::from(leaf.weight) * WEIGHT_BYTES;
        let bytes = leaf.bytes.max(CALL_BYTES).max(weight_bytes);
        if bytes > self.left || is_cold {
            return false;
        }
        self.left -= bytes;
        self.bytes += bytes;
        true
    }

    /// Enters a leaf that is called at an offset in the module's bytes. Returns the inlined call
    /// that contains the call, for [`leave`](Self::leave).
    pub(super) fn enter(&mut self, func: u32, leaf: &Leaf<'_>, at: u32) -> Option<u32> {
        let parent = self.current;
        self.current = Some(self.calls.calls.len() as u32);
        self.depth += 1;
        self.calls.calls.push(InlinedCall {
            parent,
            at,
            func,
            start: leaf.start,
        });
        parent
    }

    /// Leaves a leaf.
    pub(super) fn leave(&mut self, parent: Option<u32>) {
        self.depth -= 1;
        self.current = parent;
    }
}
