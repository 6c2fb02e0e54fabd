//! Copies, fills, and the builtin that replaces calls of a function that stores.

use super::{FILLER, Guest, OUT, PAGE, options, outcome, region, settings};
use crate::common::values::Lend as _;
use crate::common::{self, values};
use pirn_compiler::{OptLevel, Options};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_runtime::{Group, Linker, Value};
use std::fmt::Write;

/// Copies and fills against a model: inline ones with constant and computed lengths, and those in
/// the runtime. An operation out of bounds must change nothing.
#[test]
fn bulk_operations_end_with_the_last_byte() {
    const KNOWN: [u64; 16] = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129];
    const LENGTHS: [u64; 22] = [
        0, 1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 100, 129, 512, 1000, 1023, 1024, 1025,
    ];
    const SIZE: u64 = 3001;
    let mut body = String::from(
        r#"(data $d "0123456789abcdef")
        (func (export "copy") (param {a} {a} {a})
          (memory.copy $m $m (local.get 0) (local.get 1) (local.get 2)))
        (func (export "fill") (param {a} {a} {a})
          (memory.fill $m (local.get 0) (i32.const 0x377) (local.get 2)))
        (func (export "init") (param {a} {a})
          (memory.init $m $d (local.get 0) (i32.const 0) (i32.const 16)))
        (func (export "none") (param {a} {a})
          (memory.init $m $d (local.get 0) (i32.const 16) (i32.const 0)))"#,
    );
    for n in KNOWN {
        let _ = write!(
            body,
            r#"(func (export "copy{n}") (param {{a}} {{a}} {{a}})
              (memory.copy $m $m (local.get 0) (local.get 1) ({{a}}.const {n})))
            (func (export "fill{n}") (param {{a}} {{a}} {{a}})
              (memory.fill $m (local.get 0) (i32.const 0x377) ({{a}}.const {n})))"#
        );
    }
    let start: Vec<_> = (0..SIZE).map(|at| (at * 7 % 251) as u8).collect();
    for (place, is_wide, options) in settings() {
        let limits = format!("{SIZE}");
        let mut guest = Guest::new(place, is_wide, &limits, &body, &options);
        guest.write(0, &start);
        let mut model = start.clone();
        let named = KNOWN.iter().map(|n| (*n, format!("{n}")));
        for (len, suffix) in named.chain(LENGTHS.map(|len| (len, String::new()))) {
            let last = SIZE - len;
            let far = [SIZE, SIZE + 1, u64::from(u32::MAX), (1 << 32) - len / 2];
            let wide = [1 << 32, (1 << 32) + last, 1 << 63 | last, u64::MAX];
            let wide = wide.into_iter().filter(|_| is_wide);
            let places = [last, last + 1, last - 3, 0].into_iter().chain(far);
            let places: Vec<_> = places.chain(wide).collect();
            for to in &places {
                let to = if is_wide { *to } else { *to & 0xffff_ffff };
                for from in places.iter().copied().chain([to.wrapping_sub(9)]) {
                    let from = if is_wide { from } else { from & 0xffff_ffff };
                    let is_inside = |at: u64| u128::from(at) + u128::from(len) <= SIZE.into();
                    let fits = is_inside(to) && is_inside(from);
                    if fits {
                        let source = from as usize..(from + len) as usize;
                        model.copy_within(source, to as usize);
                    }
                    let outcome = guest.call(&format!("copy{suffix}"), &[to, from, len]);
                    let expected = if fits { Ok(vec![]) } else { OUT };
                    assert_eq!(outcome, expected, "{len} from {from:#x} to {to:#x}");
                    assert!(guest.bytes() == model, "{len} from {from:#x} to {to:#x}");
                }
                let fits = u128::from(to) + u128::from(len) <= SIZE.into();
                if fits {
                    model[to as usize..(to + len) as usize].fill(0x77);
                }
                let outcome = guest.call(&format!("fill{suffix}"), &[to, 0, len]);
                assert_eq!(
                    outcome,
                    if fits { Ok(vec![]) } else { OUT },
                    "{len} to {to:#x}"
                );
                assert!(guest.bytes() == model, "{len} to {to:#x}");
            }
        }
        for (to, fits) in [(SIZE - 16, true), (SIZE - 15, false), (SIZE, false)] {
            let outcome = guest.call("init", &[to, 0]);
            assert_eq!(outcome.is_ok(), fits, "{to}");
            assert_eq!(guest.call("none", &[to, 0]), Ok(vec![]));
        }
        assert_eq!(guest.call("none", &[SIZE + 1, 0]), OUT);
        assert_eq!(guest.bytes()[SIZE as usize - 16..], *b"0123456789abcdef");
    }
}

