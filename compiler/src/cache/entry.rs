//! [`Entry`]: the stored form of a function.

use crate::code::{Location, Piece, PieceReloc};
use crate::symbol::Callee;
use cranelift_codegen::binemit::{Addend, Reloc};
use cranelift_codegen::ir::function::FunctionParameters;
use cranelift_codegen::isa::unwind::systemv::UnwindInfo;
use pirn_format::traps::HandlerEntry;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A [`Piece`] without the names and locations of its module. Its machine code follows it; as a
/// field it would be encoded byte by byte.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    align: u32,
    frame_bytes: u32,
    relocs: Vec<EntryReloc>,
    traps: Vec<(u32, u32)>,
    /// Relative to the function's first location in the WebAssembly file, as are `locations`.
    sites: Vec<(u32, u32)>,
    handlers: Vec<HandlerEntry>,
    unwind: Option<UnwindInfo>,
    locations: Vec<(u32, u32, u32)>,
    blocks: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct EntryReloc {
    offset: u32,
    kind: Reloc,
    addend: Addend,
    /// Index among the functions that this function has names for.
    name: u32,
}

impl Entry {
    /// Encodes a piece. `None` if it refers to a function without a name.
    pub(super) fn content(piece: &Piece, params: &FunctionParameters) -> Option<Vec<u8>> {
        let base = params.base_srcloc().bits();
        let relative = |wasm: u32| wasm.wrapping_sub(base);
        let names: HashMap<_, _> = params.user_named_funcs().values().zip(0..).collect();
        let relocs = piece.relocs.iter().map(|reloc| {
            Some(EntryReloc {
                offset: reloc.offset,
                kind: reloc.kind,
                addend: reloc.addend,
                name: *names.get(&reloc.target.name())?,
            })
        });
        let sites = piece.sites.iter();
        let locations = piece.locations.iter();
        let entry = Self {
            align: piece.align,
            frame_bytes: piece.frame_bytes,
            relocs: relocs.collect::<Option<_>>()?,
            traps: piece.traps.clone(),
            sites: sites.map(|(at, wasm)| (*at, relative(*wasm))).collect(),
            handlers: piece.handlers.clone(),
            unwind: piece.unwind.clone(),
            locations: locations
                .map(|known| (known.start, known.end, relative(known.wasm)))
                .collect(),
            blocks: piece.blocks.clone(),
        };
        let mut content = postcard::to_allocvec(&entry).ok()?;
        content.extend_from_slice(&piece.code);
        Some(content)
    }

    /// Decodes a piece for a function with these names and this first location.
    pub(super) fn piece(
        content: &[u8],
        callee: Callee,
        params: &FunctionParameters,
    ) -> Option<Piece> {
        let (entry, code) = postcard::take_from_bytes::<Self>(content).ok()?;
        let base = params.base_srcloc().bits();
        let absolute = |wasm: u32| wasm.wrapping_add(base);
        let relocs = entry.relocs.into_iter().map(|reloc| {
            let mut names = params.user_named_funcs().values();
            Some(PieceReloc {
                offset: reloc.offset,
                kind: reloc.kind,
                addend: reloc.addend,
                target: Callee::from_name(names.nth(reloc.name as usize)?)?,
            })
        });
        let sites = entry.sites.into_iter();
        let locations = entry.locations.into_iter();
        let mut piece = Piece::new(callee);
        piece.align = entry.align;
        piece.frame_bytes = entry.frame_bytes;
        piece.code = code.to_vec();
        piece.relocs = relocs.collect::<Option<_>>()?;
        piece.traps = entry.traps;
        piece.sites = sites.map(|(at, wasm)| (at, absolute(wasm))).collect();
        piece.handlers = entry.handlers;
        piece.unwind = entry.unwind;
        piece.locations = locations
            .map(|(start, end, wasm)| Location {
                start,
                end,
                wasm: absolute(wasm),
            })
            .collect();
        piece.blocks = entry.blocks;
        Some(piece)
    }
}
