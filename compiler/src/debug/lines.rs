//! [`Program`]: runs line number programs to rows. [`Files`]: the files that the rows name.

use super::budget::{Fault, StepBudget};
use super::values::{Bases, Slice};
use super::{File, Row, Sections, Sequence, Source};
use crate::limits;
use gimli::{
    ColumnType, DebugLine, DebugLineOffset, IncompleteLineProgram, LineProgramHeader, LineRow,
    LittleEndian, Reader as _,
};
use std::collections::HashMap;

/// A line number program.
pub(super) struct Program<'a> {
    program: IncompleteLineProgram<Slice<'a>>,
}

impl<'a> Program<'a> {
    /// Reads the header of the program at an offset.
    pub(super) fn parse(
        sections: &Sections<'a>,
        offset: usize,
        address_bytes: u8,
        budget: &mut StepBudget,
    ) -> Result<Self, Fault> {
        let bytes = sections.line.get(offset..);
        let bytes = bytes.ok_or(Fault::Wrong("its line program is not in .debug_line"))?;
        let header = header_bytes(bytes)?;
        limits::DEBUG_LINE_HEADER_BYTES
            .check(header as u64)
            .map_err(|error| Fault::Limit(error.to_string()))?;
        budget.spend(header)?;
        let section = DebugLine::new(sections.line, LittleEndian);
        let program = section.program(DebugLineOffset(offset), address_bytes, None, None)?;
        Ok(Self { program })
    }

    pub(super) fn header(&self) -> &LineProgramHeader<Slice<'a>> {
        self.program.header()
    }

    pub(super) fn offset(&self) -> usize {
        self.header().offset().0
    }

    /// Runs the program. The rows belong to the source's last unit. Rows before a fault are kept.
    pub(super) fn rows(
        &self,
        sections: &Sections<'a>,
        files: &mut Files<'_, 'a>,
        budget: &mut StepBudget,
        source: &mut Source,
    ) -> Result<(), Fault> {
        budget.spend(self.header().raw_program_buf().len())?;
        let unit = source.units.len() - 1;
        let mut start = source.rows.len();
        let mut rows = self.program.clone().rows();
        let result = loop {
            let row = match rows.next_row() {
                Ok(Some((_, row))) => *row,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            };
            // Impossible addresses belong to a function that a linker has dropped.
            let address = u32::try_from(row.address()).unwrap_or(u32::MAX);
            let sequence = &source.rows[start..];
            let ascends = sequence.last().is_none_or(|last| last.address <= address);
            if !row.end_sequence() && ascends {
                if let Err(fault) = source.push_row(&row, address, files, sections, budget) {
                    break Err(fault);
                }
                continue;
            }
            let first = sequence.first().map_or(0, |first| first.address);
            if row.end_sequence() && ascends && sections.have_code(first, address) {
                source.sequences.push(Sequence {
                    addresses: first..address,
                    unit,
                    rows: start..source.rows.len(),
                });
                start = source.rows.len();
            } else {
                source.rows.truncate(start);
            }
        };
        source.rows.truncate(start);
        result
    }
}

impl Source {
    fn push_row<'a>(
        &mut self,
        row: &LineRow,
        address: u32,
        files: &mut Files<'_, 'a>,
        sections: &Sections<'a>,
        budget: &mut StepBudget,
    ) -> Result<(), Fault> {
        limits::DEBUG_ROWS
            .check(self.rows.len() as u64 + 1)
            .map_err(|error| Fault::Limit(error.to_string()))?;
        let file = files.index(row.file_index(), sections, budget)?;
        let line = row.line().map_or(0, std::num::NonZeroU64::get);
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
        };
        self.rows.push(Row {
            address,
            file: file.unwrap_or(0),
            line: file.map_or(0, |_| u32::try_from(line).unwrap_or(0)),
            column,
            statement: row.is_stmt(),
        });
        Ok(())
    }

    /// Sorts everything by address. The sort is stable; of records with the same start, the last
    /// one read is found first.
    pub(super) fn finish(&mut self) {
        self.sequences
            .sort_by_key(|sequence| sequence.addresses.start);
        self.subprograms
            .sort_by_key(|subprogram| subprogram.addresses.start);
    }
}

/// Bytes of the header of the line program at the start of `bytes` (DWARF 5, section 6.2.4). gimli
/// reads the whole header at once.
fn header_bytes(bytes: &[u8]) -> Result<usize, Fault> {
    let mut input = Slice::new(bytes, LittleEndian);
    let (_, format) = input.read_initial_length()?;
    let version = input.read_u16()?;
    if version >= 5 {
        // Sizes of an address and of a segment selector.
        input.skip(2)?;
    }
    Ok(input.read_length(format)?)
}

/// The files of a line program that were looked up.
pub(super) struct Files<'h, 'a> {
    header: &'h LineProgramHeader<Slice<'a>>,
    bases: Bases,
    /// The unit's folder.
    folder: Option<String>,
    /// By the program's file numbers.
    known: HashMap<u64, Option<u32>>,
    list: Vec<File>,
}

impl<'h, 'a> Files<'h, 'a> {
    pub(super) fn new(
        header: &'h LineProgramHeader<Slice<'a>>,
        bases: Bases,
        folder: Option<String>,
    ) -> Self {
        Self {
            header,
            bases,
            folder,
            known: HashMap::new(),
            list: vec![],
        }
    }

    /// The index in the unit's files of a file number of the program; `None` if the program has no
    /// such file.
    pub(super) fn index(
        &mut self,
        number: u64,
        sections: &Sections<'a>,
        budget: &mut StepBudget,
    ) -> Result<Option<u32>, Fault> {
        if let Some(known) = self.known.get(&number) {
            return Ok(*known);
        }
        let index = self.file(number, sections, budget)?.map(|file| {
            self.list.push(file);
            self.list.len() as u32 - 1
        });
        self.known.insert(number, index);
        Ok(index)
    }

    fn file(
        &self,
        number: u64,
        sections: &Sections<'a>,
        budget: &mut StepBudget,
    ) -> Result<Option<File>, Fault> {
        let Some(file) = self.header.file(number) else {
            return Ok(None);
        };
        let name = self.bases.string(&file.path_name(), sections, budget)?;
        let folder = match file.directory(self.header) {
            Some(folder) => self.bases.string(&folder, sections, budget)?,
            None => None,
        };
        let folder = folder.filter(|folder| Some(folder) != self.folder.as_ref());
        Ok(name.map(|name| File { folder, name }))
    }

    pub(super) fn into_list(self) -> Vec<File> {
        self.list
    }
}
