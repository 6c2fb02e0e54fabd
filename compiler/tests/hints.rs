//! Branch hints: the compiler puts unlikely code after the function's return. A module with invalid
//! hints compiles to the code of the module without hints.

use crate::common;

use common::{except_source, first_function, leb};
use pirn_compiler::{Options, compile, parse_text};
use pirn_format::cpu::Arch;

const SECTION: &str = "metadata.code.branch_hint";

const UNLIKELY: &str = r#"(@metadata.code.branch_hint "\00")"#;
const LIKELY: &str = r#"(@metadata.code.branch_hint "\01")"#;

/// Constants that identify the code of two paths.
const ONE: i32 = 111;
const OTHER: i32 = 222;

/// Whether the code with a constant is before or after the function's return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    After,
}
use Place::{After, Before};

/// The places of [`ONE`] and [`OTHER`] in a module's first function.
fn places(text: &str, arch: Arch) -> [Place; 2] {
    let found = first_function(text, &Options::new(arch));
    let at = |is: &dyn Fn(&str) -> bool| {
        let at = found.iter().position(|each| is(each));
        at.unwrap_or_else(|| panic!("{found:#?}"))
    };
    let ret = at(&|each| each.starts_with("ret"));
    let sign = match arch {
        Arch::X86_64 => '$',
        Arch::Aarch64 => '#',
    };
    [ONE, OTHER].map(|constant| {
        let constant = format!("{sign}0x{constant:x}");
        match at(&|each| each.contains(&constant)) < ret {
            true => Before,
            false => After,
        }
    })
}

/// A function with this body. ONE and OTHER in the body become code with the constants of these
/// names.
fn function(body: &str) -> String {
    let body = body
        .replace("ONE", &multiply(ONE))
        .replace("OTHER", &multiply(OTHER));
    format!(
        r#"(module (func (export "f") (param $a i32) (param $b i32) (result i32) (local $c i64) (local $d f32)
             {body} (local.get $b)))"#
    )
}

fn multiply(by: i32) -> String {
    format!("(local.set $b (i32.xor (i32.mul (local.get $b) (i32.const {by})) (local.get $a)))")
}

/// Checks the places of the code in a body, in which HINT is replaced by each hint.
fn check(body: &str, unlikely: [Place; 2], likely: [Place; 2]) {
    for arch in Arch::ALL {
        for (hint, places_wanted) in [(UNLIKELY, &unlikely), (LIKELY, &likely)] {
            let body = body.replace("HINT", hint);
            let found = places(&function(&body), arch);
            assert_eq!(&found, places_wanted, "{arch:?}: {body}");
        }
    }
}

#[test]
fn the_unlikely_arm_of_an_if_follows_the_return() {
    check(
        "(local.get $a) HINT (if (then ONE) (else OTHER))",
        [After, Before],
        [Before, After],
    );
    // An `if` with parameters and results, followed by more code.
    check(
        "(local.get $b) (local.get $a) HINT
         (if (param i32) (result i32) (then (local.set $b) ONE (local.get $b))
           (else (local.set $b) OTHER (local.get $a)))
         (local.set $b (i32.xor (local.get $b)))",
        [After, Before],
        [Before, After],
    );
}

#[test]
fn the_unlikely_path_of_a_branch_follows_the_return() {
    // The branch, or the fall-through, is the only way to each of the two paths.
    check(
        "(block $end (block $there (local.get $a) HINT (br_if $there) OTHER (br $end)) ONE)",
        [After, Before],
        [Before, After],
    );
    // The target has other predecessors, so it stays in place. Only the fall-through may be
    // unlikely.
    check(
        "(block $there (br_if $there (local.get $b)) (local.get $a) HINT (br_if $there) OTHER) ONE",
        [Before, Before],
        [Before, After],
    );
}

/// The blocks inside an unlikely arm also follow the return.
#[test]
fn all_blocks_of_an_unlikely_arm_follow_the_return() {
    for inner in [
        "(loop $again ONE (br_if $again (local.get $b)))",
        "(block $end (br_if $end (local.get $b)) ONE)",
        "(if (local.get $b) (then ONE))",
        "(if (local.get $b) (then) (else ONE))",
        "(block $c (block $b (block $a (br_table $a $b $a $b $c (local.get $b))) ONE))",
        "(block $c (br_table $c $c $c (local.get $b))) ONE",
        // Code after a possible trap.
        "(local.set $b (i32.div_u (local.get $b) (local.get $a))) ONE",
    ] {
        check(
            &format!("(local.get $a) HINT (if (then {inner})) OTHER"),
            [After, Before],
            [Before, Before],
        );
    }
}

