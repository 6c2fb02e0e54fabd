//! A guest must behave equally under pirn, with any compiler options and any previous user of its
//! slot, and under other engines.
//!
//! The check compares the end of each call and its results, the arguments of host functions, and
//! finally the exported memories, globals and tables. All NaNs are equal. The comparison ends when
//! a guest exhausts its stack or its heap, because these limits differ between engines.

use crate::campaign::KEEP;
use crate::engine::{Engine, Pirn};
use crate::guest::Guest;
use crate::random::Random;
use crate::setting::Setting;
use crate::value::{End, Run, Val};
use pirn_compiler::OptLevel;
use std::ops::AddAssign;
use std::path::Path;
use std::{env, fs};

/// Counts of comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Guests.
    pub guests: usize,
    /// Guests whose start function failed, as it should.
    pub unstarted: usize,
    /// Guests that may throw.
    pub throwing: usize,
    /// Guests that may make structs and arrays.
    pub objects: usize,
    /// Guests that may have shared memories.
    pub threads: usize,
    /// Guests that may use relaxed SIMD operators.
    pub relaxed: usize,
    /// Guests with loops, small functions and branch tables.
    pub loops: usize,
    /// Guests that are compiled with one optimiser pass alone, or with inlining alone.
    pub alone: usize,
    /// Guests that exhausted their stack, or another limit, under some engine.
    pub exhausted: usize,
    /// Calls in pirn's first run of each guest, without those that only read state.
    pub calls: usize,
    /// Calls among [`calls`](Self::calls) that returned.
    pub returned: usize,
    /// Calls that only read state, and returned.
    pub seen: usize,
    /// Repeated runs of pirn that were compared with the first.
    pub again: usize,
    /// Runs of other engines that were compared with the first.
    pub others: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.guests += other.guests;
        self.unstarted += other.unstarted;
        self.throwing += other.throwing;
        self.objects += other.objects;
        self.threads += other.threads;
        self.relaxed += other.relaxed;
        self.loops += other.loops;
        self.alone += other.alone;
        self.exhausted += other.exhausted;
        self.calls += other.calls;
        self.returned += other.returned;
        self.seen += other.seen;
        self.again += other.again;
        self.others += other.others;
    }
}

/// Makes a guest from arbitrary bytes, and compares its behaviour. The canary flips one bit in the
/// result of pirn's first run.
///
/// # Errors
///
/// The difference, and the run that differs.
pub fn check(data: &[u8], others: &[&dyn Engine], canary: bool) -> Result<Tally, String> {
    let Ok((guest, random)) = Guest::of(data) else {
        return Ok(Tally::default());
    };
    compare(&guest, random, others, canary).inspect_err(|error| {
        if let Some(folder) = env::var_os(KEEP)
            && !canary
        {
            keep(&guest, error, Path::new(&folder));
        }
    })
}

/// Saves a guest that differs.
fn keep(guest: &Guest, error: &str, folder: &Path) {
    let module = Pirn::new(&guest.wasm, &Setting::plain()).map(|pirn| pirn.plan(guest));
    let told = format!("{error}\n{module:#x?}\n");
    let written = fs::write(folder.join("guest.wasm"), &guest.wasm)
        .and_then(|()| fs::write(folder.join("guest.txt"), told));
    if let Err(error) = written {
        eprintln!("not written into {}: {error}", folder.display());
    }
}

fn compare(
    guest: &Guest,
    mut random: Random,
    others: &[&dyn Engine],
    canary: bool,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (setting, mut second) = (Setting::any(&mut random), Setting::any(&mut random));
    // Both runs count fuel, or neither. Fuel must also be equal at another optimisation level.
    second.fuel = setting.fuel;
    if setting.fuel && setting.level != OptLevel::None {
        second.level = OptLevel::None;
    }
    let pirn = Pirn::new(&guest.wasm, &setting).map_err(|error| format!("{setting:?}: {error}"))?;
    let plan = pirn.plan(guest);
    let run = |pirn: &Pirn, setting: &Setting| {
        pirn.run(&plan)
            .map_err(|error| format!("{setting:?}: {error}"))
    };
    let mut first = run(&pirn, &setting)?;
    if canary {
        flip(&mut first);
    }
    let compare = |other: &Run, who: &str| match first.difference(other) {
        Some(difference) => Err(format!("{setting:?} differs from {who}: {difference}")),
        None => Ok(()),
    };
    let mut exhausted = first.is_exhausted();
    tally.guests = 1;
    tally.throwing = usize::from(guest.uses.exceptions);
    tally.objects = usize::from(guest.uses.objects);
    tally.threads = usize::from(guest.uses.threads);
    tally.relaxed = usize::from(guest.uses.relaxed);
    tally.loops = usize::from(guest.has_loops);
    tally.alone = usize::from(setting.is_alone() || second.is_alone());
    tally.unstarted = usize::from(!first.has_started());
    let acts = plan.calls.len() - plan.looks;
    tally.calls = (first.ends.len() - 1).min(acts);
    let ends = || first.ends.iter().skip(1);
    tally.returned = returned(ends().take(acts));
    tally.seen = returned(ends().skip(acts));

    let again = run(&pirn, &setting)?;
    compare(&again, "another run of the same")?;
    fuel(&first, &again)?;
    let pirn = Pirn::new(&guest.wasm, &second).map_err(|error| format!("{second:?}: {error}"))?;
    let other = run(&pirn, &second)?;
    compare(&other, &format!("{second:?}"))?;
    fuel(&first, &other)?;
    exhausted |= other.is_exhausted();
    tally.again = 2;
    for engine in others {
        if !engine.takes(&guest.uses) {
            continue;
        }
        let run = engine.run(&guest.wasm, &plan);
        let run = run.map_err(|error| format!("{} fails: {error}", engine.name()))?;
        compare(&run, engine.name())?;
        exhausted |= run.is_exhausted();
        tally.others += 1;
    }
    tally.exhausted = usize::from(exhausted);
    Ok(tally)
}

fn returned<'a>(ends: impl Iterator<Item = &'a End>) -> usize {
    ends.filter(|end| matches!(end, End::Returned(_))).count()
}

/// Checks that both runs used the same fuel. Calls are compared until the first that does not
/// return: the fuel used before a trap by a signal is unspecified.
fn fuel(a: &Run, b: &Run) -> Result<(), String> {
    let calls = a.ends.iter().skip(1).zip(a.fuel.iter().zip(&b.fuel));
    let mut returned = calls.take_while(|(end, _)| matches!(end, End::Returned(_)));
    match returned.find(|(_, (a, b))| a != b) {
        Some((_, (a, b))) => Err(format!("fuel left: {a}, {b}")),
        None => Ok(()),
    }
}

/// Flips one bit of a run's result.
fn flip(run: &mut Run) {
    for end in run.ends.iter_mut().rev() {
        if let End::Returned(values) = end
            && let Some(Val::I32(bits)) = values.last_mut()
        {
            *bits ^= 1;
            return;
        }
    }
    if let Some(byte) = run
        .memories
        .iter_mut()
        .rev()
        .find_map(|memory| memory.last_mut())
    {
        *byte ^= 0x80;
    }
}
