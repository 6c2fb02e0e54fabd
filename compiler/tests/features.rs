//! Tests docs/reference/features.md: each supported feature compiles for both targets, and each
//! refused feature is refused with the message in its row.

use pirn_compiler::{CompileError, Options, compile, parse_text};
use pirn_format::cpu::Arch;

/// The document.
const DOCUMENT: &str = include_str!("../../docs/reference/features.md");

/// Supported features: the name in the document, and a module that uses the feature.
const SUPPORTED: [(&str, &str); 13] = [
    (
        "64-bit memories and tables",
        "(module (memory i64 1 0x1000000000000) (table $t i64 1 0xffffffffffffffff funcref) (table $s 1 funcref)
           (data (i64.const 8) \"x\") (data $d \"y\") (elem (table $t) (i64.const 0) func $f) (elem $e func $f) (func $f)
           (func (param i64) (result i64)
             (v128.store8_lane offset=0x100000000 3 (local.get 0) (v128.const i64x2 0 0))
             (memory.init $d (local.get 0) (i32.const 0) (i32.const 1))
             (memory.copy (local.get 0) (i64.const 0) (local.get 0))
             (memory.fill (local.get 0) (i32.const 0) (local.get 0))
             (table.init $t $e (local.get 0) (i32.const 0) (i32.const 1))
             (table.copy $s $t (i32.const 0) (local.get 0) (i32.const 1))
             (table.fill $t (local.get 0) (ref.null func) (local.get 0))
             (table.set $t (local.get 0) (table.get $t (local.get 0)))
             (call_indirect $t (local.get 0))
             (i64.add (memory.grow (local.get 0)) (i64.add (table.size $t)
               (table.grow $t (ref.null func) (memory.size))))))",
    ),
    (
        "branch hints",
        "(module (func (@metadata.code.branch_hint \"\\00\") (if (i32.const 1) (then))))",
    ),
    (
        "exception handling",
        "(module (import \"a\" \"t\" (tag $t (param i32 v128))) (tag $u (export \"u\")) (global (mut exnref) (ref.null exn))
           (table 1 exnref) (func $f (throw $u))
           (func (param exnref) (result i32 v128 exnref)
             (block $c (result i32 v128 exnref)
               (block $b (result exnref)
                 (block $a (try_table (catch_ref $t $c) (catch $u $a) (catch_all_ref $b) (call $f))
                   (throw $t (i32.const 1) (v128.const i64x2 1 2)))
                 (throw_ref (local.get 0)))
               (throw_ref))))",
    ),
    (
        "legacy exception handling",
        "(module (tag $t (param i32)) (func $f (throw $t (i32.const 1)))
           (func (result i32)
             try (result i32) call $f i32.const 2
             catch $t drop try call $f delegate 0 rethrow 0
             catch_all try call $f catch_all rethrow 1 end i32.const 3 end))",
    ),
    (
        "extended constant expressions",
        "(module (import \"a\" \"g\" (global $g i32)) (memory 1)
           (global i64 (i64.mul (i64.const 2) (i64.sub (i64.const 5) (i64.const 1))))
           (data (i32.add (global.get $g) (i32.const 4)) \"x\"))",
    ),
    (
        "garbage collection",
        "(module
           (rec (type $node (sub (struct (field $next (mut (ref null $node))) (field $v (mut i8)))))
                (type $leaf (sub final $node (struct (field (mut (ref null $node))) (field (mut i8)) (field v128)))))
           (type $bytes (array (mut i8))) (type $refs (array (mut anyref))) (type $f (sub (func (result i32))))
           (type $g (sub final $f (func (result i32)))) (data $d \"abc\") (elem $e anyref (ref.i31 (i32.const 1)))
           (global (ref $node) (struct.new $node (ref.null none) (i32.const 1)))
           (global $r (ref $refs) (array.new_fixed $refs 2 (ref.i31 (i32.const 1)) (array.new_default $bytes (i32.const 9))))
           (table 2 (ref null $f)) (table 1 i31ref)
           (func (export \"f\") (param anyref externref exnref nullexnref (ref null nofunc)) (result i32)
             (local $b (ref null $bytes)) (local $n (ref null $node))
             (local.set $b (array.new_data $bytes $d (i32.const 0) (i32.const 2)))
             (array.fill $bytes (local.get $b) (i32.const 0) (i32.const 7) (i32.const 2))
             (array.copy $bytes $bytes (local.get $b) (i32.const 0) (local.get $b) (i32.const 1) (i32.const 1))
             (array.init_data $bytes $d (local.get $b) (i32.const 0) (i32.const 0) (i32.const 1))
             (array.init_elem $refs $e (global.get $r) (i32.const 0) (i32.const 0) (i32.const 1))
             (drop (array.new_elem $refs $e (i32.const 0) (i32.const 1)))
             (array.set $refs (array.new $refs (local.get 0) (i32.const 3)) (i32.const 0) (any.convert_extern (local.get 1)))
             (drop (extern.convert_any (local.get 0)))
             (local.set $n (block $l (result (ref $leaf))
               (drop (br_on_cast $l anyref (ref $leaf) (local.get 0)))
               (struct.new_default $leaf)))
             (drop (block $k (result anyref) (br_on_cast_fail $k anyref (ref null $node) (local.get 0))))
             (struct.set $node $v (local.get $n) (array.get_s $bytes (local.get $b) (i32.const 0)))
             (drop (ref.cast (ref null $leaf) (local.get $n)))
             (drop (i31.get_s (ref.i31 (i32.const 5))))
             (drop (ref.eq (local.get $n) (local.get $b)))
             (drop (call_indirect 0 (type $f) (i32.const 0)))
             (i32.add (ref.test (ref struct) (local.get 0)) (struct.get_u $node $v (local.get $n)))))",
    ),
    (
        "relaxed SIMD",
        "(module (func (param v128 v128 v128) (result v128)
           (f32x4.relaxed_madd (local.get 0) (local.get 1) (local.get 2))))",
    ),
    (
        "custom page sizes",
        "(module (memory 100 1000 (pagesize 1)) (memory $b i64 0 (pagesize 1)) (memory $c 1 (pagesize 65536))
           (data (i32.const 90) \"x\")
           (func (export \"f\") (result i32)
             (drop (memory.grow $b (i64.const 3)))
             (i32.store offset=4 (i32.const 1) (i32.load $c (i32.const 2)))
             (memory.size)))",
    ),
    (
        "multiple memories",
        "(module (import \"a\" \"m\" (memory 1)) (memory $b 1 2) (memory $c i64 0)
           (data (memory $b) (i32.const 9) \"x\") (data $passive \"y\")
           (func (export \"f\") (result i32)
             (memory.copy $b 0 (i32.const 1) (i32.const 2) (i32.const 3))
             (memory.init $c $passive (i64.const 0) (i32.const 0) (i32.const 1))
             (memory.fill $c (i64.const 0) (i32.const 0) (i64.const 1))
             (drop (memory.grow $b (i32.const 1)))
             (i32.store $b offset=4 (i32.const 1) (i32.load $c (i64.const 2)))
             (memory.size $b)))",
    ),
    (
        "tail calls",
        "(module (import \"a\" \"f\" (func $f)) (table 1 funcref)
           (func (return_call $f)) (func (return_call_indirect (i32.const 0))))",
    ),
    (
        "typed function references",
        "(module (type $t (func (result i32))) (type $u (func (param (ref $t)) (result (ref null $t))))
           (global (ref $t) (ref.func $f)) (table 3 (ref $t) (ref.func $f)) (elem declare func $f)
           (func $f (type $t) (i32.const 1))
           (func (type $u) (local $l (ref func)) (local.set $l (ref.func $f))
             (drop (call_ref $t (local.get 0))) (drop (ref.as_non_null (local.get 0)))
             (block $b (br_on_null $b (local.get 0)) (drop))
             (drop (block $c (result (ref $t)) (br_on_non_null $c (local.get 0)) (local.get 0)))
             (local.get 0))
           (func (param (ref null $t)) (param (ref extern)) (result i32) (return_call_ref $t (local.get 0))))",
    ),
    (
        "threads",
        "(module (import \"m\" \"m\" (memory $i i64 0 9 shared)) (memory $o 1 1 shared)
           (func (result i32)
             (atomic.fence)
             (i64.atomic.store32 $i (i64.const 8) (i64.atomic.rmw8.cmpxchg_u $o (i32.const 1) (i64.const 2) (i64.const 3)))
             (drop (memory.atomic.notify $i (i64.const 4) (i32.const 1)))
             (memory.atomic.wait64 $o offset=8 (i32.const 0) (i64.const 0) (i64.const -1))))",
    ),
    (
        "wide arithmetic",
        "(module (func (result i64 i64) (i64.mul_wide_u (i64.const 1) (i64.const 2))))",
    ),
];

