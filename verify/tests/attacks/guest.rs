//! [`Guest`]: a compiled module, in which tests replace the machine code of functions.

use super::list::{Attack, Override, Piece};
use crate::common;
use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::{Arch, CpuFeatures, Feature};
use pirn_format::exit::Builtin;
use pirn_format::layout::{
    IMPORT_CODE, IMPORT_HOST, IMPORT_INSTANCE, IMPORT_VMCTX, InstanceLayout, TABLE_BASE,
    TABLE_ELEMENTS,
};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, HandlerEntry, TrapEntry};
use pirn_verify::{Verifier, VerifyError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// Names of the guest's functions in the lists, by index. Function 0 is imported.
const FUNCTIONS: [&str; 13] = [
    "now", "plain", "floats", "takes", "f", "g", "h", "thrower", "catches", "many", "passes",
    "swapped", "wide",
];

/// Names of the functions of the guest with structs and arrays, by index.
const OBJECT_FUNCTIONS: [&str; 6] = ["empty", "o", "p", "q", "w", "x"];

/// The function that most attacks replace: `(param i64 i64 f64) (result i64)`.
pub(crate) const F: u32 = 4;

/// The index of a function in its guest.
pub(crate) fn function(name: &str) -> u32 {
    let at = FUNCTIONS.iter().position(|function| *function == name);
    let at = at.or_else(|| {
        OBJECT_FUNCTIONS
            .iter()
            .position(|function| *function == name)
    });
    at.unwrap_or_else(|| panic!("no function is {name}")) as u32
}

/// The meaning of a mark, which the tests replace by a distance.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// The distance from the next instruction to this code.
    Call(CodeKind),
    /// The distance from the context to a word of the instance area.
    Cell(fn(&InstanceLayout) -> i32),
}

use Mark::{Call, Cell};

const fn call(builtin: Builtin) -> Mark {
    Call(CodeKind::Builtin(builtin as u32))
}

/// Names of distances in assembly. Each name stands for the number `mark(position)`.
pub(crate) const MARKS: &[(&str, Mark)] = &[
    ("plain", Call(CodeKind::Func(1))),
    ("floats", Call(CodeKind::Func(2))),
    ("takes", Call(CodeKind::Func(3))),
    ("g", Call(CodeKind::Func(5))),
    ("h", Call(CodeKind::Func(6))),
    ("thrower", Call(CodeKind::Func(7))),
    ("many", Call(CodeKind::Func(9))),
    ("memory_grow", call(Builtin::MemoryGrow)),
    ("memory_copy", call(Builtin::MemoryCopy)),
    ("table_copy", call(Builtin::TableCopy)),
    ("throw", call(Builtin::Throw)),
    ("now_code", Cell(|layout| layout.import(0) + IMPORT_CODE)),
    ("now_vmctx", Cell(|layout| layout.import(0) + IMPORT_VMCTX)),
    (
        "now_instance",
        Cell(|layout| layout.import(0) + IMPORT_INSTANCE),
    ),
    ("now_host", Cell(|layout| layout.import(0) + IMPORT_HOST)),
    ("base_t", Cell(|layout| layout.table(0) + TABLE_BASE)),
    ("base_z", Cell(|layout| layout.table(2) + TABLE_BASE)),
    (
        "elements_z",
        Cell(|layout| layout.table(2) + TABLE_ELEMENTS),
    ),
    ("global_long", Cell(|layout| layout.global(0))),
    ("global_func", Cell(|layout| layout.global(1))),
    ("after_global_word", Cell(|layout| layout.global(3) + 8)),
    // The first function with a reference. It is exported.
    ("record", Cell(|layout| layout.funcref(0))),
    ("type_id", Cell(|layout| layout.type_id(0))),
    ("tag_e", Cell(|layout| layout.tag(0))),
    // The guest with structs and arrays.
    ("empty", Call(CodeKind::Func(0))),
    ("heap_grow", call(Builtin::HeapGrow)),
    ("array_copy", call(Builtin::ArrayCopy)),
    ("id_s", Cell(|layout| layout.type_id(0))),
    ("id_base", Cell(|layout| layout.type_id(1))),
    ("id_derived", Cell(|layout| layout.type_id(2))),
    ("id_words", Cell(|layout| layout.type_id(3))),
    ("id_nonnull", Cell(|layout| layout.type_id(6))),
    ("id_wide", Cell(|layout| layout.type_id(8))),
    ("id_narrow", Cell(|layout| layout.type_id(9))),
    ("global_any", Cell(|layout| layout.global(0))),
    // The guest without structs and arrays.
    ("swapped", Call(CodeKind::Func(11))),
    ("wide", Call(CodeKind::Func(12))),
    // The guest with structs and arrays.
    ("host_box", call(Builtin::HostBox)),
];

