//! Functions of real modules, with changes that the verifier accepts.

use crate::common::mutations::example;
use crate::context;
use crate::guest::Guest;
use crate::places::Places;
use crate::random::Random;
use crate::rules::Rules;
use crate::supervise::Program;
use crate::trial::Trial;
use crate::world::World;
use iced_x86::{Decoder, DecoderOptions};
use pirn_compiler::Options;
use pirn_format::cpu::Arch;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, TrapTable};
use pirn_verify::Verifier;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The modules whose code is changed.
const GUESTS: [&str; 6] = [
    "crypto.wasm",
    "hello.wasm",
    "lines.wasm",
    "simd.wasm",
    "tour-c.wasm",
    "traps.wat",
];

/// A module that calls through tables, changes them, and has results in memory.
const CALLS: &str = r#"(module
    (type $binary (func (param i32 i32) (result i32)))
    (import "host" "log" (func $log (param i32 i64)))
    (import "host" "read" (func $read (param f32) (result i64)))
    (table $t (export "t") 4 8 funcref)
    (table $own 8 8 funcref)
    (table $x 0 8 externref)
    (memory 1 2)
    (global $g (mut externref) (ref.null extern))
    (global $v (mut v128) (v128.const i64x2 1 2))
    (elem (table $t) (i32.const 0) func $add $sub)
    (elem (table $own) (i32.const 0) func $add $sub $add $sub)
    (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
    (func $sub (type $binary) (i32.sub (local.get 0) (local.get 1)))
    (func (export "call") (param i32 i32 i32) (result i32)
        (call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2)))
    (func (export "own") (param i32 i32 i32) (result i32)
        (call_indirect $own (type $binary) (local.get 0) (local.get 1) (local.get 2)))
    (func (export "set") (param i32) (table.set $t (local.get 0) (ref.func $sub)))
    (func (export "swap") (param i32 externref) (result externref)
        (global.set $g (table.get $x (local.get 0)))
        (table.set $x (local.get 0) (local.get 1))
        (global.get $g))
    (func (export "tail") (param i32 i32 i32) (result i32)
        (return_call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2)))
    (func (export "log") (param i32 f32) (result i64)
        (call $log (local.get 0) (i64.load8_u offset=3 (local.get 0)))
        (call $read (f32.add (local.get 1) (f32.load (local.get 0)))))
    (func (export "switch") (param i32 i64) (result i64)
        (block $a (block $b (block $c (br_table $a $b $c $a (local.get 0)))
            (local.set 1 (i64.mul (local.get 1) (i64.const 7))))
            (local.set 1 (i64.shr_u (local.get 1) (i64.const 9))))
        (i64.add (local.get 1) (i64.extend_i32_u (i32.ctz (local.get 0)))))
    (func (export "wide") (param i32 f32 f64) (result i32 i64 f32 f64 i32 i64 i32 i64 i32 i64 f32)
        (i32.load16_u (local.get 0)) (i64.load (local.get 0)) (local.get 1) (local.get 2)
        (i32.clz (local.get 0)) (i64.const 5) (i32.load8_s (local.get 0)) (i64.const 6)
        (local.get 0) (i64.const 7) (f32.load (local.get 0)))
    (func (export "lanes") (param v128 i32) (result v128)
        (global.set $v (i8x16.splat (i32.load8_u (local.get 1))))
        (i16x8.replace_lane 1 (i32x4.add (global.get $v) (local.get 0)) (local.get 1)))
)"#;

/// A module, and the worlds in which its functions run.
struct Module {
    guest: Guest,
    rules: Rules,
    trial: Trial,
    functions: Vec<CodeEntry>,
}

impl Module {
    fn new(source: &[u8], fuel: bool, seed: u64) -> Self {
        let wasm = pirn_compiler::parse_text(source).expect("the source is a module");
        let mut options = Options::new(Arch::X86_64);
        options.fuel = fuel;
        let file = pirn_compiler::compile(&wasm, &options).expect("the module compiles");
        let guest = Guest::of(file);
        let text = &guest.file[guest.section(Section::Text)];
        let worlds = [0, 1, 2].map(|number| World::new(&guest.checked, text, number, seed));
        let code = CodeTable::new(&guest.file[guest.section(Section::Code)]).expect("a code table");
        let is_short = |entry: &CodeEntry| (8..2000).contains(&entry.len);
        let is_function = |entry: &CodeEntry| matches!(entry.kind, CodeKind::Func(_));
        let functions = code
            .iter()
            .filter(|entry| is_function(entry) && is_short(entry));
        Self {
            rules: Rules::new(&guest.checked),
            trial: Trial::new(worlds),
            functions: functions.collect(),
            guest,
        }
    }
}

/// The offsets of a function's instructions, if none of its bytes are data.
fn instructions(code: &[u8]) -> Vec<(usize, usize)> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut found = vec![];
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        found.push((at, instruction.len()));
    }
    found
}

