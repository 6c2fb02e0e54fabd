//! [`Shims`]: parts of a component that only forward calls, and are left out.

use super::part::{Export, Given, Item, Part, Space};
use std::collections::{HashMap, HashSet};

/// Parts that toolchains add because two modules of a component need each other. The functions of a
/// shim call through a table, and a module without functions, the filler, fills the table. Calls of
/// the shim become calls of the functions in the table, and both parts are left out.
#[derive(Default)]
pub(super) struct Shims {
    /// The parts that are left out.
    pub(super) omitted: HashSet<usize>,
    /// The target of each shim function.
    called: HashMap<Item, Given>,
}

impl Shims {
    pub(super) fn find(parts: &[Part<'_>], exports: &[Export]) -> Self {
        let uses = Uses::of(parts, exports);
        let mut shims = Self::default();
        for filler in 0..parts.len() {
            // Most fillers are refused before any function of a shim is read.
            if let Some(shim) = filled_part(parts, filler)
                && uses.only_filled(shim, filler)
                && let Some(called) = called(parts, shim, filler)
                && called
                    .iter()
                    .all(|(_, given)| shims.ends_outside(parts, shim, *given))
            {
                shims.omitted.extend([shim, filler]);
                shims.called.extend(called);
            }
        }
        shims
    }

    /// Whether `given`, followed through imports and known shims, is not a function of this shim.
    /// Shims that call each other stay, because their calls never end.
    fn ends_outside(&self, parts: &[Part<'_>], shim: usize, mut given: Given) -> bool {
        while let Given::Item(item) = given {
            if item.part == shim {
                return false;
            }
            match self.behind(parts, item) {
                Some(behind) => given = behind,
                None => break,
            }
        }
        true
    }

    /// The target of an item that is a shim function or an import.
    pub(super) fn behind(&self, parts: &[Part<'_>], item: Item) -> Option<Given> {
        let imported = parts[item.part].given(item.space);
        let imported = imported.get(item.index as usize);
        let called = self.called.get(&item).copied();
        called.or_else(|| imported.map(|(given, _)| *given))
    }
}

/// The part whose table `filler` fills, if `filler` does nothing else.
fn filled_part(parts: &[Part<'_>], filler: usize) -> Option<usize> {
    let part = &parts[filler];
    let empty = Space::ALL.iter().all(|space| part.defined(*space) == 0);
    if !empty || part.start.is_some() || part.segments() != [1, 0] {
        return None;
    }
    let (table, _) = part.only_segment()?;
    match *part.given(Space::Table).get(table as usize)? {
        (Given::Item(table), _) => Some(table.part),
        _ => None,
    }
}

/// The target of each shim function, through the table that `filler` fills.
fn called(parts: &[Part<'_>], at: usize, filler: usize) -> Option<Vec<(Item, Given)>> {
    let part = &parts[filler];
    let (_, elements) = part.only_segment()?;
    let shim = &parts[at];
    let others = [Space::Memory, Space::Global, Space::Tag];
    let small = others.iter().all(|space| shim.defined(*space) == 0)
        && shim.given.iter().all(Vec::is_empty)
        && shim.defined(Space::Table) == 1
        && shim.start.is_none()
        && shim.segments() == [0, 0];
    // The segment fits in the table.
    let fits = elements
        .iter()
        .all(|(element, _)| u64::from(*element) < shim.table_len());
    if !small || !fits {
        return None;
    }
    let elements: HashMap<u32, u32> = elements.into_iter().collect();
    let mut called = vec![];
    for (func, body) in (0..).zip(&shim.bodies) {
        let element = forwarded(shim, func, body)?;
        let (given, ty) = *part
            .given(Space::Func)
            .get(*elements.get(&element)? as usize)?;
        if !Part::same_numbers(shim.ty(shim.type_of(func)?), part.ty(ty)) {
            return None;
        }
        let item = Item {
            part: at,
            space: Space::Func,
            index: func,
        };
        called.push((item, given));
    }
    Some(called)
}

/// The element that a function of a shim calls with its own parameters.
fn forwarded(shim: &Part<'_>, func: u32, body: &wasmparser::FunctionBody<'_>) -> Option<u32> {
    use wasmparser::Operator as Op;
    let own = shim.type_of(func)?;
    let ty = shim.ty(own)?;
    let wasmparser::CompositeInnerType::Func(ty) = &ty.composite_type.inner else {
        return None;
    };
    let mut operators = body.get_operators_reader().ok()?;
    for param in 0..ty.params().len() as u32 {
        match operators.read().ok()? {
            Op::LocalGet { local_index } if local_index == param => {}
            _ => return None,
        }
    }
    let Op::I32Const { value } = operators.read().ok()? else {
        return None;
    };
    match [operators.read().ok()?, operators.read().ok()?] {
        [
            Op::CallIndirect {
                type_index,
                table_index: 0,
            },
            Op::End,
        ] if type_index == own => Some(value.cast_unsigned()),
        _ => None,
    }
}

/// The uses of each part.
struct Uses {
    /// Whether any item of a part is used.
    any: Vec<bool>,
    /// For each part, the users of its items other than functions. An export counts as a user.
    others: Vec<Vec<usize>>,
    /// For each part, the number of start functions of earlier parts.
    starts: Vec<u32>,
}

impl Uses {
    fn of(parts: &[Part<'_>], exports: &[Export]) -> Self {
        let mut uses = Self {
            any: vec![false; parts.len()],
            others: vec![vec![]; parts.len()],
            starts: vec![],
        };
        let mut starts = 0;
        for (user, part) in parts.iter().enumerate() {
            uses.starts.push(starts);
            starts += u32::from(part.start.is_some());
            for (given, _) in part.given.iter().flatten() {
                uses.count(*given, user);
            }
        }
        for export in exports {
            uses.count(export.given, parts.len());
        }
        uses
    }

    fn count(&mut self, given: Given, user: usize) {
        if let Given::Item(item) = given {
            self.any[item.part] = true;
            if item.space != Space::Func {
                self.others[item.part].push(user);
            }
        }
    }

    /// Whether `filler` and the shim can be omitted. Nothing may use `filler`. Only `filler` may
    /// use items of the shim other than functions. The parts from the shim to `filler` may have no
    /// start function.
    fn only_filled(&self, shim: usize, filler: usize) -> bool {
        !self.any[filler]
            && self.others[shim].iter().all(|user| *user == filler)
            && self.starts[shim] == self.starts[filler]
    }
}
