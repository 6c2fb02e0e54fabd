//! Random code, grown so that the verifier accepts it.

use crate::context;
use crate::grow;
use crate::guest::{Guest, ITEMS};
use crate::piece::{Builder, Counts};
use crate::places::Places;
use crate::random::Random;
use crate::rules::Rules;
use crate::supervise::{Program, Violation};
use crate::trial::Trial;
use crate::world::World;
use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::{self, Arch, CpuFeatures};
use pirn_format::layout::{TABLE_BASE, TABLE_ELEMENTS};
use pirn_format::sections::Section;
use pirn_format::traps::{CodeKind, CodeTable, TrapTable};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Runs of each piece. The first run checks each instruction.
const RUNS: usize = 6;

/// Number of loads in the function that pieces replace. The same number of bytes of a piece have
/// entries in the trap table.
const LOADS: u32 = 400;

/// The index of the function that pieces replace.
const FUNCTION: u32 = 3;

/// Types of the function that pieces replace, and results of its original code.
const TYPES: [(&str, &str); 4] = [
    ("(param i64 i64 f64) (result i64)", "(i64.const 0)"),
    (
        "(param i64 i32 f32) (result i32 i64 f32 v128)",
        "(i32.const 0) (i64.const 0) (f32.const 0) (v128.const i64x2 0 0)",
    ),
    (
        "(param i64 funcref v128 i32) (result f64 i64)",
        "(f64.const 0) (i64.const 0)",
    ),
    (
        "(param i64 i32 i64 i64 i32 i32 i64 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 v128)
            (result i64)",
        "(i64.const 0)",
    ),
];

fn source((ty, results): (&str, &str)) -> String {
    let loads = "(local.set 0 (i64.load (i32.wrap_i64 (local.get 0))))".repeat(LOADS as usize);
    format!(
        r#"(module
    (type $f (func (param i64 i64 f64) (result i64)))
    (import "host" "now" (func $now (param i64) (result i64)))
    {ITEMS}
    (global $fixed f64 (f64.const 0))
    (global $host (mut externref) (ref.null extern))
    (elem declare func $plain $same)
    (export "now" (func $now))
    (func $plain)
    (func $same (type $f) (local.get 0))
    (func (export "piece") {ty} {loads}
        (table.set $t (i32.const 0) (ref.null func))
        (drop (memory.grow (i32.const 0)))
        (drop (call $now (i64.const 1)))
        {results}))"#
    )
}

/// The module, compiled with some options, and the worlds in which its function runs.
struct Setting {
    guest: Guest,
    rules: Rules,
    trial: Trial,
    values: Places,
    places: grow::Places,
}

impl Setting {
    fn new(cpu: CpuFeatures, has_traps: bool, ty: (&str, &str), seed: u64) -> Self {
        let text = source(ty);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the source is a module");
        let mut options = Options::new(Arch::X86_64);
        options.opt_level = OptLevel::None;
        options.cpu = cpu;
        options.fuel = true;
        let file = pirn_compiler::compile(&wasm, &options).expect("the module compiles");
        let mut guest = Guest::of(file);
        let entry = guest.entry(CodeKind::Func(FUNCTION));
        let first = match has_traps {
            true => entry.start,
            false => entry.start + entry.len / 2,
        };
        guest.move_traps(entry, first);
        let text = &guest.file[guest.section(Section::Text)];
        let worlds = [0, 1, 2].map(|number| World::new(&guest.checked, text, number, seed));
        let metadata = &guest.checked.metadata;
        Self {
            rules: Rules::new(&guest.checked),
            trial: Trial::new(worlds),
            values: Places::of(metadata.func_type(metadata.funcs[FUNCTION as usize])),
            places: grow_places(&guest, cpu.has("avx2")),
            guest,
        }
    }

    /// Grows a piece that the verifier accepts.
    fn grow(&mut self, random: &Random, counts: &mut Counts) -> Vec<u8> {
        let mut random = random.clone();
        let groups = 4 + random.below(28);
        let code = Builder {
            entry: self.guest.entry(CodeKind::Func(FUNCTION)),
            guest: &mut self.guest,
            values: &self.values,
            places: &self.places,
            bytes_max: LOADS as usize,
            random,
        }
        .grow(groups, counts);
        counts.bytes += code.len();
        code
    }

    /// Runs a piece several times.
    fn run(
        &mut self,
        code: &[u8],
        random: &mut Random,
        ends: &mut BTreeMap<&str, u64>,
    ) -> Result<(), Violation> {
        let entry = self.guest.entry(CodeKind::Func(FUNCTION));
        for world in &mut self.trial.worlds {
            world.write_text(entry.start as usize, code);
        }
        let (guest, file) = (&self.guest, &self.guest.file);
        let program = Program {
            checked: &guest.checked,
            text: &file[guest.section(Section::Text)],
            code: CodeTable::new(&file[guest.section(Section::Code)]).expect("a code table"),
            traps: TrapTable::new(&file[guest.section(Section::Traps)]).expect("a trap table"),
            rules: &self.rules,
        };
        for run in 0..RUNS {
            let input = self.trial.input(random, self.values.params.len());
            let how = (1 + run % 2, run == 0);
            let end = self
                .trial
                .run(&program, (entry, &self.values), &input, how)?;
            *ends.entry(end.name()).or_default() += 1;
        }
        Ok(())
    }
}