/// Changes one or two instructions of a function.
fn change(random: &mut Random, code: &mut [u8]) {
    for _ in 0..=random.below(2) {
        let all = instructions(code);
        let (at, len) = all[random.below(all.len() as u64) as usize];
        match random.below(8) {
            // Another register, or another small displacement.
            0..3 => code[at + len - 1] ^= 1 << random.below(8),
            3 => {
                let byte = at + random.below(len as u64) as usize;
                code[byte] ^= 1 << random.below(8);
            }
            4 => {
                let byte = at + random.below(len as u64) as usize;
                code[byte] = random.next() as u8;
            }
            // Another instruction of the function.
            5 | 6 => {
                let other = all[random.below(all.len() as u64) as usize];
                if other.1 <= len {
                    let bytes = code[other.0..other.0 + other.1].to_vec();
                    code[at..at + other.1].copy_from_slice(&bytes);
                    code[at + other.1..at + len].fill(0x90);
                }
            }
            _ => code[at..at + len].fill(0x90),
        }
    }
}

#[test]
fn proven_changes_of_real_code_keep_the_promises() {
    let count = crate::pieces() / 4;
    let first = crate::number("PIRN_PIECES_SEED", 0);
    let mut modules: Vec<Module> = GUESTS
        .into_iter()
        .zip(32..)
        .map(|(name, seed)| Module::new(&example(name), seed % 2 == 1, seed))
        .collect();
    modules.push(Module::new(CALLS.as_bytes(), false, 48));
    modules.push(Module::new(CALLS.as_bytes(), true, 49));
    let (mut accepted, mut tried) = (0, 0);
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    let mut found = vec![];
    let mut seed = first;
    while accepted < count {
        seed += 1;
        context::SEED.store(seed, Ordering::Relaxed);
        let mut random = Random(seed);
        let at = random.pick(&[0, 1, 2, 3, 3, 4, 4, 5, 6, 6, 6, 7, 7, 7]);
        let module = &mut modules[at];
        let text = module.guest.section(Section::Text);
        let before = module.guest.file[text.clone()].to_vec();
        // Several functions change at once, because each `Verifier::new` reads the tables.
        let mut changed: Vec<CodeEntry> = vec![];
        for _ in 0..16.min(module.functions.len()) {
            let entry = module.functions[random.below(module.functions.len() as u64) as usize];
            if !changed.contains(&entry) {
                let start = text.start + entry.start as usize;
                change(
                    &mut random,
                    &mut module.guest.file[start..start + entry.len as usize],
                );
                changed.push(entry);
            }
        }
        let verifier = Verifier::new(&module.guest.file, &module.guest.checked);
        let verifier = verifier.expect("the tables are the same");
        let proven = |entry: &CodeEntry| verifier.verify_code(*entry).is_ok();
        let (proven, refused): (Vec<_>, Vec<_>) = changed.iter().copied().partition(proven);
        tried += changed.len();
        // A run may call other functions, which must be proven, too.
        for entry in refused {
            let range = entry.start as usize..(entry.start + entry.len) as usize;
            let start = text.start + range.start;
            module.guest.file[start..start + range.len()].copy_from_slice(&before[range]);
        }
        run(module, &proven, &mut random, (&mut ends, &mut found), seed);
        let changes = |entry: &&CodeEntry| {
            let range = entry.start as usize..(entry.start + entry.len) as usize;
            before[range.clone()] != module.guest.file[text.clone()][range]
        };
        accepted += proven.iter().filter(changes).count() as u64;
        module.guest.file[text].copy_from_slice(&before);
    }
    println!("{accepted} of {tried} changes were proven; ends: {ends:?}");
    assert!(
        found.is_empty(),
        "{} of {accepted}\n{}",
        found.len(),
        found.join("\n")
    );
}

fn run(
    module: &mut Module,
    proven: &[CodeEntry],
    random: &mut Random,
    (ends, found): (&mut BTreeMap<&str, u64>, &mut Vec<String>),
    seed: u64,
) {
    let Module {
        guest,
        rules,
        trial,
        ..
    } = module;
    let file = &guest.file;
    let text = &file[guest.section(Section::Text)];
    let program = Program {
        checked: &guest.checked,
        text,
        code: CodeTable::new(&file[guest.section(Section::Code)]).expect("a code table"),
        traps: TrapTable::new(&file[guest.section(Section::Traps)]).expect("a trap table"),
        rules,
    };
    for world in &mut trial.worlds {
        world.write_text(0, text);
    }
    let metadata = &guest.checked.metadata;
    for entry in proven {
        let CodeKind::Func(function) = entry.kind else {
            continue;
        };
        let places = Places::of(metadata.func_type(metadata.funcs[function as usize]));
        for run in 0..2 {
            let input = trial.input(random, places.params.len());
            // A loop may have no end, so each instruction is counted.
            match trial.run(&program, (*entry, &places), &input, (1 + run, true)) {
                Ok(end) => *ends.entry(end.name()).or_default() += 1,
                Err(violation) => {
                    found.push(format!("seed {seed}, run {run}, {entry:?}: {violation:?}"));
                    break;
                }
            }
        }
    }
}
