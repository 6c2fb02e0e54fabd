//! [`Lines`]: the guest's lines and functions, for the machine code (DWARF 4, sections 3.1, 3.3 and
//! 6.2).
//!
//! The output is version 4, which every debugger and profiler in use reads. Each guest unit with
//! code in the module becomes a unit here, with its own line table. Each function becomes a
//! sequence of that table and, if the guest describes it, an entry of that unit. Types, variables
//! and inlined calls are not carried over.

use super::text::Text;
use crate::code::CompiledFunction;
use crate::debug::{File, Row, Sections, Source, Unit};
use crate::error::CompileError;
use gimli::write::{
    self, Address, AttributeValue, DirectoryId, Dwarf, EndianVec, FileId, LineProgram, LineString,
    Range, RangeList, UnitEntryId, UnitId,
};
use gimli::{DwAt, Encoding, Format, LineEncoding, LittleEndian};
use pirn_format::traps::CodeEntry;
use std::collections::BTreeMap;

/// The name of a unit without a name: debuggers mishandle an empty name.
const UNKNOWN: &str = "?";

const ENCODING: Encoding = Encoding {
    format: Format::Dwarf32,
    version: 4,
    address_size: 8,
};

/// The lines and functions of a module's machine code, before its address is known.
pub(crate) struct Lines {
    /// In the guest's order. Only units with code.
    units: Vec<LinesOfUnit>,
}

struct LinesOfUnit {
    unit: Unit,
    functions: Vec<Function>,
}

/// A function's code, with its lines and its description. Either may be missing.
struct Function {
    code: CodeEntry,
    /// Ascending offsets from the function's start, and the row at each offset.
    rows: Vec<(u32, Row)>,
    subprogram: Option<Description>,
}

struct Description {
    name: Option<String>,
    linkage_name: Option<String>,
    declared: Option<(u32, u32)>,
    external: bool,
}

impl Lines {
    /// Finds the line of every instruction.
    pub(crate) fn lay(
        source: &Source,
        sections: &Sections<'_>,
        functions: &[CompiledFunction],
        text: &Text,
    ) -> Self {
        let mut by_unit: BTreeMap<usize, Vec<Function>> = BTreeMap::new();
        for (function, code) in functions.iter().zip(&text.entries) {
            // The middle of the body belongs to this function, even if the previous one claims a
            // longer range.
            let middle = function.body.start + (function.body.end - function.body.start) / 2;
            let Some(address) = sections.address(middle) else {
                continue;
            };
            let of_rows = source.sequence(address).map(|sequence| sequence.unit);
            let described = source.subprogram(address);
            let description = described.map(|subprogram| Description {
                name: subprogram.name.clone(),
                linkage_name: subprogram.linkage_name.clone(),
                declared: subprogram.declared,
                external: subprogram.external,
            });
            let of_description = described.map(|subprogram| subprogram.unit);
            let mut add = |unit, rows, subprogram| {
                by_unit.entry(unit).or_default().push(Function {
                    code: *code,
                    rows,
                    subprogram,
                });
            };
            match (of_rows, of_description) {
                (Some(unit), Some(other)) if unit != other => {
                    add(unit, rows(source, sections, function, address), None);
                    add(other, vec![], description);
                }
                (Some(unit), _) => {
                    add(unit, rows(source, sections, function, address), description);
                }
                (None, Some(unit)) => add(unit, vec![], description),
                (None, None) => {}
            }
        }
        let units = by_unit.into_iter().map(|(unit, functions)| LinesOfUnit {
            unit: source.units[unit].clone(),
            functions,
        });
        Self {
            units: units.collect(),
        }
    }

    /// Names and bytes of the sections for a text at this address. Empty sections are omitted.
    pub(crate) fn sections(
        &self,
        text_vaddr: u64,
    ) -> Result<Vec<(&'static str, Vec<u8>)>, CompileError> {
        let fault =
            |error: write::Error| CompileError::Object(format!("debug information: {error}"));
        let mut dwarf = Dwarf::new();
        for unit in &self.units {
            unit.write(&mut dwarf, text_vaddr);
        }
        let mut sections = write::Sections::new(EndianVec::new(LittleEndian));
        dwarf.write(&mut sections).map_err(fault)?;
        let mut all = vec![];
        sections.for_each(|id, bytes| {
            if !bytes.slice().is_empty() {
                all.push((id.name(), bytes.slice().to_vec()));
            }
            Ok::<(), CompileError>(())
        })?;
        Ok(all)
    }
}

/// The rows of a function, with `address` in the middle of its body.
fn rows(
    source: &Source,
    sections: &Sections<'_>,
    function: &CompiledFunction,
    address: u32,
) -> Vec<(u32, Row)> {
    let Some(sequence) = source.sequence(address) else {
        return vec![];
    };
    let row = |wasm: u32| {
        let address = sections.address(wasm)?;
        source.row(sequence, address).copied()
    };
    let mut rows: Vec<(u32, Row)> = vec![];
    let mut add = |offset: u32, row: Option<Row>| {
        // Code without a line gets a row of its own; otherwise it would belong to the previous
        // line.
        let row = row.unwrap_or_default();
        if rows
            .last()
            .is_none_or(|(_, last)| !last.is_same_place(&row))
        {
            rows.push((offset, row));
        }
    };
    // The code before the first instruction sets up the frame.
    add(0, row(function.body.start));
    for location in &function.locations {
        // An instruction of an inlined function has its own line, if the line is in the same unit.
        // Otherwise it has the line of the call: a sequence knows the files of its unit only.
        let inlined = location.inlined.and_then(|(_, wasm)| {
            let address = sections.address(wasm)?;
            let of = source.sequence(address)?;
            (of.unit == sequence.unit).then(|| source.row(of, address).copied())?
        });
        add(location.start, inlined.or_else(|| row(location.wasm)));
    }
    rows
}

