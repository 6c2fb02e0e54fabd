//! [`Observed`]: the observations of a call that are compared.

use super::case::{Case, Expected};
use super::decode::Reader;
use super::engine::{Call, End, Fault, Seen};
use super::scripted::{self, key, word};
use super::types::{FLAT_PARAMS_MAX, Ty};
use super::values::same;
use pirn_component::Value;

/// The observations of a call that are compared.
pub(super) struct Observed<'a> {
    pub(super) end: &'a End,
    pub(super) seen: &'a Seen,
    /// The keys of the core values that the guests noted, in order.
    pub(super) parts: Vec<u32>,
    /// The parameter of each guest's `f`, and the result of its `h`.
    pub(super) at_guests: Vec<[Option<Value>; 2]>,
    /// Whether a guest passes a wrong address for the result of `h`. pirn calls the allocator
    /// before it checks the address; the specification checks the address first.
    misplaced: bool,
    /// Whether a script has an allocator make a mistake. Wasmtime may call the allocator before it
    /// has read the whole of an invalid string; pirn and the specification read the string first.
    allocator: bool,
}

impl<'a> Observed<'a> {
    /// Extracts the observations from the end of a call and from the notes.
    pub(super) fn new(case: &Case, end: &'a End, seen: &'a Seen, call: &Call) -> Self {
        let mut parts = vec![];
        let (mut misplaced, mut allocator) = (false, false);
        let guests = 0..case.encodings.len();
        let at_guests = guests.map(|guest| {
            let keys = guest as u32 * key::GUEST;
            let script = guest as u32 * word::GUEST;
            let types = case.types_of(guest);
            let mut memory = vec![0; scripted::MEMORY_BYTES as usize];
            let mut words = [vec![], vec![]];
            for (key, word) in &seen.notes {
                let Some(key) = key.checked_sub(keys).filter(|key| *key < key::GUEST) else {
                    continue;
                };
                let (part, at) = (key >> 20 << 20, key as usize % (1 << 20));
                match part {
                    key::PARAMS => words[0].push(*word),
                    key::RESULT => words[1].push(*word),
                    _ => memory[at..at + 8].copy_from_slice(&word.to_le_bytes()),
                }
                if matches!(part, key::PARAMS | key::RESULT) {
                    parts.push(keys + key);
                }
            }
            let reader = Reader {
                memory: &memory,
                encoding: case.encodings[guest],
            };
            let read = |ty: &Ty, words: &[u64], flat_max, at: u32, mode| {
                let good = call.word(script + mode) == 0 && !words.is_empty();
                good.then(|| reader.value(ty, words, flat_max, at))?
            };
            let at = words[0].first().map_or(0, |word| *word as u32);
            let param = read(&types[0], &words[0], FLAT_PARAMS_MAX, at, word::REALLOC);
            let at = scripted::RESULT_AT;
            let result = read(&types[3], &words[1], 1, at, word::REALLOC_RESULT);
            let placed = types[3].flat().len() <= 1 || {
                let params = types[2].core_params().len();
                call.word(script + word::PARAMS + params as u32) == u64::from(at)
            };
            misplaced |= !placed;
            let modes = [word::REALLOC, word::REALLOC_RESULT];
            allocator |= modes.iter().any(|mode| call.word(script + mode) != 0);
            [param, result.filter(|_| placed)]
        });
        let at_guests = at_guests.collect();
        Self {
            end,
            seen,
            parts,
            at_guests,
            misplaced,
            allocator,
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        matches!(self.end, End::Failed(Fault::Exhausted))
    }

    pub(super) fn values(&self) -> usize {
        let at_guests = self.at_guests.iter().flatten().flatten().count();
        let returned = matches!(self.end, End::Returned(_));
        at_guests + self.seen.given.len() + usize::from(returned)
    }

    /// Compares the values with the expected ones.
    pub(super) fn check(&self, expected: &Expected) -> Result<(), String> {
        let differs = |place: &str, found: &Value, wanted: &Option<Value>| match wanted {
            Some(wanted) if !same(found, wanted) => {
                Err(format!("the {place} has {found:?}, not {wanted:?}"))
            }
            _ => Ok(()),
        };
        match self.end {
            End::Returned(value) => differs("caller", value, &expected.returned)?,
            End::Failed(fault) if expected.succeeds => {
                return Err(format!("{fault:?} without a mistake"));
            }
            End::Failed(_) => {}
        }
        if let Some(wanted) = expected
            .given
            .as_ref()
            .filter(|_| !self.seen.given.is_empty())
        {
            let found = Value::Tuple(self.seen.given.clone());
            differs("host", &found, &Some(Value::Tuple(wanted.clone())))?;
        }
        for (found, wanted) in self.at_guests.iter().zip(&expected.at_guests) {
            for (found, wanted) in found.iter().zip(wanted) {
                if let Some(found) = found {
                    differs("guest", found, wanted)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn compare(&self, other: &Self, name: &str) -> Result<(), String> {
        let equal = match (self.end, other.end) {
            (End::Returned(mine), End::Returned(value)) => same(mine, value),
            (End::Failed(mine), End::Failed(fault)) => {
                let either = |wanted| *mine == wanted || *fault == wanted;
                // An allocator without room traps with `unreachable`.
                let allocator = self.allocator || either(Fault::Unreachable);
                mine == fault
                    || of_pointer(*mine) && of_pointer(*fault)
                    || allocator && (self.misplaced || either(Fault::Text))
            }
            _ => false,
        };
        if !equal {
            return Err(format!("{:?}, and under {name} {:?}", self.end, other.end));
        }
        let [mine, others] = [self, other].map(|one| &one.seen.given);
        let given = mine.len() == others.len()
            && mine.iter().zip(others).all(|(one, other)| same(one, other));
        if !given {
            return Err(format!(
                "the host gets {mine:?}, and under {name} {others:?}"
            ));
        }
        if self.seen.dropped != other.seen.dropped {
            let [mine, others] = [self, other].map(|one| &one.seen.dropped);
            return Err(format!(
                "{mine:x?} are dropped, and under {name} {others:x?}"
            ));
        }
        if self.parts != other.parts {
            let [mine, others] = [self, other].map(|one| &one.parts);
            return Err(format!(
                "the guests note {mine:x?}, and under {name} {others:x?}"
            ));
        }
        let both = self
            .at_guests
            .iter()
            .flatten()
            .zip(other.at_guests.iter().flatten());
        for (mine, other) in both {
            let equal = match (mine, other) {
                (Some(mine), Some(other)) => same(mine, other),
                (mine, other) => mine.is_none() && other.is_none(),
            };
            if !equal {
                return Err(format!("a guest has {mine:?}, and under {name} {other:?}"));
            }
        }
        Ok(())
    }
}

/// Whether the fault is a wrong pointer. If the pointer of a list is both unaligned and out of
/// bounds, Wasmtime checks the bounds first; the specification and pirn check the alignment first.
fn of_pointer(fault: Fault) -> bool {
    matches!(fault, Fault::Bounds | Fault::Unaligned)
}
