//! The text of a component whose guest follows a script from the host. Its function `f` reports its
//! parameter to the host (`note`), calls the imported function `h`, reports the result, drops
//! handles, and returns. The words that it passes and returns, and the bytes of its memory, come
//! from the script.

use super::decode::Encoding;
use super::types::{Core, Ty};

/// Indices of the words in the script of a guest.
pub(super) mod word {
    /// The mode of the allocator for the parameter of `f`: see [`realloc`](super::realloc). The
    /// next word is the address that it returns in the mode `FIXED`. The third word is the number
    /// of allocations that succeed before the mode applies.
    pub(crate) const REALLOC: u32 = 0;
    /// The three words of the allocator for the result of `h`.
    pub(crate) const REALLOC_RESULT: u32 = 3;
    /// Number of handles to make.
    pub(crate) const MAKE: u32 = 6;
    /// Number of words for the memory.
    pub(crate) const IMAGE_LEN: u32 = 7;
    /// Whether `h` is called.
    pub(crate) const CALL: u32 = 8;
    /// Number of handles to drop.
    pub(crate) const DROP_LEN: u32 = 9;
    /// The mode of the `post-return` function: 1 traps, 2 calls an import.
    pub(crate) const POST_RETURN: u32 = 10;
    /// The core result of `f`.
    pub(crate) const RESULT: u32 = 11;
    /// The core parameters of `h`.
    pub(crate) const PARAMS: u32 = 16;
    /// The handles to drop.
    pub(crate) const DROP: u32 = 40;
    /// The words for the memory.
    pub(crate) const IMAGE: u32 = 64;
    /// The distance between the words of two guests.
    pub(crate) const GUEST: u32 = 1 << 16;
}

/// Modes of the guest's allocator. In mode 0 it allocates memory.
pub(super) mod realloc {
    /// It returns the address in the script.
    pub(crate) const FIXED: u64 = 1;
    /// It traps.
    pub(crate) const TRAP: u64 = 2;
    /// It calls an import.
    pub(crate) const LEAVE: u64 = 3;
}

/// Keys of notes. The key of a word in memory is the key of its part plus its address.
pub(super) mod key {
    /// The core parameters of `f`.
    pub(crate) const PARAMS: u32 = 0;
    /// Memory that was allocated for the parameter.
    pub(crate) const PARAM_MEMORY: u32 = 1 << 20;
    /// The core result of `h`.
    pub(crate) const RESULT: u32 = 2 << 20;
    /// Memory that was allocated for the result of `h`, and the result itself.
    pub(crate) const RESULT_MEMORY: u32 = 3 << 20;
    /// The distance between the keys of two guests.
    pub(crate) const GUEST: u32 = 1 << 24;
}

/// Size of the guest's memory, in bytes.
pub(super) const MEMORY_BYTES: u32 = 2 << 16;
/// Address of the words that the script has for the memory.
pub(super) const IMAGE_AT: u32 = 1024;
/// Address of the result of `h`. Allocations are further up, from `HEAP_AT`.
pub(super) const RESULT_AT: u32 = 32 << 10;
const HEAP_AT: u32 = 48 << 10;

