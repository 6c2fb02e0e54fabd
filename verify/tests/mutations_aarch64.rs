//! Code of aarch64 that was changed so that it breaks a property is refused.
//!
//! As for x86_64 (`mutations.rs`), each change breaks a property if its instruction can be reached.
//! `PIRN_MUTATIONS` is the number of changes, 2,000 by default.

mod common;

use common::section;
use pirn_compiler::Options;
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, TrapTable};
use pirn_verify::{Property, Verifier, VerifyError};
use std::collections::BTreeMap;
use std::path::Path;

/// The guests whose code is changed.
const GUESTS: [&str; 5] = [
    "tour-c.wasm",
    "simd.wasm",
    "threads-c.wasm",
    "traps.wat",
    "hostcalls.wat",
];

/// A module that calls through a table.
const CALLS: &str = r#"(module
    (type $binary (func (param i32 i32) (result i32)))
    (table $t (export "t") 4 8 funcref)
    (elem (i32.const 0) $add)
    (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
    (func (export "call") (param i32 i32 i32) (result i32)
        (i32.add (local.get 0)
            (call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2))))
    (func (export "set") (param i32) (table.set $t (local.get 0) (ref.func $add)))
)"#;

const NOP: u32 = 0xd503_201f;
const SVC: u32 = 0xd400_0001;
const RET: u32 = 0xd65f_03c0;

/// Instructions that no guest may execute.
const FORBIDDEN: [(&str, u32); 8] = [
    ("svc #0", SVC),
    ("brk #0", 0xd420_0000),
    ("udf #0", 0),
    ("mrs x2, tpidr_el0", 0xd53b_d042),
    ("msr fpcr, x2", 0xd51b_4402),
    ("dc zva, x2", 0xd50b_7422),
    ("ret x9", 0xd65f_0120),
    ("ldr x9, [x2], #8", 0xf840_8449),
];

/// A changed word of the text.
#[derive(Clone)]
struct Change {
    kind: &'static str,
    property: Property,
    at: usize,
    word: u32,
}

fn word(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"))
}

/// All changes to one function. Its constants and tables are never reached.
fn changes(text: &[u8], entry: CodeEntry, traps: &TrapTable<'_>) -> Vec<Change> {
    let (start, end) = (entry.start as usize, (entry.start + entry.len) as usize);
    // A function that only traps needs no frame.
    let is_exit = |at: usize| {
        let word = word(text, at);
        word == RET || word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000
    };
    let leaves = (start..end).step_by(4).any(is_exit);
    let mut all = vec![];
    for at in (start..end).step_by(4) {
        let old = word(text, at);
        let mut add = |kind, property, word| {
            all.push(Change {
                kind,
                property,
                at,
                word,
            });
        };
        for (kind, word) in FORBIDDEN {
            add(kind, Property::Instructions, word);
        }
        let to = |target: usize| (target.wrapping_sub(at) >> 2) as u32 & 0x03ff_ffff;
        match old & 0xfc00_0000 {
            // `bl`
            0x9400_0000 => {
                add("call after a start", Property::Targets, old.wrapping_add(1));
                let next = 0x9400_0000 | to(at + 4);
                add("call of the next instruction", Property::Targets, next);
            }
            // `b`
            0x1400_0000 => {
                let after = 0x1400_0000 | to(end + 4);
                add("jump out of the function", Property::Targets, after);
            }
            _ => {}
        }
        if leaves {
            frames(old, at == start, &mut add);
        }
        accesses(old, traps.code(at as u32).is_some(), &mut add);
        // `blr`
        if old & 0xffff_fc1f == 0xd63f_0000 {
            add("call of the context", Property::Targets, 0xd63f_0040);
            // The callee's context is loaded from the record of the function.
            let before = word(text, at - 4);
            if before & 0xffff_fc1f == 0xf940_0402 && before >> 5 & 31 != 31 {
                all.push(Change {
                    kind: "another word as the callee's context",
                    property: Property::Types,
                    at: at - 4,
                    word: before + (1 << 10),
                });
            }
        }
    }
    all
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Property, u32);

/// Prologues and epilogues.
fn frames(old: u32, is_start: bool, add: Add<'_>) {
    /// `stp x29, x30, [sp, #-16]!` and `ldp x29, x30, [sp], #16`
    const SAVES: u32 = 0xa9bf_7bfd;
    const RESTORES: u32 = 0xa8c1_7bfd;
    match old {
        SAVES if is_start => {
            add(
                "no store of the frame pointer",
                Property::Stack,
                0xa9bf_7ffe,
            );
            add("a store of the pair in turn", Property::Stack, 0xa9bf_77fe);
        }
        RESTORES => {
            add("no load of the frame pointer", Property::Stack, NOP);
            add("a load of the pair in turn", Property::Stack, 0xa8c1_77fe);
        }
        RET => add("a return to the context", Property::Targets, 0xd61f_0040),
        _ => {}
    }
    // `sub sp, sp, #bytes`
    if old & 0xffc0_03ff == 0xd100_03ff {
        add("a frame of other bytes", Property::Stack, old ^ 1 << 13);
    }
}

