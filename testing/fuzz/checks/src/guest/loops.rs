//! Guests of loops, small functions and branch tables, for the optimiser's passes. wasm-smith makes
//! them rarely.

use crate::random::Random;
use std::fmt::Write as _;

/// Iterations that the loops of `counting` and `dispatch` may have together in one call; then the
/// call traps. Loops of `short` end by themselves.
const TURNS: u32 = 300;

/// Exported functions.
const FUNCS: usize = 3;

/// Functions that are small enough to be inlined.
const LEAVES: usize = 4;

/// Most statements of an exported function, with nested ones.
const STATEMENTS: usize = 40;

/// Largest depth of expressions.
const DEPTH: usize = 4;

const I32_OPS: [&str; 18] = [
    "add", "add", "sub", "and", "or", "xor", "mul", "shl", "shr_u", "shr_s", "rotl", "eq", "ne",
    "lt_s", "lt_u", "ge_u", "div_u", "rem_s",
];
const I64_OPS: [&str; 9] = [
    "add", "sub", "and", "or", "xor", "mul", "shl", "shr_u", "rotr",
];
const F64_OPS: [&str; 6] = ["add", "sub", "mul", "div", "min", "max"];
const UNARY: [&str; 6] = ["clz", "ctz", "popcnt", "eqz", "extend8_s", "extend16_s"];
const LOADS: [&str; 5] = ["load", "load8_u", "load8_s", "load16_u", "load16_s"];
const STORES: [&str; 3] = ["store", "store8", "store16"];
const NUMBERS: [i64; 20] = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    9,
    15,
    63,
    255,
    256,
    65_535,
    65_536,
    -1,
    -2,
    -8,
    0x7fff_ffff,
    -0x8000_0000,
    0x1234_5678,
];

/// The module, as text.
pub(super) fn text(random: &mut Random) -> String {
    let pages = 1 + random.below(2);
    let mut text = format!(
        "(module (memory (export \"memory\") {pages} {})
           (global $turns (mut i32) (i32.const 0)) (table {LEAVES} {LEAVES} funcref)
           (type $leaf (func (param i32 i32) (result i32)))",
        pages + 1
    );
    let mut writer = Writer {
        random,
        left: 0,
        labels: vec![],
        next: 0,
        is_straight: true,
    };
    for leaf in 0..LEAVES {
        writer.left = 2;
        let (statements, result) = (writer.statements(2), writer.i32(2));
        let _ = write!(
            text,
            "\n(func $leaf{leaf} (type $leaf) (local $2 i32) (local $3 i32) (local $i i32)
               (local $n i32)
               (local $old i32) (local $way i32) (local $l i64) (local $d f64) {statements}
               {result})
             (elem (i32.const {leaf}) $leaf{leaf})"
        );
    }
    writer.is_straight = false;
    for func in 0..FUNCS {
        writer.left = STATEMENTS;
        let statements = writer.statements(8);
        let _ = write!(
            text,
            "\n(func (export \"run{func}\") (param i32 i32 i32 i32 i64)
               (result i32 i32 i32 i32 i64) (local $i i32) (local $n i32) (local $old i32)
               (local $way i32) (local $d f64)
               (local $l i64)
               (global.set $turns (i32.const {TURNS})) (local.set $l (local.get 4))
               {statements}
               (local.get 0) (local.get 1) (local.get 2) (local.get $i)
               (i64.add (local.get $l) (i64.extend_i32_s (i32.trunc_sat_f64_s (local.get $d)))))"
        );
    }
    text + ")"
}

/// Writes the body of a function.
struct Writer<'a> {
    random: &'a mut Random,
    /// Statements left.
    left: usize,
    /// The labels of the enclosing blocks and loops.
    labels: Vec<String>,
    /// Number of the next label.
    next: usize,
    /// Whether to write only statements without control flow and calls.
    is_straight: bool,
}

