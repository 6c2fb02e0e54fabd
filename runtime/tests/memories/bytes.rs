//! Attacks on memories with one-byte pages. No access may pass the last byte, and an access that
//! ends with the last byte must succeed. Grown bytes must be zero.

mod bulk;
mod files;
mod limits;
mod operands;
mod tenants;

use crate::common;
use crate::common::values::Lend as _;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Group, Linker, MemberId, Region, TrapCode, Value};
use std::fmt::Write;

const PAGE: usize = 1 << 16;

/// The content of the memories before an attack.
const FILLER: u8 = 0xa5;

/// The kind of the attacked memory.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    First,
    Further,
    Imported,
}

/// A guest with the memory `$m`. `{a}` in its text is replaced by the address type.
struct Guest {
    group: Group<()>,
    member: MemberId,
    is_wide: bool,
}

/// The result of a call, or its trap.
type Outcome = Result<Vec<Value>, TrapCode>;

fn outcome(result: Result<Vec<Value>, CallError>) -> Outcome {
    result.map_err(|error| match error {
        CallError::Trap(trap) => trap.code(),
        other => panic!("{other}"),
    })
}

const OUT: Outcome = Err(TrapCode::MemoryOutOfBounds);

fn options(level: OptLevel, spectre: bool) -> Options {
    let mut options = Options::default();
    (options.opt_level, options.spectre) = (level, spectre);
    options
}

/// Settings that change the code for addresses, each with a kind of memory and whether addresses
/// have 64 bits.
fn settings() -> [(Place, bool, Options); 5] {
    [
        (Place::First, false, options(OptLevel::Speed, true)),
        (Place::First, false, options(OptLevel::Speed, false)),
        (Place::Imported, true, options(OptLevel::Speed, false)),
        (Place::Further, false, options(OptLevel::None, false)),
        (Place::Imported, false, options(OptLevel::None, true)),
    ]
}

fn region(slots: u32) -> Region {
    let region = Region::builder().slots(slots).memories(3);
    region.memory_bytes_max(4 * PAGE).build().expect("a region")
}

impl Guest {
    fn new(place: Place, is_wide: bool, limits: &str, body: &str, options: &Options) -> Self {
        let address = if is_wide { "i64" } else { "i32" };
        let mut group = Group::new(&region(2), ());
        let ty = format!("{address} {limits} (pagesize 1)");
        let memory = match place {
            Place::First => format!("(memory $m (export \"m\") {ty})"),
            Place::Further => format!("(memory $other 1 2) (memory $m (export \"m\") {ty})"),
            Place::Imported => {
                let owner = format!("(module (memory 1 2) (memory (export \"m\") {ty}))");
                let owner = group.instantiate(&common::wat(&owner), &Linker::new());
                group.name("o", owner.expect("it fits"));
                format!("(import \"o\" \"m\" (memory $m {ty})) (export \"m\" (memory $m))")
            }
        };
        let text = format!("(module {memory} {body})").replace("{a}", address);
        let member = group.instantiate(&common::wat_with(&text, options), &Linker::new());
        let member = member.expect("it fits");
        Self {
            group,
            member,
            is_wide,
        }
    }

    fn address(&self, at: u64) -> Value {
        match self.is_wide {
            true => Value::I64(at.cast_signed()),
            false => Value::I32((at as u32).cast_signed()),
        }
    }

    /// Calls a function whose parameters are addresses and lengths.
    fn call(&mut self, name: &str, params: &[u64]) -> Outcome {
        let params: Vec<_> = params.iter().map(|at| self.address(*at)).collect();
        outcome(self.group.lend(self.member).call_values(name, &params))
    }