impl LinesOfUnit {
    fn write(&self, dwarf: &mut Dwarf, text_vaddr: u64) {
        let folder = self.unit.folder.as_deref().unwrap_or(".");
        let name = self.unit.name.as_deref().unwrap_or(UNKNOWN);
        let mut program = LineProgram::new(
            ENCODING,
            LineEncoding::default(),
            LineString::String(folder.into()),
            None,
            LineString::String(name.into()),
            None,
        );
        let files = self.files(&mut program);
        for function in self.functions.iter().filter(|f| !f.rows.is_empty()) {
            function.write_rows(&mut program, &files, text_vaddr);
        }
        let id = dwarf.units.add(write::Unit::new(ENCODING, program));
        self.describe(dwarf, id, text_vaddr);
        for function in &self.functions {
            function.describe(dwarf, id, &files, text_vaddr);
        }
    }

    /// Adds the unit's files. Returns their numbers in the program.
    fn files(&self, program: &mut LineProgram) -> Vec<FileId> {
        let folder = |program: &mut LineProgram, file: &File| -> DirectoryId {
            match &file.folder {
                Some(folder) => program.add_directory(LineString::String(folder.as_bytes().into())),
                None => program.default_directory(),
            }
        };
        let mut ids: Vec<_> = vec![];
        for file in &self.unit.files {
            let folder = folder(program, file);
            let name = LineString::String(file.name.as_bytes().into());
            ids.push(program.add_file(name, folder, None));
        }
        if ids.is_empty() {
            let folder = program.default_directory();
            let name = LineString::String(UNKNOWN.into());
            ids.push(program.add_file(name, folder, None));
        }
        ids
    }

    /// Writes the entry that describes the unit.
    fn describe(&self, dwarf: &mut Dwarf, id: UnitId, text_vaddr: u64) {
        let unit = &self.unit;
        let root = dwarf.units.get(id).root();
        for (attribute, text) in [
            (gimli::DW_AT_name, &unit.name),
            (gimli::DW_AT_comp_dir, &unit.folder),
            (gimli::DW_AT_producer, &unit.producer),
        ] {
            set_string(dwarf, id, root, attribute, text.as_deref());
        }
        let ranges = self.functions.iter().map(|function| Range::StartLength {
            begin: function.address(text_vaddr),
            length: u64::from(function.code.len),
        });
        let ranges = RangeList(ranges.collect());
        let unit = dwarf.units.get_mut(id);
        let ranges = unit.ranges.add(ranges);
        let entry = unit.get_mut(root);
        if let Some(language) = self.unit.language {
            entry.set(gimli::DW_AT_language, AttributeValue::Language(language));
        }
        let base = AttributeValue::Address(Address::Constant(0));
        entry.set(gimli::DW_AT_low_pc, base);
        let ranges = AttributeValue::RangeListRef(ranges);
        entry.set(gimli::DW_AT_ranges, ranges);
    }
}

impl Function {
    fn address(&self, text_vaddr: u64) -> Address {
        Address::Constant(text_vaddr + u64::from(self.code.start))
    }

    fn write_rows(&self, program: &mut LineProgram, files: &[FileId], text_vaddr: u64) {
        program.begin_sequence(Some(self.address(text_vaddr)));
        for (offset, row) in &self.rows {
            let to = program.row();
            to.address_offset = u64::from(*offset);
            to.line = u64::from(row.line);
            to.column = u64::from(row.column);
            to.is_statement = row.statement;
            to.file = files.get(row.file as usize).copied().unwrap_or(files[0]);
            program.generate_row();
        }
        program.end_sequence(u64::from(self.code.len));
    }

    /// Writes the entry that describes the function, if the guest has one.
    fn describe(&self, dwarf: &mut Dwarf, id: UnitId, files: &[FileId], text_vaddr: u64) {
        let Some(described) = &self.subprogram else {
            return;
        };
        let unit = dwarf.units.get_mut(id);
        let root = unit.root();
        let entry = unit.add(root, gimli::DW_TAG_subprogram);
        for (attribute, text) in [
            (gimli::DW_AT_name, &described.name),
            (gimli::DW_AT_linkage_name, &described.linkage_name),
        ] {
            set_string(dwarf, id, entry, attribute, text.as_deref());
        }
        let entry = dwarf.units.get_mut(id).get_mut(entry);
        if let Some((file, line)) = described.declared
            && let Some(file) = files.get(file as usize)
        {
            let file = AttributeValue::FileIndex(Some(*file));
            entry.set(gimli::DW_AT_decl_file, file);
            let line = AttributeValue::Udata(line.into());
            entry.set(gimli::DW_AT_decl_line, line);
        }
        if described.external {
            entry.set(gimli::DW_AT_external, AttributeValue::FlagPresent);
        }
        let low = AttributeValue::Address(self.address(text_vaddr));
        entry.set(gimli::DW_AT_low_pc, low);
        let high = AttributeValue::Udata(self.code.len.into());
        entry.set(gimli::DW_AT_high_pc, high);
    }
}

/// Sets an attribute to a string of `.debug_str`, if there is one.
fn set_string(
    dwarf: &mut Dwarf,
    unit: UnitId,
    entry: UnitEntryId,
    attribute: DwAt,
    text: Option<&str>,
) {
    if let Some(text) = text {
        let string = AttributeValue::StringRef(dwarf.strings.add(text));
        dwarf
            .units
            .get_mut(unit)
            .get_mut(entry)
            .set(attribute, string);
    }
}
