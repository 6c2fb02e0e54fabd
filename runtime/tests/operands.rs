//! Memory operands of instructions, in the guest's memory and in the stack frame. Random guests
//! have up to three times as many live values as registers. They load, store and trap, and must
//! behave like unoptimised code.

use crate::common;

use common::campaign::share;
use common::guest::{Guest, MEMORY};
use common::random::Random;
use pirn_compiler::OptLevel;
use pirn_runtime::TrapCode;
use std::fmt::Write;

/// Number of guests in the test, and in the manual run.
const GUESTS: u64 = 120;
const MANY_GUESTS: u64 = 5_000;

/// Calls of each guest.
const CALLS: usize = 6;

const BINARY: [&str; 9] = [
    "add", "add", "xor", "xor", "sub", "and", "or", "mul", "rotl",
];

const CONSTANTS: [i64; 10] = [0, 1, 3, 5, 7, 9, 255, 65535, -1, 0x3ff_ffff];

/// A guest under construction: its locals of both types, by number.
struct Writer {
    random: Random,
    code: String,
    locals: u64,
}

impl Writer {
    fn ty(&mut self) -> &'static str {
        ["i32", "i64", "i64"][self.random.below(3) as usize]
    }

    fn local(&mut self, ty: &str) -> String {
        format!("${ty}{}", self.random.below(self.locals))
    }

    /// An address, which is nearly always in bounds.
    fn address(&mut self) -> String {
        let offset = self.random.below(512) * 4;
        let index = match self.random.below(1000) {
            0 => format!("(local.get {})", self.local("i32")),
            1..=300 => format!(
                "(i32.and (local.get {}) (i32.const 0x7ffc))",
                self.local("i32")
            ),
            _ => "(local.get $p)".to_owned(),
        };
        format!("offset={offset} {index}")
    }

    fn value(&mut self, ty: &str) -> String {
        match self.random.below(10) {
            0 => format!("({ty}.const {})", CONSTANTS[self.random.below(10) as usize]),
            1 | 2 => format!("({ty}.load {})", self.address()),
            _ => format!("(local.get {})", self.local(ty)),
        }
    }

    fn statement(&mut self) {
        let ty = self.ty();
        let (a, b, to) = (self.value(ty), self.value(ty), self.local(ty));
        let line = match self.random.below(24) {
            0 => format!("({ty}.store {} {a})", self.address()),
            1 if ty == "i64" => {
                format!(
                    "(local.set {to} (i64.extend_i32_u (local.get {})))",
                    self.local("i32")
                )
            }
            1 => format!(
                "(local.set {to} (i32.wrap_i64 (local.get {})))",
                self.local("i64")
            ),
            2 => format!("(local.set {to} (select {a} {b} ({ty}.eqz (local.get {to}))))"),
            3 => format!("(local.set {to} ({ty}.div_u {a} ({ty}.or {b} ({ty}.const 1))))"),
            _ => {
                let op = BINARY[self.random.below(BINARY.len() as u64) as usize];
                format!("(local.set {to} ({ty}.{op} {a} {b}))")
            }
        };
        self.code.push_str(&line);
        self.code.push('\n');
    }
}

fn guest(seed: u64) -> String {
    let mut random = Random(seed);
    let locals = 6 + random.below(20);
    let statements = 60 + random.below(500);
    let is_loop = random.below(3) == 0;
    let mut writer = Writer {
        random,
        code: String::new(),
        locals,
    };
    for _ in 0..statements {
        writer.statement();
    }
    let mut text = "(module (memory (export \"memory\") 1) (func (export \"run\") (param $p i32) (local $turns i32)".to_owned();
    for ty in ["i32", "i64"] {
        for at in 0..locals {
            let _ = write!(text, "(local ${ty}{at} {ty})");
        }
    }
    for at in 0..locals {
        let _ = write!(
            text,
            "(local.set $i32{at} (i32.load offset={} (local.get $p))) (local.set $i64{at} (i64.load offset={} (local.get $p)))",
            at * 4,
            at * 8 + 128
        );
    }
    let code = &writer.code;
    match is_loop {
        true => {
            let _ = write!(
                text,
                "(loop $again {code} (local.set $turns (i32.add (local.get $turns) (i32.const 1)))
                   (br_if $again (i32.lt_u (local.get $turns) (i32.const 3))))"
            );
        }
        false => text.push_str(code),
    }
    for ty in ["i32", "i64"] {
        for at in 0..locals {
            let _ = write!(
                text,
                "({ty}.store offset={} (i32.const 0) (local.get ${ty}{at}))",
                4096 + at * 8
            );
        }
    }
    text + "))"
}