    /// The result of a `memory.grow` that must succeed.
    fn grow(&mut self, by: u64) -> u64 {
        match self.call("grow", &[by]).expect("it returns")[..] {
            [Value::I32(before)] if before != -1 => u64::from(before.cast_unsigned()),
            [Value::I64(before)] if before != -1 => before.cast_unsigned(),
            ref other => panic!("{other:?}"),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let lent = self.group.at(self.member);
        let memory = lent.exported_memory("m");
        memory.expect("it is exported").as_slice().to_vec()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut lent = self.group.lend(self.member);
        let memory = lent.exported_memory_mut("m");
        let mut memory = memory.expect("it is exported");
        memory.write(at as u32, bytes).expect("inside");
    }
}

const GROW: &str =
    "(func (export \"grow\") (param {a}) (result {a}) (memory.grow $m (local.get 0)))";

/// Loads: operator, result type, and number of bytes.
const LOADS: [(&str, &str, u64); 28] = [
    ("i32.load8_s", "i32", 1),
    ("i32.load8_u", "i32", 1),
    ("i32.load16_s", "i32", 2),
    ("i32.load16_u", "i32", 2),
    ("i32.load", "i32", 4),
    ("i64.load8_s", "i64", 1),
    ("i64.load8_u", "i64", 1),
    ("i64.load16_s", "i64", 2),
    ("i64.load16_u", "i64", 2),
    ("i64.load32_s", "i64", 4),
    ("i64.load32_u", "i64", 4),
    ("i64.load", "i64", 8),
    ("f32.load", "f32", 4),
    ("f64.load", "f64", 8),
    ("v128.load", "v128", 16),
    ("v128.load8x8_s", "v128", 8),
    ("v128.load8x8_u", "v128", 8),
    ("v128.load16x4_s", "v128", 8),
    ("v128.load16x4_u", "v128", 8),
    ("v128.load32x2_s", "v128", 8),
    ("v128.load32x2_u", "v128", 8),
    ("v128.load8_splat", "v128", 1),
    ("v128.load16_splat", "v128", 2),
    ("v128.load32_splat", "v128", 4),
    ("v128.load64_splat", "v128", 8),
    ("v128.load32_zero", "v128", 4),
    ("v128.load64_zero", "v128", 8),
    ("i32.load offset=1 align=1", "i32", 5),
];

/// Stores: operator, type of the value, and number of bytes.
const STORES: [(&str, &str, u64); 10] = [
    ("i32.store8", "i32", 1),
    ("i32.store16", "i32", 2),
    ("i32.store", "i32", 4),
    ("i64.store8", "i64", 1),
    ("i64.store16", "i64", 2),
    ("i64.store32", "i64", 4),
    ("i64.store", "i64", 8),
    ("f32.store", "f32", 4),
    ("f64.store", "f64", 8),
    ("v128.store", "v128", 16),
];

/// A constant of a type.
fn constant(ty: &str) -> &str {
    match ty {
        "v128" => "(v128.const i64x2 0x0102030405060708 0x1112131415161718)",
        "i32" => "(i32.const 0x01020304)",
        "i64" => "(i64.const 0x0102030405060708)",
        "f32" => "(f32.const 1.5)",
        _ => "(f64.const 1.5)",
    }
}

/// Functions `x0`, `x1`, ... with one access each, at a constant offset from the parameter. Also
/// returns, for each, the number of bytes up to the access's end and whether it stores.
fn accesses(offset: u64) -> (String, Vec<(u64, bool)>) {
    let (mut text, mut all) = (String::new(), vec![]);
    let head = |n: usize| format!("(func (export \"x{n}\") (param {{a}})");
    for (load, ty, bytes) in LOADS {
        let (load, at) = match load.split_once(' ') {
            Some((load, _)) => (load, offset.saturating_add(1)),
            None => (load, offset),
        };
        let n = all.len();
        let _ = write!(
            text,
            "{} (result {ty}) ({load} $m offset={at} (local.get 0)))",
            head(n)
        );
        all.push((bytes, false));
    }
    for (store, ty, bytes) in STORES {
        let (n, value) = (all.len(), constant(ty));
        let _ = write!(
            text,
            "{} ({store} $m offset={offset} (local.get 0) {value}))",
            head(n)
        );
        all.push((bytes, true));
    }
    for (bits, lane) in [(8, 15), (16, 7), (32, 3), (64, 1)] {
        let vector = constant("v128");
        let n = all.len();
        let _ = write!(
            text,
            "{} (result v128) (v128.load{bits}_lane $m offset={offset} {lane} (local.get 0) {vector}))
             {} (v128.store{bits}_lane $m offset={offset} {lane} (local.get 0) {vector}))",
            head(n),
            head(n + 1)
        );
        all.extend([(bits / 8, false), (bits / 8, true)]);
    }
    (text, all)
}

/// Every load and store at every boundary of memories of many sizes. A trapping store must not
/// change bytes at the end.
#[test]
fn accesses_end_with_the_last_byte() {
    const SIZES: [usize; 10] = [
        0,
        1,
        7,
        16,
        100,
        PAGE - 1,
        PAGE,
        PAGE + 1,
        2 * PAGE - 3,
        2 * PAGE,
    ];
    for (n, (place, is_wide, options)) in settings().iter().enumerate() {
        let far = if *is_wide { 1 << 32 } else { (1 << 32) - 20 };
        let offsets = [
            vec![0, 33 << 20, u64::MAX],
            vec![3, 60, far],
            vec![0, 65_530, far],
            vec![1, 65_600],
            vec![0, 17, far],
        ];
        for offset in offsets[n].iter().filter(|at| **at < 1 << 32 || *is_wide) {
            let (functions, all) = accesses(*offset);
            let body = format!("{GROW}{functions}");
            let mut guest = Guest::new(*place, *is_wide, "0", &body, options);
            let mut before = 0;
            for size in SIZES {
                assert_eq!(guest.grow((size - before) as u64), before as u64);
                let bytes = guest.bytes();
                assert_eq!(bytes.len(), size);
                assert!(bytes[before..].iter().all(|byte| *byte == 0), "{size}");
                guest.write(0, &vec![FILLER; size]);
                for (x, (bytes, is_store)) in all.iter().enumerate() {
                    let last = (size as u64).wrapping_sub(*bytes).wrapping_sub(*offset);
                    let near = [-1, 0, 1, *bytes as i64 - 1, *bytes as i64, 16]
                        .map(|by| last.wrapping_add_signed(by));
                    let ends = [size as u64, (1 << 32) - 1, (1 << 32) - bytes];
                    let far = [last.wrapping_add(1 << 32), last | 1 << 63, u64::MAX];
                    for at in near.into_iter().chain(ends).chain(far) {
                        let at = if *is_wide { at } else { at & 0xffff_ffff };
                        let end = u128::from(at) + u128::from(*offset) + u128::from(*bytes);
                        let outcome = guest.call(&format!("x{x}"), &[at]);
                        let is_inside = end <= size as u128;
                        assert_eq!(
                            outcome.as_ref().err(),
                            (!is_inside).then_some(&TrapCode::MemoryOutOfBounds),
                            "{x} of {bytes} at {at:#x} + {offset:#x} of {size}"
                        );
                        if is_inside && *is_store {
                            let start = at + offset;
                            let first = guest.bytes()[start as usize];
                            assert_ne!(first, FILLER, "{x}");
                            guest.write(start as usize, &vec![FILLER; *bytes as usize]);
                        }
                    }
                }
                assert!(guest.bytes().iter().all(|byte| *byte == FILLER), "{size}");
                before = size;
            }
        }
    }
}