/// The number that stands for a mark in code of x86_64, by its position in the list.
pub(crate) fn mark(position: usize) -> u32 {
    0x5a5a_5a00 + position as u32
}

/// The 16-bit number that stands for a mark in an instruction of aarch64: in the distance of `b`
/// and `bl`, and in the constant of `movn`, which makes a negative distance.
pub(crate) fn short_mark(position: usize) -> u32 {
    mark(position) & 0xffff
}

/// The memory, tables, tag and globals of guests without structs and arrays.
pub(crate) const ITEMS: &str = "
    (memory 1)
    (table $t 4 4 funcref)
    (table $x 4 4 externref)
    (table $z 0 10 funcref)
    (tag $e (param i64))
    (global $long (mut i64) (i64.const 0))
    (global $func (mut funcref) (ref.null func))
    (global $vector (mut v128) (v128.const i64x2 0 0))
    (global $word (mut i32) (i32.const 0))
";

/// A module in which each function that attacks replace has 200 loads, each with an entry in the
/// trap table. So the functions are long enough for the attacks.
fn source() -> String {
    let load = |local: u32| {
        format!("(local.set {local} (i64.load (i32.wrap_i64 (local.get {local}))))").repeat(200)
    };
    let (loads, loads_of_1) = (load(0), load(1));
    let words = "i32 ".repeat(10);
    let singles = "f32 ".repeat(10);
    let one_each = "(i32.const 1) ".repeat(10) + &"(f32.const 1) ".repeat(10);
    format!(
        r#"(module
    (type $f (func (param f64 f64 f64 f64 f64 f64 f64 f64 f64)))
    (import "host" "now" (func $now (result i64)))
    {ITEMS}
    (elem declare func $plain)
    (export "now" (func $now))
    (export "long" (global $long))
    (func $plain)
    (func $floats (type $f))
    (func $takes (param (ref func)))
    (func (export "f") (param i64 i64 f64) (result i64)
        (table.copy $t $t (i32.const 0) (i32.const 0) (i32.const 0))
        (drop (memory.grow (i32.const 0)))
        (memory.copy (i32.const 0) (i32.const 0) (i32.const 0))
        (call $takes (ref.func $plain))
        (call $floats (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0)
            (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0))
        {loads}
        (if (i64.eqz (local.get 1)) (then (throw $e (local.get 0))))
        (local.get 0))
    (func (export "g") (param i64) (result i64 i64 i64 i64 i64 i64 i64 i64 i64)
        {loads}
        (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0)
        (local.get 0) (local.get 0) (local.get 0))
    (func (export "h") (param funcref i64) (result v128)
        {loads_of_1}
        (v128.const i64x2 0 0))
    (func $thrower (throw $e (i64.const 1)))
    (func (export "catches") (param i64 funcref) (result i64)
        (block $caught (result i64)
            (try_table (catch $e $caught) (call $thrower))
            {loads}
            (local.get 0)))
    (func $many (param i64 {words} {singles}) (result i64)
        {loads}
        (local.get 0))
    (func (export "passes") (param i64) (result i64)
        {loads}
        (call $many (local.get 0) {one_each}))
    (func $swapped (param i64 {singles} {words}) (result i64)
        (local.get 0))
    (func $wide (param i64) (result {words} {singles})
        {loads}
        {one_each}))"#
    )
}

