//! On x86_64, checks which constants in address sums become displacements of an access.
//!
//! An address sum wraps around at 32 bits, but a displacement does not. So the compiler must prove
//! that the sum cannot wrap. `runtime/tests/address` checks that guests observe no difference.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

/// The instructions of a function of two numbers that combines loaded i64 values.
fn listing(code: &str, arch: Arch, level: OptLevel) -> Vec<String> {
    let text = format!(
        r#"(module (memory 1) (func (export "run") (param $p i32) (param $q i32) (result i64)
             (local $s i64) {code} (local.get $s)))"#
    );
    let mut options = Options::new(arch);
    options.opt_level = level;
    common::first_function(&text, &options)
}

fn optimised(code: &str) -> Vec<String> {
    listing(code, Arch::X86_64, OptLevel::Speed)
}

/// Number of additions in a listing, except those that free the frame. The function combines loaded
/// values by `xor`, so each addition computes an address.
fn sums(listing: &[String]) -> usize {
    let adds = |text: &&String| {
        (text.starts_with("lea") || text.starts_with("add")) && !text.ends_with("%rsp")
    };
    listing.iter().filter(adds).count()
}

/// Code that loads the value at an index and combines it with the earlier values.
fn load(index: &str) -> String {
    format!("(local.set $s (i64.xor (local.get $s) (i64.load {index})))")
}

fn plus(index: &str, constant: i32) -> String {
    format!("(i32.add {index} (i32.const {constant}))")
}

const P: &str = "(local.get $p)";
const Q: &str = "(local.get $q)";

/// Code that loads eight consecutive words.
fn words() -> String {
    let rest = (1..8).map(|at| load(&plus(P, at * 8)));
    load(P) + &rest.collect::<String>()
}

/// After an access at an index, an access at a small distance above this index needs no addition.
#[test]
fn a_small_distance_from_an_earlier_access_is_a_displacement() {
    for level in [OptLevel::Speed, OptLevel::SpeedAndSize] {
        let code = listing(&words(), Arch::X86_64, level);
        assert_eq!(sums(&code), 0, "{code:#?}");
        for at in 1..8 {
            let displacement = format!(" {:#x}(%", at * 8);
            let is_there = |text: &String| text.contains(&displacement);
            assert!(code.iter().any(is_there), "{displacement} in {code:#?}");
        }
    }
}

/// The index of the first access may itself be a sum. The code computes this sum once.
#[test]
fn a_small_distance_from_a_computed_sum_is_a_displacement() {
    let first = plus(P, 1000);
    let all = (0..8).map(|at| load(&plus(&first, at * 8)));
    let code = optimised(&all.collect::<String>());
    assert_eq!(sums(&code), 1, "{code:#?}");
    let sum = format!("(i32.add {P} {Q})");
    let turned = format!("(i32.add {} {})", plus(Q, 8), plus(P, 8));
    let code = optimised(&(load(&sum) + &load(&plus(&sum, 8)) + &load(&turned)));
    assert_eq!(sums(&code), 1, "{code:#?}");
}

/// Where the first access dominates a later one, the later sum cannot wrap around.
#[test]
fn a_distance_from_a_dominating_access_is_a_displacement() {
    let behind = load(&plus(P, 8));
    let first = load(P);
    for code in [
        format!("{first} (if {Q} (then {behind}))"),
        format!("{first} (loop $again {behind} (br_if $again {Q}))"),
        format!("(block $out {first} (br_if $out {Q}) {behind})"),
        format!("(block $out (br_if $out {Q}) {first} {behind})"),
        format!("(drop (i64.load8_u {P})) {behind}"),
        format!("(i64.store8 {P} (i64.const 7)) {behind}"),
        format!("(v128.store {P} (v128.const i64x2 1 2)) {behind}"),
    ] {
        let code = optimised(&code);
        assert_eq!(sums(&code), 0, "{code:#?}");
    }
}

/// The sum may wrap around if no earlier access dominates the access, or if the earlier access is
/// at a higher address or another index.
#[test]
fn a_sum_that_might_wrap_is_computed() {
    let behind = load(&plus(P, 8));
    let first = load(P);
    for code in [
        behind.clone(),
        format!("{behind} {first}"),
        format!("{first} {}", load(&plus(P, -8))),
        format!("(if {Q} (then {first}) (else {behind}))"),
        format!("(if {Q} (then {first})) {behind}"),
        format!("(block $out (br_if $out {Q}) {first}) {behind}"),
        format!("{} {behind}", load(Q)),
        format!("{} {behind}", load(&format!("(i32.add {P} {P})"))),
    ] {
        let code = optimised(&code);
        assert!(sums(&code) > 0, "{code:#?}");
    }
}

