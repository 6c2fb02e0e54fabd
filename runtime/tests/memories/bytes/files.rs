//! Files that are damaged.

use super::{PAGE, region};
use crate::common::random::Random;
use pirn_compiler::Options;
use pirn_format::header::{HASH_BYTES, HASH_OFFSET, content_hash};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_runtime::{Linker, Region};

/// A compiled file, of which a part is changed, with a hash that fits.
struct File {
    bytes: Vec<u8>,
    header_at: usize,
    metadata: std::ops::Range<usize>,
    runs: std::ops::Range<usize>,
}

impl File {
    fn new(text: &str) -> Self {
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
        let bytes = pirn_compiler::compile(&wasm, &Options::default()).expect("it is valid");
        let checked = Checked::new(&bytes).expect("it is the compiler's");
        let encoded = checked.metadata.encode().expect("it was decoded");
        let mut windows = bytes.windows(encoded.len());
        let at = windows.position(|bytes| bytes == encoded);
        let at = at.expect("the file has its metadata");
        let runs = checked.header.section(Section::ImageRuns);
        let start = runs.vaddr as usize;
        Self {
            header_at: checked.header_at as usize,
            metadata: at..at + encoded.len(),
            runs: start..start + runs.len as usize,
            bytes,
        }
    }

    /// What is made of it with other bytes at a place.
    fn open(&self, changes: &[(usize, &[u8])]) -> Result<pirn_runtime::Module, String> {
        let mut file = self.bytes.clone();
        for (at, bytes) in changes {
            file[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        let hash = content_hash(&file, self.header_at).expect("it has a header");
        file[self.header_at + HASH_OFFSET..][..HASH_BYTES].copy_from_slice(&hash);
        pirn_runtime::Module::from_bytes(&file).map_err(|error| error.to_string())
    }
}

/// Where the header says how many bytes of memory are accessible at first.
const MEMORY_BYTES_AT: usize = 56;

#[test]
fn files_that_do_not_fit_their_memory_are_refused() {
    const TEXT: &str =
        "(module (memory i64 70000 18446744073709551615 (pagesize 1)) (memory 5 (pagesize 1))
      (data (i64.const 3) \"x\") (data (i64.const 69999) \"y\"))";
    let file = File::new(TEXT);
    let at = file.header_at + MEMORY_BYTES_AT;
    assert_eq!(file.bytes[at..at + 8], (2 * PAGE as u64).to_le_bytes());
    assert!(file.open(&[]).is_ok());
    let page = PAGE as u64;
    for bytes in [
        0,
        1,
        69_999,
        70_000,
        page,
        2 * page - 1,
        2 * page + 1,
        3 * page,
        1 << 32,
        u64::MAX - page + 1,
        u64::MAX,
    ] {
        let error = file.open(&[(at, &bytes.to_le_bytes())]);
        let error = error.expect_err("the header does not fit");
        assert!(error.contains("memory"), "{error}");
    }
    // The last page of the image lies at 65,536; runs past what is accessible, and those that touch, are not the compiler's.
    assert_eq!(file.runs.len(), 16);
    for first in [0, 1, 31, 32, 33, u32::MAX] {
        let changed = file.open(&[(file.runs.start + 8, &first.to_le_bytes())]);
        assert_eq!(changed.is_ok(), first == 31, "{first}");
    }
    // The minimum in place of the maximum: as many bytes of metadata, and more of memory than 64 bits, or any slot, hold.
    let checked = Checked::new(&file.bytes).expect("it is the compiler's");
    for min in [u64::MAX, u64::MAX - page + 2, u64::MAX - page + 1, 1 << 63] {
        for header in [
            None,
            Some(0),
            Some(min.wrapping_add(page - 1) & !(page - 1)),
        ] {
            let mut metadata = checked.metadata.clone();
            (metadata.memories[0].min, metadata.memories[0].max) = (min, Some(70_000));
            let encoded = metadata.encode().expect("it is encoded");
            assert_eq!(encoded.len(), file.metadata.len());
            let header = header.unwrap_or(2 * page).to_le_bytes();
            let opened = file.open(&[(file.metadata.start, &encoded), (at, &header)]);
            let Ok(module) = opened else {
                continue;
            };
            let prepared = region(1).prepare(&module, &Linker::<()>::new());
            let error = prepared.expect_err("no slot is so large").to_string();
            assert!(error.contains("pages of memory"), "{error}");
        }
    }
}

/// What is damaged at random, and has a hash that fits, is refused or prepared, and nothing worse.
#[test]
fn damaged_memories_are_refused_or_harmless() {
    const TEXT: &str = r#"(module (import "o" "m" (memory 3 9 (pagesize 1)))
      (memory (export "a") 70000 80000 (pagesize 1)) (memory (export "b") i64 5 (pagesize 1)) (memory (export "c") 1)
      (data (memory 1) (i32.const 69999) "y") (data (memory 2) (i64.const 1) "four") (data "passive"))"#;
    const FILES: usize = 2000;
    let file = File::new(TEXT);
    let region = Region::builder().slots(2).memories(3).build();
    let region = region.expect("a region");
    let mut random = Random(11);
    let mut taken = 0;
    let header = file.header_at + MEMORY_BYTES_AT..file.header_at + MEMORY_BYTES_AT + 8;
    for _ in 0..FILES {
        let mut changes = vec![];
        for _ in 0..=random.below(3) {
            let part = match random.below(8) {
                0 => &header,
                1 => &file.runs,
                _ => &file.metadata,
            };
            let at = part.start + random.below(part.len() as u64) as usize;
            let byte = match random.below(3) {
                0 => file.bytes[at] ^ 1 << random.below(8),
                1 => file.bytes[at].wrapping_add(1),
                _ => random.below(16) as u8,
            };
            changes.push((at, [byte]));
        }
        let changes: Vec<_> = changes.iter().map(|(at, byte)| (*at, &byte[..])).collect();
        let Ok(module) = file.open(&changes) else {
            continue;
        };
        taken += 1;
        let _ = region.prepare(&module, &Linker::<()>::new());
    }
    assert!(taken > 0 && taken < FILES, "{taken} were taken");
}
