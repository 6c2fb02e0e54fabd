//! Random guests whose addresses are sums, masks, shifts and loaded bytes, in blocks, loops and
//! branches.

use super::{Guests, PAGE, common, function, image, is_rewritten, module, region, take};
use common::campaign::share;
use common::random::Random;
use std::fmt::Write;

/// Number of programs in the test, and in the manual run.
const PROGRAMS: u64 = 250;
const MANY_PROGRAMS: u64 = 20_000;

/// The deepest nesting of blocks.
const BLOCKS_MAX: usize = 3;

/// Calls of each program.
const CALLS: usize = 12;

/// Constants that are added to an index or mask it.
const CONSTANTS: [u32; 36] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    12,
    16,
    24,
    32,
    64,
    255,
    510,
    1020,
    2040,
    4080,
    4096,
    0x7fff,
    0xfff0,
    0xfff8,
    0xffff,
    0x1_0000,
    0x1_0001,
    (32 << 20) - 8,
    32 << 20,
    0x7fff_fff8,
    0x8000_0000,
    0xfffe_ffff,
    0xffff_0000,
    0xffff_0001,
    0xffff_fff0,
    0xffff_fff8,
    0xffff_fffc,
    0xffff_fffe,
    0xffff_ffff,
];

/// Offsets, in addition to small ones.
const OFFSETS: [u32; 7] = [
    0xfff8,
    0x1_0000,
    (32 << 20) - 16,
    (32 << 20) - 8,
    32 << 20,
    0x8000_0000,
    0xffff_ffff,
];

const LOADS: [&str; 11] = [
    "i64.load",
    "i64.load8_s",
    "i64.load8_u",
    "i64.load16_s",
    "i64.load16_u",
    "i64.load32_s",
    "i64.load32_u",
    "i64.extend_i32_u (i32.load",
    "i64.extend_i32_s (i32.load8_s",
    "i64.reinterpret_f64 (f64.load",
    "i64x2.extract_lane 1 (v128.load",
];

const STORES: [&str; 4] = ["i64.store", "i64.store8", "i64.store16", "i64.store32"];

/// A guest under construction.
struct Writer {
    random: Random,
    code: String,
    /// Labels of the enclosing blocks.
    open: Vec<u32>,
    labels: u32,
}

impl Writer {
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn constant(&mut self) -> String {
        let constant = match self.random.below(24) {
            0 | 1 => self.one_of(&CONSTANTS),
            2..=5 => 0u32.wrapping_sub(self.random.below(100) as u32),
            _ => self.random.below(100) as u32,
        };
        format!("(i32.const {})", constant.cast_signed())
    }

    fn local(&mut self) -> String {
        let name = self.one_of(&["$p", "$p", "$p", "$q", "$a", "$b"]);
        format!("(local.get {name})")
    }