/// Refused features: the name in the document, and a module that uses the feature.
const REFUSED: [(&str, &str); 6] = [
    (
        "custom descriptors",
        "(module (rec (type $a (descriptor $b) (struct)) (type $b (describes $a) (struct))))",
    ),
    (
        "custom descriptors",
        "(module (type $t (struct)) (func (param (ref (exact $t)))))",
    ),
    (
        "shared-everything threads",
        "(module (type (shared (struct))))",
    ),
    (
        "shared-everything threads",
        "(module (func (param (ref null (shared any)))))",
    ),
    (
        "stack switching",
        "(module (type $f (func)) (type (cont $f)))",
    ),
    (
        "shared-everything threads",
        "(module (func (param (ref null (shared func)))))",
    ),
];

/// Invalid uses of supported features, each with a part of the message.
const INVALID: [(&str, &str); 33] = [
    (
        "(module (memory 1 shared))",
        "shared memory must have maximum size",
    ),
    (
        "(module (func (drop (i32.atomic.load (i32.const 0)))))",
        "unknown memory",
    ),
    (
        "(module (memory 1) (func (drop (i32.atomic.load align=2 (i32.const 0)))))",
        "atomic instructions must always specify maximum alignment",
    ),
    (
        "(module (memory 1) (func (i64.atomic.store (i32.const 0) (i32.const 0))))",
        "type mismatch",
    ),
    (
        "(module (func $f (result i64) (return_call $g)) (func $g (result i32) (i32.const 0)))",
        "requires result type",
    ),
    ("(module (func (return_call 1)))", "unknown function"),
    (
        "(module (memory i64 1) (func (drop (i32.load (i32.const 0)))))",
        "type mismatch",
    ),
    (
        "(module (memory 1) (func (drop (i32.load (i64.const 0)))))",
        "type mismatch",
    ),
    (
        "(module (memory 1) (func (drop (i32.load offset=0x100000000 (i32.const 0)))))",
        "offset out of range",
    ),
    (
        "(module (table i64 1 funcref) (func (call_indirect (i32.const 0))))",
        "type mismatch",
    ),
    (
        "(module (table i64 1 funcref) (elem (i32.const 0) func))",
        "type mismatch",
    ),
    (
        "(module (memory i64 1 0x1000000000001))",
        "memory size must be at most",
    ),
    (
        "(module (table 1 externref) (func (return_call_indirect (i32.const 0))))",
        "type mismatch",
    ),
    (
        "(module (func (param i64) (return_call 0 (i32.const 0))))",
        "type mismatch",
    ),
    (
        "(module (type $t (func)) (func (param funcref) (call_ref $t (local.get 0))))",
        "type mismatch",
    ),
    (
        "(module (type $t (func)) (type $u (func (param i32)))
           (func (param (ref $u)) (call_ref $t (local.get 0))))",
        "type mismatch",
    ),
    (
        "(module (type $t (func (result i32)))
           (func (param (ref $t)) (return_call_ref $t (local.get 0))))",
        "requires result type",
    ),
    (
        "(module (func (local (ref func)) (drop (local.get 0))))",
        "uninitialized local",
    ),
    ("(module (table 1 (ref func)))", "type mismatch"),
    (
        "(module (type $t (func)) (global (ref $t) (ref.null $t)))",
        "type mismatch",
    ),
    (
        "(module (func $f) (func (drop (ref.func $f))))",
        "undeclared function reference",
    ),
    (
        "(module (func (param i32) (drop (ref.as_non_null (local.get 0)))))",
        "type mismatch",
    ),
    (
        "(module (func (param externref) (br_on_non_null 0 (local.get 0))))",
        "type mismatch",
    ),
    ("(module (func (param (ref 1))))", "unknown type"),
    (
        "(module (func (param v128 i32) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 1))))",
        "type mismatch",
    ),
    (
        "(module (func (param v128) (result v128) (f32x4.relaxed_madd (local.get 0) (local.get 0))))",
        "type mismatch",
    ),
    (
        "(module (type (func (param (ref 1)))) (type (func)))",
        "unknown type",
    ),
    (
        "(module (type $a (struct)) (type (sub $a (struct))))",
        "sub type",
    ),
    (
        "(module (type $a (sub (struct (field i32)))) (type (sub $a (struct (field i64)))))",
        "sub type",
    ),
    (
        "(module (type $a (struct (field i32))) (func (param (ref $a)) (struct.set $a 0 (local.get 0) (i32.const 1))))",
        "immutable",
    ),
    (
        "(module (type $a (struct (field i8))) (func (param (ref $a)) (drop (struct.get $a 0 (local.get 0)))))",
        "packed",
    ),
    (
        "(module (func (param externref) (drop (ref.test anyref (local.get 0)))))",
        "type mismatch",
    ),
    (
        "(module (type $a (struct (field (ref any)))) (func (drop (struct.new_default $a))))",
        "invalid `struct.new_default`",
    ),
];