/// A guest.
pub(super) struct Guest<'a> {
    /// Its number, which distinguishes its words and keys from those of the other guest.
    pub(super) number: u32,
    pub(super) encoding: Encoding,
    /// The parameter and the result of `f`.
    pub(super) f: [&'a Ty; 2],
    /// The parameter and the result of `h`.
    pub(super) h: [&'a Ty; 2],
}

/// The types of all guests. Each component declares them with the same names.
pub(super) struct Types {
    text: String,
    /// In turn the parameters of a function, and the name of its result type.
    names: Vec<String>,
    count: usize,
}

impl Types {
    /// Declares types: in turn the parameter and the result of a function. A tuple stands for
    /// several parameters.
    pub(super) fn new(types: &[Ty]) -> Self {
        let (mut text, mut count) = ("(import \"r\" (type $r (sub resource)))\n".to_owned(), 0);
        let names = types.iter().enumerate().map(|(at, ty)| {
            if at % 2 == 1 {
                return ty.declare(&mut text, &mut count);
            }
            let params = ty.spread().iter().enumerate().map(|(at, ty)| {
                let name = ty.declare(&mut text, &mut count);
                format!("(param \"x{at}\" {name})")
            });
            params.collect()
        });
        let names = names.collect();
        Self { text, names, count }
    }
}

/// An expression that reads a word of the script.
fn read(core: Core, at: u32) -> String {
    let word = format!("(call $script (i32.const {at}))");
    match core {
        Core::I32 => format!("(i32.wrap_i64 {word})"),
        Core::I64 => word,
        Core::F32 => format!("(f32.reinterpret_i32 (i32.wrap_i64 {word}))"),
        Core::F64 => format!("(f64.reinterpret_i64 {word})"),
    }
}

/// An instruction that notes a core value.
fn note(core: Core, key: u32, value: &str) -> String {
    let word = core.bits(value);
    format!("(call $note (i32.const {key}) {word})\n")
}

/// The component of one guest.
pub(super) fn single(types: &Types, guest: &Guest<'_>, names: [usize; 4]) -> String {
    format!("(component {})", body(types, guest, names))
}

/// The component of two guests. `h` of the first is `f` of the second.
pub(super) fn joined(types: &Types, guests: &[Guest<'_>; 2], all: [[usize; 4]; 2]) -> String {
    let [first, second] = [0, 1].map(|at| body(types, &guests[at], all[at]));
    let [_, _, param, result] = all[1].map(|at| &types.names[at]);
    let text = &types.text;
    let shared: String = (0..types.count)
        .map(|at| format!("(with \"t{at}\" (type $i{at}))"))
        .collect();
    let host = "(with \"script\" (func $script)) (with \"note\" (func $note)) \
                (with \"make\" (func $make))";
    format!(
        r#"(component {text}
          (import "h" (func $h {param} (result {result})))
          {IMPORTS}
          (component $a {first})
          (component $b {second})
          (instance $ib (instantiate $b (with "r" (type $r)) {shared} {host}
            (with "h" (func $h))))
          (alias export $ib "f" (func $bf))
          (instance $ia (instantiate $a (with "r" (type $r)) {shared} {host}
            (with "h" (func $bf))))
          (alias export $ia "f" (func $f))
          (alias export $ia "setup" (func $sa))
          (alias export $ib "setup" (func $sb))
          (export "f" (func $f)) (export "setup" (func $sa)) (export "setup2" (func $sb)))"#
    )
}

const IMPORTS: &str = r#"
    (import "script" (func $script (param "at" u32) (result u64)))
    (import "note" (func $note (param "key" u32) (param "word" u64)))
    (import "make" (func $make (param "rep" u32) (result (own $r))))"#;

/// The body of the component of one guest.
fn body(types: &Types, guest: &Guest<'_>, all: [usize; 4]) -> String {
    let [param, result, h_param, h_result] = all.map(|at| &types.names[at]);
    let (declared, encoding) = (&types.text, guest.encoding.option());
    let options = format!(
        "(memory (core memory $l \"m\")) (realloc (core func $l \"r\")) string-encoding={encoding}"
    );
    let core = core(guest);
    let pages = MEMORY_BYTES >> 16;
    let (trap, leave) = (realloc::TRAP, realloc::LEAVE);
    format!(
        r#"{declared}
          (import "h" (func $h {h_param} (result {h_result})))
          {IMPORTS}
          (core func $script (canon lower (func $script)))
          (core func $note (canon lower (func $note)))
          (core func $make (canon lower (func $make)))
          (core func $drop (canon resource.drop $r))
          (core module $libc
            (import "h" "script" (func $script (param i32) (result i64)))
            (memory (export "m") {pages})
            (global $end (export "end") (mut i32) (i32.const {HEAP_AT}))
            (global $mode (export "mode") (mut i32) (i32.const 0))
            (global $fixed (export "fixed") (mut i32) (i32.const 0))
            (global $skip (export "skip") (mut i32) (i32.const 0))
            (func (export "r") (param $old i32) (param $old_bytes i32) (param $align i32)
              (param $bytes i32) (result i32)
              (local $at i32)
              (if (i32.eqz (global.get $skip))
                (then
                  (if (i32.eq (global.get $mode) (i32.const {fixed}))
                    (then (return (global.get $fixed))))
                  (if (i32.eq (global.get $mode) (i32.const {trap})) (then (unreachable)))
                  (if (i32.eq (global.get $mode) (i32.const {leave}))
                    (then (drop (call $script (i32.const 0))))))
                (else (global.set $skip (i32.sub (global.get $skip) (i32.const 1)))))
              (if (i32.and (i32.ne (local.get $old_bytes) (i32.const 0))
                           (i32.le_u (local.get $bytes) (local.get $old_bytes)))
                (then (return (local.get $old))))
              (local.set $at (i32.and
                (i32.add (global.get $end) (i32.sub (local.get $align) (i32.const 1)))
                (i32.sub (i32.const 0) (local.get $align))))
              (if (i32.gt_u (i32.add (local.get $at) (local.get $bytes))
                            (i32.const {MEMORY_BYTES}))
                (then (unreachable)))
              (global.set $end (i32.add (local.get $at) (local.get $bytes)))
              (memory.copy (local.get $at) (local.get $old) (local.get $old_bytes))
              (local.get $at)))
          (core instance $l (instantiate $libc
            (with "h" (instance (export "script" (func $script))))))
          (core func $h (canon lower (func $h) {options}))
          (core module $m {core})
          (core instance $i (instantiate $m
            (with "l" (instance $l))
            (with "h" (instance (export "h" (func $h)) (export "script" (func $script))
              (export "note" (func $note)) (export "make" (func $make))
              (export "drop" (func $drop))))))
          (func (export "setup") (canon lift (core func $i "setup")))
          (func (export "f") {param} (result {result})
            (canon lift (core func $i "f") {options} (post-return (core func $i "post"))))"#,
        fixed = realloc::FIXED,
    )
}

/// The core module of a guest.
fn core(guest: &Guest<'_>) -> String {
    let (words, keys) = (guest.number * word::GUEST, guest.number * key::GUEST);
    let i32_at = |at| read(Core::I32, words + at);
    let f_params = guest.f[0].core_params();
    let f_result = match &guest.f[1].flat()[..] {
        [one] => *one,
        _ => Core::I32,
    };
    let h_params = guest.h[0].core_params();
    let h_flat = guest.h[1].flat();
    let in_memory = h_flat.len() > 1;
    let pages = MEMORY_BYTES >> 16;
    let mut noted = String::new();
    for (at, core) in f_params.iter().enumerate() {
        noted += &note(
            *core,
            keys + key::PARAMS + at as u32,
            &format!("(local.get {at})"),
        );
    }
    let mut args: String = (0..)
        .zip(&h_params)
        .map(|(at, core)| read(*core, words + word::PARAMS + at))
        .collect();
    let h_type = match in_memory {
        true => format!("(param {} i32)", Core::names(&h_params)),
        false => format!(
            "(param {}) (result {})",
            Core::names(&h_params),
            h_flat[0].name()
        ),
    };
    let called = match in_memory {
        true => {
            args += &i32_at(word::PARAMS + h_params.len() as u32);
            format!(
                "(call $h {args}) {}",
                note(Core::I32, keys + key::RESULT, "(i32.const 0)")
            )
        }
        false => note(h_flat[0], keys + key::RESULT, &format!("(call $h {args})")),
    };
    let set_realloc = |at: u32| {
        let [mode, fixed, skip] = [at, at + 1, at + 2].map(i32_at);
        format!("(global.set $mode {mode}) (global.set $fixed {fixed}) (global.set $skip {skip})")
    };
    let [set, set_result] = [word::REALLOC, word::REALLOC_RESULT].map(set_realloc);
    let (image_len, make_len) = (i32_at(word::IMAGE_LEN), i32_at(word::MAKE));
    let (drop_len, calls) = (i32_at(word::DROP_LEN), i32_at(word::CALL));
    let (image, drops) = (words + word::IMAGE, words + word::DROP);
    let (param_memory, result_memory) = (keys + key::PARAM_MEMORY, keys + key::RESULT_MEMORY);
    let result_end = RESULT_AT + guest.h[1].size().0;
    let (post_return, result) = (
        i32_at(word::POST_RETURN),
        read(f_result, words + word::RESULT),
    );
    let cleared = MEMORY_BYTES - RESULT_AT;
    let (params, result_name) = (Core::names(&f_params), f_result.name());
    format!(
        r#"
        (import "l" "m" (memory {pages}))
        (import "l" "end" (global $end (mut i32)))
        (import "l" "mode" (global $mode (mut i32)))
        (import "l" "fixed" (global $fixed (mut i32)))
        (import "l" "skip" (global $skip (mut i32)))
        (import "h" "h" (func $h {h_type}))
        (import "h" "script" (func $script (param i32) (result i64)))
        (import "h" "note" (func $note (param i32 i64)))
        (import "h" "make" (func $make (param i32) (result i32)))
        (import "h" "drop" (func $drop (param i32)))
        (global $post (mut i32) (i32.const 0))
        (func $dump (param $key i32) (param $at i32) (param $end i32)
          (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
            (call $note (i32.add (local.get $key) (local.get $at)) (i64.load (local.get $at)))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br $next))))
        ;; Clears memory that the host wrote: its contents depend on how the host allocates.
        (func $clear
          (global.set $end (i32.and (i32.add (global.get $end) (i32.const 7)) (i32.const -8)))
          (memory.fill (i32.const {RESULT_AT}) (i32.const 0)
            (i32.const {cleared})))
        (func (export "setup") (local $at i32) (local $end i32)
          (global.set $end (i32.const {HEAP_AT}))
          (local.set $end {image_len})
          (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
            (i64.store (i32.add (i32.const {IMAGE_AT}) (i32.shl (local.get $at) (i32.const 3)))
              (call $script (i32.add (i32.const {image}) (local.get $at))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $next)))
          (local.set $end {make_len})
          (block $done (loop $next
            (br_if $done (i32.eqz (local.get $end)))
            (drop (call $make (local.get $end)))
            (local.set $end (i32.sub (local.get $end) (i32.const 1)))
            (br $next)))
          {set})
        (func $drop_some (local $at i32) (local $end i32)
          (local.set $end {drop_len})
          (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
            (call $drop (i32.wrap_i64 (call $script
              (i32.add (i32.const {drops}) (local.get $at)))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $next))))
        (func $call_h (local $begin i32)
          {set_result}
          (local.set $begin (global.get $end))
          {called}
          (global.set $mode (i32.const 0))
          (call $dump (i32.const {result_memory}) (i32.const {RESULT_AT}) (i32.const {result_end}))
          (call $dump (i32.const {result_memory}) (local.get $begin) (global.get $end))
          (call $clear))
        (func (export "f") (param {params}) (result {result_name})
          (global.set $mode (i32.const 0))
          {noted}
          (call $dump (i32.const {param_memory}) (i32.const {HEAP_AT}) (global.get $end))
          (call $clear)
          (if {calls} (then (call $call_h)))
          (call $drop_some)
          (global.set $post {post_return})
          {result})
        (func (export "post") (param {result_name})
          (if (i32.eq (global.get $post) (i32.const 1)) (then (unreachable)))
          (if (i32.eq (global.get $post) (i32.const 2))
            (then (drop (call $script (i32.const 0))))))"#
    )
}
