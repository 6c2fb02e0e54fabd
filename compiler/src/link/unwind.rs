//! `.eh_frame` and `.eh_frame_hdr`: CFI by which debuggers, profilers and unwinders unwind guest
//! code (Linux Standard Base 5.0, sections 10.6.1 and 10.6.2).

use crate::code::CompiledFunction;
use crate::error::CompileError;
use cranelift_codegen::isa::TargetIsa;
use gimli::constants::{DW_EH_PE_pcrel, DW_EH_PE_sdata4};
use gimli::write::{Address, EhFrame, EndianVec, FrameTable, Writer as _};
use gimli::{DwEhPe, LittleEndian};
use pirn_format::traps::CodeEntry;

/// Version of `.eh_frame_hdr`, then the encodings of the pointer (pc-relative, 4 bytes), the count
/// (4 bytes) and the table (relative to the header, 4 bytes).
const HDR_START: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// Bytes of `.eh_frame_hdr` for this many records.
pub(super) fn hdr_bytes(records: usize) -> usize {
    12 + 8 * records
}

/// `.eh_frame` at `vaddr` for a text at `text_vaddr`. The length does not depend on the addresses.
pub(super) fn eh_frame(
    functions: &[CompiledFunction],
    entries: &[CodeEntry],
    isa: &dyn TargetIsa,
    text_vaddr: u64,
    vaddr: u64,
) -> Result<Vec<u8>, CompileError> {
    let fault = |error: String| CompileError::Object(format!("unwind tables: {error}"));
    let Some(mut cie) = isa.create_systemv_cie() else {
        return Err(fault("the target has none".to_owned()));
    };
    cie.fde_address_encoding = DwEhPe(DW_EH_PE_pcrel.0 | DW_EH_PE_sdata4.0);
    let mut table = FrameTable::default();
    let cie = table.add_cie(cie);
    for (function, entry) in functions.iter().zip(entries) {
        let Some(unwind) = &function.unwind else {
            continue;
        };
        // Constant addresses are relative to the start of the section.
        let start = (text_vaddr + u64::from(entry.start)).wrapping_sub(vaddr);
        table.add_fde(cie, unwind.to_fde(Address::Constant(start)));
    }
    let mut section = EhFrame(EndianVec::new(LittleEndian));
    table
        .write_eh_frame(&mut section)
        .map_err(|error| fault(error.to_string()))?;
    // The terminator.
    section
        .0
        .write_u32(0)
        .map_err(|error| fault(error.to_string()))?;
    Ok(section.0.into_vec())
}

/// `.eh_frame_hdr` at `hdr_vaddr` for an `.eh_frame` at `vaddr`: a table for binary search by
/// address.
pub(super) fn eh_frame_hdr(eh_frame: &[u8], vaddr: u64, hdr_vaddr: u64) -> Vec<u8> {
    let mut records: Vec<(i32, i32)> = records(eh_frame)
        .map(|(at, start)| {
            // The start is relative to its own location, 8 bytes into the record.
            let pc = (vaddr + at as u64 + 8).wrapping_add_signed(i64::from(start));
            (
                distance(pc, hdr_vaddr),
                distance(vaddr + at as u64, hdr_vaddr),
            )
        })
        .collect();
    records.sort_unstable();
    let mut hdr = HDR_START.to_vec();
    hdr.extend(distance(vaddr, hdr_vaddr + 4).to_le_bytes());
    hdr.extend((records.len() as u32).to_le_bytes());
    for (pc, record) in records {
        hdr.extend(pc.to_le_bytes());
        hdr.extend(record.to_le_bytes());
    }
    hdr
}

/// Number of frame description entries in an `.eh_frame`.
pub(super) fn count(eh_frame: &[u8]) -> usize {
    records(eh_frame).count()
}

/// Offset and encoded start of every frame description entry.
fn records(eh_frame: &[u8]) -> impl Iterator<Item = (usize, i32)> {
    let word = |at: usize| {
        eh_frame
            .get(at..at + 4)?
            .first_chunk()
            .map(|b| i32::from_le_bytes(*b))
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let len = word(at).filter(|len| *len > 0)?;
        let record = at;
        at += 4 + len as usize;
        // A common information entry has 0 where a frame description entry has its pointer.
        Some(
            (word(record + 4)? != 0)
                .then(|| word(record + 8))
                .flatten()
                .map(|pc| (record, pc)),
        )
    })
    .flatten()
}

/// `to - from`; both are in one file of less than 2 GiB.
fn distance(to: u64, from: u64) -> i32 {
    to.wrapping_sub(from) as i32
}
