//! The branch hint section (`metadata.code.branch_hint`, WebAssembly's branch hinting proposal):
//! the direction that a conditional branch nearly always takes.
//!
//! The section is a hint from an untrusted toolchain. Invalid hints are skipped, and a damaged
//! section is ignored from the damage on. Hints are ordered by function and offset, like the code.
//! So hints and code are read once, in parallel, and no hints are stored.

use std::iter::{Flatten, Peekable};
use wasmparser::{
    BranchHint, BranchHintFunction, BranchHintSectionReader, FromReader, FunctionBody,
    SectionLimited, SectionLimitedIntoIter,
};

/// The reader of the section while function bodies are collected. Only the first section before the
/// code is used.
#[derive(Default)]
pub(super) struct HintSection<'a>(Option<Entries<'a, BranchHintFunction<'a>>>);

impl<'a> HintSection<'a> {
    pub(super) fn note(&mut self, section: BranchHintSectionReader<'a>) {
        self.0.get_or_insert_with(|| Entries::of(section));
    }

    /// The hints of a function. Must be called in ascending order, once for each function.
    pub(super) fn take(&mut self, func: u32) -> Option<SectionLimited<'a, BranchHint>> {
        let entries = self.0.as_mut()?;
        entries.take(func, |entry| entry.func).map(|of| of.hints)
    }
}

/// The hints of one function during its translation.
#[derive(Default)]
pub(crate) struct Hints<'a> {
    entries: Option<Entries<'a, BranchHint>>,
    /// Start of the function's body in the module's bytes: the declaration of its locals. Offsets
    /// of hints are relative to this start.
    start: u32,
}

impl<'a> Hints<'a> {
    pub(crate) fn of(
        hints: Option<SectionLimited<'a, BranchHint>>,
        body: &FunctionBody<'_>,
    ) -> Self {
        Self {
            entries: hints.map(Entries::of),
            // In range: the module's size is limited.
            start: body.range().start as u32,
        }
    }

    /// Whether the condition of the branch at an offset in the module's bytes is likely true;
    /// `None` if there is no hint. Must be called in ascending order, once for each branch.
    pub(crate) fn take(&mut self, offset: u32) -> Option<bool> {
        let entries = self.entries.as_mut()?;
        let hint = entries.take(offset - self.start, |hint| hint.func_offset);
        hint.map(|hint| hint.taken)
    }
}

/// Entries in ascending order, up to the first that cannot be read.
struct Entries<'a, T: FromReader<'a>>(Peekable<Flatten<SectionLimitedIntoIter<'a, T>>>);

impl<'a, T: FromReader<'a>> Entries<'a, T> {
    fn of(section: SectionLimited<'a, T>) -> Self {
        Self(section.into_iter().flatten().peekable())
    }

    /// The entry with this number, if there is one. Drops entries with smaller numbers, which match
    /// nothing or are out of order.
    fn take(&mut self, wanted: u32, number: impl Fn(&T) -> u32) -> Option<T> {
        while self.0.next_if(|entry| number(entry) < wanted).is_some() {}
        self.0.next_if(|entry| number(entry) == wanted)
    }
}
