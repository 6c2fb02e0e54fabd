//! Changes of proven machine code that break a property: the verifier must refuse each change.
//!
//! A test gives the changes of its architecture. A change breaks a property if its instruction can
//! be reached, whatever the other code does.

use super::section;
use pirn_compiler::Options;
use pirn_format::cpu::Arch;
use pirn_format::metadata::Metadata;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, TrapTable};
use pirn_testing::campaign;
use pirn_verify::{Property, Verifier, VerifyError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module with structs, arrays and casts, and without tables. So each comparison of an order
/// tests an index, a range, or the room for an object.
pub(crate) const OBJECTS: &str = r#"(module
    (type $words (array (mut i32)))
    (type $node (sub (struct (field $value (mut i32)) (field $next (mut (ref null $node))))))
    (type $leaf (sub $node (struct (field $value (mut i32)) (field $next (mut (ref null $node)))
        (field $extra (ref $words)) (field $wide (mut i64)))))
    (type $nodes (array (mut (ref null $node))))
    (data $d "0123456789")
    (func (export "node") (param i32 (ref null $node)) (result (ref $node))
        (struct.new $node (local.get 0) (local.get 1)))
    (func (export "leaf") (param i32 (ref $words) i64) (result (ref $leaf))
        (struct.new $leaf (local.get 0) (ref.null $node) (local.get 1) (local.get 2)))
    (func (export "words") (param i32 i32) (result (ref $words))
        (array.new $words (local.get 0) (local.get 1)))
    (func (export "empty") (param i32) (result (ref $nodes))
        (array.new_default $nodes (local.get 0)))
    (func (export "get") (param (ref $words) i32) (result i32)
        (array.get $words (local.get 0) (local.get 1)))
    (func (export "set") (param (ref $nodes) i32 (ref null $node))
        (array.set $nodes (local.get 0) (local.get 1) (local.get 2)))
    (func (export "fill") (param (ref $words) i32 i32 i32)
        (array.fill $words (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
    (func (export "copy") (param (ref $nodes) i32 (ref $nodes) i32 i32)
        (array.copy $nodes $nodes (local.get 0) (local.get 1) (local.get 2) (local.get 3)
            (local.get 4)))
    (func (export "data") (param (ref $words) i32 i32 i32)
        (array.init_data $words $d (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
    (func (export "extra") (param anyref i32) (result i32)
        (array.get $words (struct.get $leaf $extra (ref.cast (ref $leaf) (local.get 0)))
            (local.get 1)))
    (func (export "sum") (param (ref null $node)) (result i32) (local $sum i32)
        (loop $next
            (if (ref.is_null (local.get 0)) (then (return (local.get $sum))))
            (local.set $sum
                (i32.add (local.get $sum) (struct.get $node $value (local.get 0))))
            (local.set 0 (struct.get $node $next (local.get 0)))
            (br $next))
        (unreachable))
)"#;

/// A change: the place in the text, and the new bytes.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) kind: &'static str,
    pub(crate) property: Property,
    /// The instruction that is changed, and the first changed byte.
    pub(crate) instruction: usize,
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The input of a function that makes changes.
pub(crate) struct Code<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) entry: CodeEntry,
    pub(crate) traps: &'a TrapTable<'a>,
    pub(crate) metadata: &'a Metadata,
}

/// A module, and the changes to it.
pub(crate) struct Guest {
    pub(crate) file: Vec<u8>,
    pub(crate) checked: Checked,
    text_at: usize,
    changes: Vec<(CodeEntry, Change)>,
}

impl Guest {
    /// Compiles a module in binary or text form, and proves it.
    pub(crate) fn new(arch: Arch, source: &[u8], changes: fn(&Code<'_>) -> Vec<Change>) -> Self {
        let wasm = pirn_compiler::parse_text(source).expect("the source is a module");
        let file = pirn_compiler::compile(&wasm, &Options::new(arch)).expect("the module compiles");
        let checked = Checked::new(&file).expect("the compiler wrote the file");
        let range = |of| section(&checked, of);
        let text = &file[range(Section::Text)];
        let table = CodeTable::new(&file[range(Section::Code)]).expect("a code table");
        let traps = TrapTable::new(&file[range(Section::Traps)]).expect("a trap table");
        let verifier = Verifier::new(&file, &checked).expect("the file is a module");
        verifier
            .verify()
            .expect("the code is proven before the changes");
        let functions = table
            .iter()
            .filter(|entry| matches!(entry.kind, CodeKind::Func(_)));
        let found = functions.flat_map(|entry| {
            let code = Code {
                text,
                entry,
                traps: &traps,
                metadata: &checked.metadata,
            };
            let changes = changes(&code).into_iter();
            changes.map(move |change| (entry, change))
        });
        Self {
            changes: found.collect(),
            text_at: range(Section::Text).start,
            checked,
            file,
        }
    }

    /// Runs a function while `bytes` replace bytes of the text.
    pub(crate) fn with<T>(
        &mut self,
        at: usize,
        bytes: &[u8],
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let start = self.text_at + at;
        let place = start..start + bytes.len();
        let old = self.file[place.clone()].to_vec();
        self.file[place.clone()].copy_from_slice(bytes);
        let result = run(self);
        self.file[place].copy_from_slice(&old);
        result
    }

    /// Whether the verifier refuses a function if `bytes` replace bytes of the text.
    pub(crate) fn refuses(&mut self, entry: CodeEntry, at: usize, bytes: &[u8]) -> bool {
        let proof = self.with(at, bytes, |guest| {
            let verifier = Verifier::new(&guest.file, &guest.checked);
            verifier
                .expect("the tables are the same")
                .verify_code(entry)
        });
        match proof {
            Ok(_) => false,
            Err(VerifyError::Refused(_)) => true,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The test of an architecture's changes.
pub(crate) struct Trial {
    /// An instruction that the verifier refuses on every path that reaches it. A place is
    /// unreachable if the verifier proves this instruction there: the verifier may know that a
    /// comparison always fails.
    pub(crate) forbidden: &'static [u8],
    /// Number of changes in the whole campaign, unless the environment sets another number.
    pub(crate) count: u64,
    /// At most one of `reached_of` places may be unreachable.
    pub(crate) reached_of: usize,
    /// Whether a change that was proven breaks no property.
    pub(crate) is_harmless: fn(&mut Guest, CodeEntry, &Change) -> bool,
}

impl Trial {
    /// Applies each kind of change in turn, at places that are chosen at random. The verifier must
    /// refuse every change at a place that can be reached, under any property.
    pub(crate) fn run(&self, mut guests: Vec<Guest>) {
        let count = std::env::var("PIRN_MUTATIONS").ok();
        let count = count.and_then(|count| count.parse().ok());
        let count = count.unwrap_or_else(|| campaign::share(self.count, 5)) as usize;
        // The places of each kind of change.
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
            let kind = kinds.iter().nth(number % kinds.len());
            let (key, places) = kind.expect("the guests have changes");
            // A linear congruential generator (Knuth's MMIX).
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (guest, change) = places[(random >> 33) as usize % places.len()];
            let guest = &mut guests[guest];
            let (entry, change) = guest.changes[change].clone();
            if !guest.refuses(entry, change.instruction, self.forbidden) {
                unreached += 1;
            } else if guest.refuses(entry, change.at, &change.bytes) {
                *refused.entry(*key).or_default() += 1;
            } else if (self.is_harmless)(guest, entry, &change) {
                unreached += 1;
            } else {
                panic!(
                    "{:?} at {:#x} of {:?} was proven",
                    change.kind, change.at, entry.kind
                );
            }
        }
        for ((property, kind), count) in &refused {
            println!("{:<13}{kind:<40}{count:>7}", property.name());
        }
        println!("{unreached} places are never reached");
        assert!(
            unreached < count / self.reached_of,
            "{unreached} places are never reached"
        );
        assert_eq!(refused.len(), kinds.len(), "each kind was applied");
        let properties: BTreeSet<_> = kinds.keys().map(|(property, _)| *property).collect();
        assert_eq!(properties.len(), Property::ALL.len(), "{properties:?}");
    }
}

/// The text or bytes of an example guest.
pub(crate) fn example(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
    std::fs::read(folder.join(name)).expect("the file is readable")
}
