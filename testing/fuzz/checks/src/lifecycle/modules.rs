//! [`shapes`]: the modules, and the initial state that their instances must have.

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Module, TypedFunc, Value};
use std::sync::OnceLock;

/// Bytes of a WebAssembly page.
pub(super) const PAGE: usize = 64 << 10;
/// Fuel of an instance, if its module counts fuel.
pub(super) const FUEL: u64 = 1 << 40;

/// The expected initial state of a module's instances.
#[derive(Debug)]
pub(super) struct Shape {
    /// The initial memory, byte for byte.
    pub(super) memory: Vec<u8>,
    /// Maximum number of pages of the memory.
    pub(super) pages_max: usize,
    /// Initial value of the global `a`.
    pub(super) global: i64,
    pub(super) module: Module,
}

/// Typed functions of a module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Funcs {
    pub(super) dirty: TypedFunc<u32, u32>,
    pub(super) grow: TypedFunc<u32, u32>,
    pub(super) fresh: TypedFunc<(), u32>,
    pub(super) load: TypedFunc<u32, u32>,
    pub(super) ask: TypedFunc<u32, u32>,
    pub(super) yields: TypedFunc<u32, u32>,
    pub(super) forever: TypedFunc<u32, u32>,
    pub(super) kills: TypedFunc<u32, u32>,
    pub(super) fails: TypedFunc<u32, u32>,
    pub(super) unreachable: TypedFunc<u32, u32>,
    pub(super) deep: TypedFunc<u32, u32>,
}

/// An additional part of some modules: its fields, code that changes its state, and an expression
/// that is 0 in an unused instance.
#[derive(Debug, Clone, Copy, Default)]
struct Extra {
    fields: &'static str,
    mess: &'static str,
    fresh: &'static str,
}

/// A second memory, which grows once.
const SECOND: Extra = Extra {
    fields: r#"
      (memory $second 2 3) (data (memory $second) (i32.const 65535) "\01\02\03\04\05\06\07\08")
      (func $second (export "second") (result i32) (local $at i32) (local $or i64)
        (local.set $or
          (i64.xor (i64.load $second (i32.const 65535)) (i64.const 0x0807060504030201)))
        (i64.store $second (i32.const 65535) (i64.const 0))
        (loop $next
          (local.set $or (i64.or (local.get $or) (i64.load $second (local.get $at))))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br_if $next (i32.lt_u (local.get $at) (i32.const 131072))))
        (i32.or (i64.ne (local.get $or) (i64.const 0))
          (i32.ne (memory.size $second) (i32.const 2))))"#,
    mess: r#"
      (drop (memory.grow $second (i32.const 1)))
      (memory.fill $second (i32.const 0) (local.get $n)
        (i32.mul (memory.size $second) (i32.const 65536)))"#,
    fresh: "(call $second)",
};

