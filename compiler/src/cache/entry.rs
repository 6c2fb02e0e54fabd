//! [`StoredFunction`]: the stored form of a function.

use crate::code::{CompiledFunction, FunctionReloc, Location};
use crate::symbol::Symbol;
use cranelift_codegen::binemit::{Addend, Reloc};
use cranelift_codegen::ir::function::FunctionParameters;
use cranelift_codegen::isa::unwind::systemv::UnwindInfo;
use pirn_format::traps::HandlerEntry;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A [`CompiledFunction`] without the names and locations of its module. The machine code follows
/// the encoded struct; a field would be encoded byte by byte.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredFunction {
    align: u32,
    frame_bytes: u32,
    relocs: Vec<StoredReloc>,
    traps: Vec<(u32, u32)>,
    /// Relative to the function's first location in the WebAssembly file, as are `locations`.
    address_map: Vec<(u32, u32)>,
    handlers: Vec<HandlerEntry>,
    unwind: Option<UnwindInfo>,
    locations: Vec<(u32, u32, u32)>,
    blocks: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct StoredReloc {
    offset: u32,
    kind: Reloc,
    addend: Addend,
    /// Index among the functions that this function has names for.
    name: u32,
}

impl StoredFunction {
    /// Encodes a compiled function. `None` if it refers to a function without a name.
    pub(super) fn content(
        function: &CompiledFunction,
        params: &FunctionParameters,
    ) -> Option<Vec<u8>> {
        let base = params.base_srcloc().bits();
        let relative = |wasm: u32| wasm.wrapping_sub(base);
        let names: HashMap<_, _> = params.user_named_funcs().values().zip(0..).collect();
        let relocs = function.relocs.iter().map(|reloc| {
            Some(StoredReloc {
                offset: reloc.offset,
                kind: reloc.kind,
                addend: reloc.addend,
                name: *names.get(&reloc.target.name())?,
            })
        });
        let address_map = function.address_map.iter();
        let locations = function.locations.iter();
        let entry = Self {
            align: function.align,
            frame_bytes: function.frame_bytes,
            relocs: relocs.collect::<Option<_>>()?,
            traps: function.traps.clone(),
            address_map: address_map
                .map(|(at, wasm)| (*at, relative(*wasm)))
                .collect(),
            handlers: function.handlers.clone(),
            unwind: function.unwind.clone(),
            locations: locations
                .map(|known| (known.start, known.end, relative(known.wasm)))
                .collect(),
            blocks: function.blocks.clone(),
        };
        let mut content = postcard::to_allocvec(&entry).ok()?;
        content.extend_from_slice(&function.code);
        Some(content)
    }

    /// Decodes the code of a function with these names and this first location.
    pub(super) fn function(
        content: &[u8],
        symbol: Symbol,
        params: &FunctionParameters,
    ) -> Option<CompiledFunction> {
        let (entry, code) = postcard::take_from_bytes::<Self>(content).ok()?;
        let base = params.base_srcloc().bits();
        let absolute = |wasm: u32| wasm.wrapping_add(base);
        let relocs = entry.relocs.into_iter().map(|reloc| {
            let mut names = params.user_named_funcs().values();
            Some(FunctionReloc {
                offset: reloc.offset,
                kind: reloc.kind,
                addend: reloc.addend,
                target: Symbol::from_name(names.nth(reloc.name as usize)?)?,
            })
        });
        let address_map = entry.address_map.into_iter();
        let locations = entry.locations.into_iter();
        let mut function = CompiledFunction::new(symbol);
        function.align = entry.align;
        function.frame_bytes = entry.frame_bytes;
        function.code = code.to_vec();
        function.relocs = relocs.collect::<Option<_>>()?;
        function.traps = entry.traps;
        function.address_map = address_map.map(|(at, wasm)| (at, absolute(wasm))).collect();
        function.handlers = entry.handlers;
        function.unwind = entry.unwind;
        function.locations = locations
            .map(|(start, end, wasm)| Location {
                start,
                end,
                wasm: absolute(wasm),
                inlined: None,
            })
            .collect();
        function.blocks = entry.blocks;
        Some(function)
    }
}
