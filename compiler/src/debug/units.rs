//! [`read`]: reads the units one after another. Omits faulty parts and reports them.

use super::budget::{Fault, StepBudget};
use super::entries;
use super::lines::{Files, Program};
use super::reader::{Head, Reader, offset};
use super::subprograms::subprograms;
use super::values::{Bases, Slice};
use super::{Sections, Source, Unit};
use crate::limits;
use gimli::{
    Abbreviations, DebugAbbrev, DebugInfo, LittleEndian, Reader as _, UnitHeader, UnitType,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The omitted parts, for a one-line report.
#[derive(Default)]
struct LeftOut {
    units: usize,
    first: Option<String>,
}

impl LeftOut {
    fn unit(&mut self, offset: usize, fault: &Fault) {
        self.units += 1;
        self.first
            .get_or_insert_with(|| format!("{offset:#x} of .debug_info: {fault}"));
    }

    fn note(self, all: usize) -> Option<String> {
        let Self { units, first } = self;
        let first = first?;
        Some(format!(
            "debug information of {units} of {all} units is left out at least in part; the first \
             is at {first}"
        ))
    }
}

/// The note for debug information that describes no code. Tools that rewrite only the code leave
/// such debug information.
const NO_CODE: &str = "its debug information is left out: it describes no code of the module; a \
                       tool that rewrote the module has lost the addresses, as does wasm-opt, \
                       which clang -O runs when it links: compile with -c and link without -O, or \
                       run wasm-opt -g";

/// Reads all units. Returns a line that says what was omitted.
pub(super) fn read(sections: &Sections<'_>, budget: StepBudget) -> (Source, Option<String>) {
    let mut reader = Reader {
        sections,
        budget,
        heads: vec![],
        abbreviations: HashMap::new(),
        programs: HashSet::new(),
    };
    let mut left_out = LeftOut::default();
    let unread = reader.heads(&mut left_out);
    let mut source = Source::default();
    for index in 0..reader.heads.len() {
        source.units.push(Unit::default());
        if let Err(fault) = reader.unit(index, &mut source) {
            left_out.unit(offset(&reader.heads[index].header), &fault);
        }
    }
    source.finish();
    let all = reader.heads.len() + unread;
    let mut note = left_out.note(all);
    if note.is_none() && source.sequences.is_empty() {
        note = Some(NO_CODE.to_owned());
    }
    (source, note)
}

impl<'a> Reader<'a, '_> {
    /// Reads the headers of all units. Returns the number of units whose header could not be read.
    fn heads(&mut self, left_out: &mut LeftOut) -> usize {
        let section = DebugInfo::new(self.sections.info, LittleEndian);
        let mut units = section.units();
        let mut unread = 0;
        loop {
            match units.next() {
                Ok(Some(header)) => {
                    let at = offset(&header);
                    match self.head(header) {
                        Ok(head) => self.heads.push(head),
                        Err(fault) => {
                            left_out.unit(at, &fault);
                            unread += 1;
                        }
                    }
                }
                Ok(None) => return unread,
                // The start of the next unit is unknown.
                Err(error) => {
                    let end = self.heads.last().map_or(0, |head| {
                        offset(&head.header) + head.header.length_including_self()
                    });
                    left_out.unit(end, &error.into());
                    return unread + 1;
                }
            }
        }
    }

    fn head(&mut self, header: UnitHeader<Slice<'a>>) -> Result<Head<'a>, Fault> {
        limits::DEBUG_UNITS
            .check(self.heads.len() as u64 + 1)
            .map_err(|error| Fault::Limit(error.to_string()))?;
        let abbreviations = self.abbreviations(header.debug_abbrev_offset().0)?;
        let root = entries::root(&header, &abbreviations, &mut self.budget)?;
        let encoding = header.encoding();
        let bases = Bases {
            str_offsets: root.str_offsets_base,
            addr: root.addr_base,
            offset_bytes: usize::from(encoding.format.word_size()),
            address_bytes: usize::from(encoding.address_size),
        };
        Ok(Head {
            header,
            abbreviations,
            bases,
            root,
        })
    }

    /// The abbreviations at an offset.
    fn abbreviations(&mut self, offset: usize) -> Result<Rc<Abbreviations>, Fault> {
        if let Some(known) = self.abbreviations.get(&offset) {
            return Ok(Rc::clone(known));
        }
        let bytes = self.sections.abbrev.get(offset..);
        let bytes = bytes.ok_or(Fault::Wrong("its abbreviations are not in .debug_abbrev"))?;
        let table = &bytes[..abbreviations_bytes(bytes, &mut self.budget)?];
        let section = DebugAbbrev::new(table, LittleEndian);
        let read = Rc::new(section.abbreviations(gimli::DebugAbbrevOffset(0))?);
        self.abbreviations.insert(offset, Rc::clone(&read));
        Ok(read)
    }

    /// Reads one unit into the source's last unit. Data before a fault is kept.
    fn unit(&mut self, index: usize, source: &mut Source) -> Result<(), Fault> {
        // Once the budget is spent, the remaining units are not examined.
        self.budget.spend(1)?;
        let head = &self.heads[index];
        if matches!(
            head.header.type_(),
            UnitType::Type { .. } | UnitType::SplitType { .. }
        ) {
            return Ok(());
        }
        let (bases, root) = (head.bases, head.root.clone());
        let mut string = |value: &Option<_>| match value {
            Some(value) => bases.string(value, self.sections, &mut self.budget),
            None => Ok(None),
        };
        let unit = source.units.last_mut();
        let unit = unit.ok_or(Fault::Wrong("it does not exist"))?;
        unit.name = string(&root.name)?;
        unit.folder = string(&root.folder)?;
        unit.producer = string(&root.producer)?;
        unit.language = root.language;
        // A unit with only imports has no code.
        let Some(offset) = root.line_program else {
            return Ok(());
        };
        let address_bytes = head.header.address_size();
        let program = Program::parse(self.sections, offset, address_bytes, &mut self.budget)?;
        let mut files = Files::new(program.header(), bases, unit.folder.clone());
        let read = self.unit_with_files(index, &program, &mut files, source);
        if let Some(unit) = source.units.last_mut() {
            unit.files = files.into_list();
        }
        read
    }

    fn unit_with_files(
        &mut self,
        index: usize,
        program: &Program<'a>,
        files: &mut Files<'_, 'a>,
        source: &mut Source,
    ) -> Result<(), Fault> {
        // A line program does not name its unit; its rows go to the first unit that refers to it.
        let rows = match self.programs.insert(program.offset()) {
            true => program.rows(self.sections, files, &mut self.budget, source),
            false => Ok(()),
        };
        // Names are useful without lines as well.
        let subprograms = subprograms(self, index, files, source);
        rows.and(subprograms)
    }
}

/// Bytes of the abbreviation table at the start of `bytes` (DWARF 5, section 7.5.3).
fn abbreviations_bytes(bytes: &[u8], budget: &mut StepBudget) -> Result<usize, Fault> {
    let mut input = Slice::new(bytes, LittleEndian);
    while !input.is_empty() && input.read_uleb128()? != 0 {
        // Tag and children flag. The budget is spent while reading, because the table may extend to
        // the end of the section.
        budget.spend(3)?;
        input.read_uleb128()?;
        input.read_u8()?;
        loop {
            budget.spend(2)?;
            let (name, form) = (input.read_uleb128()?, input.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                input.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(bytes.len() - input.len())
}
