//! The ELF shared object, written without a linker (System V gABI, chapters 4 and 5).
//!
//! Every virtual address equals its file offset. Every segment starts and ends on a page boundary,
//! so no byte of a segment is mapped with another segment's permissions:
//!
//! ```text
//! LOAD r   │ ELF header, program headers │ note: Header │ .gnu.hash .dynsym .dynstr │
//!          │ .eh_frame_hdr .eh_frame │ .pirn.{code,traps,sites,handlers,imageruns,data,metadata} │ pad
//! LOAD rx  │ .text │ pad
//! LOAD rw  │ .dynamic │ pad        RELRO: the loader writes it, then it is read-only
//! LOAD r   │ .pirn.image │          if it is empty, the program header has the type PT_NULL
//!          │ .debug_* if requested, .symtab .strtab .shstrtab, section headers: not mapped
//! ```

use super::dwarf::Lines;
use super::symbols;
use super::text::Text;
use super::unwind;
use crate::analysis::image::Image;
use crate::code::CompiledFunction;
use crate::error::CompileError;
use cranelift_codegen::isa::TargetIsa;
use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, SectionIndex, Sym, Writer};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::header::{
    HASH_BYTES, HASH_OFFSET, HEADER_BYTES, HEADER_SYMBOL, Header, NOTE_NAME, NOTE_TYPE,
    content_hash,
};
use pirn_format::metadata::Metadata;
use pirn_format::sections::{Range, Section};

/// Bytes of an ELF note before its descriptor: three words, and the name padded to a word.
const NOTE_START_BYTES: usize = 12 + (NOTE_NAME.len() + 1).next_multiple_of(4);
/// Entries of `.dynamic`.
const DYNAMIC_ENTRIES: usize = 6;
/// Distances in the unwind tables are 32 bits wide and signed.
const FILE_BYTES_MAX: usize = i32::MAX as usize;

/// All inputs of the file.
pub(crate) struct Parts<'a> {
    pub(crate) functions: &'a [CompiledFunction],
    pub(crate) text: &'a Text,
    pub(crate) image: &'a Image,
    pub(crate) metadata: &'a Metadata,
    /// The guest's lines, if requested.
    pub(crate) lines: Option<&'a Lines>,
    pub(crate) isa: &'a dyn TargetIsa,
    pub(crate) cpu: CpuFeatures,
}

/// Writes the shared object.
///
/// # Errors
///
/// [`CompileError::Limit`] if it would exceed 2 GiB, [`CompileError::Object`] for a fault of the
/// compiler.
pub(crate) fn write(parts: &Parts<'_>) -> Result<Vec<u8>, CompileError> {
    let metadata = parts.metadata.encode().map_err(|error| fault(&error))?;
    let names = symbols::names(parts.functions, parts.metadata);
    let mut file = Vec::new();
    let writer = Writer::new(Endianness::Little, true, &mut file);
    let mut elf = Elf::reserve(parts, &metadata, &names, writer)?;
    elf.write(&metadata)?;
    let header_at = elf.at.note + NOTE_START_BYTES;
    let hash = content_hash(&file, header_at).map_err(|error| fault(&error))?;
    file[header_at + HASH_OFFSET..header_at + HASH_OFFSET + HASH_BYTES].copy_from_slice(&hash);
    Ok(file)
}

/// The largest page size in bytes that a kernel for the architecture may have.
pub(crate) const fn page_bytes(arch: Arch) -> usize {
    match arch {
        Arch::X86_64 => 4 << 10,
        Arch::Aarch64 => 64 << 10,
    }
}

fn fault(error: &dyn std::fmt::Display) -> CompileError {
    CompileError::Object(error.to_string())
}

/// File offsets, which are also virtual addresses.
#[derive(Default)]
struct Offsets {
    note: usize,
    gnu_hash: usize,
    dynsym: usize,
    dynstr: usize,
    eh_frame_hdr: usize,
    eh_frame: usize,
    sections: [usize; Section::ALL.len()],
    /// Offset of each section with debug information.
    debug: Vec<usize>,
    read_only_end: usize,
    text_end: usize,
    dynamic: usize,
    dynamic_end: usize,
    file_end: usize,
}