/// A block with several predecessors is as likely as the likeliest of them.
#[test]
fn a_target_is_unlikely_if_all_its_predecessors_are() {
    let target = |last: &str| {
        format!(
            "(block $end (block $error
               (local.get $a) {UNLIKELY} (br_if $error)
               (i32.eqz (local.get $b)) {UNLIKELY} (if (then (br $error)))
               (i32.eq (local.get $b) (i32.const 9)) {last} (br_if $error) OTHER (br $end)) ONE)"
        )
    };
    for arch in Arch::ALL {
        let unlikely = places(&function(&target(UNLIKELY)), arch);
        assert_eq!(unlikely, [After, Before], "{arch:?}");
        let unknown = places(&function(&target("")), arch);
        assert_eq!(unknown, [Before, Before], "{arch:?}");
    }
}

/// A branch that rarely leaves a loop still leaves it once for each entry of the loop. So the code
/// after the loop is as likely as the code before it.
#[test]
fn code_after_a_likely_loop_is_not_unlikely() {
    check(
        "(loop $again ONE (local.get $b) HINT (br_if $again)) OTHER",
        [Before, Before],
        [Before, Before],
    );
    check(
        "(loop $again ONE (local.get $b) HINT (if (then (br $again)))) OTHER",
        [Before, Before],
        [Before, Before],
    );
    // The loop itself may be unlikely.
    check(
        "(local.get $a) HINT (if (then (loop $again ONE (local.get $b) HINT (br_if $again)) OTHER))",
        [After, After],
        [Before, Before],
    );
}

/// A module with an imported function and two defined ones, each with an `if`, and the offsets of
/// these in their bodies.
fn module() -> (Vec<u8>, [u32; 2]) {
    let text = r#"(module (import "a" "f" (func (param i32)))
      (func (export "f") (param $b i32) (result i32) (local $c i64)
        (if (local.get $b) (then (local.set $b (i32.const 3)))) (local.get $b))
      (func (export "g") (param $b i32) (result i32)
        (if (local.get $b) (then (local.set $b (i32.const 5)))) (local.get $b)))"#;
    let wasm = parse_text(text.as_bytes()).expect("it is well-formed");
    // The declarations of locals, and `local.get`, which takes two bytes.
    (wasm.into_owned(), [3 + 2, 1 + 2])
}

/// Inserts a custom section before the code section, or at the end of the module.
fn with_section(wasm: &[u8], name: &str, content: &[u8], at_end: bool) -> Vec<u8> {
    let (mut at, mut wasm) = (8, wasm.to_vec());
    while !at_end && wasm[at] != 10 {
        at += 2 + usize::from(wasm[at + 1]);
    }
    let at = if at_end { wasm.len() } else { at };
    let mut section = leb(name.len());
    section.extend(name.as_bytes());
    section.extend(content);
    let mut whole = vec![0];
    whole.extend(leb(section.len()));
    whole.extend(section);
    wasm.splice(at..at, whole);
    wasm
}

/// A hint as it is encoded: offset, size, value.
type Hint = (u32, u32, u8);

/// The content of the section: hints for functions.
fn content(funcs: &[(u32, &[Hint])]) -> Vec<u8> {
    let mut bytes = leb(funcs.len());
    for (func, hints) in funcs {
        bytes.extend(leb(*func as usize));
        bytes.extend(leb(hints.len()));
        for (offset, size, value) in *hints {
            bytes.extend(leb(*offset as usize));
            bytes.extend(leb(*size as usize));
            bytes.push(*value);
        }
    }
    bytes
}

/// Whether a section has an effect, compared with a section of another name and equal size.
fn has_effect(content: &[u8], at_end: bool) -> bool {
    let (wasm, _) = module();
    let [with, without] = [SECTION, "metadata.code.branch_hinx"].map(|name| {
        let wasm = with_section(&wasm, name, content, at_end);
        let so = compile(&wasm, &Options::default());
        except_source(&so.expect("a custom section makes no module invalid"))
    });
    with != without
}

#[test]
fn valid_hints_have_an_effect() {
    let (_, [f, g]) = module();
    for funcs in [
        &[(1, &[(f, 1, 0)][..])][..],
        &[(1, &[(f, 1, 1)])],
        &[(2, &[(g, 1, 0)])],
        &[(1, &[(f, 1, 0)]), (2, &[(g, 1, 0)])],
        // Hints for no branch, before valid ones.
        &[
            (0, &[(f, 1, 0)]),
            (1, &[(0, 1, 0), (f - 1, 1, 0), (f, 1, 0)]),
        ],
        // Of two hints for one branch, the first counts.
        &[(1, &[(f, 1, 0), (f, 1, 1)])],
        // Entries out of order are skipped; the ones after them are used.
        &[(1, &[(f, 1, 0), (0, 1, 0)])],
        &[(1, &[]), (0, &[]), (2, &[(g, 1, 0)])],
    ] {
        assert!(has_effect(&content(funcs), false), "{funcs:?}");
    }
}

