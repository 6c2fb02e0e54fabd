//! [`Entry`]: the entries of the tree that describe units and functions. All others are skipped.

use super::budget::{Budget, Fault};
use super::lines::Files;
use super::units::{Head, Reader, offset};
use super::values::{Slice, Value};
use super::{Source, Subprogram};
use gimli::{Abbreviations, AttributeValue, DwAt, EntriesRaw, UnitHeader, UnitOffset};
use std::rc::Rc;

/// How many references to other entries are followed for missing attributes. A function's code
/// refers to the function that is inlined elsewhere, and that refers to its declaration in a class.
const REFERENCES_MAX: usize = 4;

/// The attributes of one entry that the compiler uses.
#[derive(Clone, Default)]
pub(super) struct Entry<'a> {
    pub(super) name: Option<Value<'a>>,
    linkage_name: Option<Value<'a>>,
    low: Option<Value<'a>>,
    high: Option<Value<'a>>,
    declared_file: Option<u64>,
    declared_line: Option<u64>,
    external: bool,
    /// The entry that has the attributes missing here.
    origin: Option<Value<'a>>,
    // Attributes of a unit's first entry.
    pub(super) folder: Option<Value<'a>>,
    pub(super) producer: Option<Value<'a>>,
    pub(super) language: Option<gimli::DwLang>,
    pub(super) line_program: Option<usize>,
    pub(super) str_offsets_base: usize,
    pub(super) addr_base: usize,
}

impl<'a> Entry<'a> {
    /// Reads the attributes of the entry at the position of `entries`.
    fn read(
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        attributes: &[gimli::AttributeSpecification],
        budget: &mut Budget,
    ) -> Result<Self, Fault> {
        let mut entry = Self::default();
        budget.spend(attributes.len())?;
        for attribute in attributes {
            let attribute = entries.read_attribute(*attribute)?;
            entry.set(attribute.name(), attribute.value(), attribute.udata_value());
        }
        Ok(entry)
    }

    fn set(&mut self, name: DwAt, value: Value<'a>, number: Option<u64>) {
        match (name, value) {
            (gimli::DW_AT_name, value) => self.name = Some(value),
            (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, value) => {
                self.linkage_name = Some(value);
            }
            (gimli::DW_AT_low_pc, value) => self.low = Some(value),
            (gimli::DW_AT_high_pc, value) => self.high = Some(value),
            (gimli::DW_AT_decl_file, AttributeValue::FileIndex(index)) => {
                self.declared_file = Some(index);
            }
            (gimli::DW_AT_decl_line, _) => self.declared_line = number,
            (gimli::DW_AT_external, value) => {
                self.external = matches!(value, AttributeValue::Flag(true));
            }
            (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification, value) => {
                self.origin = Some(value);
            }
            (gimli::DW_AT_comp_dir, value) => self.folder = Some(value),
            (gimli::DW_AT_producer, value) => self.producer = Some(value),
            (gimli::DW_AT_language, AttributeValue::Language(language)) => {
                self.language = Some(language);
            }
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                self.line_program = Some(offset.0);
            }
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                self.str_offsets_base = base.0;
            }
            (gimli::DW_AT_addr_base, AttributeValue::DebugAddrBase(base)) => {
                self.addr_base = base.0;
            }
            _ => {}
        }
    }
}

/// The first entry of a unit.
pub(super) fn root<'a>(
    header: &UnitHeader<Slice<'a>>,
    abbreviations: &Abbreviations,
    budget: &mut Budget,
) -> Result<Entry<'a>, Fault> {
    at(header, abbreviations, header.root_offset(), budget)
}

/// The entry at an offset of a unit.
fn at<'a>(
    header: &UnitHeader<Slice<'a>>,
    abbreviations: &Abbreviations,
    offset: UnitOffset,
    budget: &mut Budget,
) -> Result<Entry<'a>, Fault> {
    let mut entries = header.entries_raw(abbreviations, Some(offset))?;
    if entries.is_empty() {
        return Err(Fault::Wrong("it has no entries"));
    }
    match entries.read_abbreviation()? {
        Some(found) => Entry::read(&mut entries, found.attributes(), budget),
        None => Err(Fault::Wrong("an entry is not where it is said to be")),
    }
}

