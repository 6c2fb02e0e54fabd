//! [`snapshot`]: the file of a snapshot, from the file of its module.
//!
//! The code and its tables stay where they are, so no reference to them changes. The last segment,
//! which held the image, is replaced:
//!
//! ```text
//! from aotc    │ LOAD r │ LOAD rx .text │ LOAD rw │ LOAD r .pirn.image │ symbols, section headers
//! a snapshot   │ LOAD r │ LOAD rx .text │ LOAD rw │ LOAD r .pirn.{image,imageruns,metadata} │ ...
//! ```
//!
//! The bytes of the former metadata and runs in the first segment are set to zero.

use crate::error::FormatError;
use crate::header::{HASH_BYTES, HASH_OFFSET, HEADER_BYTES, content_hash};
use crate::image::ImageRun;
use crate::layout::IMAGE_PAGE_BYTES;
use crate::metadata::Metadata;
use crate::read::{Checked, object_file};
use crate::sections::{Range, Section};
use crate::types::MemoryType;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

/// The sections that a snapshot has in its last segment, in order.
const REPLACED: [Section; 3] = [Section::Image, Section::ImageRuns, Section::Metadata];

/// The file of a snapshot with this metadata and the code of `file`. `file` may itself be a
/// snapshot.
///
/// `runs` are the runs of the image of the first memory that the module defines. `pages` are the
/// pages of all images, in the order of the memories. The result depends only on these arguments,
/// and [`Checked::new`] accepts the result if the arguments agree.
///
/// # Errors
///
/// [`FormatError`] if [`Checked::new`] refuses `file`.
pub fn snapshot(
    file: &[u8],
    metadata: &Metadata,
    runs: &[ImageRun],
    pages: &[&[u8]],
) -> Result<Vec<u8>, FormatError> {
    let Checked {
        mut header,
        header_at,
        ..
    } = Checked::new(file)?;
    let (elf_header, segments) = object_file(file)?;
    let start = header.section(Section::Image).vaddr;
    let (segment_at, end) = last_segment(file, start)?;
    let (Some(before), Some(after)) = (file.get(..start as usize), file.get(end as usize..)) else {
        return damaged("its last segment lies after its end");
    };
    let header_at = header_at as usize;

    let mut out = before.to_vec();
    for section in [Section::ImageRuns, Section::Metadata] {
        let Range { vaddr, len } = header.section(section);
        // The sections of a snapshot lie after `before`.
        if let Some(former) = out.get_mut(vaddr as usize..(vaddr + len) as usize) {
            former.fill(0);
        }
    }
    for page in pages {
        out.extend_from_slice(page);
    }
    let mut ends = [out.len() as u64; REPLACED.len()];
    out.extend(runs.iter().flat_map(|run| run.encode()));
    ends[1] = out.len() as u64;
    out.extend(metadata.encode()?);
    ends[2] = out.len() as u64;
    out.resize(out.len().next_multiple_of(IMAGE_PAGE_BYTES as usize), 0);
    let new_end = out.len() as u64;
    out.extend_from_slice(after);

    let mut vaddr = start;
    for (section, end) in REPLACED.into_iter().zip(ends) {
        let len = end - vaddr;
        header.sections[section as usize] = Range { vaddr, len };
        vaddr = end;
    }
    let page = segments.first().map_or(0, |first| first.p_align(LE));
    write_segment(&mut out, segment_at, start..new_end, page);
    // The check says nothing about sections that are not mapped, which may claim any offset.
    let moved = |offset: u64| {
        let moved = offset
            .checked_sub(end)
            .and_then(|by| by.checked_add(new_end));
        moved.ok_or_else(|| damage("a section lies past 2^64"))
    };
    let sections = elf_header.sections(LE, file);
    let sections = sections.map_err(|error| damage(&error.to_string()))?;
    let headers = elf_header.e_shoff(LE);
    if headers < end {
        return damaged("its section headers lie before its last segment");
    }
    let headers = moved(headers)?;
    write_u64(&mut out, E_SHOFF, headers);
    for (index, section) in sections.enumerate() {
        let at = headers as usize + index.0 * SECTION_HEADER_BYTES;
        let name = sections.section_name(LE, section).unwrap_or_default();
        let own = REPLACED.into_iter();
        if let Some(own) = own.into_iter().find(|own| own.name().as_bytes() == name) {
            let range = header.section(own);
            write_u64(&mut out, at + SH_ADDR, range.vaddr);
            write_u64(&mut out, at + SH_OFFSET, range.vaddr);
            write_u64(&mut out, at + SH_SIZE, range.len);
        } else if section.sh_offset(LE) >= end {
            write_u64(&mut out, at + SH_OFFSET, moved(section.sh_offset(LE))?);
        }
    }

    header.file_bytes = out.len() as u64;
    let memory = metadata.own_memories().first();
    header.memory_bytes = memory.and_then(MemoryType::accessible_bytes).unwrap_or(0);
    header.hash = [0; HASH_BYTES];
    out[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.encode());
    let hash = content_hash(&out, header_at)?;
    out[header_at + HASH_OFFSET..header_at + HASH_OFFSET + HASH_BYTES].copy_from_slice(&hash);
    Ok(out)
}

