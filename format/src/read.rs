//! [`Checked`]: the check of a whole compiled module, before the runtime maps or runs any part of
//! it.
//!
//! The checks find damage, another version and foreign files. The checks do not protect against a
//! malicious file: its machine code can do anything. A compiled module must be trusted like a
//! program. The content hash only shows that the file is unchanged since the compiler wrote it.

use crate::cpu::{Arch, CpuFeatures};
use crate::error::FormatError;
use crate::header::{HEADER_BYTES, Header, NOTE_NAME, NOTE_TYPE, content_hash, short_hash};
use crate::image::{ImageRun, decode_runs, sum_runs};
use crate::layout::InstanceLayout;
use crate::metadata::{Metadata, SegmentMode};
use crate::sections::{Range, Section};
use crate::traps::{CodeKind, CodeTable, HandlerTable, InlinedTable, SiteTable, TrapTable};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};

/// A compiled module that passed the check.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The header.
    pub header: Header,
    /// Offset of the header in the file, which is also its address relative to the start of the
    /// object.
    pub header_at: u64,
    /// The decoded metadata.
    pub metadata: Metadata,
    /// Where the parts of an instance lie.
    pub layout: InstanceLayout,
    /// The decoded runs of the image.
    pub runs: Vec<ImageRun>,
}

impl Checked {
    /// Checks a whole file.
    ///
    /// # Errors
    ///
    /// [`FormatError`], which says which parts contradict each other. This function does not check
    /// whether the machine can run the module: [`runs_on`](Self::runs_on) does.
    pub fn new(file: &[u8]) -> Result<Self, FormatError> {
        let (elf, segments) = object_file(file)?;
        let (header_at, header) = find_header(file, segments)?;
        let found = file.len() as u64;
        if header.file_bytes != found {
            let expected = header.file_bytes;
            return damaged(format!("it has {found} bytes, its header says {expected}"));
        }
        // The cast is lossless: `find_header` found the header inside the file.
        let hash = content_hash(file, header_at as usize)?;
        if hash != header.hash {
            return Err(FormatError::Hash {
                found: short_hash(&hash),
                expected: short_hash(&header.hash),
            });
        }
        if elf.e_machine(LE) != machine(header.cpu.arch()) {
            return damaged("its ELF header names another architecture than its note".to_owned());
        }
        check_segments(file, segments, &header)?;
        Self::contents(file, header, header_at)
    }

    /// Checks the sections against each other, and decodes them.
    fn contents(file: &[u8], header: Header, header_at: u64) -> Result<Self, FormatError> {
        // In range: `check_segments` found every section inside a segment, and every segment inside
        // the file.
        let bytes = |section: Section| slice(file, header.section(section)).unwrap_or_default();
        let metadata = Metadata::decode(bytes(Section::Metadata))?;
        let Some(layout) = metadata.layout() else {
            return damaged("its instance area exceeds the limit".to_owned());
        };
        let memory_bytes = match metadata.own_memories().first() {
            Some(memory) => memory.accessible_bytes(),
            None => Some(0),
        };
        let found = header.memory_bytes;
        let Some(memory_bytes) = memory_bytes.filter(|expected| *expected == found) else {
            let expected =
                memory_bytes.map_or("2^64 or more".to_owned(), |bytes| bytes.to_string());
            return damaged(format!(
                "its header says {found} bytes of memory, its metadata {expected}"
            ));
        };
        let further_bytes = further_image_bytes(&metadata);
        let image_bytes = further_bytes
            .and_then(|further| header.section(Section::Image).len.checked_sub(further));
        let runs = image_bytes.and_then(|bytes_of_first| {
            decode_runs(bytes(Section::ImageRuns), bytes_of_first, memory_bytes)
        });
        let Some(runs) = runs else {
            return damaged("the runs of its image exceed the image or a memory".to_owned());
        };
        let data_bytes = header.section(Section::Data).len;
        for segment in &metadata.data {
            let end = u64::from(segment.start) + u64::from(segment.len);
            if segment.mode != SegmentMode::Done && end > data_bytes {
                return damaged(format!(
                    "a data segment ends at {end}, the section has {data_bytes} bytes"
                ));
            }
        }
        check_code(&header, &metadata, bytes(Section::Code))?;
        if TrapTable::new(bytes(Section::Traps)).is_none() {
            return damaged(
                "its trap table is not ascending, or has a number that is no trap code".to_owned(),
            );
        }
        if SiteTable::new(bytes(Section::Sites)).is_none() {
            return damaged("its site table is not ascending".to_owned());
        }
        let funcs = metadata.funcs.len() as u32;
        if InlinedTable::new(bytes(Section::Inlined), funcs).is_none() {
            return damaged(format!(
                "its table of inlined functions is not ascending, or names a function at or above \
                 {funcs}"
            ));
        }
        check_handlers(bytes(Section::Handlers), bytes(Section::Code))?;
        Ok(Self {
            header,
            header_at,
            metadata,
            layout,
            runs,
        })
    }

