//! The branch hint section (`metadata.code.branch_hint`, WebAssembly's proposal of branch hinting): which way a
//! conditional branch nearly always goes.
//!
//! It is advice, and comes from whoever made the guest: what is wrong is passed over, and a damaged section is ignored
//! from the damage on. Hints are in order of functions and offsets, as code is, so both are read once, side by side, and
//! nothing is kept of them.

use std::iter::{Flatten, Peekable};
use wasmparser::{
    BranchHint, BranchHintFunction, BranchHintSectionReader, FromReader, FunctionBody,
    SectionLimited, SectionLimitedIntoIter,
};

/// The section while the bodies of functions are found. The first one counts, if it is before the code.
#[derive(Default)]
pub(super) struct Section<'a>(Option<Entries<'a, BranchHintFunction<'a>>>);

impl<'a> Section<'a> {
    pub(super) fn note(&mut self, section: BranchHintSectionReader<'a>) {
        self.0.get_or_insert_with(|| Entries::of(section));
    }

    /// What there is for a function; each is asked for once, in ascending order.
    pub(super) fn take(&mut self, func: u32) -> Option<SectionLimited<'a, BranchHint>> {
        let entries = self.0.as_mut()?;
        entries.take(func, |entry| entry.func).map(|of| of.hints)
    }
}

/// The hints of one function while it is translated.
#[derive(Default)]
pub(crate) struct Hints<'a> {
    entries: Option<Entries<'a, BranchHint>>,
    /// Where its body lies in the module's bytes. Hints are of offsets from there, the declaration of its locals.
    start: u32,
}

impl<'a> Hints<'a> {
    pub(crate) fn of(
        hints: Option<SectionLimited<'a, BranchHint>>,
        body: &FunctionBody<'_>,
    ) -> Self {
        Self {
            entries: hints.map(Entries::of),
            // In range: the whole module is.
            start: body.range().start as u32,
        }
    }

    /// Whether the condition of the branch at an offset in the module's bytes is likely true; `None` if nobody says.
    /// Each is asked for once, in ascending order.
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

    /// The entry of this number, if there is one. Those of smaller ones are passed over for good: there is nothing
    /// that they are of, or they are not in order.
    fn take(&mut self, wanted: u32, number: impl Fn(&T) -> u32) -> Option<T> {
        while self.0.next_if(|entry| number(entry) < wanted).is_some() {}
        self.0.next_if(|entry| number(entry) == wanted)
    }
}
