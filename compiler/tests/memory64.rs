//! Accesses to 64-bit memories. Code computes an address only from the lower half of an index, so a
//! misprediction cannot reach past the memory's reservation. Other tests check the cost of
//! accesses, and which sizes the compiler refuses. `runtime/tests/memory64` tests the results of
//! guests.

use crate::common;

use pirn_compiler::{CompileError, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::Arch;

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

/// The instructions of a function with two numbers, which are indices.
fn listing(memory: &str, code: &str, arch: Arch, level: OptLevel) -> Vec<String> {
    let text = format!("(module {memory} (func (export \"run\") (param i64 i64) {code}))");
    let mut options = Options::new(arch);
    options.opt_level = level;
    common::first_function(&text, &options)
}

/// The register with the first index.
fn whole(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "%rsi",
        Arch::Aarch64 => "x3",
    }
}

/// The memory operand of an instruction, unless it is on the stack or below the context.
fn accessed(text: &str, arch: Arch) -> Option<&str> {
    let place = match arch {
        Arch::X86_64 => &text[text.find('(')?..=text.rfind(')')?],
        Arch::Aarch64 => &text[text.find('[')?..=text.rfind(']')?],
    };
    let is_stack = ["%rsp", "%rbp", "sp"].iter().any(|sp| place.contains(sp));
    (!is_stack && !text.starts_with("lea")).then_some(place)
}

/// The registers that an instruction names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '%')
}

/// The 64-bit register that contains a named register.
fn register(name: &str, arch: Arch) -> String {
    match arch {
        Arch::X86_64 => match name.strip_prefix("%e") {
            Some(rest) => format!("%r{rest}"),
            None => name.strip_suffix('d').unwrap_or(name).to_owned(),
        },
        Arch::Aarch64 => name
            .strip_prefix('w')
            .map_or(name.to_owned(), |rest| format!("x{rest}")),
    }
}

/// Checks that the code only compares and copies the register with the whole first index, and uses
/// it in no address. Returns the number of comparisons.
fn compared(code: &[String], arch: Arch) -> usize {
    let mut whole = vec![whole(arch).to_owned()];
    let mut count = 0;
    for text in code {
        let reads = |part: &str| words(part).any(|word| whole.iter().any(|name| name == word));
        let Some((op, operands)) = text.split_once(' ') else {
            continue;
        };
        let parts = match arch {
            Arch::X86_64 => operands.rsplit_once(", "),
            Arch::Aarch64 => operands.split_once(", ").map(|(into, from)| (from, into)),
        };
        let Some((from, into)) = parts else {
            assert!(!reads(operands), "{text} in {code:#?}");
            continue;
        };
        if op == "cmp" {
            count += usize::from(reads(operands));
            continue;
        }
        let stores = op.starts_with("st") || into.contains('(');
        if stores || op != "mov" {
            assert!(
                !reads(from) && (!stores || !reads(into)),
                "{text} in {code:#?}"
            );
        }
        if op == "mov" && reads(from) && !stores {
            assert!(accessed(text, arch).is_none(), "{text} in {code:#?}");
            whole.push(into.to_owned());
        } else if !stores {
            whole.retain(|name| *name != register(into, arch));
        }
    }
    count
}

#[test]
fn an_address_uses_the_lower_half_of_an_index() {
    let accesses = [
        "(drop (i32.load8_u (local.get 0)))",
        "(drop (i64.load offset=100 (local.get 0)))",
        "(i64.store offset=65536 (local.get 0) (local.get 1))",
        "(v128.store (local.get 0) (v128.const i64x2 1 2))",
        "(memory.fill (local.get 0) (i32.const 0) (i64.const 16))",
        "(drop (i64.load offset=33554424 (local.get 0)))",
        "(drop (i64.load offset=0x10000000 (local.get 0)))",
    ];
    for arch in Arch::ALL {
        for level in LEVELS {
            for access in accesses {
                let code = listing("(memory i64 1)", access, arch, level);
                assert_eq!(
                    compared(&code, arch),
                    1,
                    "{access} {arch} {level:?}: {code:#?}"
                );
                let places = code.iter().filter_map(|text| accessed(text, arch));
                assert!(places.count() > 0, "{access} {arch} {level:?}: {code:#?}");
            }
        }
    }
}

