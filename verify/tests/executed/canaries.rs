//! The attacks of `verify/tests/attacks`, executed without the verifier: the rules must see most
//! attacks.

use crate::context;
use crate::guest::Guest;
use crate::list::{self, Attack, Piece};
use crate::places::Places;
use crate::random::Random;
use crate::rules::Rules;
use crate::supervise::{End, Program};
use crate::trial::Trial;
use crate::world::World;
use pirn_format::cpu::Arch;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeTable, TrapTable};
use pirn_verify::Property;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// The lists whose code replaces functions. The other lists need a trampoline, a handler or
/// objects.
const LISTS: [(&str, &str); 5] = [
    ("values.txt", include_str!("../attacks/values.txt")),
    ("parts.txt", include_str!("../attacks/parts.txt")),
    ("addresses.txt", include_str!("../attacks/addresses.txt")),
    ("stack.txt", include_str!("../attacks/stack.txt")),
    (
        "instructions.txt",
        include_str!("../attacks/instructions.txt"),
    ),
];

/// Runs of each attack, with other values each time.
const RUNS: usize = 40;

/// Runs of an attack that probably no run shows.
const FEW_RUNS: usize = 4;

/// Numbers that all parameters have in the first runs.
const FIRST: [u64; 10] = [
    0,
    1,
    5,
    11,
    0x80,
    0xffff_ffff,
    0x1_0000_0001,
    1 << 63,
    (1 << 63) - 2,
    u64::MAX,
];

/// Attacks that no run shows, in groups with a reason.
const UNSEEN: &str = include_str!("unseen.txt");

/// The result of an attack's runs.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// A run broke a rule, or showed a difference.
    Yes,
    No,
    /// The attack's code is not a function, or this processor does not have its instructions.
    NotRun,
}

fn run(attack: &Attack, runs: usize, worlds: &mut BTreeMap<bool, Trial>) -> Seen {
    let is_function = |piece: &Piece| piece.kind.is_none() && piece.handler.is_none();
    if attack.has_objects || !attack.pieces.iter().all(is_function) {
        return Seen::NotRun;
    }
    let mut guest = Guest::new(Arch::X86_64, attack.has_all_features);
    let pieces = attack.pieces.iter();
    let entries: Vec<_> = pieces.map(|piece| guest.replace(piece)).collect();
    let entry = *entries.last().expect("an attack has a piece");
    let file = &guest.file;
    let text = &file[guest.section(Section::Text)];
    let seed = 64 + u64::from(attack.has_all_features);
    let trial = worlds.entry(attack.has_all_features).or_insert_with(|| {
        Trial::new([0, 1, 2].map(|number| World::new(&guest.checked, text, number, seed)))
    });
    for world in &mut trial.worlds {
        world.write_text(0, text);
    }
    let rules = Rules::new(&guest.checked);
    let program = Program {
        checked: &guest.checked,
        text,
        code: CodeTable::new(&file[guest.section(Section::Code)]).expect("a code table"),
        traps: TrapTable::new(&file[guest.section(Section::Traps)]).expect("a trap table"),
        rules: &rules,
    };
    let function = attack
        .pieces
        .last()
        .expect("an attack has a piece")
        .function;
    let metadata = &guest.checked.metadata;
    let places = Places::of(metadata.func_type(metadata.funcs[function as usize]));
    let (mut random, mut is_known) = (Random(1), false);
    for run in 0..runs {
        let input = match FIRST.get(run) {
            Some(number) => Trial::equal_input(*number, places.params.len()),
            None => trial.input(&mut random, places.params.len()),
        };
        match trial.run(&program, (entry, &places), &input, (1 + run % 2, true)) {
            Ok(end) => is_known |= end != End::Unknown,
            Err(_) => return Seen::Yes,
        }
    }
    match is_known {
        true => Seen::No,
        false => Seen::NotRun,
    }
}

/// The names of the attacks that no run shows.
fn unseen() -> BTreeSet<&'static str> {
    let groups = UNSEEN.split("\n== ").skip(1);
    let names = groups.flat_map(|group| group.lines().skip(1).filter(|line| !line.is_empty()));
    names.collect()
}

#[test]
fn attacks_are_seen_when_they_run() {
    let (mut worlds, mut unseen) = (BTreeMap::new(), unseen());
    // By property: numbers of attacks that were seen, that were not seen, and that did not run.
    let mut counts: BTreeMap<Property, [usize; 3]> = BTreeMap::new();
    let mut wrong = vec![];
    for (file, text) in LISTS {
        for (at, attack) in list::read(Arch::X86_64, text).into_iter().enumerate() {
            context::SEED.store(at as u64, Ordering::Relaxed);
            let is_listed = unseen.remove(attack.name.as_str());
            let runs = if is_listed { FEW_RUNS } else { RUNS };
            let seen = run(&attack, runs, &mut worlds);
            let Some(property) = attack.refused else {
                if seen == Seen::Yes {
                    wrong.push(format!("{file}: {}: harmless code is seen", attack.name));
                }
                continue;
            };
            if seen == Seen::No && !is_listed {
                wrong.push(format!("{file}: {}: no run shows it", attack.name));
            }
            if seen == Seen::Yes && is_listed {
                println!(
                    "{file}: {}: a run shows it, and the list does not",
                    attack.name
                );
            }
            let counts = counts.entry(property).or_default();
            counts[match seen {
                _ if is_listed => 1,
                Seen::NotRun => 2,
                _ => 0,
            }] += 1;
        }
    }
    let documented = include_str!("../../../docs/internals/verifier.md");
    for (property, [seen, unseen, not_run]) in counts {
        let name = property.name();
        println!("{name:<13}{seen:>5} seen{unseen:>5} not seen{not_run:>5} not run");
        assert!(seen > 2 * unseen, "{name}: too few are seen");
        // A processor without some extension runs fewer attacks than the document says.
        let moved = |more: usize| {
            let (seen, rest) = (seen + more, not_run.checked_sub(more)?);
            Some(format!("| {name} | {seen} | {unseen} | {rest} |"))
        };
        let mut rows = (0..=not_run).filter_map(moved);
        if !rows.any(|row| documented.lines().any(|line| line == row)) {
            wrong.push(format!(
                "docs/internals/verifier.md: | {name} | {seen} | {unseen} | {not_run} |"
            ));
        }
    }
    wrong.extend(
        unseen
            .iter()
            .map(|name| format!("unseen.txt: no attack is {name}")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