/// A module with structs and arrays, whose functions are long enough for the attacks. Offsets of
/// the fields: 8, 12, 16, 24 and 32 in the 48 bytes of `$s`. The 16 bytes of `$base` have 8, the 32
/// bytes of `$derived` have 8, 16 and 24.
fn object_source() -> String {
    let load = |local: u32| {
        format!("(local.set {local} (i32.load offset=1000 (local.get {local})))").repeat(200)
    };
    let [loads_3, loads_0, loads_4, loads_2] = [load(3), load(0), load(4), load(2)];
    format!(
        r#"(module
    (type $s (struct (field (mut i32)) (field (mut i8)) (field i64) (field (mut anyref))
        (field (mut v128))))
    (type $base (sub (struct (field (mut i32)))))
    (type $derived (sub $base
        (struct (field (mut i32)) (field (mut (ref null $s))) (field (mut (ref $s))))))
    (type $words (array (mut i32)))
    (type $bytes (array (mut i8)))
    (type $refs (array (mut anyref)))
    (type $nonnull (array (mut (ref $s))))
    (type $const (array i32))
    (type $wide (sub (struct (field anyref))))
    (type $narrow (sub $wide (struct (field (ref null $s)))))
    (memory 1)
    (global $any (mut anyref) (ref.null any))
    (data $d "abcd")
    (func $empty)
    (func (export "o") (param (ref $s) (ref $words) anyref i32 (ref $refs)) (result i64)
        {loads_3}
        (array.copy $words $words (local.get 1) (local.get 3) (local.get 1) (local.get 3)
            (local.get 3))
        (call $empty)
        (i64.const 0))
    (func (export "p") (param i32 anyref (ref $base) externref i64) (result anyref)
        {loads_0}
        (drop (array.new_data $bytes $d (local.get 0) (local.get 0)))
        (local.get 1))
    (func (export "q") (param (ref $s) funcref (ref $const) (ref $bytes) i32) (result i64)
        {loads_4}
        (i64.const 0))
    (func (export "w") (param i32 (ref $words) (ref $s) i32 i32) (result (ref $words))
        {loads_0}
        (drop (struct.new_default $base))
        (local.get 1))
    (func (export "x") (param anyref externref i32) (result externref)
        {loads_2}
        (drop (any.convert_extern (local.get 1)))
        (local.get 1)))"#
    )
}

/// Compiles a text in the WebAssembly text format, without the optimiser.
fn compile(text: &str, cpu: CpuFeatures) -> Vec<u8> {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the source is a module");
    let mut options = Options::new(cpu.arch());
    options.opt_level = OptLevel::None;
    options.cpu = cpu;
    pirn_compiler::compile(&wasm, &options).expect("the module compiles")
}

fn baseline(arch: Arch) -> CpuFeatures {
    CpuFeatures::level(arch, "baseline").expect("each architecture has a baseline")
}

/// The modules that the lists attack, by architecture: compiled for the baseline's features, and
/// for all features that a header can name.
static FILES: LazyLock<BTreeMap<&str, [Vec<u8>; 2]>> = LazyLock::new(|| files(&source()));

/// The modules with structs and arrays, as [`FILES`].
static OBJECT_FILES: LazyLock<BTreeMap<&str, [Vec<u8>; 2]>> =
    LazyLock::new(|| files(&object_source()));

fn files(source: &str) -> BTreeMap<&'static str, [Vec<u8>; 2]> {
    let files = Arch::ALL.map(|arch| {
        let with = |cpu: CpuFeatures, feature: &Feature| cpu.with(feature.name);
        let mut all = arch.features().iter();
        let all = all.try_fold(CpuFeatures::none(arch), with);
        let all = all.expect("the features are of this architecture");
        let files = [baseline(arch), all].map(|cpu| compile(source, cpu));
        (arch.name(), files)
    });
    BTreeMap::from(files)
}

