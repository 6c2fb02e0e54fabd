//! [`DispatchTables`]: the dispatch tables for known tables, placed after the machine code.

use crate::analysis::known_tables::{ENTRY_BYTES, KnownTables};
use crate::code::FunctionReloc;
use crate::error::CompileError;
use crate::limits;
use cranelift_codegen::TextSectionBuilder;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use pirn_format::metadata::Metadata;
use pirn_format::sections;
use std::collections::BTreeMap;
use std::ops::Range;

/// The unit of ADRP. Every text starts at a multiple of this unit.
const ADRP_BYTES: i64 = sections::ADRP_BYTES as i64;

/// The ranges of the dispatch tables in the text, by table.
#[derive(Debug, Default)]
pub(crate) struct DispatchTables(BTreeMap<u32, Range<u32>>);

impl DispatchTables {
    /// Records that code refers to the dispatch table of a table.
    pub(super) fn want(&mut self, table: u32) {
        self.0.entry(table).or_default();
    }

    /// Reserves space for all dispatch tables that code refers to.
    ///
    /// # Errors
    ///
    /// [`CompileError::Limit`] for too much code.
    pub(super) fn lay(
        &mut self,
        builder: &mut dyn TextSectionBuilder,
        tables: &KnownTables,
        control: &mut ControlPlane,
    ) -> Result<(), CompileError> {
        for (table, place) in &mut self.0 {
            // In range: the number of elements is limited.
            let bytes = (tables.len(*table) + 1) * ENTRY_BYTES;
            let start = builder.append(false, &vec![0; bytes as usize], ENTRY_BYTES, control);
            limits::TEXT_BYTES.check(start + u64::from(bytes))?;
            *place = start as u32..start as u32 + bytes;
        }
        Ok(())
    }

    /// Writes the tables to the text, once the offsets of functions and of the trapping stub are
    /// known.
    pub(super) fn write(
        &self,
        text: &mut [u8],
        tables: &KnownTables,
        metadata: &Metadata,
        stub: u32,
    ) {
        for (table, place) in &self.0 {
            let bytes = tables.dispatch_table(metadata, *table, place.start, stub);
            text[place.start as usize..place.end as usize].copy_from_slice(&bytes);
        }
    }

    /// Patches the instruction at `at` of the text with the address of a dispatch table. Returns
    /// `false` if the kind of relocation is unknown.
    pub(super) fn resolve(
        &self,
        text: &mut [u8],
        at: u32,
        reloc: &FunctionReloc,
        table: u32,
    ) -> bool {
        let target = i64::from(self.0[&table].start) + reloc.addend;
        let bytes = text[at as usize..].first_chunk_mut::<4>();
        let Some(bytes) = bytes else { return false };
        let word = u32::from_le_bytes(*bytes);
        let at = i64::from(at);
        let word = match reloc.kind {
            // The addend is the distance to the instruction's end, negated.
            Reloc::X86CallPCRel4 => (target - at) as u32,
            Reloc::Aarch64AdrPrelPgHi21 => {
                let pages = (target.div_euclid(ADRP_BYTES) - at.div_euclid(ADRP_BYTES)) as u32;
                word & 0x9f00_001f | (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5
            }
            Reloc::Aarch64AddAbsLo12Nc => {
                let low = target.rem_euclid(ADRP_BYTES) as u32;
                word & 0xffc0_03ff | low << 10
            }
            _ => return false,
        };
        *bytes = word.to_le_bytes();
        true
    }

    /// The tables and the ranges of their dispatch tables.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Range<u32>)> {
        self.0.iter().map(|(table, place)| (*table, place.clone()))
    }
}
