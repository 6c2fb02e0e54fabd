//! Masks after type checks (Spectre): a reference of the wrong type becomes null, even on a path
//! that the processor mispredicts.
//!
//! The test follows a used register backwards through the machine code, across moves. A conditional
//! move must have written the register, and a comparison must have set the flags of that move.
//! Without the option for masks, the test must find no such move.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

/// Types of all modules in this test. `$field` is the number of a field at 0x110 bytes from the
/// start of a struct.
const TYPES: &str = r"
  (type $base (sub (struct (field i32))))
  (type $open (sub $base (struct (field i32) (field $wide i64) FIELDS)))
  (type $final (sub final $base (struct (field i32) (field i64) FIELDS (field f64))))
  (type $bytes (array (mut i8)))
  (type $longs (array (mut i64)))
  (type $func (func (param i32) (result i32)))
  (type $below (sub (func (param i64) (result i64))))
  (type $above (sub $below (func (param i64) (result i64))))
  (tag $tag (param i64 i64)) (tag $other (param f64))
  (import $import (param i32)) ";

/// The number of the field at [`FAR`].
const FIELD: usize = 33;

/// A distance that no other access has.
const FAR: &str = "0x110";

/// A kind of use for which the reference or address must be masked.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// A load at this distance from the masked register.
    Load(&'static str),
    /// The function's result.
    Result,
    /// An indirect call or jump to an address that is loaded through the masked register.
    CallLoaded,
    /// An indirect call or jump to the masked register.
    Call,
}

/// A function, and its uses that must be masked.
struct Case {
    what: &'static str,
    /// The uses that must be masked: uses of the checked value, and uses in the check itself.
    uses: &'static [Use],
    body: &'static str,
}

const CASES: &[Case] = &[
    Case {
        what: "a cast to a final type",
        uses: &[Use::Load("0x0"), Use::Load(FAR)],
        body: "(param anyref) (result i64) (struct.get $final FIELD (ref.cast (ref $final) (local.get 0)))",
    },
    Case {
        what: "a cast to an open type or null",
        uses: &[Use::Load("0x0"), Use::Load(FAR)],
        body: "(param anyref) (result i64) (struct.get $open FIELD (ref.cast (ref null $open) (local.get 0)))",
    },
    Case {
        what: "a cast whose result is used elsewhere",
        uses: &[Use::Result],
        body: "(param structref) (result (ref null $open)) (ref.cast (ref null $open) (local.get 0))",
    },
    Case {
        what: "a cast to an array",
        uses: &[Use::Load("-0x2"), Use::Result],
        body: "(param anyref) (result (ref $bytes)) (ref.cast (ref $bytes) (local.get 0))",
    },
    Case {
        what: "a cast to any array",
        uses: &[Use::Load("0x2")],
        body: "(param anyref) (result i32) (array.len (ref.cast arrayref (local.get 0)))",
    },
    Case {
        what: "a cast to any struct",
        uses: &[Use::Result],
        body: "(param anyref) (result structref) (ref.cast structref (local.get 0))",
    },
    Case {
        what: "a cast to a number",
        uses: &[Use::Result],
        body: "(param anyref) (result i31ref) (ref.cast i31ref (local.get 0))",
    },
    Case {
        what: "a cast to what can be compared",
        uses: &[Use::Result],
        body: "(param anyref) (result (ref eq)) (ref.cast (ref eq) (local.get 0))",
    },
    Case {
        what: "a branch where a cast succeeds",
        uses: &[Use::Load("0x0"), Use::Load(FAR)],
        body: "(param anyref) (result i64)
          (block $is (result (ref $final))
            (br_on_cast $is anyref (ref $final) (local.get 0))
            (return (i64.const 0)) unreachable)
          (struct.get $final FIELD)",
    },
    Case {
        what: "a branch where a cast fails",
        uses: &[Use::Load("0x0"), Use::Load(FAR)],
        body: "(param anyref) (result i64)
          (block $not (result anyref)
            (br_on_cast_fail $not anyref (ref $open) (local.get 0))
            (return (struct.get $open FIELD)) unreachable)
          (drop) (i64.const 0)",
    },
    Case {
        what: "a cast to a function",
        uses: &[Use::CallLoaded],
        body: "(param funcref) (result i32) (call_ref $func (i32.const 1) (ref.cast (ref $func) (local.get 0)))",
    },
    Case {
        what: "a call by a table",
        uses: &[Use::CallLoaded],
        body: "(param i32) (result i32) (call_indirect $exported (type $func) (i32.const 1) (local.get 0))",
    },
    Case {
        what: "a call by a table of an open type",
        uses: &[Use::CallLoaded],
        body: "(param i32) (result i64) (call_indirect $exported (type $below) (i64.const 1) (local.get 0))",
    },
    Case {
        what: "a tail call by a table",
        uses: &[Use::CallLoaded],
        body: "(param i32) (result i32) (return_call_indirect $exported (type $func) (i32.const 1) (local.get 0))",
    },
    Case {
        what: "a call by a table that is known",
        uses: &[Use::Call],
        body: "(param i32) (result i32) (call_indirect $known (type $func) (i32.const 1) (local.get 0))",
    },
    Case {
        what: "a tail call by a table that is known",
        uses: &[Use::Call],
        body: "(param i32) (result i32) (return_call_indirect $known (type $func) (i32.const 1) (local.get 0))",
    },
    Case {
        what: "values of an exception",
        uses: &[Use::Load("0x10")],
        body: "(result i64)
          (block $caught (result i64 i64)
            (try_table (catch $tag $caught) (call $import (i32.const 1)))
            (return (i64.const 0)) unreachable)
          (return)",
    },
    Case {
        what: "values of an exception, by the legacy operators",
        uses: &[Use::Load("0x10")],
        body: "(result i64)
          try (result i64) (call $import (i32.const 1)) (i64.const 0)
          catch $tag (i64.xor)
          catch $other (drop) (i64.const 1) end",
    },
    Case {
        what: "an element of an array",
        uses: &[Use::Load("0x6")],
        body: "(param (ref $longs) i32) (result i64) (array.get $longs (local.get 0) (local.get 1))",
    },
    Case {
        what: "a number of the host's in a box",
        uses: &[Use::Load("0x2")],
        body: "(param anyref) (result externref) (extern.convert_any (local.get 0))",
    },
];