// Offsets of fields in bytes (System V gABI, chapters 4 and 5, 64-bit class).
const E_SHOFF: usize = 40;
const SECTION_HEADER_BYTES: usize = 64;
const SH_ADDR: usize = 16;
const SH_OFFSET: usize = 24;
const SH_SIZE: usize = 32;
const P_ALIGN: usize = 48;

/// Offset of the program header of the last segment, and the offset in the file where the segment
/// ends. The segment starts at `start` or is absent.
fn last_segment(file: &[u8], start: u64) -> Result<(usize, u64), FormatError> {
    let (elf_header, segments) = object_file(file)?;
    let is_last =
        |kind: u32, at: u64| kind == elf::PT_NULL || (kind == elf::PT_LOAD && at == start);
    let mut all = segments.iter().enumerate();
    let found = all.find(|(_, segment)| is_last(segment.p_type(LE), segment.p_offset(LE)));
    let Some((index, segment)) = found else {
        return damaged("it has no segment for an image");
    };
    // The check says nothing about the place of an empty image.
    let others = segments.iter().enumerate().filter(|(at, _)| *at != index);
    let ends = others.map(|(_, segment)| segment.p_offset(LE) + segment.p_filesz(LE));
    if ends.max().is_some_and(|end| end > start) {
        return damaged("its image lies before the end of another segment");
    }
    let bytes = u64::from(elf_header.e_phentsize(LE));
    let headers = elf_header.e_phoff(LE);
    // No overflow: `object_file` found the program headers in the file.
    if headers + segments.len() as u64 * bytes > start {
        return damaged("its image lies before the end of its program headers");
    }
    let at = headers as usize + index * bytes as usize;
    let end = match segment.p_type(LE) {
        elf::PT_NULL => start,
        _ => start + segment.p_filesz(LE),
    };
    Ok((at, end))
}

/// Writes the program header of a read-only segment at `at`.
fn write_segment(out: &mut [u8], at: usize, range: core::ops::Range<u64>, align: u64) {
    let (start, bytes) = (range.start, range.end - range.start);
    out[at..at + 4].copy_from_slice(&elf::PT_LOAD.to_le_bytes());
    out[at + 4..at + 8].copy_from_slice(&elf::PF_R.to_le_bytes());
    // Offset, virtual and physical address, bytes in the file and in memory, alignment.
    let words = [start, start, start, bytes, bytes, align];
    for (n, word) in words.into_iter().enumerate() {
        write_u64(out, at + 8 + 8 * n, word);
    }
    debug_assert_eq!(8 + 8 * (words.len() - 1), P_ALIGN);
}

/// Writes a field of a header. The header lies in the file: `object` has parsed it.
fn write_u64(out: &mut [u8], at: usize, value: u64) {
    out[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn damage(why: &str) -> FormatError {
    FormatError::Damaged(why.to_owned())
}

fn damaged<T>(why: &str) -> Result<T, FormatError> {
    Err(damage(why))
}