/// The largest distance that becomes a displacement is a page of 64 KiB.
#[test]
fn distances_up_to_64_kib_are_displacements() {
    let far = |above| sums(&optimised(&(load(P) + &load(&plus(P, above)))));
    assert_eq!([far(65_536), far(65_537)], [0, 1]);
}

/// The largest offset that the guard region covers, and one byte more.
#[test]
fn offsets_within_the_guard_region_are_displacements() {
    let far = |offset| {
        let at = plus(P, 1000);
        let code = format!("{} (local.set $s (i64.load offset={offset} {at}))", load(P));
        sums(&optimised(&code))
    };
    let most = (32 << 20) - 8;
    assert_eq!([far(most - 1000), far(most - 999)], [0, 1]);
}

/// Only a few earlier accesses are searched, so that compile time is linear in the number of
/// accesses.
#[test]
fn only_the_last_few_accesses_are_searched() {
    let far = |accesses: i32| {
        let down = (1..=accesses).map(|at| load(&plus(P, at * -1_000_000)));
        let code = load(P) + &down.collect::<String>() + &load(&plus(P, 8));
        sums(&optimised(&code)) as i32 - accesses
    };
    assert_eq!([far(1), far(7), far(8)], [0, 0, 1]);
}

/// A constant added to an index with few significant bits cannot wrap around.
#[test]
fn a_constant_added_to_a_narrow_index_is_a_displacement() {
    for small in [
        format!("(i32.and {P} (i32.const 0xfffff8))"),
        format!("(i32.shr_u {P} (i32.const 8))"),
        format!("(i32.load16_u {P})"),
        "(i32.const 24)".to_owned(),
    ] {
        let code = optimised(&load(&plus(&small, 4096)));
        assert_eq!(sums(&code), 0, "{code:#?}");
    }
    for large in [
        format!("(i32.and {P} (i32.const -8))"),
        format!("(i32.shr_s {P} (i32.const 8))"),
        format!("(i32.shr_u {P} (i32.const 32))"),
        format!("(i32.load16_s {P})"),
    ] {
        let code = optimised(&load(&plus(&large, 4096)));
        assert_eq!(sums(&code), 1, "{code:#?}");
    }
}

#[test]
fn a_byte_index_is_zero_extended_and_scaled() {
    for (by, mask, scale) in [
        (8, 0xff, ""),
        (15, 0x1fe, ",2"),
        (14, 0x3fc, ",4"),
        (13, 0x7f8, ",8"),
    ] {
        let index = format!("(i32.and (i32.shr_u {P} (i32.const {by})) (i32.const {mask}))");
        is_scaled(&index, scale);
    }
    for (by, scale) in [(1, ",2"), (2, ",4"), (3, ",8")] {
        let index = format!("(i32.shl (i32.and {P} (i32.const 255)) (i32.const {by}))");
        is_scaled(&index, scale);
    }
}

fn is_scaled(index: &str, scale: &str) {
    let code = optimised(&load(&plus(index, 1024)));
    let has = |text: &str| code.iter().any(|line| line.contains(text));
    assert!(has("movzb") && has(" 0x400(%rdi,%"), "{code:#?}");
    assert!(has(&format!("{scale}),")), "{code:#?}");
    let is_left = |line: &String| {
        ["and", "lea", "add", "shl"]
            .iter()
            .any(|op| line.starts_with(op))
    };
    assert!(!code.iter().any(is_left), "{code:#?}");
}

/// The reference for the optimised levels.
#[test]
fn addresses_are_not_rewritten_without_the_optimiser() {
    let code = listing(&words(), Arch::X86_64, OptLevel::None);
    assert_eq!(sums(&code), 7, "{code:#?}");
}

/// On aarch64 an access has an index or a displacement, not both.
#[test]
fn addresses_are_not_rewritten_on_aarch64() {
    for level in [OptLevel::None, OptLevel::Speed] {
        let code = listing(&words(), Arch::Aarch64, level);
        assert_eq!(sums(&code), 7, "{code:#?}");
    }
}