fn module(body: &str) -> String {
    let fields = "(field i64) ".repeat(FIELD - 2) + "(field $far i64)";
    let open = fields.clone() + "(field f32)";
    let types = TYPES.replacen("FIELDS", &open, 1);
    let types = types.replace("FIELDS", &fields);
    let import = r#"(import "host" "f" (func $import (param i32)))"#;
    let types = types.replace("(import $import (param i32))", "");
    let body = body.replace("FIELD", &FIELD.to_string());
    // If a table is exported, the compiler knows the elements of no table.
    let export = if body.contains("$known") {
        ""
    } else {
        r#"(export "t")"#
    };
    format!(
        r#"(module {import} {types}
  (data $data "abc") (table $known 5 5 funcref) (table $exported {export} 5 5 funcref)
  (elem (table $known) (i32.const 1) func $f $g $h)
  (func (export "run") {body})
  (func $f (type $func) (local.get 0)) (func $g (type $func) (i32.const 5)) (func $h (result i32) (i32.const 3)))"#
    )
}

/// The instructions of a case's function.
fn code(body: &str, arch: Arch, level: OptLevel, spectre: bool) -> Vec<String> {
    let mut options = Options::new(arch);
    (options.opt_level, options.spectre) = (level, spectre);
    common::first_function(&module(body), &options)
}

/// The name of the whole register, given the name of any part of it.
fn register(name: &str, arch: Arch) -> String {
    let name = name.trim_matches(['%', '*', '(', ')', '[', ']', '!']);
    match arch {
        Arch::X86_64 => {
            let numbered = name.trim_end_matches(['d', 'w', 'b']);
            if numbered.starts_with('r') && numbered[1..].parse::<u32>().is_ok() {
                return numbered.to_owned();
            }
            let base = name.trim_start_matches(['r', 'e']).trim_end_matches('l');
            let base = base.trim_end_matches('x');
            base.to_owned()
        }
        Arch::Aarch64 => match name.strip_prefix('w') {
            Some(number) => format!("x{number}"),
            None => name.to_owned(),
        },
    }
}

/// Name and operands of an instruction. A memory operand is one operand.
fn parts(text: &str) -> (&str, Vec<&str>) {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut depth = 0;
    let operands = rest.split(|c: char| {
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        c == ',' && depth == 0
    });
    let operands = operands.map(str::trim).filter(|part| !part.is_empty());
    (name, operands.collect())
}

/// The register that an instruction writes, if any.
fn written(text: &str, arch: Arch) -> Option<String> {
    let (name, operands) = parts(text);
    let none = [
        "cmp", "test", "tst", "call", "push", "str", "stp", "stur", "cbz", "cbnz",
    ];
    if none.contains(&name) || name.starts_with('j') || name.starts_with("b.") {
        return None;
    }
    let target = match arch {
        Arch::X86_64 => operands.last()?,
        Arch::Aarch64 => operands.first()?,
    };
    let is_register = !target.contains(['(', '[', '#', '$']) && !target.starts_with("0x");
    is_register.then(|| register(target, arch))
}