fn compare(guests: std::ops::Range<u64>) {
    let (mut traps, mut returns) = (0, 0);
    for seed in guests {
        let text = guest(seed);
        let levels = [OptLevel::None, OptLevel::Speed];
        let [mut plain, mut optimised] = levels.map(|level| Guest::new(&text, level));
        let mut random = Random(seed ^ 0xface);
        for call in 0..CALLS {
            let begin: Vec<u8> = (0..MEMORY).map(|_| random.u64() as u8).collect();
            let address = match call {
                // Near the end of the memory, so that one of the loads is out of bounds.
                0 => (MEMORY - 2048) as u32 + random.below(2048) as u32,
                _ => random.below(32 << 10) as u32,
            };
            let wanted = plain.run(&begin, address);
            let found = optimised.run(&begin, address);
            assert_eq!(wanted.0, found.0, "seed {seed}, call {call}");
            assert!(wanted.1 == found.1, "seed {seed}, call {call}: other bytes");
            *(if wanted.0.is_some() {
                &mut traps
            } else {
                &mut returns
            }) += 1;
        }
    }
    assert!(
        traps > 0 && returns > traps,
        "{traps} traps, {returns} returns"
    );
}

#[test]
fn random_guests_compute_the_same_unoptimised() {
    compare(0..share(GUESTS, 6));
}

#[test]
#[ignore = "takes minutes"]
fn many_random_guests_compute_the_same_unoptimised() {
    compare(GUESTS..GUESTS + MANY_GUESTS);
}

/// A load with one user becomes its operand. The trap must still be reported at the load.
#[test]
fn a_trap_of_an_operand_is_at_the_load() {
    let load = "(i32.load offset=9 (local.get $p))";
    for body in [
        format!("(return (i32.add (local.get $a) {load}))"),
        format!("(return (i32.rotl (i32.sub (local.get $a) {load}) (i32.const 3)))"),
        format!("(if (i32.lt_u (local.get $a) {load}) (then (return (i32.const 3))))"),
        format!("(return (select (i32.const 8) (i32.const 7) (i32.eq {load} (local.get $a))))"),
        format!("(return (i32.load offset=4 (i32.and (local.get $a) {load})))"),
        format!(
            "(local.set $a (i32.xor (local.get $a) {load})) (return (i32.mul (local.get $a) (local.get $a)))"
        ),
    ] {
        let text = format!(
            "(module (memory (export \"memory\") 1)
               (func (param $p i32) (param $a i32) (result i32) {body} (local.get $a))
               (func (export \"run\") (param $p i32) (drop (call 0 (local.get $p) (i32.const 5)))))"
        );
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        // The operator, its alignment and its offset.
        let mut operators = wasm.windows(3);
        let at = operators
            .position(|bytes| bytes == [0x28, 2, 9])
            .expect("it is there");
        for level in [OptLevel::None, OptLevel::Speed] {
            let mut guest = Guest::new(&text, level);
            let (trap, _) = guest.run(&vec![0; MEMORY], u32::MAX);
            let wanted = (TrapCode::MemoryOutOfBounds, Some(at as u32));
            assert_eq!(trap, Some(wanted), "{body}, {level:?}");
        }
    }
}