    /// Checks that a machine with this architecture and these features can run the module.
    ///
    /// # Errors
    ///
    /// [`FormatError::Target`] or [`FormatError::Cpu`], with the required and the present features.
    pub fn runs_on(&self, machine: CpuFeatures) -> Result<(), FormatError> {
        let needs = self.header.cpu;
        if needs.arch() != machine.arch() {
            return Err(FormatError::Target {
                found: needs.arch().name(),
                expected: machine.arch().name(),
            });
        }
        let missing = needs.missing_from(machine);
        if !missing.is_empty() {
            return Err(FormatError::Cpu {
                needs: needs.name(),
                found: machine.name(),
                missing: missing.to_string(),
            });
        }
        Ok(())
    }
}

/// Bytes of the images of all memories but the first. `None` if the runs are invalid.
fn further_image_bytes(metadata: &Metadata) -> Option<u64> {
    let Some(snapshot) = &metadata.snapshot else {
        return Some(0);
    };
    // In pairs: the metadata check compared the number of images with the number of memories.
    let memories = metadata.own_memories().iter().skip(1);
    let mut total: u64 = 0;
    for (runs, memory) in snapshot.further.iter().zip(memories) {
        total = total.checked_add(sum_runs(runs, memory.accessible_bytes()?)?)?;
    }
    Some(total)
}

fn damaged<T>(why: String) -> Result<T, FormatError> {
    Err(FormatError::Damaged(why))
}

fn not_ours<T>(why: impl Into<String>) -> Result<T, FormatError> {
    Err(FormatError::NotAModule(why.into()))
}

const fn machine(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => elf::EM_X86_64,
        Arch::Aarch64 => elf::EM_AARCH64,
    }
}

pub(crate) type Segments<'a> = &'a [ProgramHeader64<LE>];

/// Parses the ELF header and the program headers of a 64-bit little-endian shared object.
pub(crate) fn object_file(file: &[u8]) -> Result<(&FileHeader64<LE>, Segments<'_>), FormatError> {
    if file.is_empty() {
        return not_ours("it is empty");
    }
    if file.starts_with(b"\0asm") {
        return not_ours("it is a WebAssembly module");
    }
    if !file.starts_with(&elf::ELFMAG) {
        return not_ours("it is not an ELF file");
    }
    let Ok(header) = FileHeader64::<LE>::parse(file) else {
        return not_ours("its ELF header is damaged or truncated");
    };
    if !header.is_class_64() || !header.is_little_endian() || header.e_type(LE) != elf::ET_DYN {
        return not_ours("it is not a 64-bit little-endian shared object");
    }
    match header.program_headers(LE, file) {
        Ok(segments) => Ok((header, segments)),
        Err(_) => not_ours("its program headers are damaged or truncated"),
    }
}

/// Finds the note that is named [`NOTE_NAME`], and decodes the header in it. Also returns the
/// header's offset in the file.
fn find_header(file: &[u8], segments: Segments<'_>) -> Result<(u64, Header), FormatError> {
    for segment in segments {
        let Ok(Some(mut notes)) = segment.notes(LE, file) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() != NOTE_NAME.as_bytes() || note.n_type(LE) != NOTE_TYPE {
                continue;
            }
            let header = Header::decode(note.desc())?;
            let first = file.as_ptr_range().start.addr();
            let at = note.desc().as_ptr().addr() - first;
            return Ok((at as u64, header));
        }
    }
    not_ours("it is an ELF file without the note of aotc")
}

/// Checks the segments and the sections in them.
///
/// Each segment's address equals its file offset. No segment is writable and executable. Each
/// section lies in a segment with exactly the access rights that it needs. The dynamic section has
/// only a symbol table.
fn check_segments(file: &[u8], segments: Segments<'_>, header: &Header) -> Result<(), FormatError> {
    let mut mapped: Vec<(Range, u32)> = vec![];
    for segment in segments {
        let (at, len) = (segment.p_offset(LE), segment.p_filesz(LE));
        let range = Range { vaddr: at, len };
        if segment.p_vaddr(LE) != at || segment.p_memsz(LE) != len || slice(file, range).is_none() {
            return damaged(format!(
                "the address of a segment is not its offset in the file, {at:#x}"
            ));
        }
        let flags = segment.p_flags(LE);
        match segment.p_type(LE) {
            elf::PT_LOAD if flags & elf::PF_W != 0 && flags & elf::PF_X != 0 => {
                return damaged(format!("a segment at {at:#x} is writable and executable"));
            }
            elf::PT_LOAD => mapped.push((range, flags)),
            elf::PT_DYNAMIC => check_dynamic(file, segment)?,
            elf::PT_GNU_STACK if flags & elf::PF_X != 0 => {
                return damaged("it asks for an executable stack".to_owned());
            }
            elf::PT_NULL
            | elf::PT_NOTE
            | elf::PT_GNU_EH_FRAME
            | elf::PT_GNU_STACK
            | elf::PT_GNU_RELRO => {}
            other => return damaged(format!("a segment has the unexpected type {other:#x}")),
        }
    }
    for section in Section::ALL {
        let range = header.section(section);
        let rights = match section {
            Section::Text => elf::PF_R | elf::PF_X,
            _ => elf::PF_R,
        };
        let inside = |(segment, flags): &(Range, u32)| {
            *flags == rights
                && range.vaddr >= segment.vaddr
                && range.vaddr - segment.vaddr <= segment.len
                && range.len <= segment.len - (range.vaddr - segment.vaddr)
        };
        if range.len > 0 && !mapped.iter().any(inside) {
            return damaged(format!("its section {} is not mapped", section.name()));
        }
        if !range.vaddr.is_multiple_of(section.align()) {
            return damaged(format!("its section {} is not aligned", section.name()));
        }
    }
    Ok(())
}