/// If the guard region covers the offset, an access needs only a copy, a comparison and a branch
/// more than in a 32-bit memory. It does not load the memory's size.
#[test]
fn an_access_costs_three_more_instructions() {
    for arch in Arch::ALL {
        let narrow = listing(
            "(memory 1)",
            "(drop (i32.load (i32.wrap_i64 (local.get 0))))",
            arch,
            OptLevel::Speed,
        );
        let wide = listing(
            "(memory i64 1)",
            "(drop (i32.load (local.get 0)))",
            arch,
            OptLevel::Speed,
        );
        // The trap's exit adds a call and an unreachable instruction.
        assert!(
            wide.len() <= narrow.len() + 3 + 2,
            "{arch}: {narrow:#?} {wide:#?}"
        );
        let loads = |code: &[String]| {
            let places = code.iter().filter_map(|text| accessed(text, arch));
            places.count()
        };
        assert_eq!(loads(&wide), 1, "{arch}: {wide:#?}");
    }
}

/// A copy compares each index once, even if it consists of many accesses.
#[test]
fn a_copy_compares_each_index_once() {
    for arch in Arch::ALL {
        for level in LEVELS {
            let copy = "(memory.copy (local.get 0) (local.get 1) (i64.const 100))";
            let code = listing("(memory i64 1)", copy, arch, level);
            let compared = code.iter().filter(|text| text.starts_with("cmp")).count();
            assert_eq!(compared, 2, "{arch} {level:?}: {code:#?}");
        }
    }
}

/// Explicit checks have a mask: for offsets past the guard region, and for tables.
#[test]
fn checked_addresses_are_masked() {
    let far = "(drop (i32.load offset=0x10000000 (local.get 0)))";
    let farther = "(drop (i32.load offset=0xfffffffffffffff0 (local.get 0)))";
    let get = "(drop (table.get 0 (local.get 0)))";
    for arch in Arch::ALL {
        let masks = |code: &[String]| {
            let mask = match arch {
                Arch::X86_64 => "cmov",
                Arch::Aarch64 => "csdb",
            };
            code.iter().filter(|text| text.starts_with(mask)).count()
        };
        for level in LEVELS {
            for access in [far, farther] {
                let code = listing("(memory i64 1)", access, arch, level);
                assert_eq!(masks(&code), 1, "{access} {arch} {level:?}: {code:#?}");
            }
            for table in ["(table i64 5 externref)", "(table i64 5 5 externref)"] {
                let code = listing(table, get, arch, level);
                assert_eq!(masks(&code), 1, "{table} {arch} {level:?}: {code:#?}");
            }
        }
    }
}

#[test]
fn a_memory64_larger_than_any_slot_is_refused() {
    let compiled = |text: &str| {
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        compile(&wasm, &Options::default()).map(drop)
    };
    for (pages, fits) in [
        ("65535", true),
        ("65536", false),
        ("0x100000001", false),
        ("0x1000000000000", false),
    ] {
        for text in [
            format!("(module (memory i64 {pages}))"),
            format!("(module (import \"a\" \"m\" (memory i64 {pages})))"),
        ] {
            match compiled(&text) {
                Ok(()) => assert!(fits, "{text}"),
                Err(error @ CompileError::Limit { .. }) => {
                    assert!(!fits, "{error}: {text}");
                    let error = error.to_string();
                    assert!(error.contains("initial pages of memory"), "{error}");
                }
                Err(error) => panic!("{error}: {text}"),
            }
        }
    }
    // A maximum may be as large as the type allows.
    compiled("(module (memory i64 1 0x1000000000000))").expect("a maximum reserves nothing");
    compiled("(module (table i64 1 0xffffffffffffffff funcref))")
        .expect("a table's maximum reserves nothing");
}
