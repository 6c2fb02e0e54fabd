//! Guests for compilers with a fault: the example guests, and one hand-written module for each
//! construct that a fault breaks.

use broken_compiler::faults::Fault;
use std::fmt::Write as _;
use std::path::Path;

/// An example guest from C, and hand-written guests.
const GUESTS: [&str; 3] = ["hello.wasm", "traps.wat", "hostcalls.wat"];

/// Tables, calls, globals, both kinds of memories, and a jump table.
const CONSTRUCTS: &str = r#"(module
  (type $binary (func (param i64 i32) (result i32)))
  (import "host" "log" (func $log (param i32 i64)))
  (import "host" "caught" (func $caught (param i32)))
  (table $open (export "open") 4 8 funcref)
  (table $known 4 4 funcref)
  (elem (table $known) (i32.const 0) func $add $sub)
  (elem (table $open) (i32.const 0) func $add $sub)
  (memory 1 2)
  (memory $long i64 1 2)
  (tag $e (param i32))
  (global $fixed i64 (i64.const 7))
  (global $step (export "step") (mut i64) (i64.const 1))
  (func $add (type $binary) (i32.add (i32.wrap_i64 (local.get 0)) (local.get 1)))
  (func $sub (type $binary) (i32.sub (i32.wrap_i64 (local.get 0)) (local.get 1)))
  (func (export "call") (param i64 i32 i32) (result i32)
    (call_indirect $open (type $binary) (local.get 0) (local.get 1) (local.get 2)))
  (func (export "known") (param i64 i32 i32) (result i32)
    (call_indirect $known (type $binary) (local.get 0) (local.get 1) (local.get 2)))
  (func (export "tail") (param i64 i32 i32) (result i32)
    (return_call_indirect $open (type $binary) (local.get 0) (local.get 1) (local.get 2)))
  (func (export "get") (param i32) (result funcref) (table.get $open (local.get 0)))
  (func (export "set") (param i32) (table.set $open (local.get 0) (ref.func $sub)))
  (func (export "size") (result i32) (table.size $open))
  (func (export "log") (param i32) (call $log (local.get 0) (global.get $fixed)))
  (func (export "tail log") (param i32) (return_call $caught (local.get 0)))
  (func (export "near") (param i32) (result i32) (i32.load offset=16 (local.get 0)))
  (func (export "far") (param i32) (result i32) (i32.load offset=0x7fff0000 (local.get 0)))
  (func (export "store") (param i32 i64) (i64.store offset=0x7ffffff0 (local.get 0) (local.get 1)))
  (func (export "long") (param i64) (result i32) (i32.load $long (local.get 0)))
  (func (export "jump") (param i32) (result i32)
    (block $c (block $b (block $a
      (br_table $a $b $c $b $a $c (local.get 0)))
      (return (i32.const 11)))
      (return (i32.const 12)))
    (i32.const 13)))"#;

/// Two words of arguments on the stack of an indirect call. If the first argument is in a vector
/// register, the call writes only one of these words. In other guests, such a call passes numbers
/// that are left in the argument registers. Then the result is wrong, but the guest stays in the
/// sandbox.
const ARGUMENTS: &str = r#"(module
  (type $many (func (param i64 i64 i64 i64 i64 i64 i64) (result i64)))
  (table (export "open") 4 8 funcref)
  (elem (i32.const 0) func $last)
  (func $last (type $many) (local.get 6))
  (func (export "call") (param i64 i32) (result i64)
    (call_indirect (type $many)
      (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0)
      (local.get 0) (local.get 1))))"#;

/// A guest in binary form, with a name for messages.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The name for messages.
    pub(crate) name: String,
    /// The WebAssembly module.
    pub(crate) wasm: Vec<u8>,
    /// The only faults that the guest is for. `None` if the guest is for most faults.
    only: Option<&'static [Fault]>,
}

impl Guest {
    /// Whether each change that a fault makes to the guest's machine code breaks the sandbox.
    pub(crate) fn suits(&self, fault: Fault) -> bool {
        let is_general = !matches!(fault, Fault::ArgumentClass | Fault::StackProbeDropped);
        self.only
            .map_or(is_general, |faults| faults.contains(&fault))
    }

