//! Random tables and segments.

use super::common::campaign::share;
use super::common::random::Random;
use super::{both, compare, is_known, module, options, region};
use std::fmt::Write;

/// Number of modules in the test, and in the manual run.
const MODULES: u64 = 80;
const MANY_MODULES: u64 = 20_000;

const FUNCS: [&str; 6] = ["$a", "$b", "$c", "$d", "$e", "$o"];
const TABLES: [&str; 2] = ["$t", "$u"];

/// The tables and segments of a module. Most segments fit.
fn tables(random: &mut Random) -> String {
    let mut text = String::new();
    let sizes = TABLES.map(|_| random.below(13));
    for (table, size) in TABLES.iter().zip(sizes) {
        let max = match random.below(3) {
            0 => (size + random.below(3)).to_string(),
            _ => String::new(),
        };
        let _ = write!(text, "(table {table} {size} {max} funcref) ");
    }
    // Use few functions, so that some types have only one.
    let funcs = 1 + random.below(FUNCS.len() as u64);
    for _ in 0..random.below(6) {
        let at = random.below(2) as usize;
        let items = random.below(sizes[at] + 1);
        let room = sizes[at] - items;
        let offset = match random.below(60) {
            0 => room + 1,
            1 => u64::from(u32::MAX - random.below(3) as u32),
            _ => random.below(room + 1),
        };
        let mode = match random.below(8) {
            0 => String::new(),
            1 => "declare".to_owned(),
            _ => format!("(table {}) (i32.const {offset})", TABLES[at]),
        };
        let is_listed = random.below(2) == 0;
        let kind = if is_listed { "func" } else { "funcref" };
        let _ = write!(text, "(elem {mode} {kind}");
        for _ in 0..items {
            let func = FUNCS[random.below(funcs) as usize];
            let _ = match (is_listed, random.below(3)) {
                (true, _) => write!(text, " {func}"),
                (false, 0) => write!(text, " (ref.null func)"),
                (false, _) => write!(text, " (ref.func {func})"),
            };
        }
        text += ") ";
    }
    text
}

fn run(modules: u64, seed: u64) {
    let region = region();
    let (mut known, mut returned) = (0, 0);
    let counted = modules.min(MODULES);
    for number in 0..modules {
        let mut random = Random(seed.wrapping_add(number << 32));
        let text = module("", &TABLES, &tables(&mut random));
        let options = &options()[random.below(4) as usize];
        let [text_known, _] = both(&text);
        known += u64::from(number < counted && is_known(&text_known, options));
        returned += compare(&region, &text, &TABLES, options, None);
    }
    assert!(known > counted / 4, "{known} are known");
    assert!(returned as u64 > modules * 5, "{returned} calls returned");
}

#[test]
fn calls_through_random_tables_are_equal() {
    run(share(MODULES, 10), 5);
}

#[test]
#[ignore = "takes minutes"]
fn calls_through_many_random_tables_are_equal() {
    run(MANY_MODULES, 77);
}