/// The instruction before `at` that produced a register's value, skipping moves.
fn source(code: &[String], at: usize, wanted: &str, arch: Arch) -> Option<usize> {
    let mut wanted = wanted.to_owned();
    for place in (0..at).rev() {
        if written(&code[place], arch).as_ref() != Some(&wanted) {
            continue;
        }
        let (name, operands) = parts(&code[place]);
        let from = match arch {
            Arch::X86_64 => operands[0],
            Arch::Aarch64 => operands.get(1)?,
        };
        let is_move = name == "mov" && !from.contains(['(', '[', '$', '#']);
        if !is_move {
            return Some(place);
        }
        wanted = register(from, arch);
    }
    None
}

/// Whether a register's value at an instruction comes from a mask: a conditional move by the flags
/// of a comparison, and on aarch64 a barrier after it.
fn is_masked(code: &[String], at: usize, wanted: &str, arch: Arch) -> bool {
    let Some(mask) = source(code, at, wanted, arch) else {
        return false;
    };
    let is_select = match arch {
        Arch::X86_64 => code[mask].starts_with("cmov"),
        Arch::Aarch64 => code[mask].starts_with("csel "),
    };
    let has_barrier = match arch {
        Arch::X86_64 => true,
        Arch::Aarch64 => code[mask..at].iter().any(|text| text == "csdb"),
    };
    let compares = |text: &String| ["cmp", "test", "tst"].contains(&parts(text).0);
    let branches = |text: &String| text.starts_with(['j', 'b']) || text.starts_with("cb");
    let flags = code[..mask].iter().rposition(compares);
    let branch = code[..mask].iter().rposition(branches);
    let (_, operands) = parts(&code[mask]);
    let is_null = |operand: &str| {
        let made = source(code, mask, &register(operand, arch), arch);
        made.is_some_and(|made| is_zero(&code[made]))
    };
    // The comparison is after the last branch, so nothing in between changes the flags.
    let has_flags = flags.is_some_and(|flags| Some(flags) > branch);
    is_select && has_barrier && has_flags && operands.into_iter().any(is_null)
}

/// Whether an instruction produces a zero.
fn is_zero(text: &str) -> bool {
    let (name, operands) = parts(text);
    match name {
        "xor" => operands[0] == operands[1],
        "mov" => operands[0] == "$0x0" || operands[1] == "#0x0",
        _ => false,
    }
}

/// The base register of an instruction that loads at a distance.
fn base(text: &str, distance: &str, arch: Arch) -> Option<String> {
    let (name, operands) = parts(text);
    let register = |base: &str| Some(register(base, arch)).filter(|base| base != "sp");
    match arch {
        Arch::X86_64 => {
            let memory = operands.first()?;
            let (found, base) = memory.strip_suffix(')')?.split_once('(')?;
            let found = if found.is_empty() { "0x0" } else { found };
            // An access with an index reads the table of supertypes, which needs no mask.
            let is_it = name != "lea" && found == distance && !base.contains([',', '*']);
            is_it.then(|| register(base)).flatten()
        }
        Arch::Aarch64 => {
            let memory = operands.get(1)?.strip_prefix('[')?.strip_suffix(']')?;
            let (base, found) = memory.split_once(", ").unwrap_or((memory, "#0x0"));
            let is_it = name.starts_with("ld") && found.strip_prefix('#') == Some(distance);
            is_it.then(|| register(base)).flatten()
        }
    }
}

/// The uses of a kind in a function, with the register that must be masked.
fn uses(code: &[String], wanted: Use, arch: Arch) -> Vec<(usize, String)> {
    let called = |text: &String| {
        let (name, operands) = parts(text);
        let is_call = match arch {
            Arch::X86_64 => ["call", "jmp"].contains(&name) && operands[0].starts_with('*'),
            Arch::Aarch64 => ["blr", "br"].contains(&name),
        };
        is_call.then(|| register(operands[0], arch))
    };
    let lines = code.iter().enumerate();
    match wanted {
        Use::Load(distance) => lines
            .filter_map(|(at, text)| Some((at, base(text, distance, arch)?)))
            .collect(),
        Use::Result => {
            let result = if arch == Arch::X86_64 { "a" } else { "x2" };
            lines
                .filter(|(_, text)| *text == "ret")
                .map(|(at, _)| (at, result.to_owned()))
                .collect()
        }
        Use::Call => lines
            .filter_map(|(at, text)| Some((at, called(text)?)))
            .collect(),
        Use::CallLoaded => lines
            .filter_map(|(at, text)| Some((at, called(text)?)))
            .map(|(at, code_register)| {
                let load = source(code, at, &code_register, arch).expect("it is loaded");
                let base = base(&code[load], "0x0", arch).expect("from a reference");
                (load, base)
            })
            .collect(),
    }
}

