//! [`subprograms`]: the functions of a unit that have code, with names and declarations.

use super::budget::Fault;
use super::entries::{DebugEntry, at};
use super::lines::Files;
use super::reader::{Head, Reader, offset};
use super::values::Value;
use super::{Source, Subprogram};
use gimli::{AttributeValue, UnitOffset};
use std::rc::Rc;

/// How many references to other entries are followed for missing attributes. The entry of code can
/// refer to the entry of a function that is also inlined, which refers to the declaration in a
/// class.
const REFERENCES_MAX: usize = 4;

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
            let entry = DebugEntry::read(&mut entries, found.attributes(), &mut reader.budget)?;
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
    mut entry: DebugEntry<'a>,
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
) -> Result<Option<(usize, DebugEntry<'a>)>, Fault> {
    let (unit, at_offset) = match value {
        AttributeValue::UnitRef(at) => (unit, *at),
        AttributeValue::DebugInfoRef(at) => {
            let after = reader
                .heads
                .partition_point(|head| offset(&head.header) <= at.0);
            let Some(of) = after.checked_sub(1) else {
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