    fn only(self, faults: &'static [Fault]) -> Self {
        Self {
            only: Some(faults),
            ..self
        }
    }

    fn text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            only: None,
            wasm: broken_compiler::parse_text(text.as_bytes())
                .expect("the source is a module")
                .into_owned(),
        }
    }
}

/// All guests.
pub(crate) fn guests() -> Vec<Guest> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests");
    let read = |name: &&str| {
        let bytes = std::fs::read(folder.join(name)).expect("the guest is there");
        Guest {
            name: (*name).to_owned(),
            only: None,
            wasm: broken_compiler::parse_text(&bytes)
                .expect("the source is a module")
                .into_owned(),
        }
    };
    let mut guests: Vec<_> = GUESTS.iter().map(read).collect();
    guests.push(Guest::text("constructs", CONSTRUCTS));
    guests.push(Guest::text("arguments", ARGUMENTS).only(&[Fault::ArgumentClass]));
    let stack = &[Fault::StackProbeDropped, Fault::ReloadBeyondFrame];
    // Cranelift touches five pages or more in a loop.
    guests.push(Guest::text("a frame of 3 pages", &large_frame(1400)).only(stack));
    guests.push(Guest::text("a frame of 6 pages", &large_frame(2800)).only(stack));
    guests.extend((0..RANDOM).map(|seed| Guest::text(&format!("random {seed}"), &random(seed))));
    guests
}

/// Number of random modules.
const RANDOM: u64 = 6;

/// A function with `values` values that are live across a call, so its frame has a word for each
/// value. The function first makes another call, whose return address is the lowest word of the
/// frame.
fn large_frame(values: u32) -> String {
    let mut text = String::from(
        r#"(module (import "host" "f" (func $f)) (memory 1)
        (func (export "run") (param i32) (result i64) (local"#,
    );
    for _ in 0..values {
        text += " i64";
    }
    text += ") (call $f)";
    for at in 1..=values {
        let _ = write!(
            text,
            "(local.set {at} (i64.load offset={at} (local.get 0)))"
        );
    }
    text += "(call $f) (i64.const 0)";
    for at in 1..=values {
        let _ = write!(text, "(i64.xor (local.get {at}))");
    }
    text + "))"
}

/// A module with a random function: arithmetic, accesses, calls by a table and jump tables.
fn random(seed: u64) -> String {
    // Knuth's MMIX.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut text = String::from(
        r#"(module (type $t (func (param i32 i64) (result i32)))
        (import "host" "f" (func $f (param i32) (result i32)))
        (memory (export "m") 1) (table (export "t") 5 9 funcref) (elem (i32.const 1) $g)
        (global $c i32 (i32.const 3))
        (func $g (type $t) (i32.add (local.get 0) (i32.wrap_i64 (local.get 1))))
        (func (export "run") (param $a i32) (param $b i32) (param $w i64) (result i32)"#,
    );
    for _ in 0..40 {
        let offset = [0, 4, 65_536, 0x0100_0000, 0x4000_0000][below(5) as usize] + below(64);
        let from = ["$a", "$b"][below(2) as usize];
        let _ = match below(9) {
            0 => write!(
                text,
                "(local.set $a (i32.load offset={offset} (local.get {from})))"
            ),
            1 => write!(
                text,
                "(i64.store offset={offset} (local.get {from}) (local.get $w))"
            ),
            2 => write!(
                text,
                "(local.set $b (i32.mul (local.get $a) (i32.const {offset})))"
            ),
            3 => write!(
                text,
                "(local.set $w (i64.load8_u offset={offset} (local.get {from})))"
            ),
            4 => write!(
                text,
                "(local.set $a (call_indirect (type $t) (local.get $b) (local.get $w)
                 (local.get {from})))"
            ),
            5 => write!(text, "(local.set $b (call $f (local.get {from})))"),
            6 => write!(
                text,
                "(local.set $a (i32.add (local.get {from}) (global.get $c)))"
            ),
            7 => write!(
                text,
                "(block $y (block $x (br_table $x $y $x $y $x $y $x (local.get {from})))
                 (local.set $a (i32.const {offset})))"
            ),
            _ => write!(text, "(drop (table.get 0 (local.get {from})))"),
        };
    }
    text + "(i32.add (local.get $a) (local.get $b))))"
}
