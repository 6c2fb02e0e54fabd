//! Random guests that compute 64-bit addresses. The twin of each guest has a 32-bit memory and
//! traps explicitly on larger addresses. Results, memory and traps must be equal.

use super::{Guest, LEVELS, PAGE, common, i64, region};
use crate::common::campaign::share;
use crate::common::random::Random;
use core::fmt::Write;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Linker, Region, TrapCode};

/// The call that converts an address or a length in the guest with a 32-bit memory.
const NARROW: &str = "(call $narrow ";

/// Number of locals; the first two are the parameters.
const LOCALS: u64 = 5;

/// Generates a guest's function, for a memory of either kind.
struct Writer<'a> {
    random: &'a mut Random,
    /// The text so far. Each address and length is in a call of [`NARROW`].
    text: String,
}

impl Writer<'_> {
    fn local(&mut self) -> String {
        format!("$l{}", self.random.below(LOCALS))
    }

    fn constant(&mut self) -> u64 {
        let random = &mut self.random;
        match random.below(8) {
            0 => 1 << 32,
            1 => (1 << 32) + random.below(2 * PAGE),
            2 => u64::MAX - random.below(20),
            3 => 2 * PAGE - random.below(20),
            4 => random.u64() >> random.below(64),
            _ => random.below(2 * PAGE),
        }
    }

    /// An expression of type i64.
    fn value(&mut self, depth: u32) -> String {
        let choice = if depth == 0 {
            self.random.below(3)
        } else {
            self.random.below(24)
        };
        let deeper = depth.saturating_sub(1);
        match choice {
            0 => format!("(i64.const {})", self.constant().cast_signed()),
            1 | 2 => format!("(local.get {})", self.local()),
            3..=5 => {
                let (a, b) = (self.value(deeper), self.value(deeper));
                format!("(i64.add {a} {b})")
            }
            6 => {
                let (a, b) = (self.value(deeper), self.value(deeper));
                format!("(i64.sub {a} {b})")
            }
            7 => {
                let (a, by) = (self.value(deeper), self.random.below(40));
                format!("(i64.shl {a} (i64.const {by}))")
            }
            8 => format!("(i64.and {} (i64.const 0xffff))", self.value(deeper)),
            9 => format!("(i64.extend_i32_u (i32.wrap_i64 {}))", self.value(deeper)),
            10..=13 => format!("(i64.extend_i32_u {})", self.word(deeper)),
            14 => format!("(i64.extend_i32_s {})", self.word(deeper)),
            15 => format!("(i64.extend32_s {})", self.value(deeper)),
            16 => {
                let ops = ["or", "xor", "mul", "rotl", "shr_u", "shr_s", "and"];
                let op = ops[self.random.below(7) as usize];
                let (a, b) = (self.value(deeper), self.value(deeper));
                format!("(i64.{op} {a} {b})")
            }
            17 => {
                // A pair of shifts that is, or looks like, an extension.
                let (a, by) = (self.value(deeper), self.shift());
                let right = ["shr_u", "shr_s"][self.random.below(2) as usize];
                format!("(i64.{right} (i64.shl {a} (i64.const {by})) (i64.const {by}))")
            }
            18 => format!("(i64.and {} (i64.const 0xffffffff))", self.value(deeper)),
            19 => {
                let (a, b, word) = (self.value(deeper), self.value(deeper), self.word(deeper));
                format!("(select {a} {b} {word})")
            }
            20 => format!(
                "(i64x2.extract_lane 1 (i32x4.replace_lane 3 (i64x2.splat {}) {}))",
                self.value(deeper),
                self.word(deeper)
            ),
            21 => {
                // The comparison that the translator also emits: does a number equal its lower
                // half?
                let (local, a) = (self.local(), self.value(deeper));
                format!(
                    "(select (local.tee {local} {a}) (i64.extend_i32_u (i32.wrap_i64 (local.get {local})))
                       (i64.eq (local.get {local}) (i64.extend_i32_u (i32.wrap_i64 (local.get {local})))))"
                )
            }
            _ => self.load(deeper),
        }
    }

    /// A shift distance that leaves a half, a byte, a part of an address, or nothing.
    fn shift(&mut self) -> u64 {
        [0, 1, 2, 3, 8, 16, 24, 31, 32, 33, 48, 56, 63][self.random.below(13) as usize]
    }

    /// An expression of type i32, whose register may contain more than 32 significant bits.
    fn word(&mut self, depth: u32) -> String {
        let deeper = depth.saturating_sub(1);
        let choice = if depth == 0 { 0 } else { self.random.below(14) };
        match choice {
            0..=2 => format!("(i32.wrap_i64 {})", self.value(deeper)),
            3 => format!("(call $wrap {})", self.value(deeper)),
            4..=7 => {
                let ops = ["add", "sub", "mul", "and", "or", "xor"];
                let op = ops[self.random.below(6) as usize];
                let (a, b) = (self.word(deeper), self.word(deeper));
                format!("(i32.{op} {a} {b})")
            }
            8 | 9 => {
                let ops = ["shl", "shr_u", "shr_s", "rotl", "rotr"];
                let op = ops[self.random.below(5) as usize];
                let (a, by) = (self.word(deeper), self.shift());
                format!("(i32.{op} {a} (i32.const {by}))")
            }
            10 => {
                let (a, factor) = (
                    self.word(deeper),
                    [3, 5, 8, 9][self.random.below(4) as usize],
                );
                format!("(i32.mul {a} (i32.const {factor}))")
            }
            11 => {
                let ops = ["clz", "ctz", "popcnt", "extend8_s", "extend16_s", "eqz"];
                let op = ops[self.random.below(6) as usize];
                format!("(i32.{op} {})", self.word(deeper))
            }
            12 => format!(
                "(i32x4.extract_lane {} (i64x2.splat {}))",
                self.random.below(4),
                self.value(deeper)
            ),
            _ => {
                let kinds = ["i32.load", "i32.load16_s", "i32.load8_u"];
                let kind = kinds[self.random.below(3) as usize];
                let (offset, address) = (self.offset(), self.address(deeper));
                format!("({kind} offset={offset} {address})")
            }
        }
    }

    /// An address, which is more often in bounds than not.
    fn address(&mut self, depth: u32) -> String {
        let value = self.value(depth);
        let masked = match self.random.below(18) {
            0 => value,
            // Often a small remainder.
            16 | 17 => format!("(i64.rem_u {value} (i64.const {}))", 2 * PAGE + 4),
            1..=6 => format!("(i64.and {value} (i64.const 0xffff))"),
            7..=12 => format!("(i64.and {value} (i64.const 0x1fff8))"),
            _ => format!("(i64.shr_u {value} (i64.const 48))"),
        };
        format!("{NARROW}{masked})")
    }

    fn offset(&mut self) -> u64 {
        let random = &mut self.random;
        match random.below(40) {
            0 => random.below(2 * PAGE),
            1 => (32 << 20) - random.below(20),
            2 => u64::from(u32::MAX) - random.below(20),
            3..=20 => random.below(200),
            _ => 0,
        }
    }

    fn load(&mut self, depth: u32) -> String {
        let kinds = [
            "i64.load",
            "i64.load32_s",
            "i64.load16_u",
            "i64.load8_u",
            "i64.load8_s",
        ];
        let kind = kinds[self.random.below(5) as usize];
        let (offset, address) = (self.offset(), self.address(depth));
        format!("({kind} offset={offset} {address})")
    }

    fn statement(&mut self, depth: u32) {
        match self.random.below(12) {
            0..=3 => {
                let (local, value) = (self.local(), self.value(3));
                let _ = writeln!(self.text, "(local.set {local} {value})");
            }
            4..=7 => {
                let kinds = ["i64.store", "i64.store32", "i64.store16", "i64.store8"];
                let kind = kinds[self.random.below(4) as usize];
                let (offset, address, value) = (self.offset(), self.address(2), self.value(2));
                let _ = writeln!(self.text, "({kind} offset={offset} {address} {value})");
            }
            8 => {
                let (to, from, length) = (self.address(1), self.address(1), self.length());
                let _ = writeln!(self.text, "(memory.copy {to} {from} {length})");
            }
            9 => {
                let (to, byte, length) = (self.address(1), self.local(), self.length());
                let _ = writeln!(
                    self.text,
                    "(memory.fill {to} (i32.wrap_i64 (local.get {byte})) {length})"
                );
            }
            10 if depth > 0 => {
                let label = self.text.len();
                let counter = format!("$n{depth}");
                let _ = writeln!(
                    self.text,
                    "(local.set {counter} (i32.const 5)) (loop $b{label}"
                );
                for _ in 0..3 {
                    self.statement(depth - 1);
                }
                let _ = writeln!(
                    self.text,
                    "(br_if $b{label} (local.tee {counter} (i32.sub (local.get {counter}) (i32.const 1)))))"
                );
            }
            _ => {
                let address = self.address(2);
                let _ = writeln!(
                    self.text,
                    "(local.set $l2 (i64.add (local.get $l2) (i64.load8_u {address})))"
                );
            }
        }
    }

    fn length(&mut self) -> String {
        let length = match self.random.below(16) {
            0 => format!("(i64.const {})", self.constant().cast_signed()),
            1..=6 => format!("(i64.const {})", self.random.below(130)),
            7 => self.value(1),
            _ => format!("(i64.and {} (i64.const 0x3ff))", self.value(1)),
        };
        format!("{NARROW}{length})")
    }
}

