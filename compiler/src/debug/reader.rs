//! [`Reader`]: the state while units are read one after another.

use super::Sections;
use super::budget::StepBudget;
use super::entries::DebugEntry;
use super::values::{Bases, Slice};
use gimli::{Abbreviations, UnitHeader, UnitSectionOffset};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A unit whose header was read. Entries of other units may refer to its entries.
pub(super) struct Head<'a> {
    pub(super) header: UnitHeader<Slice<'a>>,
    pub(super) abbreviations: Rc<Abbreviations>,
    pub(super) bases: Bases,
    /// The first entry of the unit, which describes the unit.
    pub(super) root: DebugEntry<'a>,
}

/// The state of the reader.
pub(super) struct Reader<'a, 's> {
    pub(super) sections: &'s Sections<'a>,
    pub(super) budget: StepBudget,
    /// Ascending by offset.
    pub(super) heads: Vec<Head<'a>>,
    /// By offset. Units may share abbreviations.
    pub(super) abbreviations: HashMap<usize, Rc<Abbreviations>>,
    /// Offsets of line programs that have been read.
    pub(super) programs: HashSet<usize>,
}

/// Offset of a unit in its section.
pub(super) fn offset(header: &UnitHeader<Slice<'_>>) -> usize {
    let UnitSectionOffset(offset) = header.offset();
    offset
}
