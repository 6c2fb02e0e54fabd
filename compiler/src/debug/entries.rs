//! [`DebugEntry`]: the entries of the tree that describe units and functions. All other entries are
//! skipped.

use super::budget::{Fault, StepBudget};
use super::values::{Slice, Value};
use gimli::{Abbreviations, AttributeValue, DwAt, EntriesRaw, UnitHeader, UnitOffset};

/// The attributes of one entry that the compiler uses.
#[derive(Clone, Default)]
pub(super) struct DebugEntry<'a> {
    pub(super) name: Option<Value<'a>>,
    pub(super) linkage_name: Option<Value<'a>>,
    pub(super) low: Option<Value<'a>>,
    pub(super) high: Option<Value<'a>>,
    pub(super) declared_file: Option<u64>,
    pub(super) declared_line: Option<u64>,
    pub(super) external: bool,
    /// The entry that has the attributes missing here.
    pub(super) origin: Option<Value<'a>>,
    // Attributes of a unit's first entry.
    pub(super) folder: Option<Value<'a>>,
    pub(super) producer: Option<Value<'a>>,
    pub(super) language: Option<gimli::DwLang>,
    pub(super) line_program: Option<usize>,
    pub(super) str_offsets_base: usize,
    pub(super) addr_base: usize,
}

impl<'a> DebugEntry<'a> {
    /// Reads the attributes of the entry at the position of `entries`.
    pub(super) fn read(
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        attributes: &[gimli::AttributeSpecification],
        budget: &mut StepBudget,
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
    budget: &mut StepBudget,
) -> Result<DebugEntry<'a>, Fault> {
    at(header, abbreviations, header.root_offset(), budget)
}

/// The entry at an offset of a unit.
pub(super) fn at<'a>(
    header: &UnitHeader<Slice<'a>>,
    abbreviations: &Abbreviations,
    offset: UnitOffset,
    budget: &mut StepBudget,
) -> Result<DebugEntry<'a>, Fault> {
    let mut entries = header.entries_raw(abbreviations, Some(offset))?;
    if entries.is_empty() {
        return Err(Fault::Wrong("it has no entries"));
    }
    match entries.read_abbreviation()? {
        Some(found) => DebugEntry::read(&mut entries, found.attributes(), budget),
        None => Err(Fault::Wrong("an offset refers to no entry")),
    }
}