/// Copies between a memory with one-byte pages and one with large pages.
#[test]
fn copies_between_memories_are_checked_for_both() {
    for first_is_large in [false, true] {
        let (byte, large) = ("50 (pagesize 1)", "1 1");
        let (first, second) = if first_is_large {
            (large, byte)
        } else {
            (byte, large)
        };
        let mut text = format!(
            "(module (memory $a (export \"a\") {first}) (memory $b (export \"b\") {second})"
        );
        for (name, len) in [("any", "(local.get 2)"), ("few", "(i32.const 9)")] {
            for (to, from) in [("a", "b"), ("b", "a")] {
                let _ = write!(
                    text,
                    "(func (export \"{name}-{to}\") (param i32 i32 i32)
                      (memory.copy ${to} ${from} (local.get 0) (local.get 1) {len}))"
                );
            }
        }
        text.push(')');
        for level in [OptLevel::None, OptLevel::Speed] {
            let mut group = Group::new(&region(1), ());
            let module = common::wat_with(&text, &options(level, true));
            let member = group.instantiate(&module, &Linker::new());
            let member = member.expect("it fits");
            let sizes = if first_is_large {
                [PAGE, 50]
            } else {
                [50, PAGE]
            };
            for (n, name) in ["any-a", "any-b", "few-a", "few-b"].iter().enumerate() {
                let (to_size, from_size) = (sizes[n % 2], sizes[1 - n % 2]);
                for (to, from, fits) in [
                    (to_size - 9, from_size - 9, true),
                    (to_size - 8, from_size - 9, false),
                    (to_size - 9, from_size - 8, false),
                    (to_size, 0, false),
                    (0, from_size, false),
                    (usize::MAX, 0, false),
                    (0, usize::MAX, false),
                ] {
                    let params = [to, from, 9].map(|at| Value::I32(at as u32 as i32));
                    let outcome = outcome(group.lend(member).call_values(name, &params));
                    assert_eq!(
                        outcome,
                        if fits { Ok(vec![]) } else { OUT },
                        "{name} {to} {from}"
                    );
                }
            }
        }
    }
}

/// The builtin that replaces calls of a multiplication must have that function's effect, also where
/// half of the product is out of bounds.
#[test]
fn products_past_the_last_byte_trap() {
    const TEXTS: [&str; 4] = [
        include_str!("../../../../compiler/tests/multiply/digits.wat"),
        include_str!("../../../../compiler/tests/multiply/carries.wat"),
        include_str!("../../../../compiler/tests/multiply/digits-narrow.wat"),
        include_str!("../../../../compiler/tests/multiply/carries-narrow.wat"),
    ];
    const SIZE: u64 = 101;
    for (n, text) in TEXTS.iter().enumerate() {
        for is_wide in [false, true] {
            let ty = format!(
                "\"memory\") {} {SIZE} (pagesize 1))",
                if is_wide { "i64" } else { "i32" }
            );
            let mut text = text.replace("\"memory\") 1)", &ty);
            assert!(text.contains("pagesize"));
            if is_wide {
                text = text.replace("$to i32", "$to i64");
            }
            let mut guest = values::instance(&text, &Options::default());
            let places =
                (SIZE - 24..=SIZE + 1).chain([u64::from(u32::MAX) - 7, u64::from(u32::MAX)]);
            for to in places.chain([1 << 32, u64::MAX - 7].into_iter().filter(|_| is_wide)) {
                let mut run = |func: &str| {
                    guest.memory_mut().as_mut_slice().fill(FILLER);
                    let mut params = vec![match is_wide {
                        true => Value::I64(to.cast_signed()),
                        false => Value::I32((to as u32).cast_signed()),
                    }];
                    let operands = if n < 2 { 4 } else { 2 };
                    params.extend(vec![Value::I64(i64::MIN / 3); operands]);
                    let outcome = outcome(guest.call_values(func, &params));
                    (outcome, guest.memory().as_slice().to_vec())
                };
                let itself = run("itself");
                assert_eq!(run("called"), itself, "{to:#x}");
                assert_eq!(itself.0.is_ok(), to <= SIZE - 16, "{to:#x}");
            }
        }
    }
}

/// Copies of a few bytes check the size once for each memory. A check for each access would
/// multiply the code and the compile time of one operator.
#[test]
fn copies_of_few_bytes_check_each_memory_once() {
    const COPIES: usize = 100;
    let copy = "(memory.copy (local.get 0) (local.get 1) (i32.const 128))".repeat(COPIES);
    for level in [OptLevel::None, OptLevel::Speed] {
        let text = format!(
            "(module (memory 9 (pagesize 1)) (func (export \"f\") (param i32 i32) {copy}))"
        );
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
        let file = pirn_compiler::compile(&wasm, &options(level, true)).expect("it is valid");
        let checked = Checked::new(&file).expect("it is the compiler's");
        let bytes = checked.header.section(Section::Text).len;
        assert!(bytes < COPIES as u64 * 400, "{bytes} {level:?}");
    }
}
