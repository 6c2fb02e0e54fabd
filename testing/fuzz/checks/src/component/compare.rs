//! A guest that follows a script must behave equally under pirn and other engines, even if it
//! breaks rules of the canonical ABI. Values that break no rule must arrive unchanged.

use super::case::{Case, Expected};
use super::engine::{End, Engine, Pirn, Plan, Seen};
use super::observed::Observed;
use super::scripted::key;
use super::tally::Tally;
use crate::campaign::KEEP;
use crate::random::Random;
use pirn_compiler::OptLevel;
use std::path::Path;
use std::{env, fs};

/// Number of calls of each component.
const CALLS: usize = 8;

/// Makes a component from random numbers, and compares how engines run it.
///
/// # Errors
///
/// The difference.
pub(super) fn check(
    random: &mut Random,
    others: &[&dyn Engine],
    canary: bool,
) -> Result<Tally, String> {
    let case = Case::any(random);
    let text = case.text();
    let wasm = pirn_compiler::parse_text(text.as_bytes());
    let wasm = wasm.map_err(|error| format!("{error}: {text}"))?;
    let mut expected = vec![];
    let calls = (0..CALLS).map(|_| {
        let (call, values) = case.call(random);
        expected.push(values);
        call
    });
    let plan = Plan {
        calls: calls.collect(),
        wasm: wasm.into_owned(),
        setups: match case.encodings.len() {
            1 => vec!["setup"],
            _ => vec!["setup", "setup2"],
        },
    };
    compare(&case, &plan, &expected, random, others, canary).map_err(|(call, error)| {
        let error = format!("{error}: {:?} {:?}", case.encodings, case.types);
        if let Some(folder) = env::var_os(KEEP)
            && !canary
        {
            let call = call.map(|at| &plan.calls[at]);
            keep(&text, &format!("{error}\n{call:x?}\n"), Path::new(&folder));
        }
        error
    })
}

/// Saves a component for which the comparison fails.
fn keep(text: &str, told: &str, folder: &Path) {
    let written = fs::write(folder.join("guest.wat"), text)
        .and_then(|()| fs::write(folder.join("guest.txt"), told));
    if let Err(error) = written {
        eprintln!("not written into {}: {error}", folder.display());
    }
}

/// The index of the call that differs, if one does, and a description of the difference.
type Difference = (Option<usize>, String);

/// Makes all calls of a plan.
fn run(engine: &dyn Engine, plan: &Plan) -> Result<Vec<(End, Seen)>, Difference> {
    let name = engine.name();
    let run = engine.run(plan);
    let run = run.map_err(|error| (None, format!("{name} fails: {error}")))?;
    let (made, wanted) = (run.len(), plan.calls.len());
    match made == wanted {
        true => Ok(run),
        false => Err((None, format!("{name} makes {made} of {wanted} calls"))),
    }
}

fn compare(
    case: &Case,
    plan: &Plan,
    expected: &[Expected],
    random: &mut Random,
    others: &[&dyn Engine],
    canary: bool,
) -> Result<Tally, Difference> {
    let level = match random.once_in(4) {
        true => OptLevel::Speed,
        false => OptLevel::None,
    };
    let pirn = Pirn { level };
    let mut first = run(&pirn, plan)?;
    if canary {
        for (key, word) in first.iter_mut().flat_map(|(_, seen)| &mut seen.notes) {
            if *key % key::GUEST < key::PARAM_MEMORY {
                *word ^= 1;
            }
        }
    }
    let first = first.iter().zip(&plan.calls);
    let first: Vec<_> = first
        .map(|((end, seen), call)| Observed::new(case, end, seen, call))
        .collect();
    let mut tally = Tally {
        components: 1,
        ..Tally::default()
    };
    for (at, (observed, expected)) in first.iter().zip(expected).enumerate() {
        let found = observed.check(expected);
        found.map_err(|error| (Some(at), format!("call {at}: {error}")))?;
        tally.calls += 1;
        match observed.end {
            End::Returned(_) => tally.returned += 1,
            End::Failed(_) => tally.trapped += 1,
        }
        tally.values += observed.values();
    }
    for engine in others {
        let name = engine.name();
        let run = run(*engine, plan)?;
        for (at, ((end, seen), mine)) in run.iter().zip(&first).enumerate() {
            let told = |error| (Some(at), format!("call {at}: {error}"));
            let other = Observed::new(case, end, seen, &plan.calls[at]);
            if mine.is_exhausted() || other.is_exhausted() {
                tally.exhausted += 1;
                break;
            }
            mine.compare(&other, name).map_err(told)?;
            other.check(&expected[at]).map_err(told)?;
            tally.compared += 1;
        }
    }
    Ok(tally)
}
