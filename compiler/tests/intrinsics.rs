//! Imports of `hw`: invalid ones are refused, and valid ones compile to the promised instructions.
//! `runtime/tests/intrinsics` tests their results.

use crate::common::emit;
use object::read::elf::ElfFile64;
use object::{LittleEndian as LE, Object as _, ObjectSection as _, ObjectSymbol as _};
use pirn_compiler::{Emit, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::read::Checked;

/// The x86-64 baseline plus these features.
fn x86(features: &[&str]) -> Options {
    let mut options = Options::new(Arch::X86_64);
    options.cpu = with(options.cpu, features);
    options
}

fn with(cpu: CpuFeatures, features: &[&str]) -> CpuFeatures {
    let mut features = features.iter();
    features
        .try_fold(cpu, |cpu, name| cpu.with(name))
        .expect("the features exist")
}

fn make(text: &str, options: &Options) -> Result<Vec<u8>, String> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    compile(&wasm, options).map_err(|error| error.to_string())
}

#[test]
fn invalid_intrinsics_are_refused_in_one_line_with_the_remedy() {
    let aes = r#"(import "hw" "x86.aesenc" (func $aes (param v128 v128) (result v128)))"#;
    let product = r#"(import "hw" "x86.pclmulqdq" (func $hw (param v128 v128 i32) (result v128)))"#;
    let sha = r#"(import "hw" "x86.sha1rnds4" (func $hw (param v128 v128 i32) (result v128)))"#;
    let of = |immediate: &str| {
        format!(
            r#"(func (param v128 i32) (result v128) (local i32)
              (call $hw (local.get 0) (local.get 0) {immediate}))"#
        )
    };
    let cases: [(&[&str], &str, &[&str]); 20] = [
        (
            &[r#"(import "hw" "x86.hcf" (func))"#],
            "x86.hcf",
            &["no intrinsic of this name", "docs/reference/intrinsics.md"],
        ),
        (
            &[r#"(import "hw" "" (func))"#],
            "hw \"\":",
            &["hw has no intrinsic of this name; docs/reference/intrinsics.md"],
        ),
        (
            &[r#"(import "hw" "x86.aesenk" (func))"#],
            "x86.aesenk",
            &[
                "hw has no intrinsic of this name; the nearest is x86.aesenc; \
                 docs/reference/intrinsics.md",
            ],
        ),
        (
            &["(import \"hw\" \"a\\nb\\1b\" (func))"],
            "a\\nb\\u{1b}",
            &["no intrinsic of this name"],
        ),
        (
            &[r#"(import "hw" "x86.aesenc" (func (param v128) (result v128)))"#],
            "x86.aesenc",
            &[
                "declared as (v128) -> v128",
                "its type is (v128, v128) -> v128; declare it with that type",
            ],
        ),
        (
            &[r#"(import "hw" "x86.aesenc" (func (param v128 v128) (result v128 v128)))"#],
            "x86.aesenc",
            &["-> (v128, v128), its type is"],
        ),
        (
            &[r#"(import "hw" "x86.aesenc" (memory 1))"#],
            "x86.aesenc",
            &[
                "imported as a memory, it is a function (v128, v128) -> v128; import it as that \
                 function",
            ],
        ),
        (
            &[r#"(import "hw" "x86.pext_u32" (global i32))"#],
            "x86.pext_u32",
            &["imported as a global, it is a function (i32, i32) -> i32"],
        ),
        (
            &[r#"(import "hw" "x86.pext_u32" (table 1 funcref))"#],
            "x86.pext_u32",
            &["imported as a table"],
        ),
        (
            &[r#"(import "hw" "memory" (global i32))"#],
            "memory",
            &["no intrinsic of this name"],
        ),
        (
            &[product, &of("(local.get 1)")],
            "x86.pclmulqdq",
            &[
                "not constant in the call at offset",
                ", function 1;",
                "write a switch over 0x00, 0x01, 0x10, 0x11, with a call with one constant",
            ],
        ),
        (
            &[
                product,
                "(func)",
                &of("(local.get 1)").replacen("(func", "(func $mine", 1),
            ],
            "x86.pclmulqdq",
            &[", function 2 (mine);"],
        ),
        (
            &[
                r#"(import "hw" "x86.aeskeygenassist" (func $hw (param v128 i32) (result v128)))"#,
                "(func (param v128 i32) (result v128) (call $hw (local.get 0) (local.get 1)))",
            ],
            "x86.aeskeygenassist",
            &["write a switch over 0x00 to 0xff"],
        ),
        (
            &[product, &of("(i32.const 2)")],
            "x86.pclmulqdq",
            &["is 0x02 in the call", "use 0x00, 0x01, 0x10, 0x11"],
        ),
        (
            &[product, &of("(i32.const 0x111)")],
            "x86.pclmulqdq",
            &["is 0x111"],
        ),
        (
            &[sha, &of("(i32.const 4)")],
            "x86.sha1rnds4",
            &["is 0x04", "use 0x00, 0x01, 0x02, 0x03"],
        ),
        (
            &[sha, &of("(i32.const -1)")],
            "x86.sha1rnds4",
            &["is 0xffffffff"],
        ),
        (
            &[sha, r#"(export "a" (func $hw))"#],
            "x86.sha1rnds4",
            &["exported", "export a function that calls it"],
        ),
        (
            &[product, "(table 1 funcref) (elem (i32.const 0) func $hw)"],
            "x86.pclmulqdq",
            &["referred to"],
        ),
        (
            &[
                aes,
                product,
                "(elem declare func $hw) (func (result funcref) (ref.func $hw))",
            ],
            "x86.pclmulqdq",
            &["referred to"],
        ),
    ];
    for (fields, name, parts) in cases {
        let text = format!("(module {})", fields.join(" "));
        // The module is refused whether or not the processor has the instruction.
        for options in [
            x86(&["sha", "aes", "pclmulqdq"]),
            x86(&[]),
            Options::new(Arch::Aarch64),
        ] {
            let error = make(&text, &options).expect_err(&text);
            assert!(error.starts_with("intrinsic hw "), "{error}");
            assert!(!error.contains('\n'), "{error}");
            for part in parts.iter().chain([&name]) {
                assert!(error.contains(part), "{part} is not in: {error}");
            }
        }
    }
}

/// An immediate may be in a local: C compilers emit this without optimisation.
#[test]
fn an_immediate_may_be_a_constant_in_a_local() {
    let text = r#"(module
      (import "hw" "x86.pclmulqdq" (func $hw (param v128 v128 i32) (result v128)))
      (func (param v128) (result v128) (local $i i32)
        (local.set $i (i32.const 16))
        (call $hw (local.get 0) (local.get 0) (local.get $i)))
      (func (param v128) (result v128) (unreachable)
        (call $hw (local.get 0) (local.get 0) (i32.const 99))))"#;
    make(text, &x86(&["pclmulqdq"])).expect("it is constant");
}

/// The imports that the host must provide do not include those of `hw`.
#[test]
fn no_import_of_hw_reaches_the_linker() {
    let text = r#"(module
      (import "a" "f" (func $f (param i32)))
      (import "hw" "x86.crc32_u8" (func $hw (param i32 i32) (result i32)))
      (import "a" "g" (func $g (param i64)))
      (func $own (export "own") (call $g (i64.const 1)))
      (export "hw" (func $hw)))"#;
    for arch in Arch::ALL {
        let so = make(text, &Options::new(arch)).expect("it is valid");
        let m = Checked::new(&so).expect("it is sound").metadata;
        let imports: Vec<_> = m.imports.iter().map(|import| &import.name[..]).collect();
        assert_eq!(imports, ["f", "g"]);
        let names = [0, 1, 2, 3].map(|index| m.func_name(index).unwrap_or("none"));
        assert_eq!(names, ["f", "g", "hw.x86.crc32_u8", "own"]);
    }
}

/// The code of a function with this name.
fn code(so: &[u8], name: &str) -> Vec<u8> {
    let file = ElfFile64::<LE>::parse(so).expect("an object");
    let text = file.section_by_name(".text").expect("code");
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = symbol.expect("the function has a symbol");
    let start = (symbol.address() - text.address()) as usize;
    text.data().expect("its bytes")[start..start + symbol.size() as usize].to_vec()
}

fn count(code: &[u8], bytes: &[u8]) -> usize {
    let windows = code.windows(bytes.len());
    windows.filter(|window| *window == bytes).count()
}

/// Each call of an intrinsic becomes its instruction, also in pairs of calls and next to ordinary
/// calls.
#[test]
fn an_intrinsic_is_an_instruction_at_its_call() {
    let text = r#"(module
      (import "hw" "x86.aesenc" (func $aes (param v128 v128) (result v128)))
      (import "hw" "x86.sha256rnds2" (func $sha (param v128 v128 v128) (result v128)))
      (import "hw" "x86.pclmulqdq" (func $mul (param v128 v128 i32) (result v128)))
      (import "hw" "x86.crc32_u64" (func $crc (param i64 i64) (result i64)))
      (memory 1)
      (func $other (param v128) (result v128) (local.get 0))
      (func $vectors (param v128 v128 i64) (result v128)
        (call $sha (local.get 0) (local.get 1) (call $other (call $aes
          (call $mul (local.get 0) (local.get 1) (i32.const 16))
          (call $mul (local.get 1) (local.get 1) (i32.const 17))))))
      (func $numbers (param i64 i64 i64 i32) (result i64)
        (loop
          (local.set 0 (call $crc (local.get 0) (i64.load (local.get 3))))
          (local.set 1 (call $crc (local.get 1) (i64.load offset=512 (local.get 3))))
          (local.set 2 (call $crc (local.get 2) (i64.load offset=1024 (local.get 3))))
          (br_if 0 (local.tee 3 (i32.sub (local.get 3) (i32.const 8)))))
        (i64.add (local.get 0) (i64.xor (local.get 1) (local.get 2)))))"#;
    let features = ["aes", "sha", "pclmulqdq"];
    for opt_level in [OptLevel::None, OptLevel::Speed] {
        let mut options = x86(&features);
        options.opt_level = opt_level;
        let so = make(text, &options).expect("it is valid");
        assert_eq!(
            Checked::new(&so).expect("it is sound").header.cpu,
            options.cpu
        );
        let vectors = code(&so, "vectors");
        for bytes in [
            &[0x40, 0x0f, 0x38, 0xcb, 0xca][..],
            &[0x66, 0x0f, 0x3a, 0x44, 0xc1, 0x10, 0x0f, 0x1f, 0x40, 0x00],
            &[0x66, 0x0f, 0x3a, 0x44, 0xc1, 0x11, 0x0f, 0x1f, 0x40, 0x00],
        ] {
            assert_eq!(count(&vectors, bytes), 1, "{bytes:x?} in {vectors:x?}");
        }
        let numbers = code(&so, "numbers");
        let crc = [0x48, 0x89, 0xf8, 0x3e, 0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc6];
        assert_eq!(count(&numbers, &crc), 3, "{numbers:x?}");
        assert_eq!(count(&numbers, &[0xe8, 0, 0, 0, 0]), 0, "{numbers:x?}");
    }
    // Without the features, none of these instructions is emitted.
    let plain = make(text, &x86(&[])).expect("it is valid");
    let text = ElfFile64::<LE>::parse(&plain[..]).expect("an object");
    let text = text.section_by_name(".text").expect("code");
    let text = text.data().expect("its bytes");
    assert_eq!(count(text, &[0x66, 0x0f, 0x38, 0xdc]), 0);
    assert_eq!(count(text, &[0x66, 0x0f, 0x3a, 0x44]), 0);
}

/// Maximum size of the stub for a function that nothing refers to.
const EMPTY_BYTES: usize = 16;

/// A body is emitted only if something calls it or refers to it.
#[test]
fn unreferenced_portable_bodies_are_empty() {
    let import = r#"(import "hw" "x86.crc32_u64" (func $crc (param i64 i64) (result i64)))
      (import "hw" "x86.aeskeygenassist" (func $key (param v128 i32) (result v128)))"#;
    let call =
        "(func (param i64) (result i64) (call $crc (local.get 0) (call $crc (local.get 0) (local.get 0))))
         (func (param v128) (result v128) (call $key (local.get 0) (i32.const 27)))";
    let bytes = |rest: &str, options: &Options| {
        let so = make(&format!("(module {import} {rest})"), options).expect("it is valid");
        Checked::new(&so).expect("it is sound");
        ["hw.x86.crc32_u64", "hw.x86.aeskeygenassist"].map(|name| code(&so, name).len())
    };
    for options in [x86(&["aes"]), Options::new(Arch::Aarch64)] {
        assert!(
            bytes("", &options)
                .iter()
                .all(|bytes| *bytes <= EMPTY_BYTES)
        );
    }
    let [crc, key] = bytes(call, &x86(&["aes"]));
    assert!(crc <= EMPTY_BYTES && key <= EMPTY_BYTES, "{crc}, {key}");
    let mut without = x86(&["aes"]);
    without.cpu = without.cpu.without("sse4.2").expect("it exists");
    let [crc, key] = bytes(call, &without);
    assert!(crc > EMPTY_BYTES && key <= EMPTY_BYTES, "{crc}, {key}");
    for reference in [
        r#"(export "crc" (func $crc))"#,
        "(table 1 funcref) (elem (i32.const 0) func $crc)",
        "(global funcref (ref.func $crc))",
        "(elem declare func $crc) (func (result funcref) (ref.func $crc))",
    ] {
        for options in [&x86(&["aes"]), &without] {
            let [crc, key] = bytes(reference, options);
            assert!(crc > EMPTY_BYTES, "{crc} bytes for {reference}");
            assert!(key <= EMPTY_BYTES, "{key}");
        }
    }
}

/// An intrinsic costs the fuel of one operator, with or without the instruction.
#[test]
fn instructions_and_portable_bodies_cost_equal_fuel() {
    let text = r#"(module (import "hw" "x86.aesenc" (func $hw (param v128 v128) (result v128)))
      (func $f (param v128) (result v128) (call $hw (local.get 0) (local.get 0)) (nop)))"#;
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let fuel = |mut options: Options| {
        options.fuel = true;
        let clif = emit(&wasm, &options, Emit::Clif).expect("it is valid");
        let clif = String::from_utf8(clif).expect("it is text");
        let (_, own) = clif.split_once("(f)").expect("it has the function");
        own.lines()
            .filter(|line| line.contains("iadd_imm") || line.contains("iconst.i64 -"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let counts = [x86(&["aes"]), x86(&[]), Options::new(Arch::Aarch64)].map(fuel);
    assert!(!counts[0].is_empty(), "it counts");
    assert_eq!(counts[0].len(), counts[1].len());
    assert_eq!(counts[1], counts[2]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let text = r#"(module
      (import "hw" "x86.aesenc" (func $aes (param v128 v128) (result v128)))
      (import "hw" "x86.pclmulqdq" (func $mul (param v128 v128 i32) (result v128)))
      (export "aes" (func $aes))
      (func (param v128) (result v128) (call $aes (local.get 0) (call $mul (local.get 0) (local.get 0) (i32.const 1)))))"#;
    for options in [
        x86(&["aes"]),
        x86(&["aes", "pclmulqdq"]),
        Options::new(Arch::Aarch64),
    ] {
        assert_eq!(make(text, &options), make(text, &options));
    }
}

/// Cranelift lacks some instructions, so the compiler emits a placeholder opcode and then replaces
/// it. The operands may be in any registers, and the placeholder's own instruction must not remain.
#[test]
fn placeholders_become_instructions_at_their_calls() {
    let text = r#"(module
      (import "hw" "x86.aesenc" (func $enc (param v128 v128) (result v128)))
      (import "hw" "x86.aesenclast" (func $last (param v128 v128) (result v128)))
      (func $four (param v128 v128 v128 v128 v128) (result v128 v128 v128 v128)
        (call $last (call $enc (local.get 0) (local.get 4)) (local.get 4))
        (call $last (call $enc (local.get 1) (local.get 4)) (local.get 4))
        (call $last (call $enc (local.get 2) (local.get 4)) (local.get 4))
        (call $last (call $enc (local.get 3) (local.get 4)) (local.get 4))))"#;
    // Opcodes of AESENC, AESENCLAST, and of their placeholders.
    let opcodes = |code: &[u8], prefix: &dyn Fn(&[u8]) -> bool| {
        let windows = code.windows(5);
        let found = windows.filter(|window| prefix(&window[1..4]) || prefix(&window[..4]));
        let mut found: Vec<u8> = found.map(|window| window[4]).collect();
        found.sort_unstable();
        found
    };
    for opt_level in [OptLevel::None, OptLevel::Speed] {
        let mut options = x86(&["aes"]);
        options.opt_level = opt_level;
        let so = make(text, &options).expect("it is valid");
        let legacy =
            |bytes: &[u8]| matches!(bytes, [0x66, 0x0f, 0x38] | [0x66, 0x40..=0x4f, 0x0f, 0x38]);
        let wanted = [0xdc, 0xdc, 0xdc, 0xdc, 0xdd, 0xdd, 0xdd, 0xdd];
        assert_eq!(opcodes(&code(&so, "four"), &legacy), wanted);
        options.cpu = with(options.cpu, &["avx"]);
        let so = make(text, &options).expect("it is valid");
        let vex =
            |bytes: &[u8]| matches!(bytes, [0xc4, map, rest] if map & 0x1f == 2 && rest & 7 == 1);
        assert_eq!(opcodes(&code(&so, "four"), &vex), wanted);
    }
}

/// The compiler finds a placeholder by its source location. A placeholder that is the only user of
/// a load must keep its own location, not the load's.
#[test]
fn a_placeholder_after_a_load_is_found() {
    let cases = [("aesenc", 0xdc), ("aesenclast", 0xdd)];
    let levels = [OptLevel::None, OptLevel::Speed];
    for ((name, opcode), opt_level) in cases
        .into_iter()
        .flat_map(|case| levels.map(|level| (case, level)))
    {
        let text = format!(
            r#"(module
                 (import "hw" "x86.{name}" (func $hw (param v128 v128) (result v128)))
                 (memory 1)
                 (func $keyed (param i32 v128) (result v128)
                   (return (call $hw (local.get 1) (v128.load offset=16 (local.get 0))))))"#
        );
        let mut options = x86(&["aes", "avx"]);
        options.opt_level = opt_level;
        let code = code(&make(&text, &options).expect("it is valid"), "keyed");
        // The instruction in a called body has no VEX prefix.
        let carried = |window: &&[u8]| {
            let vex = window[0] == 0xc4 && window[1] & 0x1f == 2 && window[2] & 7 == 1;
            vex && window[3] == opcode
        };
        assert_eq!(
            code.windows(4).filter(carried).count(),
            1,
            "{name}: {code:02x?}"
        );
    }
}

#[test]
fn aarch64_intrinsics_are_single_instructions() {
    let text = r#"(module
      (import "hw" "aarch64.sha256h" (func $sha (param v128 v128 v128) (result v128)))
      (import "hw" "aarch64.pmull2" (func $mul (param v128 v128) (result v128)))
      (import "hw" "aarch64.crc32cx" (func $crc (param i32 i64) (result i32)))
      (func $all (param v128 v128 i32 i64) (result v128 i32)
        (call $sha (local.get 0) (local.get 1) (call $mul (local.get 0) (local.get 1)))
        (call $crc (call $crc (local.get 2) (local.get 3)) (local.get 3))))"#;
    let mut options = Options::new(Arch::Aarch64);
    options.cpu = with(options.cpu, &["sha2", "aes", "crc"]);
    let so = make(text, &options).expect("it is valid");
    let code = code(&so, "all");
    let (words, _) = code.as_chunks::<4>();
    let count = |wanted: u32| {
        words
            .iter()
            .filter(|word| u32::from_le_bytes(**word) == wanted)
            .count()
    };
    let found = [0x5e02_4020, 0x4ee1_e000, 0x9ac1_5c00].map(count);
    assert_eq!(found, [1, 1, 2], "{words:x?}");
    assert_eq!(count(0x9400_0000), 0, "no call is left");
}

#[test]
fn imports_of_intrinsics_are_limited() {
    let text = |count| {
        let imports =
            r#"(import "hw" "x86.pext_u64" (func (param i64 i64) (result i64)))"#.repeat(count);
        format!("(module {imports})")
    };
    let compile = |count| {
        let text = text(count);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        pirn_compiler::compile(&wasm, &Options::new(Arch::X86_64)).map_err(|e| e.to_string())
    };
    assert!(compile(3).is_ok());
    let error = compile(1001).expect_err("too many");
    assert!(
        error.contains("1001 imports of hw or of known functions, the limit is 1000"),
        "{error}"
    );
}
