//! Renumbers canonical options, memories, `realloc` functions and `post-return` functions.
//!
//! The same input must give the same bytes. But wasmtime-environ returns some exports in an order
//! that differs between runs, and the numbers follow that order. [`renumber`] assigns new numbers,
//! first in the order of the adapters, then in the order of the sorted exports.

use super::part::Export as JoinedExport;
use pirn_format::component::{
    Adapter, CanonicalOptions, Component, memory_name, post_return_name, realloc_name,
};
use std::collections::HashMap;

/// Maps old numbers to new ones. The first old number that is looked up becomes 0, the next one 1.
#[derive(Default)]
struct Numbers(HashMap<u32, u32>);

impl Numbers {
    fn of(&mut self, old: u32) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(old).or_insert(next)
    }
}

/// Sorts the exports of a component, and renumbers everything that exports and adapters use.
pub(super) fn renumber(component: &mut Component, exports: &mut [JoinedExport]) {
    component
        .exports
        .sort_by(|one, other| one.path.cmp(&other.path));
    let old = std::mem::take(&mut component.options);
    let (mut memories, mut reallocs) = (Numbers::default(), Numbers::default());
    let (mut post_returns, mut options) = (Numbers::default(), Numbers::default());
    let mut renewed: Vec<CanonicalOptions> = vec![];
    let mut option = |number: &mut u32, memories: &mut Numbers| {
        let found = old[*number as usize];
        *number = options.of(*number);
        if *number as usize == renewed.len() {
            renewed.push(CanonicalOptions {
                memory: found.memory.map(|memory| memories.of(memory)),
                realloc: found.realloc.map(|realloc| reallocs.of(realloc)),
                post_return: found.post_return.map(|after| post_returns.of(after)),
                ..found
            });
        }
    };
    for adapter in &mut component.adapters {
        match adapter {
            Adapter::Lower { options, .. } => option(options, &mut memories),
            Adapter::Transcode { from, to, .. } => {
                *from = memories.of(*from);
                *to = memories.of(*to);
            }
            _ => {}
        }
    }
    for export in &mut component.exports {
        option(&mut export.options, &mut memories);
    }
    component.options = renewed;
    let mut names = HashMap::new();
    let mut rename = |numbers: &Numbers, name: fn(u32) -> String| {
        let pairs = numbers.0.iter();
        names.extend(pairs.map(|(old, new)| (name(*old), name(*new))));
    };
    rename(&memories, memory_name);
    rename(&reallocs, realloc_name);
    rename(&post_returns, post_return_name);
    for export in exports.iter_mut() {
        if let Some(name) = names.remove(&export.name) {
            export.name = name;
        }
    }
    exports.sort_by(|one, other| one.name.cmp(&other.name));
}