/// A guest with a 64-bit memory, and its variant with a 32-bit one.
fn guests(random: &mut Random) -> [String; 2] {
    let mut writer = Writer {
        random,
        text: String::new(),
    };
    for _ in 0..5 {
        writer.statement(2);
    }
    let text = writer.text;
    let module = |memory: &str, narrow: &str, body: &str| {
        format!(
            "(module (memory {memory} 2) {narrow}
               (func $wrap (param i64) (result i32) (i32.wrap_i64 (local.get 0)))
               (func (export \"go\") (param $l0 i64) (param $l1 i64) (result i64)
                 (local $l2 i64) (local $l3 i64) (local $l4 i64) (local $n1 i32) (local $n2 i32)
                 {body}
                 (i64.xor (local.get $l2) (i64.xor (local.get $l3) (local.get $l4)))))"
        )
    };
    // `(block` replaces the call, so the parentheses still match.
    let wide = text.replace(NARROW, "(block (result i64) ");
    let narrow = "(func $narrow (param i64) (result i32)
        (if (i64.gt_u (local.get 0) (i64.const 0xffffffff)) (then unreachable))
        (i32.wrap_i64 (local.get 0)))";
    [module("i64", "", &wide), module("", narrow, &text)]
}

/// Some guests count fuel, and some are compiled without Spectre masks.
fn guest(region: &Region, text: &str, level: OptLevel, number: u64) -> Guest {
    let mut options = Options::default();
    options.opt_level = level;
    (options.fuel, options.spectre) = (number.is_multiple_of(3), !number.is_multiple_of(4));
    let module = common::wat_with(text, &options);
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    Guest::Alone(prepared.try_instantiate(()).expect("a slot is free"))
}