/// Reads the subprograms of a unit that have code.
pub(super) fn subprograms<'a>(
    reader: &mut Reader<'a, '_>,
    index: usize,
    files: &mut Files<'_, 'a>,
    source: &mut Source,
) -> Result<(), Fault> {
    let header = reader.heads[index].header;
    let abbreviations = Rc::clone(&reader.heads[index].abbreviations);
    let mut entries = header.entries_raw(&abbreviations, None)?;
    while !entries.is_empty() {
        let Some(found) = entries.read_abbreviation()? else {
            continue;
        };
        if found.tag() == gimli::DW_TAG_subprogram {
            let entry = Entry::read(&mut entries, found.attributes(), &mut reader.budget)?;
            if let Some(subprogram) = subprogram(reader, index, entry, files)? {
                source.subprograms.push(subprogram);
            }
        } else {
            reader.budget.spend(found.attributes().len())?;
            entries.skip_attributes(found.attributes())?;
        }
    }
    Ok(())
}

/// The description of a function from its entry, if the function has code.
fn subprogram<'a>(
    reader: &mut Reader<'a, '_>,
    index: usize,
    mut entry: Entry<'a>,
    files: &mut Files<'_, 'a>,
) -> Result<Option<Subprogram>, Fault> {
    let sections = reader.sections;
    let bases = reader.heads[index].bases;
    let low = entry.low.as_ref();
    let Some(start) = low.and_then(|low| bases.address(low, sections)) else {
        return Ok(None);
    };
    let end = match &entry.high {
        // From DWARF 4 on, a constant is a length.
        Some(AttributeValue::Udata(bytes)) => u32::try_from(*bytes)
            .ok()
            .and_then(|bytes| start.checked_add(bytes)),
        Some(high) => bases.address(high, sections),
        None => None,
    };
    let Some(end) = end.filter(|end| sections.have_code(start, *end)) else {
        return Ok(None);
    };
    let (mut name, mut linkage_name) = (None, None);
    let mut unit = index;
    let (mut declared, mut external) = (None, false);
    for _ in 0..=REFERENCES_MAX {
        // Strings are resolved by the tables of the unit that contains the entry.
        let bases = reader.heads[unit].bases;
        for (known, value) in [
            (&mut name, &entry.name),
            (&mut linkage_name, &entry.linkage_name),
        ] {
            if let (None, Some(value)) = (&known, value) {
                *known = bases.string(value, sections, &mut reader.budget)?;
            }
        }
        external |= entry.external;
        // File numbers are local to a unit.
        if unit == index {
            declared = declared.or(entry.declared_file.zip(entry.declared_line));
        }
        let Some(origin) = &entry.origin else {
            break;
        };
        let Some(found) = refer(reader, unit, origin)? else {
            break;
        };
        (unit, entry) = found;
    }
    let declared = match declared {
        Some((file, line)) => files
            .index(file, sections, &mut reader.budget)?
            .zip(u32::try_from(line).ok()),
        None => None,
    };
    Ok(Some(Subprogram {
        addresses: start..end,
        unit: index,
        name,
        linkage_name,
        declared,
        external,
    }))
}

/// The entry that a value refers to, and the index of its unit.
fn refer<'a>(
    reader: &mut Reader<'a, '_>,
    unit: usize,
    value: &Value<'a>,
) -> Result<Option<(usize, Entry<'a>)>, Fault> {
    let (unit, at_offset) = match value {
        AttributeValue::UnitRef(at) => (unit, *at),
        AttributeValue::DebugInfoRef(at) => {
            let behind = reader
                .heads
                .partition_point(|head| offset(&head.header) <= at.0);
            let Some(of) = behind.checked_sub(1) else {
                return Ok(None);
            };
            (of, UnitOffset(at.0 - offset(&reader.heads[of].header)))
        }
        _ => return Ok(None),
    };
    let Head {
        header,
        abbreviations,
        ..
    } = &reader.heads[unit];
    let entry = at(header, abbreviations, at_offset, &mut reader.budget)?;
    Ok(Some((unit, entry)))
}