#[test]
fn the_first_of_two_hints_is_used() {
    let (wasm, [f, _]) = module();
    let compiled = |hints: &[Hint]| {
        let wasm = with_section(&wasm, SECTION, &content(&[(1, hints)]), false);
        except_source(&compile(&wasm, &Options::default()).expect("it is valid"))
    };
    let [unlikely, likely] = [0, 1].map(|value| compiled(&[(f, 1, value), (f, 1, 0)]));
    assert_ne!(unlikely, likely);
    assert_eq!(unlikely, compiled(&[(f, 1, 0), (f, 1, 1)]));
}

#[test]
fn hints_at_invalid_places_have_no_effect() {
    let (_, [f, g]) = module();
    for funcs in [
        &[][..],
        &[(1, &[][..])],
        // Hints for an imported function, for a missing one, and with the other function's offset.
        &[(0, &[(f, 1, 0)])],
        &[(3, &[(f, 1, 0)])],
        &[(u32::MAX, &[(f, 1, 0)])],
        &[(1, &[(g, 1, 0)])],
        // Offsets of other operators, inside an operator, in the locals, and outside the function.
        &[(1, &[(0, 1, 0), (f - 2, 1, 0), (f - 1, 1, 0), (f + 1, 1, 0)])],
        &[(1, &[(f + 2, 1, 0), (60, 1, 0), (u32::MAX, 1, 0)])],
        // A valid hint after one with a greater offset or index.
        &[(1, &[(f + 2, 1, 0), (f, 1, 0)])],
        &[(2, &[]), (1, &[(f, 1, 0)])],
        // An invalid size or value.
        &[(1, &[(f, 0, 0)])],
        &[(1, &[(f, 2, 0)])],
        &[(1, &[(f, 1, 2)])],
        &[(1, &[(f, 1, 0x80)])],
        &[(1, &[(0, 1, 7), (f, 1, 0)])],
        &[(0, &[(0, 1, 7)]), (1, &[(f, 1, 0)])],
    ] {
        assert!(!has_effect(&content(funcs), false), "{funcs:?}");
    }
    // A section after the code section.
    let sound = content(&[(1, &[(f, 1, 0)])]);
    assert!(!has_effect(&sound, true));
}

#[test]
fn damaged_sections_are_used_up_to_the_damage() {
    let (_, [f, g]) = module();
    let sound = content(&[(1, &[(f, 1, 0)]), (2, &[(g, 1, 0)])]);
    // The hints of a function are used only if they are complete; those of the first one end at
    // byte 6.
    for end in 0..sound.len() {
        assert_eq!(has_effect(&sound[..end], false), end >= 6, "{end} bytes");
    }
    let mut longer = sound.clone();
    longer.push(0);
    assert!(has_effect(&longer, false));
    for at in 0..sound.len() {
        for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut damaged = sound.clone();
            damaged[at] = byte;
            // Any other damage is no error either.
            let _ = has_effect(&damaged, false);
        }
    }
}

#[test]
fn counts_beyond_the_content_allocate_no_memory() {
    let (wasm, [f, _]) = module();
    let many = leb(u32::MAX as usize);
    let hints_of_one = [leb(1), leb(1), many.clone(), content(&[])].concat();
    assert!(!has_effect(&many, false));
    assert!(!has_effect(&hints_of_one, false));
    // As many hints as the count says, all but the last for no branch.
    let mut hints: Vec<Hint> = (0..1 << 20).map(|_| (0, 1, 0)).collect();
    hints.push((f, 1, 0));
    assert!(has_effect(&content(&[(1, &hints)]), false));
    let mut funcs = vec![(0, &[][..]); 1 << 20];
    funcs.push((1, &hints[hints.len() - 1..]));
    assert!(has_effect(&content(&funcs), false));
    // Of two sections the first counts.
    let none = with_section(&wasm, SECTION, &content(&[]), false);
    let sound = content(&[(1, &[(f, 1, 0)])]);
    let [with, without] = [SECTION, "metadata.code.branch_hinx"].map(|name| {
        // `with_section` inserts the section after those that exist.
        let wasm = with_section(&none, name, &sound, false);
        except_source(&compile(&wasm, &Options::default()).expect("it is valid"))
    });
    assert_eq!(with, without);
}