/// Runs random guests from a seed on; returns how many calls returned and how many trapped.
fn run(seed: u64, count: u64) -> (u64, u64) {
    let region = region(LEVELS.len() as u32 + 1);
    let (mut returned, mut trapped) = (0, 0);
    for number in seed..seed + count {
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [wide, narrow] = guests(&mut random);
        let mut twin = Guest::alone(&region, &narrow, OptLevel::Speed, false);
        let mut guests = LEVELS.map(|level| (level, guest(&region, &wide, level, number)));
        let image: Vec<u8> = (0..2 * PAGE).map(|_| random.u64() as u8).collect();
        for _ in 0..4 {
            let params = [random.below(2 * PAGE), random.u64() >> random.below(64)].map(i64);
            twin.write(&image);
            // The 32-bit guest traps by `unreachable` for an address past 4 GiB, which is out of
            // bounds.
            let wanted = twin.call("go", &params).map_err(|code| match code {
                TrapCode::Unreachable => TrapCode::MemoryOutOfBounds,
                other => other,
            });
            for (level, guest) in &mut guests {
                guest.write(&image);
                let found = guest.call("go", &params);
                assert_eq!(found, wanted, "{number} {level:?} {params:x?}: {wide}");
                assert!(
                    guest.is_like(&twin),
                    "{number} {level:?} {params:x?}: {wide}"
                );
            }
            match wanted {
                Ok(_) => returned += 1,
                Err(_) => trapped += 1,
            }
        }
    }
    (returned, trapped)
}

#[test]
fn random_guests_equal_guests_with_a_32_bit_memory() {
    let (returned, trapped) = run(0, share(300, 10));
    assert!(
        returned > share(300, 10) && trapped > share(200, 10),
        "{returned} returned, {trapped} trapped"
    );
}

#[test]
#[ignore = "5,000 guests take minutes"]
fn many_random_guests_equal_guests_with_a_32_bit_memory() {
    let (returned, trapped) = run(1_000, 5_000);
    assert!(returned > 1_000 && trapped > 1_000, "{returned} {trapped}");
}