/// Addresses.
fn accesses(old: u32, is_trap: bool, add: Add<'_>) {
    let base = old >> 5 & 31;
    // Loads and stores of one register, by a constant or a register.
    let is_access = old & 0x3a00_0000 == 0x3800_0000;
    if is_access && is_trap && base != 31 {
        let word = old & !(31 << 5) | 30 << 5;
        add("an access by the return address", Property::Accesses, word);
        // The register with the value.
        if old & 0x00c0_0000 == 0 && old & 1 << 26 == 0 {
            let word = old & !31 | 30;
            add("a store of the return address", Property::Accesses, word);
        }
    }
    // `ldur x, [base, #-bytes]` of a field of the context.
    if old & 0xffe0_0c00 == 0xf840_0000 && old & 1 << 20 != 0 && base != 31 && base != 29 {
        let private = (-128_i32).cast_unsigned() & 0x1ff;
        let word = old & !(0x1ff << 12) | private << 12;
        add("a private field of the context", Property::Accesses, word);
    }
}

/// A module, and the changes to it.
struct Guest {
    file: Vec<u8>,
    checked: Checked,
    text_at: usize,
    changes: Vec<(CodeEntry, Change)>,
}

impl Guest {
    fn new(source: &[u8]) -> Self {
        let wasm = pirn_compiler::parse_text(source).expect("it is a module");
        let options = Options::new(Arch::Aarch64);
        let file = pirn_compiler::compile(&wasm, &options).expect("it compiles");
        let checked = Checked::new(&file).expect("the compiler wrote it");
        let range = |of| section(&checked, of);
        let text = &file[range(Section::Text)];
        let table = CodeTable::new(&file[range(Section::Code)]).expect("the compiler wrote it");
        let traps = TrapTable::new(&file[range(Section::Traps)]).expect("the compiler wrote it");
        let verifier = Verifier::new(&file, &checked).expect("it is a module");
        verifier
            .verify()
            .expect("the code is proven before it is changed");
        let functions = table
            .iter()
            .filter(|entry| matches!(entry.kind, CodeKind::Func(_)));
        let found = functions.flat_map(|entry| {
            let changes = changes(text, entry, &traps).into_iter();
            changes.map(move |change| (entry, change))
        });
        Self {
            changes: found.collect(),
            text_at: range(Section::Text).start,
            checked,
            file,
        }
    }

    /// Whether the verifier refuses a function if a word of it is another one.
    fn refuses(&mut self, entry: CodeEntry, at: usize, word: u32) -> bool {
        let place = self.text_at + at..self.text_at + at + 4;
        let old = self.file[place.clone()].to_vec();
        self.file[place.clone()].copy_from_slice(&word.to_le_bytes());
        let verifier = Verifier::new(&self.file, &self.checked).expect("the tables are the same");
        let proof = verifier.verify_code(entry);
        self.file[place].copy_from_slice(&old);
        match proof {
            Ok(_) => false,
            Err(VerifyError::Refused(_)) => true,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn no_change_that_breaks_a_property_is_proven() {
    let count = std::env::var("PIRN_MUTATIONS").ok();
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    let read = |name: &&str| std::fs::read(folder.join(name)).expect("it is readable");
    let sources = GUESTS.iter().map(read).chain([CALLS.as_bytes().to_vec()]);
    let mut guests: Vec<Guest> = sources.map(|source| Guest::new(&source)).collect();
    // By kind of change, its places.
    let mut kinds: BTreeMap<(Property, &str), Vec<(usize, usize)>> = BTreeMap::new();
    for (number, guest) in guests.iter().enumerate() {
        for (at, (_, change)) in guest.changes.iter().enumerate() {
            let places = kinds.entry((change.property, change.kind)).or_default();
            places.push((number, at));
        }
    }
    let (mut random, mut unreached) = (1_u64, 0);
    let mut refused: BTreeMap<(Property, &str), usize> = BTreeMap::new();
    for number in 0..count {
        // Each kind in turn, at a place chosen by a linear congruential generator (Knuth's MMIX).
        let kind = kinds.iter().nth(number % kinds.len());
        let (key, places) = kind.expect("there are kinds");
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (guest, change) = places[(random >> 33) as usize % places.len()];
        let guest = &mut guests[guest];
        let (entry, change) = guest.changes[change].clone();
        if !guest.refuses(entry, change.at, SVC) {
            unreached += 1;
            continue;
        }
        let Change { kind, at, word, .. } = change;
        assert!(
            guest.refuses(entry, at, word),
            "{kind:?} at {at:#x} of {:?} was proven",
            entry.kind
        );
        *refused.entry(*key).or_default() += 1;
    }
    for ((property, kind), count) in &refused {
        println!("{:<13}{kind:<40}{count:>7}", property.name());
    }
    println!("{unreached} places are never reached");
    // Padding and tables between functions are among the places.
    assert!(
        unreached < count / 4,
        "{unreached} places are never reached"
    );
    assert_eq!(refused.len(), kinds.len(), "each kind was applied");
    let properties = kinds.keys().map(|(property, _)| *property);
    let properties: std::collections::BTreeSet<_> = properties.collect();
    assert_eq!(properties.len(), Property::ALL.len(), "{properties:?}");
}
