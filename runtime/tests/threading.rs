//! Branches that skip the `br_table` at the start of a loop. Random guests with such loops have the
//! same effects without optimisation and with fuel, where no branch skips it.

use crate::common;

use common::campaign::share;
use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Linker, Region, TrapCode, Value};

const GUESTS: u64 = 2000;

/// Steps after which a guest traps, so that all guests end.
const STEPS: u32 = 200;

/// Fuel that no guest uses up.
const FUEL: u64 = 1 << 30;

/// Writes a function of a loop with a table of blocks.
struct Writer {
    random: Random,
    blocks: u64,
    /// Blocks in which the current operator is, in a block of the table or after the last one.
    depth: u64,
    /// The blocks of the table that are still open.
    open: u64,
}

impl Writer {
    fn value(&mut self) -> String {
        match self.random.below(4) {
            0 => format!("(i32.const {})", self.random.below(7)),
            _ => format!("(local.get {})", self.random.below(5)),
        }
    }

    /// A value for the table: mostly a known one.
    fn way(&mut self) -> String {
        match self.random.below(8) {
            0 => self.value(),
            1 => format!(
                "(i32.const {})",
                [-1, 1 << 30][self.random.below(2) as usize]
            ),
            _ => format!("(i32.const {})", self.random.below(self.blocks + 2)),
        }
    }

    fn statement(&mut self) -> String {
        // The loop is around the open blocks.
        let next = self.depth + self.open;
        match self.random.below(10) {
            0 => format!("(local.set $way {}) (br {next})", self.way()),
            1 | 2 => format!(
                "(local.set $way {}) (br_if {next} {})",
                self.way(),
                self.value()
            ),
            3 => {
                let (way, condition) = (self.way(), self.value());
                format!(
                    "(if {condition} (then (local.set $way {way}) (br {})))",
                    next + 1
                )
            }
            4 if self.open > 0 => {
                let to = self.depth + self.random.below(self.open);
                format!("(br_if {to} {})", self.value())
            }
            5 if self.depth < 3 => {
                self.depth += 1;
                let kind = ["block", "loop"][self.random.below(2) as usize];
                let body = self.statements();
                self.depth -= 1;
                format!("({kind} {body})")
            }
            6 => format!("(i32.store offset=8 (i32.const 8) {})", self.value()),
            7 => format!("(br_table {next} {next} {})", self.value()),
            _ => {
                let op = ["add", "sub", "xor", "mul", "rem_u"][self.random.below(5) as usize];
                let (a, b) = (self.value(), self.value());
                format!(
                    "(local.set {} (i32.{op} {a} {b}))",
                    1 + self.random.below(4)
                )
            }
        }
    }

    fn statements(&mut self) -> String {
        let count = self.random.below(4);
        (0..count).map(|_| self.statement() + "\n").collect()
    }
}

/// A guest. Each block of the table counts as a step, and so no guest runs forever.
fn text(seed: u64) -> String {
    let mut random = Random(seed);
    let blocks = 1 + random.below(6);
    let mut writer = Writer {
        random,
        blocks,
        depth: 0,
        open: blocks,
    };
    let entries = 1 + writer.random.below(blocks + 3);
    // Some entries are the block around the loop. The loop itself would not end.
    let mut entry = || match writer.random.below(blocks + 1) {
        out if out == blocks => "$out ".to_owned(),
        block => format!("{block} "),
    };
    let table: String = (0..entries).map(|_| entry()).collect();
    let step = format!(
        "(local.set $steps (i32.add (local.get $steps) (i32.const 1)))
         (if (i32.gt_u (local.get $steps) (i32.const {STEPS})) (then (unreachable)))"
    );
    let mut body = format!(
        "{} (br_table {table} (local.get $way))",
        "(block ".repeat(blocks as usize)
    );
    for _ in 0..blocks {
        writer.open -= 1;
        body += &format!(")\n{step} {}", writer.statements());
    }
    let first = writer.value();
    format!(
        r#"(module (memory (export "memory") 1)
             (func (export "run") (param $way i32) (param i32 i32 i32) (result i32 i32 i32 i32 i32)
               (local $x i32) (local $steps i32)
               (local.set 4 {first})
               (block $out (loop $next {body}))
               (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get $steps)))"#
    )
}

/// What a call returns, or its trap, and the word that it writes to memory.
type Effect = (Result<Vec<Value>, TrapCode>, Vec<u8>);

fn effects(region: &Region, wasm: &[u8], options: &Options) -> Vec<Effect> {
    let module = common::open_with(wasm, options).expect("it is valid");
    let prepared = region.prepare(&module, &Linker::new());
    let prepared = prepared.expect("it has no imports");
    let calls = [[0, 1, 2, 3], [1, 0, 0, 0], [2, 5, -1, 7], [9, 1, 1, 1]];
    let effect = |params: [i32; 4]| {
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        if options.fuel {
            instance.set_fuel(FUEL).expect("it counts");
        }
        let outcome = instance.call_values("run", &params.map(Value::I32));
        let outcome = outcome.map_err(|error| match error {
            CallError::Trap(trap) => trap.code(),
            other => panic!("{other}"),
        });
        (outcome, instance.memory().as_slice()[..32].to_vec())
    };
    calls.map(effect).into()
}