fn compiled(text: &str, arch: Arch) -> Result<Vec<u8>, CompileError> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    compile(&wasm, &Options::new(arch))
}

/// The cells of all table rows in the document whose first cell is a name.
fn rows(name: &str) -> Vec<Vec<&'static str>> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells[0] == name)
        .collect()
}

#[test]
fn supported_features_compile() {
    for (name, text) in SUPPORTED {
        for arch in Arch::ALL {
            let result = compiled(text, arch);
            assert!(result.is_ok(), "{name}: {result:?}: {text}");
        }
        assert_eq!(rows(name).len(), 1, "a row for {name}");
    }
}

#[test]
fn refused_features_get_the_documented_message() {
    let mut missing = vec![];
    for (name, text) in REFUSED {
        for arch in Arch::ALL {
            let Err(error) = compiled(text, arch) else {
                missing.push(format!("{name} compiles: {text}"));
                continue;
            };
            let CompileError::Invalid { message, .. } = &error else {
                missing.push(format!("{name}: {error}: {text}"));
                continue;
            };
            let said = format!("`{message}`");
            if !rows(name)
                .iter()
                .any(|cells| cells.iter().any(|cell| cell.contains(&said)))
            {
                missing.push(format!("{name}: {message}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/reference/features.md lacks\n{}",
        missing.join("\n")
    );
}

#[test]
fn invalid_uses_of_supported_features_are_refused() {
    for (text, part) in INVALID {
        match compiled(text, Arch::X86_64) {
            Err(CompileError::Invalid { message, .. }) => {
                assert!(message.contains(part), "{message}: {text}");
            }
            other => panic!("{other:?}: {text}"),
        }
    }
}