/// The module for the baseline, for the extensions that pieces use, and without entries in the trap
/// table. Each of these has all types of the function.
fn settings() -> Vec<Setting> {
    const EXTENSIONS: [&str; 8] = [
        "sse4.2", "popcnt", "lzcnt", "bmi1", "bmi2", "avx", "avx2", "fma",
    ];
    let baseline = CpuFeatures::level(Arch::X86_64, "baseline").expect("x86_64 has a baseline");
    let here = cpu::detect();
    let add = |cpu: CpuFeatures, name: &&str| match here.has(name) {
        true => cpu.with(name).expect("the feature has this name"),
        false => cpu,
    };
    let extended = EXTENSIONS.iter().fold(baseline, add);
    let modes = [(baseline, true), (extended, true), (baseline, false)];
    modes
        .iter()
        .flat_map(|mode| TYPES.map(|ty| (*mode, ty)))
        .zip(0..)
        .map(|(((cpu, has_traps), ty), seed)| Setting::new(cpu, has_traps, ty, seed))
        .collect()
}

fn grow_places(guest: &Guest, has_extensions: bool) -> grow::Places {
    let layout = &guest.checked.layout;
    let metadata = &guest.checked.metadata;
    let entry = guest.entry(CodeKind::Func(FUNCTION));
    let code = CodeTable::new(&guest.file[guest.section(Section::Code)]).expect("a code table");
    let calls = code
        .iter()
        .filter(|of| !matches!(of.kind, CodeKind::Entry(_) | CodeKind::Import(_)))
        .filter(|of| of.kind != CodeKind::Func(FUNCTION))
        .map(|of| of.start.wrapping_sub(entry.start).cast_signed());
    let mut fields = vec![];
    for global in 0..metadata.globals.len() as u32 {
        fields.push((layout.global(global), 16));
    }
    for at in (-64..0).step_by(8) {
        fields.push((at, 8));
    }
    let tables: Vec<_> = (0..metadata.tables.len() as u32)
        .map(|table| layout.table(table))
        .map(|at| (at + TABLE_BASE, at + TABLE_ELEMENTS))
        .collect();
    fields.extend(
        tables
            .iter()
            .flat_map(|(base, elements)| [(*base, 8), (*elements, 8)]),
    );
    fields.extend((0..4).map(|word| (layout.import(0) + 8 * word, 8)));
    for record in 0..metadata.address_taken.len() as u32 {
        fields.extend([0, 8, 16].map(|at| (layout.funcref(record) + at, 8)));
    }
    for ty in 0..metadata.types.len() as u32 {
        fields.push((layout.type_id(ty), 4));
    }
    grow::Places {
        fields,
        tables,
        calls: calls.collect(),
        type_id: layout.type_id(0),
        has_extensions,
    }
}

#[test]
fn proven_code_keeps_its_promises_when_it_runs() {
    let count = crate::pieces();
    let first = crate::number("PIRN_PIECES_SEED", 0);
    let mut settings = settings();
    let (mut counts, mut ends) = (Counts::default(), BTreeMap::new());
    let mut found = vec![];
    for seed in first..first + count {
        context::SEED.store(seed, Ordering::Relaxed);
        let mut random = Random(seed);
        let at = random.pick(&[0, 0, 0, 1, 1, 1, 1, 2]) * TYPES.len();
        let at = at + random.below(TYPES.len() as u64) as usize;
        let setting = &mut settings[at];
        let code = setting.grow(&random, &mut counts);
        if let Err(violation) = setting.run(&code, &mut random, &mut ends) {
            let digits: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
            found.push(format!("seed {seed}, {at}: {violation:?}\n  {digits}"));
        }
    }
    report(count, &counts, &ends);
    assert!(
        found.is_empty(),
        "{} of {count}\n{}",
        found.len(),
        found.join("\n")
    );
    assert_variety(count, &counts, &ends);
}

fn report(count: u64, counts: &Counts, ends: &BTreeMap<&str, u64>) {
    println!("{count} pieces of {} bytes", counts.bytes);
    for ((kind, tried), accepted) in grow::KINDS.iter().zip(counts.tried).zip(counts.accepted) {
        println!("{kind:<12}{tried:>9} groups{accepted:>9} proven");
    }
    let (sinks, tight) = (counts.sinks, counts.tight);
    println!("{sinks:?} registers made visible, {tight:?} tight bounds, ends: {ends:?}");
}

/// A generator tests nothing if the verifier refuses its pieces, or if all its pieces are alike.
fn assert_variety(count: u64, counts: &Counts, ends: &BTreeMap<&str, u64>) {
    if count < 200 {
        return;
    }
    for ((kind, tried), accepted) in grow::KINDS.iter().zip(counts.tried).zip(counts.accepted) {
        assert!(
            accepted * 50 >= tried && accepted >= 5,
            "{kind}: {accepted} of {tried}"
        );
    }
    let groups: u64 = counts.accepted.iter().sum();
    assert!(
        groups >= 4 * count,
        "{groups} groups of {count} pieces were proven"
    );
    assert!(counts.sinks[1] * 8 >= counts.sinks[0], "{:?}", counts.sinks);
    assert!(counts.tight[1] * 4 >= counts.tight[0], "{:?}", counts.tight);
    let ended = |name| ends.get(name).copied().unwrap_or(0);
    let all: u64 = ends.values().sum();
    assert!(ended("returned") * 2 >= all, "{ends:?}");
    assert!(ended("trapped") * 50 >= all, "{ends:?}");
    assert!(ended("exited") * 50 >= all, "{ends:?}");
}