/// Checks that the dynamic section has only a symbol table: no constructors, relocations or
/// libraries.
fn check_dynamic(file: &[u8], segment: &ProgramHeader64<LE>) -> Result<(), FormatError> {
    let Ok(Some(entries)) = segment.dynamic(LE, file) else {
        return damaged("its dynamic section is invalid".to_owned());
    };
    for entry in entries {
        let tag = entry.d_tag(LE);
        let known = [
            elf::DT_NULL,
            elf::DT_GNU_HASH,
            elf::DT_STRTAB,
            elf::DT_SYMTAB,
            elf::DT_STRSZ,
            elf::DT_SYMENT,
        ];
        if !known.contains(&tag) {
            return damaged(format!(
                "its dynamic section has the unexpected tag {tag:#x}"
            ));
        }
    }
    Ok(())
}

/// Checks that functions and trampolines start where the metadata says, and lie in the text.
fn check_code(header: &Header, metadata: &Metadata, code: &[u8]) -> Result<(), FormatError> {
    let Some(table) = CodeTable::new(code) else {
        return damaged("its code table is not ascending, or has an entry of 0 bytes".to_owned());
    };
    let text_bytes = header.section(Section::Text).len;
    let end = table
        .iter()
        .last()
        .map_or(0, |last| u64::from(last.start) + u64::from(last.len));
    if end > text_bytes {
        return damaged(format!(
            "its code ends at {end}, the section has {text_bytes} bytes"
        ));
    }
    let imported = metadata.imported_funcs();
    let is = |offset: u32, kind: CodeKind| table.at(offset).is_some_and(|entry| entry.kind == kind);
    for (index, offset) in (0..).zip(&metadata.code) {
        let kind = if index < imported {
            // In range: the metadata check compared the number of code offsets with the number of
            // functions.
            CodeKind::Import(metadata.funcs[index as usize])
        } else {
            CodeKind::Func(index)
        };
        if !is(*offset, kind) {
            return damaged(format!(
                "function {index} does not start where its metadata says, at {offset:#x}"
            ));
        }
    }
    for (ty, offset) in (0..).zip(&metadata.entries) {
        if offset.is_some_and(|offset| !is(offset, CodeKind::Entry(ty))) {
            return damaged(format!(
                "the entry trampoline of type {ty} does not start where its metadata says"
            ));
        }
    }
    Ok(())
}

/// Checks that each landing pad lies in the same function as its call.
fn check_handlers(handlers: &[u8], code: &[u8]) -> Result<(), FormatError> {
    let (Some(handlers), Some(code)) = (HandlerTable::new(handlers), CodeTable::new(code)) else {
        return damaged("its handler table is not ascending".to_owned());
    };
    for handler in handlers.iter() {
        // A return address may lie just after the last byte of its function.
        let call = handler.offset.checked_sub(1);
        let of_call = call.and_then(|call| code.find(call));
        let is_func = matches!(of_call, Some(found) if matches!(found.kind, CodeKind::Func(_)));
        if !is_func || of_call != code.find(handler.handler) {
            let (from, to) = (handler.offset, handler.handler);
            return damaged(format!(
                "exceptions of the call that returns to {from:#x} are caught at {to:#x}, outside \
                 its function"
            ));
        }
    }
    Ok(())
}

/// The bytes of a range of the file; `None` if the file ends before.
#[must_use]
pub fn slice(file: &[u8], range: Range) -> Option<&[u8]> {
    let start = usize::try_from(range.vaddr).ok()?;
    let end = start.checked_add(usize::try_from(range.len).ok()?)?;
    file.get(start..end)
}

const _: () = assert!(
    HEADER_BYTES == 232,
    "docs/reference/format.md draws the header to the byte"
);
