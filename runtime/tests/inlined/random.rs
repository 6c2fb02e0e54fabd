//! Random guests of small functions that call each other.

use super::{compare, guest, inlined, region};
use crate::common::campaign::share;
use crate::common::random::Random;
use pirn_compiler::Options;
use pirn_runtime::{TrapCode, Value};

const GUESTS: u64 = 400;
const FUNCTIONS: u64 = 8;

struct Writer {
    random: Random,
    /// The number of functions that this one may call.
    callable: u64,
    /// The number of enclosing blocks, with the body.
    depth: u64,
}

impl Writer {
    fn value(&mut self, size: u32) -> String {
        let kind = match size {
            0 => self.random.below(3),
            _ => self.random.below(12),
        };
        let small = self.random.below(9);
        let local = self.random.below(3);
        match kind {
            0 | 1 => format!("(local.get {local})"),
            2 => format!(
                "(i32.const {})",
                [small, 65_532, 1 << 31][self.random.below(3) as usize]
            ),
            3 => "(global.get $g)".to_owned(),
            4 => {
                let address = self.value(size - 1);
                let mask = ["", " (i32.const 0xfff8) (i32.and)"][self.random.below(2) as usize];
                format!("{address}{mask} (i32.load offset={})", small * 3)
            }
            5 => {
                let op = ["div_s", "rem_u", "div_u"][self.random.below(3) as usize];
                let (a, b) = (self.value(size - 1), self.value(size - 1));
                format!("(i32.{op} {a} {b})")
            }
            6 => format!("(local.tee {local} {})", self.value(size - 1)),
            7 if self.callable > 0 => self.call(size),
            8 if self.callable > 0 => self.call(size),
            9 => {
                self.depth += 1;
                let (a, b, c) = (
                    self.value(size - 1),
                    self.value(size - 1),
                    self.value(size - 1),
                );
                self.depth -= 1;
                format!("(if (result i32) {a} (then {b}) (else {c}))")
            }
            _ => {
                let op = ["add", "sub", "xor", "mul", "lt_u", "shl"][self.random.below(6) as usize];
                let (a, b) = (self.value(size - 1), self.value(size - 1));
                format!("(i32.{op} {a} {b})")
            }
        }
    }

    fn call(&mut self, size: u32) -> String {
        let callee = self.random.below(self.callable);
        let (a, b) = (self.value(size - 1), self.value(size - 1));
        format!("(call $f{callee} {a} {b})")
    }

    fn statement(&mut self) -> String {
        let local = self.random.below(3);
        let size = 2;
        match self.random.below(8) {
            0 => format!("(global.set $g {})", self.value(size)),
            1 => {
                let (a, b) = (self.value(1), self.value(size));
                format!("(i32.store offset=2 {a} {b})")
            }
            2 => format!("(if {} (then (return {})))", self.value(1), self.value(1)),
            3 => {
                let (value, condition) = (self.value(1), self.value(1));
                format!("(br_if {} {value} {condition}) (drop)", self.depth)
            }
            4 => format!("(block (br_if 0 {}) {})", self.value(1), {
                self.depth += 1;
                let inner = self.statement();
                self.depth -= 1;
                inner
            }),
            5 => format!(
                "(if (i32.eq {} (i32.const 3)) (then (unreachable)))",
                self.value(1)
            ),
            _ => format!("(local.set {local} {})", self.value(size)),
        }
    }

    fn body(&mut self, statements: u64) -> String {
        let mut body = String::new();
        for _ in 0..statements {
            body += &self.statement();
            body.push('\n');
        }
        body + &self.value(2)
    }
}

fn text(seed: u64) -> String {
    let mut random = Random(seed);
    let mut functions = String::new();
    for index in 0..FUNCTIONS {
        let mut writer = Writer {
            random: Random(random.u64()),
            callable: index,
            depth: 0,
        };
        let statements = writer.random.below(3);
        let body = writer.body(statements);
        functions += &format!("(func $f{index} (param i32 i32) (result i32) (local i32) {body})\n");
    }
    let mut writer = Writer {
        random,
        callable: FUNCTIONS,
        depth: 0,
    };
    let body = writer.body(4);
    guest(
        &functions,
        &format!(
            "(local i32) (local $n i32)
             (loop (result i32)
               (block (result i32) {body})
               (local.set 0 (i32.add (local.get 0)))
               (local.set $n (i32.add (local.get $n) (i32.const 1)))
               (br_if 0 (i32.lt_u (local.get $n) (i32.const 4)))
               (local.get 0))"
        )
        .replace("local.get 2", "local.get 1")
        .replace("local.set 2", "local.set 1")
        .replace("local.tee 2", "local.tee 1"),
    )
}

#[test]
fn random_guests_do_the_same() {
    let region = region();
    let calls: Vec<_> = [0, 1, 3, 8, 65_530, -7].map(|x| vec![Value::I32(x)]).into();
    let (mut with, mut traps, mut returned) = (0, 0, 0);
    let guests = share(GUESTS, 32);
    for seed in 0..guests {
        let text = text(seed);
        with += u64::from(!inlined(&text, &Options::default()).is_empty());
        for effect in compare(&region, &text, &calls) {
            match effect.outcome {
                Ok(_) => returned += 1,
                Err((TrapCode::OutOfFuel, _)) => {}
                Err((_, frames)) => traps += u64::from(frames.len() > 1),
            }
        }
    }
    assert!(with > guests / 2, "{with} of {guests} inline");
    assert!(traps > guests && returned > guests, "{traps}, {returned}");
}
