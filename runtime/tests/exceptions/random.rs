//! Random functions with more live values than registers, compared with a model. Calls in
//! `try_table` bodies throw, and values live across the handlers must survive.

use crate::common::campaign::sampled;
use crate::common::{self, random::Random, values::levels};
use pirn_runtime::{Instance, Linker, Region, Value};
use std::fmt::Write;

const INTEGERS: usize = 24;
const FLOATS: usize = 18;
const VECTORS: usize = 18;

/// The values of a function's locals; floating-point numbers as bits.
#[derive(Clone, Copy)]
struct State {
    integers: [u64; INTEGERS],
    floats: [u64; FLOATS],
    vectors: [[u64; 2]; VECTORS],
}

/// A function under construction, and the state that it computes.
struct Made {
    random: Random,
    text: String,
    state: State,
    labels: u32,
}

impl Made {
    fn pick(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        self.text
            .write_fmt(text)
            .expect("writing to a string succeeds");
    }

    /// Computes one long expression of all integers, or something with the other values.
    fn computes(&mut self) {
        for _ in 0..self.pick(60) {
            let (a, b, c) = (
                self.pick(INTEGERS),
                self.pick(INTEGERS),
                self.pick(INTEGERS),
            );
            let (f, v) = (self.pick(FLOATS), self.pick(VECTORS));
            let state = &mut self.state;
            match self.random.below(8) {
                0 => {
                    state.floats[f] ^= state.integers[a];
                    self.say(format_args!(
                        "(local.set $f{f} (f64.reinterpret_i64
                          (i64.xor (local.get $i{a}) (i64.reinterpret_f64 (local.get $f{f})))))\n"
                    ));
                }
                1 => {
                    state.vectors[v][1] = state.integers[a];
                    self.say(format_args!("(local.set $v{v} (i64x2.replace_lane 1 (local.get $v{v}) (local.get $i{a})))\n"));
                }
                2 => {
                    state.integers[a] ^= state.floats[f].wrapping_add(state.vectors[v][1]);
                    self.say(format_args!("(local.set $i{a} (i64.xor (local.get $i{a})
                          (i64.add (i64.reinterpret_f64 (local.get $f{f})) (i64x2.extract_lane 1 (local.get $v{v})))))\n"));
                }
                3 => {
                    let add = state.integers[b];
                    state.vectors[v] = state.vectors[v].map(|lane| lane.wrapping_add(add));
                    self.say(format_args!("(local.set $v{v} (i64x2.add (local.get $v{v}) (i64x2.splat (local.get $i{b}))))\n"));
                }
                4 | 5 => {
                    state.integers[a] = state.integers[b]
                        .wrapping_mul(3)
                        .wrapping_add(state.integers[c]);
                    self.say(format_args!("(local.set $i{a} (i64.add (i64.mul (local.get $i{b}) (i64.const 3)) (local.get $i{c})))\n"));
                }
                6 => {
                    state.integers[a] ^= state.integers[b].rotate_left(13);
                    self.say(format_args!("(local.set $i{a} (i64.xor (i64.rotl (local.get $i{b}) (i64.const 13)) (local.get $i{a})))\n"));
                }
                _ => {
                    state.integers[a] = state.integers[b].wrapping_sub(state.integers[c]);
                    self.say(format_args!(
                        "(local.set $i{a} (i64.sub (local.get $i{b}) (local.get $i{c})))\n"
                    ));
                }
            }
        }
    }

    /// A body that may throw between its computations, and the code of its handler.
    fn tries(&mut self, depth: u32) {
        let label = self.labels;
        self.labels += 1;
        let (below, a, f, v) = (
            self.pick(INTEGERS),
            self.pick(INTEGERS),
            self.pick(FLOATS),
            self.pick(VECTORS),
        );
        // A value is on the operand stack meanwhile.
        let kept = self.state.integers[below];
        self.say(format_args!(
            "(local.set $i{below} (i64.add (local.get $i{below}) (block $done{label} (result i64) (local.get $i{below})\n\
             (block $t{label} (result i64 f64 v128) (try_table (catch $t $t{label})\n"
        ));
        self.computes();
        if depth > 0 && self.pick(2) == 0 {
            self.tries(depth - 1);
        }
        // The generator knows which call throws. The guest reads this choice from a global, so that
        // the compiler does not know.
        let throws = self.random.below(4);
        let mut caught = None;
        for call in 0..3 {
            self.say(format_args!(
                "(local.set $i{a} (call $may (i32.const {}) (local.get $i{a}) (local.get $f{f}) (local.get $v{v}) {}))\n",
                i32::from(call == throws),
                "(local.get $i0) ".repeat(12)
            ));
            if call == throws {
                caught.get_or_insert(self.state);
            }
            self.state.integers[a] = self.state.integers[a].wrapping_add(self.state.integers[0]);
            self.computes();
        }
        self.say(format_args!(
            "(br $done{label} (i64.const 1)))\n(unreachable))\n"
        ));
        if let Some(state) = caught {
            self.state = state;
            let thrown = (
                state.integers[a].wrapping_add(1),
                state.floats[f],
                state.vectors[v],
            );
            (
                self.state.integers[a],
                self.state.floats[0],
                self.state.vectors[0],
            ) = thrown;
        }
        // Only the handler runs this code.
        self.say(format_args!(
            "(local.set $v0) (local.set $f0) (local.set $i{a}) (br $done{label} (i64.const 2)))))\n"
        ));
        let by = if caught.is_some() { 2 } else { 1 };
        self.state.integers[below] = kept.wrapping_add(by);
    }
}