/// With the option, each use of a checked reference goes through a mask. Without the option, none
/// does.
#[test]
fn values_are_used_after_a_check_only_through_a_mask() {
    for arch in Arch::ALL {
        for level in LEVELS {
            for case in CASES {
                for spectre in [true, false] {
                    let code = code(case.body, arch, level, spectre);
                    for wanted in case.uses {
                        let uses = uses(&code, *wanted, arch);
                        let what = case.what;
                        assert!(
                            !uses.is_empty() || !spectre,
                            "{what} {wanted:?} {arch} {level:?}: {code:#?}"
                        );
                        for (at, register) in uses {
                            assert_eq!(
                                is_masked(&code, at, &register, arch),
                                spectre,
                                "{what} {wanted:?} {arch} {level:?} {register} at {at}: {code:#?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Only null has one of the bottom types, so a cast to such a type gives a constant.
#[test]
fn a_cast_to_a_bottom_type_gives_a_constant() {
    for arch in Arch::ALL {
        for level in LEVELS {
            for spectre in [true, false] {
                let body = "(param anyref) (result nullref) (ref.cast nullref (local.get 0))";
                let code = code(body, arch, level, spectre);
                let (at, register) = uses(&code, Use::Result, arch).remove(0);
                let made = source(&code, at, &register, arch).map(|made| code[made].as_str());
                let is_zero = made.is_some_and(is_zero);
                assert_eq!(is_zero, spectre, "{arch} {level:?}: {code:#?}");
            }
        }
    }
}

/// An aarch64 processor may predict a select, but not past the barrier that follows it.
#[test]
fn a_converted_host_reference_passes_a_barrier_on_aarch64() {
    for level in LEVELS {
        for spectre in [true, false] {
            let body = "(param externref) (result anyref) (any.convert_extern (local.get 0))";
            let code = code(body, Arch::Aarch64, level, spectre);
            let has_barrier = code.iter().any(|text| text == "csdb");
            assert_eq!(has_barrier, spectre, "{level:?}: {code:#?}");
        }
    }
}

/// Array operators on several elements, and allocations: the position and the number of elements
/// are masked. Small sizes need no mask, because the guard region is larger.
#[test]
fn positions_and_lengths_of_arrays_are_masked() {
    for (body, masks) in [
        ("(param (ref $bytes) i32 i32) (array.fill $bytes (local.get 0) (local.get 1) (i32.const 7) (local.get 2))", 3),
        ("(param (ref $longs) i32 i32)
          (array.copy $longs $longs (local.get 0) (local.get 1) (local.get 0) (local.get 2) (local.get 2))", 4),
        ("(param (ref $bytes) i32 i32) (array.init_data $bytes $data (local.get 0) (local.get 1) (local.get 1) (local.get 2))", 2),
        ("(param i32) (result (ref $longs)) (array.new_default $longs (local.get 0))", 2),
        ("(param i32) (result (ref $longs)) (array.new $longs (i64.const 1) (local.get 0))", 3),
        ("(result (ref $longs)) (array.new_default $longs (i32.const 0x7fffffff))", 2),
        ("(result (ref $longs)) (array.new_default $longs (i32.const 32767))", 0),
        ("(result (ref $longs)) (array.new_default $longs (i32.const 32768))", 2),
        ("(result (ref $longs)) (array.new_fixed $longs 2 (i64.const 1) (i64.const 2))", 0),
        ("(result (ref $final)) (struct.new_default $final)", 0),
    ] {
        for arch in Arch::ALL {
            for level in LEVELS {
                for spectre in [true, false] {
                    let code = code(body, arch, level, spectre);
                    let mask = match arch {
                        Arch::X86_64 => "cmov",
                        Arch::Aarch64 => "csdb",
                    };
                    let found = code.iter().filter(|text| text.starts_with(mask)).count();
                    let wanted = if spectre { masks } else { 0 };
                    assert_eq!(found, wanted, "{body} {arch} {level:?}: {code:#?}");
                }
            }
        }
    }
}