/// An access is compared with the memory's current size, before and after the memory grows,
/// whichever function grows it.
#[test]
fn accesses_are_compared_with_the_current_size() {
    const BODY: &str = "
      (type $t (func (param {a})))
      (table 1 funcref) (elem (i32.const 0) $grows)
      (func $grows (param {a}) (drop (memory.grow $m (local.get 0))))
      (func (export \"size\") (result {a}) (memory.size $m))
      (func (export \"before\") (param $at {a}) (result i32)
        (local $n i32)
        (local.set $n (i32.load8_u $m (local.get $at)))
        (call $grows ({a}.const 1))
        (i32.add (local.get $n) (i32.load8_u $m (local.get $at))))
      (func (export \"behind\") (param $at {a}) (result i32)
        (drop (memory.grow $m ({a}.const 1)))
        (i32.load8_u $m (local.get $at)))
      (func (export \"called\") (param $at {a}) (result i32)
        (i32.store8 $m ({a}.const 0) (i32.const 0))
        (call_indirect (type $t) ({a}.const 1) (i32.const 0))
        (i32.load8_u $m (local.get $at)))
      (func (export \"refused\") (param $at {a}) (result i32)
        (drop (memory.grow $m ({a}.const 1000000)))
        (i32.load8_u $m (local.get $at)))
      (func (export \"loop\") (param $to {a}) (local $at {a})
        (local.set $at (memory.size $m))
        (loop $again
          (drop (memory.grow $m ({a}.const 1)))
          (i32.store8 $m (local.get $at) (i32.const 7))
          (br_if $again ({a}.lt_u
            (local.tee $at ({a}.add (local.get $at) ({a}.const 1))) (local.get $to)))))
      (func (export \"ahead\") (param $at {a})
        (loop $again
          (i32.store8 $m (local.get $at) (i32.const 7))
          (drop (memory.grow $m ({a}.const 1)))
          (local.set $at ({a}.add (local.get $at) ({a}.const 1)))
          (br $again)))";
    for (place, is_wide, options) in settings() {
        let body = format!("{GROW}{BODY}");
        let mut guest = Guest::new(place, is_wide, "50 67000", &body, &options);
        let zero = Ok(vec![Value::I32(0)]);
        assert_eq!(guest.call("before", &[50]), OUT);
        assert_eq!(guest.bytes().len(), 50, "it traps before it grows");
        assert_eq!(guest.call("behind", &[51]), OUT);
        assert_eq!(guest.call("behind", &[51]), zero);
        assert_eq!(guest.call("called", &[53]), OUT);
        assert_eq!(guest.call("called", &[53]), zero);
        assert_eq!(guest.call("refused", &[54]), OUT);
        assert_eq!(guest.call("before", &[53]), zero);
        assert_eq!(guest.call("size", &[]), Ok(vec![guest.address(55)]));
        assert_eq!(guest.call("loop", &[300]), Ok(vec![]));
        let bytes = guest.bytes();
        assert_eq!(bytes.len(), 300);
        assert!(bytes[..55].iter().all(|byte| *byte == 0));
        assert!(bytes[55..].iter().all(|byte| *byte == 7));
        assert_eq!(guest.call("ahead", &[300]), OUT);
        assert_eq!(guest.bytes().len(), 300);
        // Grow past the accessible bytes up to the type's limit; one byte more must trap.
        assert_eq!(guest.grow(65_200), 300);
        assert_eq!(guest.call("loop", &[65_600]), Ok(vec![]));
        assert_eq!(guest.call("ahead", &[65_599]), OUT);
        let bytes = guest.bytes();
        assert_eq!(bytes.len(), 67_000);
        assert!(bytes[300..65_500].iter().all(|byte| *byte == 0));
        assert!(bytes[65_500..].iter().all(|byte| *byte == 7));
    }
}
