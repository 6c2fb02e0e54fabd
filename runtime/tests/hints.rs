//! Branch hints must not change a result. Random guests of nested blocks, loops and branches with
//! random hints are compared with the guests without hints.

use crate::common;

use common::campaign::share;
use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Instance, Linker, Region, TypedFunc};

/// Number of guests in the test, and of calls for each guest.
const GUESTS: u64 = 150;
const CALLS: u64 = 20;

/// The deepest nesting of blocks.
const DEPTH_MAX: usize = 5;

/// Most iterations of all loops in one call.
const PASSES: u32 = 200;

/// A guest under construction.
struct Writer {
    random: Random,
    code: String,
    /// For each enclosing block, the number of values that a branch to it takes.
    labels: Vec<usize>,
}

impl Writer {
    /// A condition that depends on some bits of the state.
    fn condition(&mut self) -> String {
        let bits = [1_u32, 3, 15, 1 << 9][self.random.below(4) as usize] << self.random.below(20);
        format!("(i32.and (local.get $s) (i32.const {bits}))")
    }

    /// A placeholder, which is replaced by a hint or by nothing.
    fn hint(&mut self) -> &'static str {
        ["", "UNLIKELY", "LIKELY"][self.random.below(3) as usize]
    }

    fn statements(&mut self) {
        for _ in 0..=self.random.below(4) {
            self.statement();
        }
    }

    /// Statements in a block with this number of result values.
    fn inside(&mut self, values: usize) {
        self.labels.push(values);
        self.statements();
        self.labels.pop();
    }

    fn statement(&mut self) {
        let kind = match self.labels.len() < DEPTH_MAX {
            true => self.random.below(9),
            false => self.random.below(4),
        };
        let constant = self.random.u64() as u32 | 1;
        match kind {
            0 | 1 => {
                self.code += &format!(
                    "(local.set $s (i32.add (i32.rotl (local.get $s) (i32.const 7)) (i32.const {constant})))\n"
                );
            }
            2 | 3 if !self.labels.is_empty() => {
                let depth = self.random.below(self.labels.len() as u64) as usize;
                let values = self.labels[self.labels.len() - 1 - depth];
                let (condition, hint) = (self.condition(), self.hint());
                let [value, drop] = match values {
                    0 => ["", ""],
                    _ => ["(local.get $s)", "(drop)"],
                };
                self.code += &format!("{value} {condition} {hint} (br_if {depth}) {drop}\n");
            }
            2 | 3 => self.code += "(local.set $s (i32.mul (local.get $s) (i32.const 5)))\n",
            4 => {
                self.code += "(block\n";
                self.inside(0);
                self.code += ")\n";
            }
            5 => {
                self.code += "(local.set $s (block (result i32)\n";
                self.inside(1);
                self.code += "(i32.xor (local.get $s) (i32.const 77))))\n";
            }
            6 => {
                // The loop ends when all iterations of the call are used up.
                self.code += &format!(
                    "(block (loop (br_if 1 (i32.lt_s (local.tee $passes
                       (i32.sub (local.get $passes) (i32.const 1))) (i32.const 0)))
                     (local.set $s (i32.mul (local.get $s) (i32.const {constant})))\n"
                );
                self.labels.push(0);
                self.inside(0);
                self.labels.pop();
                let (condition, hint) = (self.condition(), self.hint());
                self.code += &format!("{condition} {hint} (br_if 0)))\n");
            }
            _ => {
                let (condition, hint) = (self.condition(), self.hint());
                self.code += &format!("{condition} {hint} (if (then\n");
                self.inside(0);
                if kind == 7 {
                    self.code += ") (else\n";
                    self.inside(0);
                }
                self.code += "))\n";
            }
        }
    }
}

fn guest(seed: u64) -> String {
    let mut writer = Writer {
        random: Random(seed),
        code: String::new(),
        labels: vec![],
    };
    for _ in 0..4 {
        writer.statements();
    }
    format!(
        r#"(module (func (export "run") (param $s i32) (result i32) (local $passes i32)
             (local.set $passes (i32.const {PASSES})) {} (local.get $s)))"#,
        writer.code
    )
}

/// Compiles a guest with these options; returns an instance and its function.
fn open(text: &str, options: &Options) -> (Instance<()>, TypedFunc<u32, u32>) {
    let module = common::wat_with(text, options);
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let run = prepared.func("run").expect("it is exported");
    (prepared.try_instantiate(()).expect("a slot is free"), run)
}

#[test]
fn random_guests_compute_the_same_with_hints_and_without() {
    for seed in 0..share(GUESTS, 12) {
        let text = guest(seed);
        let hint = |value| format!("(@metadata.code.branch_hint \"\\0{value}\")");
        let plain = text.replace("UNLIKELY", "").replace("LIKELY", "");
        let hinted = text
            .replace("UNLIKELY", &hint(0))
            .replace("LIKELY", &hint(1));
        let (mut expected, run_expected) = open(&plain, &Options::default());
        for (level, fuel) in [
            (OptLevel::Speed, false),
            (OptLevel::None, false),
            (OptLevel::Speed, true),
        ] {
            let mut options = Options::default();
            (options.opt_level, options.fuel) = (level, fuel);
            let (mut instance, run) = open(&hinted, &options);
            for call in 0..CALLS {
                if fuel {
                    instance.set_fuel(1 << 30).expect("it counts");
                }
                let param = Random(seed ^ call << 32).u64() as u32;
                let wanted = expected.call(&run_expected, param).expect("it returns");
                let found = instance.call(&run, param).expect("it returns");
                assert_eq!(found, wanted, "seed {seed}, {param}, {level:?}, {fuel}");
            }
        }
    }
}
