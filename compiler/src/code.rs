//! [`CompiledFunction`]: the machine code of one function or trampoline, before all are placed in
//! one text.

use crate::symbol::Symbol;
use cranelift_codegen::binemit::{Addend, Reloc};
use cranelift_codegen::isa::unwind::systemv;
use pirn_format::traps::{HandlerEntry, InlinedEntry};
use std::ops::Range;

/// The machine code of one function or trampoline. All offsets are relative to the code's start.
pub(crate) struct CompiledFunction {
    /// The name of the function or trampoline.
    pub(crate) symbol: Symbol,
    /// The code bytes, with calls not yet resolved.
    pub(crate) code: Vec<u8>,
    /// Alignment in bytes.
    pub(crate) align: u32,
    /// Bytes of the function's frame below the frame pointer.
    pub(crate) frame_bytes: u32,
    /// References to other functions and to dispatch tables.
    pub(crate) relocs: Vec<FunctionReloc>,
    /// Instructions that may fault, ascending, with the numbers of their trap codes.
    pub(crate) traps: Vec<(u32, u32)>,
    /// Trapping instructions and last bytes of calls, ascending, with their WebAssembly offsets.
    pub(crate) address_map: Vec<(u32, u32)>,
    /// The inlined functions that contain instructions of the address map: ascending by
    /// instruction, and innermost first for one instruction.
    pub(crate) inlined: Vec<InlinedEntry>,
    /// Calls that have an exception handler, ascending.
    pub(crate) handlers: Vec<HandlerEntry>,
    /// The unwind information.
    pub(crate) unwind: Option<systemv::UnwindInfo>,
    /// Range of the body in the WebAssembly file; empty for a trampoline.
    pub(crate) body: Range<u32>,
    /// The WebAssembly instructions of the code, ascending. Only if `codegen::Outputs::locations`
    /// is set.
    pub(crate) locations: Vec<Location>,
    /// Offsets of the blocks, ascending. Only if the code generator reports them.
    pub(crate) blocks: Vec<u32>,
    /// The Cranelift IR. Only if `codegen::Outputs::clif` is set; then there is no machine code.
    pub(crate) clif: String,
}

impl CompiledFunction {
    /// A function without code.
    pub(crate) fn new(symbol: Symbol) -> Self {
        Self {
            symbol,
            code: vec![],
            align: 1,
            frame_bytes: 0,
            relocs: vec![],
            traps: vec![],
            address_map: vec![],
            inlined: vec![],
            handlers: vec![],
            unwind: None,
            body: 0..0,
            locations: vec![],
            blocks: vec![],
            clif: String::new(),
        }
    }
}

/// A range of a function's code that belongs to one WebAssembly instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Offset of the instruction in the WebAssembly file. In an inlined function, the offset of the
    /// outermost inlined call.
    pub(crate) wasm: u32,
    /// The innermost inlined function, and the offset of the instruction in that function.
    pub(crate) inlined: Option<(u32, u32)>,
}

/// A reference from the code of a function to another function or to a dispatch table.
pub(crate) struct FunctionReloc {
    /// The offset of the reference.
    pub(crate) offset: u32,
    /// The kind of relocation.
    pub(crate) kind: Reloc,
    /// The addend.
    pub(crate) addend: Addend,
    /// The target.
    pub(crate) target: Symbol,
}
