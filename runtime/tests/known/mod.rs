//! Calls through tables whose elements the compiler knows. Each call is compared with a call
//! through an exported table, which the compiler does not know. Results, traps with code, offset
//! and frames, and remaining fuel must be equal.

use crate::common;

mod kinds;
mod random;
mod shapes;

use pirn_compiler::{Compilation, Emit, OptLevel, Options};
use pirn_runtime::{CallError, Instance, Linker, Prepared, Region, TrapCode, Value};

/// Placeholder in a guest's text for the kind of an export. Both replacements keep all offsets
/// equal.
const EXPORT: &str = "EXPORT";

/// Fuel before each call, where it is counted.
const FUEL: u64 = 1000;

/// Indices around the sizes of all tables, and indices that exceed 32 bits when multiplied by 8.
fn indices() -> impl Iterator<Item = u32> {
    let third = 1 << 29;
    let large = [third - 1, third, third + 1, 1 << 31, u32::MAX - 1, u32::MAX];
    (0..14).chain([1000]).chain(large)
}

/// Types (two of which are equal) and functions of these types (two of which may trap).
const FUNCS: &str = r#"
  (type $i (func (param i32) (result i32)))
  (type $l (func (param i64) (result i64)))
  (type $same (func (param i32) (result i32)))
  (type $one (func (result f32)))
  (type $never (func (param f64)))
  (type $tail (func (param i32) (result i32)))
  (memory 1)
  (func $a (type $i) (i32.add (local.get 0) (i32.const 100)))
  (func $b (type $i) (i32.mul (local.get 0) (i32.const 3)))
  (func $c (type $same) (i32.div_s (i32.const 1000) (local.get 0)))
  (func $d (type $l) (i64.div_u (i64.const 7) (local.get 0)))
  (func $e (type $l) (i64.shl (local.get 0) (i64.const 3)))
  (func $o (type $one) (f32.const 42))"#;

/// The types of the calls, and the conversion of their operand and result. Each caller takes an
/// index and a number.
const CALLS: [(&str, &str); 6] = [
    ("i", "(CALL (local.get $x) INDEX)"),
    ("same", "(CALL (local.get $x) INDEX)"),
    (
        "l",
        "(i32.wrap_i64 (CALL (i64.extend_i32_s (local.get $x)) INDEX))",
    ),
    ("one", "(i32.trunc_f32_s (CALL INDEX))"),
    ("never", "(CALL (f64.const 1) INDEX) (i32.const 5)"),
    ("tail", "(return_CALL (local.get $x) INDEX)"),
];

/// A function that calls by a type through a table, at its parameter or at a constant index.
fn caller(table: &str, (ty, call): (&str, &str), at: Option<u32>) -> String {
    let index = at.map_or("(local.get $at)".to_owned(), |at| {
        format!("(i32.const {})", at.cast_signed())
    });
    let call = call.replace("CALL", &format!("call_indirect {table} (type ${ty})"));
    let call = call.replace("INDEX", &index);
    let name = name(table, ty, at);
    format!("(func (export \"{name}\") (param $at i32) (param $x i32) (result i32) {call})\n")
}

fn name(table: &str, ty: &str, at: Option<u32>) -> String {
    at.map_or(format!("{table} {ty}"), |at| format!("{table} {ty} {at}"))
}

/// A module with functions that make all calls through these tables.
fn module(before: &str, tables: &[&str], rest: &str) -> String {
    let mut callers = String::new();
    for table in tables {
        for call in CALLS {
            callers += &caller(table, call, None);
        }
        for at in indices() {
            callers += &caller(table, CALLS[1], Some(at));
        }
    }
    format!("(module {before} {FUNCS} {rest} {callers} (export \"t\" ({EXPORT} 0)))")
}

/// The results of a call, or its trap's code and frames (function and offset).
type Outcome = Result<Vec<Value>, (TrapCode, Vec<(u32, Option<u32>)>)>;

fn outcome(result: Result<Vec<Value>, CallError>) -> Outcome {
    result.map_err(|error| match error {
        CallError::Trap(trap) => {
            let frames = trap.backtrace().iter();
            let frames = frames.map(|frame| (frame.func_index(), frame.wasm_offset()));
            (trap.code(), frames.collect())
        }
        other => panic!("{other}"),
    })
}

struct Guest {
    /// Keeps the preparation alive as long as the instance.
    _prepared: Prepared<()>,
    instance: Instance<()>,
    counts: bool,
}

impl Guest {
    /// `None` if instantiation traps, because a segment does not fit.
    fn new(region: &Region, text: &str, options: &Options) -> Option<Self> {
        let module = common::wat_with(text, options);
        let mut linker = Linker::new();
        let func = |x: i32| x + 10_000;
        linker.func("h", "f", func).expect("the name is free");
        let global = linker.global("h", "g", Value::I32(2));
        global.expect("the name is free");
        let prepared = region.prepare(&module, &linker).expect("it fits");
        let instance = prepared.try_instantiate(()).ok()?;
        Some(Self {
            _prepared: prepared,
            instance,
            counts: options.fuel,
        })
    }

    fn call(&mut self, name: &str, params: [u32; 2]) -> (Outcome, Option<u64>) {
        if self.counts {
            self.instance.set_fuel(FUEL).expect("it counts");
        }
        let params = params.map(|param| Value::I32(param.cast_signed()));
        let outcome = outcome(self.instance.call_values(name, &params));
        (outcome, self.instance.fuel())
    }
}

/// Options that change the code of calls.
fn options() -> [Options; 4] {
    [
        (OptLevel::None, true, false),
        (OptLevel::Speed, true, true),
        (OptLevel::Speed, false, false),
        (OptLevel::SpeedAndSize, true, false),
    ]
    .map(|(level, spectre, fuel)| {
        let mut options = Options::default();
        (options.opt_level, options.spectre, options.fuel) = (level, spectre, fuel);
        options
    })
}

/// Whether a call reads the dispatch table that the compiler made for the first table.
fn is_known(text: &str, options: &Options) -> bool {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let listing = Compilation::new(options).emit(Emit::Asm).run(&wasm);
    let listing = String::from_utf8(listing.expect("it is valid").bytes).expect("text");
    listing.contains("-> table 0")
}

/// The text with its table known (if possible), and with the table exported.
fn both(text: &str) -> [String; 2] {
    ["memory", "table"].map(|kind| text.replace(EXPORT, kind))
}

fn region() -> Region {
    let region = Region::builder().slots(2);
    region.build().expect("a region")
}

/// Makes all calls through these tables, in both variants of a guest, after a call of `first`.
/// Returns how many calls returned.
fn compare(
    region: &Region,
    text: &str,
    tables: &[&str],
    options: &Options,
    first: Option<&str>,
) -> usize {
    let guests = both(text).map(|text| Guest::new(region, &text, options));
    let [Some(mut known), Some(mut open)] = guests else {
        assert!(guests.iter().all(Option::is_none), "one starts: {text}");
        return 0;
    };
    let mut returned = 0;
    let mut call = |name: &str, params| {
        let (one, other) = (known.call(name, params), open.call(name, params));
        assert_eq!(one, other, "{name} {params:x?}, {options:?}: {text}");
        returned += usize::from(one.0.is_ok());
    };
    if let Some(first) = first {
        call(first, [0, 0]);
    }
    for table in tables {
        for (ty, _) in CALLS {
            for at in indices() {
                call(&name(table, ty, None), [at, 0]);
                call(&name(table, ty, None), [at, 50]);
            }
        }
        for at in indices() {
            call(&name(table, CALLS[1].0, Some(at)), [0, 9]);
        }
    }
    returned
}