pub(crate) struct Guest {
    pub(crate) file: Vec<u8>,
    pub(crate) checked: Checked,
}

impl Guest {
    /// The module that the lists for an architecture attack.
    pub(crate) fn new(arch: Arch, has_all_features: bool) -> Self {
        Self::of(FILES[arch.name()][usize::from(has_all_features)].clone())
    }

    /// The module with structs and arrays that a list attacks.
    pub(crate) fn with_objects(arch: Arch, has_all_features: bool) -> Self {
        Self::of(OBJECT_FILES[arch.name()][usize::from(has_all_features)].clone())
    }

    /// A module in text form.
    pub(crate) fn from_text(arch: Arch, text: &str) -> Self {
        Self::of(compile(text, baseline(arch)))
    }

    pub(crate) fn of(file: Vec<u8>) -> Self {
        let checked = Checked::new(&file).expect("the compiler wrote the file");
        Self { file, checked }
    }

    pub(crate) fn section(&self, section: Section) -> Range<usize> {
        common::section(&self.checked, section)
    }

    pub(crate) fn entry(&self, kind: CodeKind) -> CodeEntry {
        let bytes = &self.file[self.section(Section::Code)];
        let table = CodeTable::new(bytes).expect("a code table");
        let found = table.iter().find(|entry| entry.kind == kind);
        found.unwrap_or_else(|| panic!("the module has no {kind:?}"))
    }

    /// Replaces the marks in code at the start of an entry of the code table.
    fn resolve(&self, entry: CodeEntry, code: &mut [u8]) {
        match self.checked.header.cpu.arch() {
            Arch::X86_64 => self.resolve_bytes(entry, code),
            Arch::Aarch64 => self.resolve_words(entry, code),
        }
    }