/// A module, and the final content of its memory.
fn made(seed: u64) -> (String, Vec<u8>) {
    let mut random = Random(seed);
    let state = State {
        integers: [(); INTEGERS].map(|()| random.u64()),
        floats: [(); FLOATS].map(|()| random.u64()),
        vectors: [(); VECTORS].map(|()| [random.u64(), random.u64()]),
    };
    let mut made = Made {
        random,
        text: String::new(),
        state,
        labels: 0,
    };
    for _ in 0..4 {
        made.computes();
        made.tries(2);
    }
    let (mut locals, mut sets, mut stores, mut left) =
        (String::new(), String::new(), String::new(), vec![]);
    let mut say = |name: String, ty: &str, initial: String, bytes: &[u8]| {
        let at = left.len();
        locals += &format!("(local ${name} {ty}) ");
        sets += &format!("(local.set ${name} {initial})\n");
        stores += &format!("({ty}.store offset={at} (i32.const 0) (local.get ${name}))\n");
        left.extend_from_slice(bytes);
    };
    for (n, (from, to)) in state.integers.iter().zip(made.state.integers).enumerate() {
        say(
            format!("i{n}"),
            "i64",
            format!("(i64.const {from})"),
            &to.to_le_bytes(),
        );
    }
    for (n, (from, to)) in state.floats.iter().zip(made.state.floats).enumerate() {
        say(
            format!("f{n}"),
            "f64",
            format!("(f64.reinterpret_i64 (i64.const {from}))"),
            &to.to_le_bytes(),
        );
    }
    for (n, ([a, b], to)) in state.vectors.iter().zip(made.state.vectors).enumerate() {
        let to: Vec<_> = to.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        say(
            format!("v{n}"),
            "v128",
            format!("(v128.const i64x2 {a} {b})"),
            &to,
        );
    }
    let text = format!(
        r#"(module
      (memory (export "memory") 1)
      (tag $t (param i64 f64 v128))
      (func $may (param $throws i32) (param $i i64) (param $f f64) (param $v v128) (param $x i64) (param {}) (result i64)
        (if (local.get $throws)
          (then (throw $t (i64.add (local.get $i) (i64.const 1)) (local.get $f) (local.get $v))))
        (i64.add (local.get $i) (local.get $x)))
      (func (export "run") {locals}
        {sets} {} {stores}))"#,
        "i64 ".repeat(11),
        made.text
    );
    (text, left)
}

/// The memory after a run must equal the model's, at every level, with and without fuel.
#[test]
fn random_functions_with_handlers_equal_the_model() {
    let region = Region::builder().slots(1).build().expect("a region");
    for seed in 0..12 {
        let (text, left) = made(seed);
        let ways = levels().map(|options| [false, true].map(|fuel| (options.clone(), fuel)));
        for (mut options, fuel) in sampled(ways.into_iter().flatten(), 6, seed as usize) {
            options.fuel = fuel;
            let module = common::wat_with(&text, &options);
            let prepared = region
                .prepare(&module, &Linker::<()>::new())
                .expect("the module links");
            let mut guest: Instance<()> = prepared.try_instantiate(()).expect("the slot is free");
            let none: Vec<Value> = guest.call_values("run", &[]).expect("the call returns");
            assert!(none.is_empty());
            let mut found = vec![0; left.len()];
            guest.memory().read(0, &mut found).expect("range in bounds");
            assert!(found == left, "seed {seed}, {options:?}");
        }
    }
}
