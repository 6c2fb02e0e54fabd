//! The guest's own debug information (DWARF 2 to 5, in custom sections). The compiler takes over
//! the source line of each WebAssembly offset and the names of functions.
//!
//! ```text
//! custom sections ─ units ─▶ Unit        name, folder, producer, language, files
//!                  ├ lines ─▶ Sequence    rows: WebAssembly address ─▶ file, line, column
//!                  └ entries ▶ Subprogram  addresses, names, declaration
//!                                 link::dwarf: converts them to machine code ─▶ .debug_*
//! ```
//!
//! Debug information is advisory and comes from an untrusted guest. Faulty parts are omitted and
//! reported. The cost of debug information is bounded by its size ([`budget`]). Debug information
//! does not influence the machine code. An address in it is an offset from the start of the code
//! section's contents ("DWARF for WebAssembly", section 2).

mod budget;
mod values;
mod lines;
mod entries;
mod reader;
mod subprograms;
mod units;

use crate::limits;
use budget::StepBudget;
use std::ops::Range;

/// The custom sections of a module with debug information. Missing sections are empty.
#[derive(Default)]
pub(crate) struct Sections<'a> {
    info: &'a [u8],
    abbrev: &'a [u8],
    line: &'a [u8],
    str: &'a [u8],
    line_str: &'a [u8],
    str_offsets: &'a [u8],
    addr: &'a [u8],
    /// Whether the module refers to debug information in another file.
    elsewhere: bool,
    /// Range of the code section's contents in the module's bytes.
    pub(crate) code: Range<u32>,
}

impl<'a> Sections<'a> {
    /// Records a custom section with debug information. Only the first section of each name is
    /// used.
    pub(crate) fn note(&mut self, name: &str, bytes: &'a [u8]) {
        let section = match name {
            ".debug_info" => &mut self.info,
            ".debug_abbrev" => &mut self.abbrev,
            ".debug_line" => &mut self.line,
            ".debug_str" => &mut self.str,
            ".debug_line_str" => &mut self.line_str,
            ".debug_str_offsets" => &mut self.str_offsets,
            ".debug_addr" => &mut self.addr,
            "external_debug_info" => {
                self.elsewhere = true;
                return;
            }
            _ => return,
        };
        if section.is_empty() {
            *section = bytes;
        }
    }

    fn bytes(&self) -> u64 {
        let all = [
            self.info,
            self.abbrev,
            self.line,
            self.str,
            self.line_str,
            self.str_offsets,
            self.addr,
        ];
        all.iter().map(|section| section.len() as u64).sum()
    }

    /// The address, in debug information, of an offset in the module's bytes.
    pub(crate) fn address(&self, offset: u32) -> Option<u32> {
        self.code
            .contains(&offset)
            .then(|| offset - self.code.start)
    }

    /// Whether addresses refer to code in the module. A linker that drops a function leaves its
    /// addresses as 0, as the largest number, or as they were in the object file.
    fn have_code(&self, start: u32, end: u32) -> bool {
        // The section begins with the number of functions and the first function's length, at least
        // a byte each.
        start >= 2 && start < end && end <= self.code.end - self.code.start
    }

    /// Reads all debug information. Returns a line that says what is missing or omitted.
    pub(crate) fn read(&self) -> (Source, Option<String>) {
        if self.info.is_empty() || self.line.is_empty() {
            let note = match self.elsewhere {
                true => {
                    "its debug information is in another file; link the guest with the debug \
                     information inside"
                }
                false => {
                    "it has no debug information; build the guest with -g, and do not strip it"
                }
            };
            return (Source::default(), Some(note.to_owned()));
        }
        let sizes = limits::DEBUG_BYTES
            .check(self.bytes())
            .and_then(|()| limits::DEBUG_ABBREV_BYTES.check(self.abbrev.len() as u64));
        if let Err(error) = sizes {
            return (
                Source::default(),
                Some(format!("its debug information is left out: {error}")),
            );
        }
        units::read(self, StepBudget::new(self.bytes()))
    }
}

/// The parsed debug information.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// All units that could be read, in order.
    pub(crate) units: Vec<Unit>,
    /// Ascending by start.
    sequences: Vec<Sequence>,
    rows: Vec<Row>,
    /// Ascending by start.
    subprograms: Vec<Subprogram>,
}

/// A compilation unit: the output of one run of the guest's compiler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unit {
    pub(crate) name: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) producer: Option<String>,
    pub(crate) language: Option<gimli::DwLang>,
    /// The files that rows and subprograms of the unit name.
    pub(crate) files: Vec<File>,
}

/// A source file of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// The folder, relative to the unit's folder; `None` for the unit's folder itself.
    pub(crate) folder: Option<String>,
    /// The name, never empty.
    pub(crate) name: String,
}

/// Contiguous code of one unit.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// WebAssembly addresses.
    addresses: Range<u32>,
    /// Index of the unit.
    pub(crate) unit: usize,
    rows: Range<usize>,
}

/// A row: code from this address on belongs to this line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Row {
    address: u32,
    /// Index in the unit's files; unspecified if the line is 0.
    pub(crate) file: u32,
    /// 0 for code without a line.
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Whether this is a recommended breakpoint location.
    pub(crate) statement: bool,
}

/// A source function that has its own code.
#[derive(Debug)]
pub(crate) struct Subprogram {
    addresses: Range<u32>,
    /// Index of the unit.
    pub(crate) unit: usize,
    pub(crate) name: Option<String>,
    pub(crate) linkage_name: Option<String>,
    /// Index in the unit's files, and line, of the declaration.
    pub(crate) declared: Option<(u32, u32)>,
    pub(crate) external: bool,
}

impl Row {
    /// Whether both rows describe the same location, at any addresses.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        let place = |row: &Self| (row.file, row.line, row.column, row.statement);
        place(self) == place(other)
    }
}

impl Source {
    /// The sequence that contains an address.
    pub(crate) fn sequence(&self, address: u32) -> Option<&Sequence> {
        covering(&self.sequences, address, |sequence| &sequence.addresses)
    }

    /// The subprogram that contains an address.
    pub(crate) fn subprogram(&self, address: u32) -> Option<&Subprogram> {
        covering(&self.subprograms, address, |subprogram| {
            &subprogram.addresses
        })
    }

    /// The row of an address, if the sequence contains the address.
    pub(crate) fn row(&self, sequence: &Sequence, address: u32) -> Option<&Row> {
        if !sequence.addresses.contains(&address) {
            return None;
        }
        let rows = &self.rows[sequence.rows.clone()];
        let after = rows.partition_point(|row| row.address <= address);
        rows.get(after.checked_sub(1)?)
    }
}

/// How many records before an address are examined. Valid records do not overlap, so only the last
/// record before an address can cover the address.
const OVERLAPPING_MAX: usize = 16;

fn covering<T>(sorted: &[T], address: u32, range: impl Fn(&T) -> &Range<u32>) -> Option<&T> {
    let after = sorted.partition_point(|record| range(record).start <= address);
    let before = sorted[..after].iter().rev().take(OVERLAPPING_MAX);
    before
        .into_iter()
        .find(|record| range(record).contains(&address))
}
