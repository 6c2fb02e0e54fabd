//! The relocatable object of `--emit obj`: the text and its symbols, for objdump and similar tools.
//! The runtime loads the shared object instead.

use super::dwarf::Lines;
use super::symbols;
use super::text::Text;
use crate::code::CompiledFunction;
use crate::error::CompileError;
use object::write::{Object, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};
use pirn_format::cpu::Arch;
use pirn_format::metadata::Metadata;
use pirn_format::sections::Section;

/// Writes the relocatable object. The object needs no relocations, because calls inside the text
/// are resolved.
pub(crate) fn write(
    functions: &[CompiledFunction],
    text: &Text,
    metadata: &Metadata,
    lines: Option<&Lines>,
    arch: Arch,
) -> Result<Vec<u8>, CompileError> {
    let architecture = match arch {
        Arch::X86_64 => Architecture::X86_64,
        Arch::Aarch64 => Architecture::Aarch64,
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let name = Section::Text.name().as_bytes().to_vec();
    let section = object.add_section(vec![], name, SectionKind::Text);
    object.append_section_data(section, &text.bytes, Section::Text.align());
    for (name, entry) in symbols::names(functions, metadata)
        .into_iter()
        .zip(&text.entries)
    {
        object.add_symbol(object::write::Symbol {
            name: name.into_bytes(),
            value: u64::from(entry.start),
            size: u64::from(entry.len),
            kind: SymbolKind::Text,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    // The object is never linked, so the text is at address 0.
    for (name, bytes) in lines.map_or(Ok(vec![]), |lines| lines.sections(0))? {
        let section = object.add_section(vec![], name.as_bytes().to_vec(), SectionKind::Debug);
        object.append_section_data(section, &bytes, 1);
    }
    object
        .write()
        .map_err(|error| CompileError::Object(error.to_string()))
}