    fn resolve_bytes(&self, entry: CodeEntry, code: &mut [u8]) {
        for at in 0..code.len().saturating_sub(3) {
            let number = u32::from_le_bytes(code[at..at + 4].try_into().expect("four bytes"));
            let distance = match number
                .checked_sub(mark(0))
                .and_then(|at| MARKS.get(at as usize))
            {
                Some((_, Call(kind))) => {
                    let target = self.entry(*kind).start;
                    target.wrapping_sub(entry.start + at as u32 + 4)
                }
                Some((_, Cell(offset))) => offset(&self.checked.layout).cast_unsigned(),
                None => continue,
            };
            code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
    }

    fn resolve_words(&self, entry: CodeEntry, code: &mut [u8]) {
        const DISTANCE: u32 = (1 << 26) - 1;
        const CONSTANT: u32 = 0xffff << 5;
        let (words, _) = code.as_chunks_mut::<4>();
        for (number, bytes) in words.iter_mut().enumerate() {
            let word = u32::from_le_bytes(*bytes);
            let found = |field: u32| {
                let position = field.checked_sub(short_mark(0))?;
                MARKS.get(position as usize).map(|(_, mark)| *mark)
            };
            let is_jump = word & 0x7c00_0000 == 0x1400_0000;
            let is_constant = word & 0xffe0_0000 == 0x9280_0000;
            let changed = match (found(word & DISTANCE), found((word & CONSTANT) >> 5)) {
                (Some(Call(kind)), _) if is_jump => {
                    let at = entry.start + 4 * number as u32;
                    let distance = self.entry(kind).start.wrapping_sub(at) >> 2;
                    word & !DISTANCE | distance & DISTANCE
                }
                (_, Some(Cell(offset))) if is_constant => {
                    let distance = offset(&self.checked.layout);
                    assert!((-0x1_0000..0).contains(&distance), "{distance}");
                    word & !CONSTANT | (!distance.cast_unsigned() & 0xffff) << 5
                }
                _ => continue,
            };
            *bytes = changed.to_le_bytes();
        }
    }

    /// Changes the trap table entries of a function: they name consecutive bytes, from `first` on.
    pub(crate) fn move_traps(&mut self, entry: CodeEntry, first: u32) {
        let table = self.section(Section::Traps);
        let end = entry.start + entry.len;
        let mut moved = 0;
        for at in table.step_by(TrapEntry::BYTES) {
            let bytes = &mut self.file[at..at + 4];
            let offset = u32::from_le_bytes((&*bytes).try_into().expect("four bytes"));
            if (entry.start..end).contains(&offset) {
                bytes.copy_from_slice(&(first + moved).to_le_bytes());
                moved += 1;
            }
        }
        assert!(moved >= 200 && first + moved <= end, "{moved} entries");
    }

    /// Replaces the only entry of the handler table.
    fn set_handler(&mut self, entry: CodeEntry, [offset, handler, frame_bytes]: [u32; 3]) {
        let found = HandlerEntry {
            offset: entry.start + offset,
            handler: entry.start + handler,
            frame_bytes,
        };
        let table = self.section(Section::Handlers);
        self.file[table].copy_from_slice(&found.encode());
    }

    /// Changes the kind of an entry of the code table.
    fn set_kind(&mut self, entry: CodeEntry, kind: Override) -> CodeEntry {
        let ty = |function: u32| self.checked.metadata.funcs[function as usize];
        let kind = match kind {
            Override::Entry(of) => CodeKind::Entry(ty(of)),
            Override::Import(of) => CodeKind::Import(ty(of)),
            Override::Kind(kind) => kind,
        };
        let table = self.section(Section::Code);
        let (entries, _) = self.file[table].as_chunks_mut::<{ CodeEntry::BYTES }>();
        let found = entries.iter_mut().find(|found| **found == entry.encode());
        let changed = CodeEntry { kind, ..entry };
        *found.expect("the table has the entry") = changed.encode();
        changed
    }

    /// Writes code over the start of a function.
    pub(crate) fn write(&mut self, entry: CodeEntry, code: &[u8]) {
        assert!(code.len() <= entry.len as usize, "{} bytes", entry.len);
        let mut code = code.to_vec();
        self.resolve(entry, &mut code);
        let start = self.section(Section::Text).start + entry.start as usize;
        self.file[start..start + code.len()].copy_from_slice(&code);
    }

    /// Replaces a function's code. Returns the function's entry of the code table.
    pub(crate) fn replace(&mut self, piece: &Piece) -> CodeEntry {
        /// Minimum number of bytes with entries in the trap table.
        const TRAPS: u32 = 200;
        /// Offset of the trap table entries if the attack's code must have none.
        const ELSEWHERE: u32 = 500;
        let entry = self.entry(CodeKind::Func(piece.function));
        let (first, bytes_max) = match piece.has_traps {
            true => (entry.start, TRAPS),
            false => (entry.start + ELSEWHERE, ELSEWHERE),
        };
        assert!(piece.code.len() <= bytes_max as usize, "{bytes_max} bytes");
        self.move_traps(entry, first);
        self.write(entry, &piece.code);
        if let Some(handler) = piece.handler {
            self.set_handler(entry, handler);
        }
        entry
    }
}

/// Verifies the last piece of an attack. The pieces before it must be proven.
pub(crate) fn verify(attack: &Attack) -> Result<usize, VerifyError> {
    let mut guest = match attack.has_objects {
        true => Guest::with_objects(attack.arch, attack.has_all_features),
        false => Guest::new(attack.arch, attack.has_all_features),
    };
    let pieces = attack.pieces.iter();
    // Replaces the marks before any function's kind changes.
    let written: Vec<_> = pieces
        .map(|piece| (guest.replace(piece), piece.kind))
        .collect();
    let entries = written.into_iter().map(|(entry, kind)| match kind {
        Some(kind) => guest.set_kind(entry, kind),
        None => entry,
    });
    let entries: Vec<CodeEntry> = entries.collect();
    let verifier = Verifier::new(&guest.file, &guest.checked)?;
    let (last, before) = entries.split_last().expect("an attack has a piece");
    for entry in before {
        let proof = verifier.verify_code(*entry);
        assert!(proof.is_ok(), "{}: {proof:?}", attack.name);
    }
    verifier.verify_code(*last)
}