    /// An i32 expression with at most `depth` nested operators.
    fn number(&mut self, depth: u32) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return self.local();
        };
        let a = self.number(depth);
        match self.random.below(20) {
            0 => self.constant(),
            1..=6 => format!("(i32.add {a} {})", self.constant()),
            7 => format!("(i32.add {} {a})", self.constant()),
            8 => format!("(i32.sub {a} {})", self.constant()),
            9 => format!("(i32.add {a} {})", self.number(depth)),
            10 | 11 => {
                let mask = self.one_of(&[0xff, 0x1fe, 0x3fc, 0x7f8, 0xff0, 0xfff8]);
                let by = self.random.below(35);
                let turn = self.one_of(&["shr_u", "shl", "shr_s", "rotl"]);
                format!("(i32.and (i32.{turn} {a} (i32.const {by})) (i32.const {mask}))")
            }
            12 => format!("(i32.and {a} {})", self.constant()),
            13 => format!("(i32.or {a} {})", self.number(depth)),
            14 => format!("(i32.shr_u {a} (i32.const {}))", self.random.below(40)),
            15 => {
                let mask = self.one_of(&[-1, 0xff, 0xfff, 0xfff8]);
                let by = self.random.below(40);
                format!("(i32.shl (i32.and {a} (i32.const {mask})) (i32.const {by}))")
            }
            16 => format!("(i32.load8_u (i32.and {a} (i32.const 0xffff)))"),
            17 => format!("(i32.load16_u (i32.and {a} (i32.const 0xfffe)))"),
            18 => format!("(i32.wrap_i64 (i64.add (i64.extend_i32_s {a}) (i64.const -8)))"),
            _ => self.local(),
        }
    }

    fn index(&mut self) -> String {
        let depth = self.one_of(&[0, 1, 1, 1, 1, 1, 2, 3]);
        let index = self.number(depth);
        let offset = match self.random.below(60) {
            0 => self.one_of(&OFFSETS),
            1..=20 => self.random.below(40) as u32,
            _ => return index,
        };
        format!("offset={offset} {index}")
    }

    fn access(&mut self) {
        let index = self.index();
        let statement = match self.random.below(8) {
            0 => {
                let index = self.number(1);
                let bytes = 1 + self.random.below(40);
                format!("(memory.fill {index} (local.get $q) (i32.const {bytes}))\n")
            }
            1..=3 => format!("({} {index} (local.get $s))\n", self.one_of(&STORES)),
            _ => {
                let load = self.one_of(&LOADS);
                let close = if load.contains('(') { "))" } else { ")" };
                take(&format!("({load} {index}{close}"))
            }
        };
        self.code += &statement;
    }

    fn statement(&mut self) {
        match self.random.below(20) {
            0..=9 => self.access(),
            10 | 11 => {
                // Several accesses whose addresses differ only by constants.
                let index = self.number(1);
                let set = format!("(local.set $a {index})\n");
                self.code += &set;
                for _ in 0..4 {
                    let index = format!("(i32.add (local.get $a) {})", self.constant());
                    let access = match self.random.below(2) {
                        0 => take(&format!("(i64.load8_u {index})")),
                        _ => format!("(i32.store8 {index} (local.get $p))\n"),
                    };
                    self.code += &access;
                }
            }
            12..=14 => {
                let local = self.one_of(&["$a", "$b", "$p"]);
                let number = self.number(2);
                let set = format!("(local.set {local} {number})\n");
                self.code += &set;
            }
            15 if self.random.below(4) == 0 => {
                self.code +=
                    "(local.set $b (memory.grow (i32.and (local.get $p) (i32.const 1))))\n";
            }
            15 | 16 if !self.open.is_empty() => {
                let open = self.open.clone();
                let (condition, label) = (self.number(2), self.one_of(&open));
                let out = format!("(br_if $out{label} {condition})\n");
                self.code += &out;
            }
            _ if self.open.len() < BLOCKS_MAX => self.block(),
            _ => self.access(),
        }
    }

    fn statements(&mut self, most: u64) {
        for _ in 0..=self.random.below(most) {
            self.statement();
        }
    }

    /// An `if`, a block or a loop with branches to its label.
    fn block(&mut self) {
        self.labels += 1;
        let label = self.labels;
        self.open.push(label);
        writeln!(self.code, "(block $out{label}").expect("a string");
        match self.random.below(3) {
            0 => {
                let condition = self.number(2);
                let head = format!("(if (i32.and {condition} (i32.const 1)) (then\n");
                self.code += &head;
                self.statements(4);
                self.code += ") (else\n";
                self.statements(4);
                self.code += "))\n";
            }
            1 => self.statements(5),
            _ => {
                writeln!(self.code, "(loop $again{label}").expect("a string");
                self.statements(5);
                let step = self.constant();
                let turn = format!(
                    "(local.set $a (i32.add (local.get $a) {step}))
(local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
(br_if $again{label} (i32.gt_s (local.get $turns) (i32.const 0))))\n"
                );
                self.code += &turn;
            }
        }
        self.code += ")\n";
        self.open.pop();
    }
}

/// The guest for a seed.
fn program(seed: u64) -> String {
    let mut writer = Writer {
        random: Random(seed),
        code: String::new(),
        open: vec![],
        labels: 0,
    };
    for _ in 0..3 {
        writer.statements(4);
    }
    module(&function("run", &writer.code))
}

/// An index in bounds, at the end of the memory, or near 2^32.
fn index(random: &mut Random) -> u32 {
    let size = PAGE as u32;
    match random.below(24) {
        0 => size.wrapping_sub(random.below(40) as u32),
        1 => 0u32.wrapping_sub(random.below(100) as u32),
        2 => 0u32.wrapping_sub(CONSTANTS[random.below(CONSTANTS.len() as u64) as usize]),
        3 => random.below(200) as u32,
        4 => random.u64() as u32,
        _ => size / 4 + random.below(u64::from(size / 2)) as u32,
    }
}

/// Runs programs; returns how many calls returned and how many trapped.
fn run(seeds: std::ops::Range<u64>) -> [usize; 2] {
    let (region, image) = (region(), image());
    let mut counts = [0; 2];
    for seed in seeds {
        let text = program(seed);
        let mut guests = Guests::new(&region, &text, seed % 8 == 0);
        let mut random = Random(!seed);
        for _ in 0..CALLS {
            let params = (index(&mut random), index(&mut random), 0);
            let left = guests.call("run", params, &image, &format!("seed {seed}\n{text}"));
            counts[usize::from(left.result.is_err())] += 1;
        }
    }
    counts
}

#[test]
fn random_guests_equal_unoptimised_code() {
    if !is_rewritten() {
        return;
    }
    let [returned, trapped] = run(0..share(PROGRAMS, 6));
    let calls = returned + trapped;
    assert!(
        returned * 10 > calls && trapped * 10 > calls,
        "{returned} of {calls} returned"
    );
}

/// Takes some minutes.
#[test]
#[ignore = "takes minutes"]
fn many_random_guests_equal_unoptimised_code() {
    let [returned, trapped] = run(PROGRAMS..PROGRAMS + MANY_PROGRAMS);
    println!("{returned} calls returned, {trapped} trapped");
}
