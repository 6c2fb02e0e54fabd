//! Damaged files.

use super::{PAGE, region};
use crate::common::file::{File, damaged};
use crate::common::random::Random;
use pirn_format::sections::Section;
use pirn_runtime::{Linker, Region};

/// Offset in the header of the number of memory bytes that are accessible at first.
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
    // The image's last page is at 65,536. Runs past the accessible bytes, and adjacent runs, do not
    // come from the compiler and are refused.
    let runs = file.section(Section::ImageRuns);
    assert_eq!(runs.len(), 16);
    for first in [0, 1, 31, 32, 33, u32::MAX] {
        let changed = file.open(&[(runs.start + 8, &first.to_le_bytes())]);
        assert_eq!(changed.is_ok(), first == 31, "{first}");
    }
    // A huge minimum in place of the maximum: the metadata keeps its length, but the size exceeds
    // 64 bits or any slot.
    for min in [u64::MAX, u64::MAX - page + 2, u64::MAX - page + 1, 1 << 63] {
        for header in [
            None,
            Some(0),
            Some(min.wrapping_add(page - 1) & !(page - 1)),
        ] {
            let mut metadata = file.checked.metadata.clone();
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

/// A randomly damaged file with a matching hash is refused, or can be prepared. Nothing worse may
/// happen.
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
    let runs = file.section(Section::ImageRuns);
    let header = file.header_at + MEMORY_BYTES_AT..file.header_at + MEMORY_BYTES_AT + 8;
    for _ in 0..FILES {
        let mut changes = vec![];
        for _ in 0..=random.below(3) {
            let part = match random.below(8) {
                0 => &header,
                1 => &runs,
                _ => &file.metadata,
            };
            let at = part.start + random.below(part.len() as u64) as usize;
            changes.push((at, [damaged(file.bytes[at], &mut random, 16)]));
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