/// Structs and arrays. The heap has room for those of one check and one change: a slot frees them
/// only at its reset.
const HEAP: Extra = Extra {
    fields: r#"
      (type $bytes (array (mut i8)))
      (type $cell (struct
        (field (mut i64)) (field (mut (ref null $cell))) (field (mut (ref null $bytes)))))
      (global $kept (mut (ref null $cell)) (ref.null $cell))
      (table $cells 3 9 (ref null $cell))
      (func $heap (export "heap") (result i32)
        (local $at i32) (local $or i64)
        (local $cell (ref null $cell)) (local $bytes (ref null $bytes))
        (local.set $cell (struct.new_default $cell))
        (local.set $bytes (array.new_default $bytes (i32.const 5000)))
        (local.set $or (struct.get $cell 0 (local.get $cell)))
        (loop $next
          (local.set $or (i64.or (local.get $or)
            (i64.extend_i32_u (array.get_u $bytes (local.get $bytes) (local.get $at)))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $next (i32.lt_u (local.get $at) (array.len (local.get $bytes)))))
        (i32.eqz (i32.and
          (i32.and (i64.eqz (local.get $or)) (ref.is_null (global.get $kept)))
          (i32.and
            (i32.and (ref.is_null (struct.get $cell 1 (local.get $cell)))
              (ref.is_null (struct.get $cell 2 (local.get $cell))))
            (i32.and (ref.is_null (table.get $cells (i32.const 2)))
              (i32.eq (table.size $cells) (i32.const 3)))))))"#,
    mess: r#"
      (if (ref.is_null (global.get $kept))
        (then (global.set $kept
          (struct.new $cell (i64.const -1) (ref.null $cell)
            (array.new $bytes (i32.const 255) (i32.const 20000))))))
      (struct.set $cell 0 (global.get $kept) (i64.extend_i32_u (local.get $n)))
      (struct.set $cell 1 (global.get $kept) (global.get $kept))
      (array.fill $bytes (struct.get $cell 2 (global.get $kept))
        (i32.const 0) (local.get $n) (i32.const 20000))
      (drop (table.grow $cells (global.get $kept) (i32.const 2)))
      (table.fill $cells (i32.const 0) (global.get $kept) (table.size $cells))"#,
    fresh: "(call $heap)",
};

/// The text of a module: everything that all modules share, and the extras.
fn text(pages: usize, max: usize, data: &[(usize, usize)], extras: &[Extra]) -> String {
    let of = |part: fn(&Extra) -> &'static str| extras.iter().map(part).collect::<String>();
    let (fields, mess) = (of(|extra| extra.fields), of(|extra| extra.mess));
    let fresh = extras.iter().fold(String::new(), |sum, extra| {
        format!("(i32.add {} {sum}", extra.fresh)
    });
    let closed = ")".repeat(extras.len());
    let segment = |(at, len): &(usize, usize)| {
        let bytes: String = (*at..at + len)
            .map(|at| format!("\\{:02x}", byte(at)))
            .collect();
        format!("(data (i32.const {at}) \"{bytes}\")")
    };
    let data: String = data.iter().map(segment).collect();
    format!(
        r#"(module
          (import "host" "kill" (func $kill)) (import "host" "preempt" (func $preempt))
          (import "host" "fail" (func $fail))
          (import "host" "ask" (func $ask (param i32) (result i32)))
          (memory (export "memory") {pages} {max}) {data} {fields}
          (global $a (export "a") (mut i64) (i64.const {pages}))
          (global $v (export "v") (mut v128) (v128.const i64x2 1 2))
          (global $f (export "f") (mut funcref) (ref.func $one))
          (global $x (export "x") (mut externref) (ref.null extern))
          (table $t 5 60 funcref) (table $u 3 40 externref) (table $known 2 2 funcref)
          (elem (table $t) (i32.const 1) func $one) (elem $e func $one $one)
          (elem (table $known) (i32.const 0) func $one $two) (data $p "passive")
          (type $number (func (result i32)))
          (func $one (type $number) (i32.const 1)) (func $two (type $number) (i32.const 2))
          (func $mess (param $n i32)
            (memory.fill (i32.const 0) (local.get $n) (i32.mul (memory.size) (i32.const {PAGE})))
            (global.set $a (i64.extend_i32_u (local.get $n)))
            (global.set $v (i32x4.splat (local.get $n)))
            (global.set $f (ref.null func))
            (drop (table.grow $t (ref.func $two) (i32.const 7)))
            (table.fill $t (i32.const 0) (ref.func $two) (table.size $t))
            (drop (table.grow $u (ref.null extern) (i32.const 5)))
            (data.drop $p) (elem.drop $e) {mess})
          (func (export "dirty") (param i32) (result i32) (call $mess (local.get 0)) (local.get 0))
          (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
          (func (export "ask") (param i32) (result i32)
            (call $mess (local.get 0)) (i32.add (local.get 0) (call $ask (local.get 0))))
          (func (export "yields") (param i32) (result i32)
            (call $mess (local.get 0)) (call $preempt) (i32.mul (local.get 0) (i32.const 3)))
          (func (export "forever") (param i32) (result i32)
            (loop $next
              (call $mess
                (i32.and (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 255)))
              (br $next))
            unreachable)
          (func (export "kills") (param i32) (result i32)
            (call $mess (local.get 0)) (call $kill) (loop (br 0)) unreachable)
          (func (export "fails") (param i32) (result i32)
            (call $mess (local.get 0)) (call $fail) (local.get 0))
          (func (export "unreachable") (param i32) (result i32)
            (call $mess (local.get 0)) unreachable)
          (func $deep (export "deep") (param i32) (result i32)
            (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
          (func (export "fresh") (result i32)
            (table.init $t $e (i32.const 3) (i32.const 0) (i32.const 2))
            (if (i32.gt_u (memory.size) (i32.const 0))
              (then (memory.init $p (i32.const 0) (i32.const 0) (i32.const 7))
                (memory.fill (i32.const 0) (i32.const 0) (i32.const 7))))
            {fresh} (i32.add (i32.mul (table.size $t) (i32.const 1000))
              (i32.add (i32.mul (table.size $u) (i32.const 100))
                (i32.add
                  (i32.mul (call_indirect $known (type $number) (i32.const 1)) (i32.const 10))
                  (i32.add (i32.mul (call_indirect $t (type $number) (i32.const 1)) (i32.const 4))
                    (i32.add (i32.mul (ref.is_null (table.get $t (i32.const 0))) (i32.const 2))
                      (ref.is_null (table.get $u (i32.const 2)))))))) {closed}))"#
    )
}

/// Result of `fresh` in an unused instance.
pub(super) const FRESH: u32 = 5 * 1000 + 3 * 100 + 2 * 10 + 4 + 2 + 1;

/// A byte of an image: takes many values, but never zero.
fn byte(at: usize) -> u8 {
    (at % 251) as u8 + 1
}

/// All modules: without initial memory, and without an image; with a sparse, a dense and a large
/// image; with counted fuel, with a second memory, with objects, and with both.
pub(super) fn shapes() -> &'static [Shape] {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let shape =
            |pages: usize, max: usize, data: &[(usize, usize)], extras: &[Extra], level, fuel| {
                let mut memory = vec![0; pages * PAGE];
                for (at, len) in data {
                    (*at..at + len).for_each(|at| memory[at] = byte(at));
                }
                let mut options = Options::default();
                (options.opt_level, options.fuel) = (level, fuel);
                let text = text(pages, max, data, extras);
                let wasm = pirn_compiler::parse_text(text.as_bytes());
                let so = pirn_compiler::compile(&wasm.expect("well-formed"), &options);
                let module = Module::from_bytes(&so.expect("valid")).expect("a module");
                Shape {
                    memory,
                    pages_max: max,
                    global: pages as i64,
                    module,
                }
            };
        // The first seven bytes are zero in all memories, because `fresh` writes there.
        let sparse: Vec<_> = (0..20).map(|i| (i * 9000 + 17, 40)).collect();
        let (speed, none) = (OptLevel::Speed, OptLevel::None);
        let large = [(100, 5), (20 * PAGE - 1, 1)];
        vec![
            shape(0, 3, &[], &[], speed, false),
            shape(1, 1, &[], &[], none, false),
            shape(1, 9, &[(7, 10)], &[], speed, true),
            shape(3, 12, &sparse, &[], speed, false),
            shape(5, 8, &[(64, 4 * PAGE)], &[], none, false),
            shape(20, 24, &large, &[], speed, true),
            shape(2, 4, &[(7, 10)], &[SECOND], none, false),
            shape(1, 3, &[], &[HEAP], speed, false),
            shape(3, 12, &sparse, &[HEAP, SECOND], speed, true),
        ]
    })
}

/// Whether a global other than `a` has its initial value.
pub(super) fn is_initial(name: &str, value: Option<Value>) -> bool {
    match name {
        "v" => value == Some(Value::V128(1 | 2 << 64)),
        "f" => matches!(value, Some(Value::FuncRef(Some(_)))),
        _ => value == Some(Value::ExternRef(None)),
    }
}