/// The state of the writer. All parts are reserved first, and then written in the same order.
struct Elf<'a> {
    parts: &'a Parts<'a>,
    w: Writer<'a>,
    page: usize,
    at: Offsets,
    eh_frame: Vec<u8>,
    sections: [&'a [u8]; Section::ALL.len()],
    /// Names and bytes.
    debug: Vec<(&'static str, Vec<u8>)>,
    /// Section names in the order of their headers.
    titles: Vec<(Title, StringId)>,
    text_index: SectionIndex,
    symbols: Vec<StringId>,
    header_name: StringId,
}

/// Sections that have a section header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Title {
    Note,
    EhFrameHdr,
    EhFrame,
    Own(Section),
    /// The index among the sections with debug information.
    Debug(usize),
}

/// The sections of the first segment, in order.
const READ_ONLY: [Section; 8] = [
    Section::Code,
    Section::Traps,
    Section::Sites,
    Section::Handlers,
    Section::Inlined,
    Section::ImageRuns,
    Section::Data,
    Section::Metadata,
];

impl<'a> Elf<'a> {
    /// Reserves every part of the file. The order of the reservations is the layout of the file, so
    /// one long function makes all reservations.
    fn reserve(
        parts: &'a Parts<'a>,
        metadata: &'a [u8],
        names: &'a [String],
        mut w: Writer<'a>,
    ) -> Result<Self, CompileError> {
        let page = page_bytes(parts.cpu.arch());
        let text = parts.text;
        let sections: [&[u8]; Section::ALL.len()] = Section::ALL.map(|section| match section {
            Section::Text => &text.bytes[..],
            Section::Code => &text.code,
            Section::Traps => &text.traps,
            Section::Sites => &text.address_map,
            Section::ImageRuns => &parts.image.runs,
            Section::Image => &parts.image.pages,
            Section::Data => &parts.image.data,
            Section::Metadata => metadata,
            Section::Handlers => &text.handlers,
            Section::Inlined => &text.inlined,
        });
        let mut at = Offsets::default();
        w.reserve_file_header();
        // As many headers as `write_headers` writes.
        let has_text = u32::from(!sections[Section::Text as usize].is_empty());
        w.reserve_program_headers(7 + 2 * has_text);
        at.note = w.reserve(NOTE_START_BYTES + HEADER_BYTES, 4);
        let header_name = w.add_dynamic_string(HEADER_SYMBOL.as_bytes());
        w.reserve_null_dynamic_symbol_index();
        w.reserve_dynamic_symbol_index();
        at.gnu_hash = w.reserve_gnu_hash(1, 1, 1);
        at.dynsym = w.reserve_dynsym();
        at.dynstr = w.reserve_dynstr();
        // The length of `.eh_frame` does not depend on addresses, so both are 0 here.
        let eh_frame = unwind::eh_frame(parts.functions, &text.entries, parts.isa, 0, 0)?;
        at.eh_frame_hdr = w.reserve(unwind::hdr_bytes(unwind::count(&eh_frame)), 4);
        at.eh_frame = w.reserve(eh_frame.len(), 8);
        let mut reserve = |w: &mut Writer<'_>, section: Section, align: usize| {
            at.sections[section as usize] = w.reserve(sections[section as usize].len(), align);
        };
        let align = |section: Section| section.align() as usize;
        for section in READ_ONLY {
            reserve(&mut w, section, align(section));
        }
        at.read_only_end = pad(&mut w, page);
        reserve(&mut w, Section::Text, align(Section::Text));
        at.text_end = pad(&mut w, page);
        at.dynamic = w.reserve_dynamic(DYNAMIC_ENTRIES);
        at.dynamic_end = pad(&mut w, page);
        at.sections[Section::Image as usize] =
            w.reserve(sections[Section::Image as usize].len(), page);
        let text_at = at.sections[Section::Text as usize] as u64;
        let debug = parts
            .lines
            .map_or(Ok(vec![]), |lines| lines.sections(text_at))?;
        for (_, bytes) in &debug {
            at.debug.push(w.reserve(bytes.len(), 1));
        }