impl Writer<'_> {
    fn one_of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.random.below(list.len())]
    }

    fn number(&mut self) -> i64 {
        NUMBERS[self.random.below(NUMBERS.len())]
    }

    /// An i32 local to read.
    fn readable(&mut self) -> &'static str {
        match self.random.below(4) {
            0 => "$n",
            _ => self.local(),
        }
    }

    /// An i32 local that any statement may write.
    fn local(&mut self) -> &'static str {
        self.one_of(&["0", "1", "2", "3", "$i", "$way"])
    }

    /// An address within the memory, or rarely any number.
    fn address(&mut self, depth: usize) -> String {
        let at = self.i32(depth);
        match self.random.below(30) {
            0 => at,
            _ => format!(
                "(i32.and {at} (i32.const {}))",
                [0xff, 0xffc][self.random.below(2)]
            ),
        }
    }

    fn i32(&mut self, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return match self.random.below(2) {
                0 => format!("(i32.const {})", self.number()),
                _ => format!("(local.get {})", self.readable()),
            };
        };
        match self.random.below(20) {
            0 | 1 => format!("(i32.const {})", self.number()),
            2..=4 => format!("(local.get {})", self.readable()),
            5 => format!("(local.tee {} {})", self.local(), self.i32(depth)),
            6 | 7 => {
                let (load, offset) = (self.one_of(&LOADS), self.random.below(64));
                format!("(i32.{load} offset={offset} {})", self.address(depth))
            }
            8 => format!("(i32.{} {})", self.one_of(&UNARY), self.i32(depth)),
            9 => format!("(i32.wrap_i64 {})", self.i64(depth)),
            10 => format!("(i32.trunc_sat_f64_s {})", self.f64(depth)),
            11 => {
                let (a, b, way) = (self.i32(depth), self.i32(depth), self.i32(depth));
                format!("(select {a} {b} {way})")
            }
            12 | 13 if !self.is_straight => {
                let (a, b) = (self.i32(depth), self.i32(depth));
                match self.random.below(4) {
                    0 => {
                        let mask = [3, 3, 3, 7][self.random.below(4)];
                        let at = self.i32(depth);
                        format!(
                            "(call_indirect (type $leaf) {a} {b}
                               (i32.and {at} (i32.const {mask})))"
                        )
                    }
                    _ => format!("(call $leaf{} {a} {b})", self.random.below(LEAVES)),
                }
            }
            _ => {
                let (op, a, b) = (self.one_of(&I32_OPS), self.i32(depth), self.i32(depth));
                format!("(i32.{op} {a} {b})")
            }
        }
    }

    fn i64(&mut self, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return "(local.get $l)".to_owned();
        };
        match self.random.below(8) {
            0 => format!("(i64.const {})", self.number()),
            1 => "(local.get $l)".to_owned(),
            2 => format!("(i64.extend_i32_s {})", self.i32(depth)),
            3 => format!("(i64.extend_i32_u {})", self.i32(depth)),
            4 => format!("(i64.load offset=16 {})", self.address(depth)),
            _ => {
                let (op, a, b) = (self.one_of(&I64_OPS), self.i64(depth), self.i64(depth));
                format!("(i64.{op} {a} {b})")
            }
        }
    }

    /// A float, whose bits are never seen: those of a NaN are not specified.
    fn f64(&mut self, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return "(local.get $d)".to_owned();
        };
        match self.random.below(6) {
            0 => format!("(f64.const {})", self.number()),
            1 => "(local.get $d)".to_owned(),
            2 => format!("(f64.convert_i32_s {})", self.i32(depth)),
            _ => {
                let (op, a, b) = (self.one_of(&F64_OPS), self.f64(depth), self.f64(depth));
                format!("(f64.{op} {a} {b})")
            }
        }
    }

    /// At most this number of statements.
    fn statements(&mut self, most: usize) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.random.below(most) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            text += &self.statement();
            text.push('\n');
        }
        text
    }

    fn statement(&mut self) -> String {
        let kinds = if self.is_straight { 6 } else { 14 };
        match self.random.below(kinds) {
            0 | 1 => format!("(local.set {} {})", self.local(), self.i32(DEPTH)),
            2 => format!("(local.set $l {})", self.i64(DEPTH)),
            3 => format!("(local.set $d {})", self.f64(3)),
            4 => {
                let (store, offset) = (self.one_of(&STORES), self.random.below(64));
                let (at, value) = (self.address(2), self.i32(3));
                format!("(i32.{store} offset={offset} {at} {value})")
            }
            5 => {
                let (at, value) = (self.address(2), self.i64(3));
                format!("(i64.store offset=8 {at} {value})")
            }
            6 => {
                let (way, then, other) = (self.i32(2), self.statements(3), self.statements(3));
                format!("(if {way} (then {then}) (else {other}))")
            }
            7 | 8 => self.counting(),
            9 => self.dispatch(),
            11 | 12 => self.short(),
            10 => {
                let label = self.enter();
                let body = self.statements(4);
                self.labels.pop();
                format!("(block {label} {body})")
            }
            _ => self.branch(),
        }
    }

    fn enter(&mut self) -> String {
        let label = format!("$b{}", self.next);
        self.next += 1;
        self.labels.push(label.clone());
        label
    }

    /// A branch to any label. To a loop, it counts as a turn.
    fn branch(&mut self) -> String {
        let way = self.i32(2);
        match self.labels.len() {
            0 => format!("(drop {way})"),
            count => format!("(br_if {} {way})", self.labels[self.random.below(count)]),
        }
    }

    /// A loop with a counter and a limit, which may be computed in each turn.
    fn counting(&mut self) -> String {
        let start = self.i32(0);
        let label = self.enter();
        let body = self.statements(4);
        let step = match self.random.below(3) {
            0 => self.i32(0),
            _ => format!("(i32.const {})", 1 + self.random.below(4)),
        };
        let limit = self.i32(2);
        self.labels.pop();
        format!(
            "(local.set $i {start}) (loop {label} {TURN} {body}
               (local.set $i (i32.add (local.get $i) {step}))
               (br_if {label} (i32.lt_u (local.get $i) {limit})))"
        )
    }

    /// A loop of one block. It ends when its counter, before or after the increment, equals a
    /// constant.
    fn short(&mut self) -> String {
        let label = self.enter();
        let was_straight = std::mem::replace(&mut self.is_straight, true);
        let body = self.statements(4);
        self.is_straight = was_straight;
        self.labels.pop();
        let (start, step) = (self.number() as i32, 1 + self.random.below(9) as i32);
        let end = start.wrapping_add(step * self.random.below(12) as i32);
        let (kept, compared) = match self.random.below(3) {
            0 => ("(drop (local.get $old))", "$n"),
            _ => ("(local.set $old (local.get $n))", "$old"),
        };
        // A counter that is compared after it is increased has one step more.
        let end = if compared == "$n" {
            end.wrapping_add(step)
        } else {
            end
        };
        format!(
            "(local.set $n (i32.const {start})) (loop {label} {body} {kept}
               (local.set $n (i32.add (local.get $n) (i32.const {step})))
               (br_if {label} (i32.ne (local.get {compared}) (i32.const {end}))))"
        )
    }

    /// A loop that starts with a `br_table`.
    fn dispatch(&mut self) -> String {
        let (out, next) = (self.enter(), self.enter());
        let blocks: Vec<_> = (0..2 + self.random.below(3))
            .map(|_| self.enter())
            .collect();
        let first = self.i32(1);
        let mut table = String::new();
        for _ in 0..1 + self.random.below(6) {
            let at = self.random.below(blocks.len() + 1);
            table += blocks.get(at).unwrap_or(&out);
            table.push(' ');
        }
        let mut text = format!("(local.set $way {first}) (block {out} (loop {next} {TURN}");
        for label in blocks.iter().rev() {
            let _ = write!(text, "(block {label} ");
        }
        let _ = write!(text, "(br_table {table} (local.get $way))");
        for _ in &blocks {
            self.labels.pop();
        }
        for _ in &blocks {
            let (body, way) = (self.statements(3), self.random.below(blocks.len() + 2));
            let condition = self.i32(2);
            let _ = write!(
                text,
                ") {body} (local.set $way (i32.const {way})) (br_if {next} {condition})"
            );
        }
        self.labels.truncate(self.labels.len() - 2);
        text + "))"
    }
}

/// Counts a turn of a loop.
const TURN: &str = "(global.set $turns (i32.sub (global.get $turns) (i32.const 1)))
    (if (i32.lt_s (global.get $turns) (i32.const 0)) (then (unreachable)))";