/// The effects of a guest without optimisation, after a check that they are the same with
/// optimisation and with fuel.
fn compare(region: &Region, text: &str) -> Vec<Effect> {
    let mut plain = Options::default();
    plain.opt_level = OptLevel::None;
    let mut fuel = Options::default();
    fuel.fuel = true;
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let expected = effects(region, &wasm, &plain);
    for options in [&Options::default(), &fuel] {
        assert_eq!(effects(region, &wasm, options), expected, "{text}");
    }
    expected
}

#[test]
fn random_guests_do_the_same() {
    let region = Region::builder().slots(1).build().expect("a region");
    let guests = share(GUESTS, 40);
    let (mut returned, mut looped) = (0, 0);
    for seed in 0..guests {
        let text = text(seed);
        let expected = compare(&region, &text);
        for (outcome, _) in &expected {
            match outcome {
                Ok(_) => returned += 1,
                Err(TrapCode::Unreachable) => looped += 1,
                Err(_) => {}
            }
        }
    }
    assert!(returned > guests && looped > guests, "{returned}, {looped}");
}

/// Counts a step in each block of a table.
const STEP: &str = "(local.set $s (i32.add (local.get $s) (i32.const 1)))
    (if (i32.gt_u (local.get $s) (i32.const 100)) (then (unreachable)))";

/// Bodies that random guests do not have.
const EDGES: [&str; 5] = [
    // A clause of a `try_table` goes to the loop. The way is what it was at the call that threw.
    "(block $o (loop $n (block $b (block $a (br_table $a $b $o (local.get $w))) STEP
       (local.set $w (i32.const 1))
       (try_table (catch_all $n)
         (call $throw (local.get 0)) (local.set $w (i32.const 2))
         (call $throw (local.get 1)) (local.set $w (i32.const 7)) (throw $e (local.get 0)))) STEP
       (local.set $x (i32.add (local.get $x) (local.get $w)))
       (local.set 0 (i32.const 0)) (local.set 1 (local.get 2)) (local.set $w (i32.const 0))
       (br_if $n (i32.lt_u (local.get $s) (i32.const 20)))))",
    // The loop is in a clause of a legacy `try`, whose exception is thrown again after the loop.
    "try try $t (call $throw (local.get 1)) catch $e (local.set 0)
       (loop $n (block $b (block $a (br_table $a $b (local.get 0))) STEP
         (local.set $x (i32.add (local.get $x) (i32.const 3)))
         (local.set 0 (i32.const 1)) (br $n)) STEP
         (local.set 0 (i32.const 0)) (br_if $n (i32.lt_u (local.get $s) (i32.const 9)))
         rethrow $t)
       end catch_all (local.set $x (i32.add (local.get $x) (i32.const 1000))) end",
    // Two loops share a local, there are operands below both, and the outer one has a result.
    "(i32.const 40)
     (loop $n (result i32) (block $b (block $a (br_table $a $b (local.get $w))) STEP
       (i32.const 3)
       (loop $m (block $d (block $c (br_table $c $d $b (local.get $w))) STEP
         (local.set $w (i32.const 1)) (br_if $m (local.get 1))
         (local.set $w (i32.const 2)) (br_if $m (local.get 2))
         (local.set $w (i32.const 1)) (br $n)) STEP
         (local.set $w (i32.const 0)) (br_if $n (local.get 3)) (local.set 1 (i32.const 0))
         (br_if $m (i32.lt_u (local.get $s) (i32.const 30))))
       (local.set $x (i32.add (local.get $x))))
       (local.set $w (i32.const 0)) STEP
       (br_if $n (i32.lt_u (local.get $s) (i32.const 20))) (local.get $x))
     (local.set $x (i32.add))",
    // A table's target is the end of an `if`, and the loop is in its `else`.
    "(local.set $w (local.get 2))
     (if $i (local.get 0) (then) (else
       (loop $n (block $a (br_table $a $i (local.get $w))) STEP
         (local.set $w (i32.const 1)) (br_if $n (local.get 3)) (local.set $w (i32.const 0))
         (local.set $x (i32.add (local.get $x) (i32.const 9))) (br $n))))",
    // A table in the loop has several edges to one block, some of them by way of the loop.
    "(block $o (loop $n (block $b (block $a (br_table $a $b $o $a $b (local.get $w))) STEP
       (block $q (block $p
         (local.set $w (i32.const 1)) (br_table $b $n $p $q (local.get 0)))
         (local.set $x (i32.const 4)))
       (local.set 0 (i32.add (local.get 0) (i32.const 1))) (local.set $w (i32.const 0))
       (br_if $n (i32.lt_u (local.get $s) (i32.const 9)))) STEP
       (local.set $x (i32.add (local.get $x) (local.get $w)))
       (local.set $w (i32.const 2)) (br $n)))",
];

#[test]
fn edges_do_the_same() {
    let region = Region::builder().slots(1).build().expect("a region");
    for body in EDGES {
        let body = body.replace("STEP", STEP);
        let text = format!(
            r#"(module (memory (export "memory") 1) (tag $e (param i32))
                 (func $throw (param i32)
                   (if (local.get 0) (then (throw $e (local.get 0)))))
                 (func (export "run") (param i32 i32 i32 i32) (result i32 i32)
                   (local $w i32) (local $x i32) (local $s i32)
                   {body}
                   (local.get $x) (local.get $s)))"#
        );
        compare(&region, &text);
    }
}