        w.reserve_null_section_index();
        let mut titles = vec![];
        let mut title = |w: &mut Writer<'a>, title: Title, name: &'static str| {
            titles.push((title, w.add_section_name(name.as_bytes())));
            w.reserve_section_index()
        };
        title(&mut w, Title::Note, ".note.pirn");
        w.reserve_gnu_hash_section_index();
        w.reserve_dynsym_section_index();
        w.reserve_dynstr_section_index();
        title(&mut w, Title::EhFrameHdr, ".eh_frame_hdr");
        title(&mut w, Title::EhFrame, ".eh_frame");
        for section in READ_ONLY {
            title(&mut w, Title::Own(section), section.name());
        }
        let text_index = title(&mut w, Title::Own(Section::Text), Section::Text.name());
        w.reserve_dynamic_section_index();
        title(&mut w, Title::Own(Section::Image), Section::Image.name());
        for (index, (name, _)) in debug.iter().enumerate() {
            title(&mut w, Title::Debug(index), name);
        }
        w.reserve_symtab_section_index();
        w.reserve_strtab_section_index();
        w.reserve_shstrtab_section_index();

        w.reserve_null_symbol_index();
        let symbols: Vec<_> = names
            .iter()
            .map(|name| w.add_string(name.as_bytes()))
            .collect();
        for _ in &symbols {
            w.reserve_symbol_index(Some(text_index));
        }
        w.reserve_symtab();
        w.reserve_strtab();
        w.reserve_shstrtab();
        w.reserve_section_headers();
        at.file_end = w.reserved_len();
        if at.file_end > FILE_BYTES_MAX {
            let (found, limit) = (at.file_end as u64, FILE_BYTES_MAX as u64);
            return Err(CompileError::Limit {
                what: "bytes in its compiled file",
                found,
                limit,
            });
        }
        Ok(Self {
            parts,
            w,
            page,
            at,
            eh_frame,
            sections,
            debug,
            titles,
            text_index,
            symbols,
            header_name,
        })
    }

    fn write(&mut self, metadata: &[u8]) -> Result<(), CompileError> {
        debug_assert_eq!(self.sections[Section::Metadata as usize], metadata);
        self.write_headers()?;
        self.write_read_only()?;
        self.w.pad_until(self.at.read_only_end);
        self.w.write(self.sections[Section::Text as usize]);
        self.w.pad_until(self.at.text_end);
        self.write_dynamic()?;
        self.w.pad_until(self.at.dynamic_end);
        self.w.write(self.sections[Section::Image as usize]);
        for (_, bytes) in &self.debug {
            self.w.write(bytes);
        }
        self.write_symbols();
        self.w.write_strtab();
        self.w.write_shstrtab();
        self.write_section_headers();
        debug_assert_eq!(self.w.len(), self.at.file_end);
        Ok(())
    }

    fn write_headers(&mut self) -> Result<(), CompileError> {
        let e_machine = match self.parts.cpu.arch() {
            Arch::X86_64 => elf::EM_X86_64,
            Arch::Aarch64 => elf::EM_AARCH64,
        };
        let header = FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine,
            e_entry: 0,
            e_flags: 0,
        };
        self.w
            .write_file_header(&header)
            .map_err(|error| fault(&error))?;
        self.w.write_align_program_headers();
        let page = self.page;
        let at = &self.at;
        let hdr_end = at.eh_frame_hdr + unwind::hdr_bytes(unwind::count(&self.eh_frame));
        let image = at.sections[Section::Image as usize];
        let image_end = image + self.sections[Section::Image as usize].len();
        let text = at.read_only_end;
        let text_end = text + self.sections[Section::Text as usize].len();
        let dynamic_end = at.dynamic + DYNAMIC_ENTRIES * 16;
        let (r, rx, rw) = (elf::PF_R, elf::PF_R | elf::PF_X, elf::PF_R | elf::PF_W);
        let note_end = at.note + NOTE_START_BYTES + HEADER_BYTES;
        let segments = [
            (elf::PT_LOAD, r, 0, at.read_only_end, page),
            (elf::PT_LOAD, rx, text, text_end, page),
            (elf::PT_LOAD, rw, at.text_end, at.dynamic_end, page),
            (elf::PT_LOAD, r, image, image_end, page),
            (elf::PT_NOTE, r, at.note, note_end, 4),
            (elf::PT_DYNAMIC, rw, at.dynamic, dynamic_end, 8),
            (elf::PT_GNU_EH_FRAME, r, at.eh_frame_hdr, hdr_end, 4),
            (elf::PT_GNU_STACK, rw, 0, 0, 16),
            (elf::PT_GNU_RELRO, r, at.text_end, at.dynamic_end, 1),
        ];
        for (p_type, p_flags, start, end, align) in segments {
            // Without code, there is nothing to unwind.
            let is_of_text = p_flags == rx || p_type == elf::PT_GNU_EH_FRAME;
            if is_of_text && text == text_end {
                continue;
            }
            // Only the image may be empty. Its header is kept: a snapshot of the module needs it.
            let is_empty = p_type == elf::PT_LOAD && start == end;
            let p_type = if is_empty { elf::PT_NULL } else { p_type };
            self.w.write_program_header(&ProgramHeader {
                p_type,
                p_flags,
                p_offset: start as u64,
                p_vaddr: start as u64,
                p_paddr: start as u64,
                p_filesz: (end - start) as u64,
                p_memsz: (end - start) as u64,
                p_align: align as u64,
            });
        }
        Ok(())
    }

    fn write_read_only(&mut self) -> Result<(), CompileError> {
        self.w.pad_until(self.at.note);
        let name_bytes = NOTE_NAME.len() as u32 + 1;
        for word in [name_bytes, HEADER_BYTES as u32, NOTE_TYPE] {
            self.w.write(&word.to_le_bytes());
        }
        self.w.write(NOTE_NAME.as_bytes());
        self.w.pad_until(self.at.note + NOTE_START_BYTES);
        self.w.write(&self.header().encode());
        let hash = elf::gnu_hash(HEADER_SYMBOL.as_bytes());
        // One symbol after the null symbol, in one bucket, with a one-word Bloom filter.
        self.w.write_gnu_hash(1, 6, 1, 1, 1, |_| hash);
        self.w.write_null_dynamic_symbol();
        self.w.write_dynamic_symbol(&Sym {
            name: Some(self.header_name),
            section: None,
            st_info: elf::STB_GLOBAL << 4 | elf::STT_OBJECT,
            st_other: elf::STV_DEFAULT,
            // The note is the first section after the null section.
            st_shndx: 1,
            st_value: (self.at.note + NOTE_START_BYTES) as u64,
            st_size: HEADER_BYTES as u64,
        });
        self.w.write_dynstr();
        let (functions, entries) = (self.parts.functions, &self.parts.text.entries);
        let (text, at) = (
            self.at.sections[Section::Text as usize] as u64,
            self.at.eh_frame as u64,
        );
        let eh_frame = unwind::eh_frame(functions, entries, self.parts.isa, text, at)?;
        debug_assert_eq!(eh_frame.len(), self.eh_frame.len());
        self.w.pad_until(self.at.eh_frame_hdr);
        self.w.write(&unwind::eh_frame_hdr(
            &eh_frame,
            at,
            self.at.eh_frame_hdr as u64,
        ));
        self.w.pad_until(self.at.eh_frame);
        self.w.write(&eh_frame);
        for section in READ_ONLY {
            self.w.pad_until(self.at.sections[section as usize]);
            self.w.write(self.sections[section as usize]);
        }
        Ok(())
    }

    fn header(&self) -> Header {
        let range = |section: Section| Range {
            vaddr: self.at.sections[section as usize] as u64,
            len: self.sections[section as usize].len() as u64,
        };
        Header {
            cpu: self.parts.cpu,
            hash: [0; HASH_BYTES],
            file_bytes: self.at.file_end as u64,
            memory_bytes: self.parts.image.memory_bytes,
            sections: Section::ALL.map(range),
        }
    }

    fn write_dynamic(&mut self) -> Result<(), CompileError> {
        let strings = self.w.dynstr_len() as u64;
        let entries: [(i64, u64); DYNAMIC_ENTRIES] = [
            (elf::DT_GNU_HASH, self.at.gnu_hash as u64),
            (elf::DT_STRTAB, self.at.dynstr as u64),
            (elf::DT_SYMTAB, self.at.dynsym as u64),
            (elf::DT_STRSZ, strings),
            (elf::DT_SYMENT, 24),
            (elf::DT_NULL, 0),
        ];
        self.w.write_align_dynamic();
        for (tag, value) in entries {
            self.w
                .write_dynamic(tag, value)
                .map_err(|error| fault(&error))?;
        }
        Ok(())
    }

    fn write_symbols(&mut self) {
        self.w.write_null_symbol();
        let text = self.at.sections[Section::Text as usize] as u64;
        for (name, entry) in self.symbols.iter().zip(&self.parts.text.entries) {
            self.w.write_symbol(&Sym {
                name: Some(*name),
                section: Some(self.text_index),
                st_info: elf::STB_LOCAL << 4 | elf::STT_FUNC,
                st_other: elf::STV_DEFAULT,
                st_shndx: 0,
                st_value: text + u64::from(entry.start),
                st_size: u64::from(entry.len),
            });
        }
    }

    /// Section headers, in the order in which their indices were reserved.
    fn write_section_headers(&mut self) {
        self.w.write_null_section_header();
        for (title, name) in std::mem::take(&mut self.titles) {
            self.write_section_header(title, name);
            match title {
                Title::Note => {
                    self.w
                        .write_gnu_hash_section_header(self.at.gnu_hash as u64);
                    self.w.write_dynsym_section_header(self.at.dynsym as u64, 1);
                    self.w.write_dynstr_section_header(self.at.dynstr as u64);
                }
                Title::Own(Section::Text) => {
                    self.w.write_dynamic_section_header(self.at.dynamic as u64);
                }
                _ => {}
            }
        }
        let locals = self.w.symbol_count();
        self.w.write_symtab_section_header(locals);
        self.w.write_strtab_section_header();
        self.w.write_shstrtab_section_header();
    }

    fn write_section_header(&mut self, title: Title, name: StringId) {
        let (mut sh_type, mut sh_flags) = (elf::SHT_PROGBITS, u64::from(elf::SHF_ALLOC));
        let (at, bytes, align) = match title {
            Title::Note => {
                sh_type = elf::SHT_NOTE;
                (self.at.note, NOTE_START_BYTES + HEADER_BYTES, 4)
            }
            Title::EhFrameHdr => {
                let bytes = unwind::hdr_bytes(unwind::count(&self.eh_frame));
                (self.at.eh_frame_hdr, bytes, 4)
            }
            Title::EhFrame => (self.at.eh_frame, self.eh_frame.len(), 8),
            Title::Own(section) => {
                let bytes = self.sections[section as usize].len();
                let align = match section {
                    Section::Image => self.page as u64,
                    other => other.align(),
                };
                if section == Section::Text {
                    sh_flags |= u64::from(elf::SHF_EXECINSTR);
                }
                (self.at.sections[section as usize], bytes, align)
            }
            Title::Debug(index) => {
                // Not mapped.
                sh_flags = 0;
                (self.at.debug[index], self.debug[index].1.len(), 1)
            }
        };
        let mapped = sh_flags & u64::from(elf::SHF_ALLOC) != 0;
        self.w.write_section_header(&SectionHeader {
            name: Some(name),
            sh_type,
            sh_flags,
            sh_addr: if mapped { at as u64 } else { 0 },
            sh_offset: at as u64,
            sh_size: bytes as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: align,
            sh_entsize: 0,
        });
    }
}

/// Reserves space up to the next page.
fn pad(w: &mut Writer<'_>, page: usize) -> usize {
    let end = w.reserved_len().next_multiple_of(page);
    w.reserve_until(end);
    end
}
