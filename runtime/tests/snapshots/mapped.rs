//! Snapshots whose image is mapped: instances share its pages, and what they write is private.

use crate::common;
use crate::common::first_difference;
use crate::common::random::Random;
use pirn_runtime::{Instance, Linker, Module, Prepared, Region, Reset, Value};
use std::sync::LazyLock;

/// Pages of 64 KiB: 10 MiB, which a tracked slot maps.
const PAGES: u32 = 160;
pub(super) const MEMORY_BYTES: usize = (PAGES as usize) << 16;
const PAGE: usize = 4096;

/// `fill` writes every word. `store` writes a byte. `copy` moves bytes.
const GUEST: &str = r#"(module
  (memory (export "memory") 160 170)
  (func (export "fill") (local $at i32)
    (loop $next
      (i64.store (local.get $at)
        (i64.mul (i64.extend_i32_u (i32.add (local.get $at) (i32.const 1)))
          (i64.const 0x9e3779b97f4a7c15)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 0xa00000)))))
  (func (export "store") (param i32) (i32.store8 (local.get 0) (i32.const 0xee)))
  (func (export "copy") (param i32 i32 i32)
    (memory.copy (local.get 0) (local.get 1) (local.get 2)))
  (func (export "grow") (drop (memory.grow (i32.const 10)))
    (i32.store (i32.const 0xa00000) (i32.const 1)))
  (func (export "sum") (param $from i32) (param $to i32) (result i64) (local $sum i64)
    (loop $next
      (local.set $sum (i64.add (local.get $sum) (i64.load (local.get $from))))
      (local.set $from (i32.add (local.get $from) (i32.const 4096)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $to))))
    (local.get $sum)))"#;

/// What an instance finds.
pub(super) fn wanted() -> Vec<u8> {
    let mut bytes = vec![0; MEMORY_BYTES];
    for (at, word) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        let value = (at * 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

pub(super) fn region(reset: Reset) -> Region {
    let region = Region::builder().slots(1).memory_bytes_max(170 << 16);
    region.reset(reset).build().expect("the region is built")
}

static MODULE: LazyLock<Module> = LazyLock::new(|| common::wat(GUEST));

pub(super) fn warm(region: &Region) -> Prepared<()> {
    let linker = Linker::new();
    let cold = region.prepare(&MODULE, &linker).expect("it links");
    let mut instance = cold.try_instantiate(()).expect("a slot is free");
    instance.call_values("fill", &[]).expect("it returns");
    let snapshot: Module = instance.snapshot().expect("it can be taken");
    region.prepare(&snapshot, &linker).expect("it links")
}

pub(super) fn call(instance: &mut Instance<()>, name: &str, params: &[i32]) {
    let params: Vec<Value> = params.iter().map(|n| Value::I32(*n)).collect();
    instance.call_values(name, &params).expect("it returns");
}

/// Writes into a page in one of several ways.
fn write(instance: &mut Instance<()>, page: usize, random: &mut Random) {
    let at = (page * PAGE + random.below(PAGE as u64 - 16) as usize) as u32;
    match random.below(5) {
        0 => instance
            .memory_mut()
            .write(at, &[0xcd; 16])
            .expect("it is in the memory"),
        1 => instance
            .memory_mut()
            .write_u32(at, 0xcdcd_cdcd)
            .expect("it is in the memory"),
        2 => {
            let slice = &mut instance.memory_mut();
            slice
                .slice_mut(at, 16)
                .expect("it is in the memory")
                .fill(0xab);
        }
        // From the next page but one, which is only read.
        3 if page + 3 < MEMORY_BYTES / PAGE => {
            let from = at.cast_signed() + 2 * PAGE as i32;
            call(instance, "copy", &[at.cast_signed(), from, 16]);
        }
        _ => call(instance, "store", &[at.cast_signed()]),
    }
}

/// Instances that write few pages, many, or none, in all orders: pages leave the list, return to
/// the system, and are written again.
#[test]
fn each_instance_finds_the_image_whatever_others_wrote() {
    let wanted = wanted();
    let pages = (MEMORY_BYTES / PAGE) as u64;
    for reset in common::resets() {
        let region = region(reset);
        let prepared = warm(&region);
        let mut random = Random(7);
        // The same pages again and again, so that a page that lost its protection is written.
        let few: Vec<usize> = (0..60).map(|_| random.below(pages) as usize).collect();
        for round in 0..common::campaign::share(1500, 15) {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            assert_found(&instance, &wanted, &format!("{reset:?} {round}"));
            // Most instances write so little that pages become idle.
            let count = if round % 20 == 0 {
                few.len()
            } else {
                random.below(3) as usize
            };
            for page in few.iter().rev().take(count) {
                write(&mut instance, *page, &mut random);
            }
            if random.below(8) == 0 {
                call(&mut instance, "grow", &[]);
            }
        }
    }
}

/// Checks that an instance finds these bytes in its memory.
fn assert_found(instance: &Instance<()>, wanted: &[u8], what: &str) {
    let memory = instance.memory();
    let found = memory.as_slice();
    assert_eq!(found.len(), wanted.len(), "{what}");
    assert!(
        found == wanted,
        "{what}: {:?}",
        first_difference(found, wanted)
    );
}

/// More pages than a slot lists: the slot discards all of them, and later uses another backing.
#[test]
fn an_instance_that_writes_everything_leaves_nothing() {
    let wanted = wanted();
    for reset in common::resets() {
        let region = region(reset);
        let prepared = warm(&region);
        for round in 0..12 {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            assert_found(&instance, &wanted, &format!("{reset:?} {round}"));
            // Every second time few pages, some of them written before.
            let pages = if round % 2 == 0 {
                MEMORY_BYTES / PAGE
            } else {
                9
            };
            for page in 0..pages {
                call(&mut instance, "store", &[(page * PAGE) as i32]);
            }
        }
    }
}

/// Another module, another snapshot and the module itself use the slot in turn.
#[test]
fn a_slot_changes_between_images() {
    let wanted = wanted();
    for reset in common::resets() {
        let region = region(reset);
        let (one, linker) = (warm(&region), Linker::<()>::new());
        let mut instance = one.try_instantiate(()).expect("a slot is free");
        call(&mut instance, "store", &[5 << 16]);
        let other = instance.snapshot().expect("it can be taken");
        let other = region.prepare(&other, &linker).expect("it links");
        let empty = region.prepare(&MODULE, &linker).expect("it links");
        let mut changed = wanted.clone();
        changed[5 << 16] = 0xee;
        let zeros = vec![0; MEMORY_BYTES];
        for at in [0, 1, 0, 2, 1, 1, 2, 2, 0, 0, 1, 2] {
            let (prepared, wanted) = [(&one, &wanted), (&other, &changed), (&empty, &zeros)][at];
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            assert!(instance.memory().as_slice() == wanted, "{reset:?} {at}");
            for page in [0, 80, 1279, 2559] {
                call(&mut instance, "store", &[page * PAGE as i32]);
            }
        }
    }
}

/// Other backings, which a region chooses if the kernel loses writes, would pass all other tests.
#[test]
fn writes_to_a_mapped_image_are_tracked() {
    if !common::resets().contains(&Reset::Tracked) {
        return;
    }
    let prepared = warm(&region(Reset::Tracked));
    for _ in 0..12 {
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        for page in [3, 4, 700] {
            call(&mut instance, "store", &[page * PAGE as i32]);
        }
        assert_eq!(instance.usage().pages_written, Some(3));
    }
}

/// What an instance only reads is shared: it adds no private memory to the process.
#[test]
fn pages_that_are_only_read_stay_shared() {
    common::alone(read_all_pages);
}

fn read_all_pages() {
    for reset in common::resets() {
        let region = region(reset);
        let prepared = warm(&region);
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let before = private_bytes();
        call(&mut instance, "sum", &[0, MEMORY_BYTES as i32]);
        let after = private_bytes();
        drop(instance);
        // The kernel counts a thread's pages in batches (proc_pid_status(5)), so this checks the
        // order of magnitude in the best of several trials.
        let mut added = after.saturating_sub(before);
        for _ in 0..20 {
            let before = private_bytes();
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            call(&mut instance, "sum", &[0, MEMORY_BYTES as i32]);
            added = added.min(private_bytes().saturating_sub(before));
        }
        assert!(added < MEMORY_BYTES / 2, "{reset:?}: {added} bytes");
    }
}

/// Private memory of this process in bytes: `RssAnon` of proc_pid_status(5).
fn private_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is readable");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .map(str::trim);
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .expect("a number")
        << 10
}

/// Memories that end inside a page, have 64-bit addresses, or have pages of zeros in the image; in
/// many slots at once.
#[test]
fn images_of_all_shapes_are_found_in_all_slots() {
    const BYTES: u32 = 1_300_001;
    let shapes = [
        (
            "i32",
            format!("(memory (export \"memory\") {BYTES} 1400000 (pagesize 1))"),
            BYTES,
        ),
        (
            "i64",
            "(memory (export \"memory\") i64 20 30)".to_owned(),
            20 << 16,
        ),
        (
            "i32",
            "(memory (export \"memory\") 20 30)".to_owned(),
            20 << 16,
        ),
    ];
    for (address, memory, bytes) in shapes {
        // Every second of 300 pages has a word, and so has the end.
        let text = format!(
            r#"(module {memory}
              (func $fill (export "fill") (local $at {address})
                (loop $next
                  (i32.store (local.get $at) (i32.const 0x01020304))
                  (local.set $at ({address}.add (local.get $at) ({address}.const 8192)))
                  (br_if $next ({address}.lt_u (local.get $at) ({address}.const 1228800))))
                (i32.store ({address}.const {}) (i32.const -1)))
              (func (export "store") (param i32)
                (i32.store8 ({address}.{} (local.get 0)) (i32.const 0xee)))
              (func (export "grow")
                (drop (memory.grow ({address}.const 1)))
                (i32.store8 ({address}.const {bytes}) (i32.const 0xdd))))"#,
            bytes - 4,
            if address == "i64" {
                "extend_i32_u"
            } else {
                "add (i32.const 0)"
            },
        );
        let module = common::wat(&text);
        for reset in common::resets() {
            let region = Region::builder()
                .slots(70)
                .memory_bytes_max(30 << 16)
                .reset(reset);
            let region = region.build().expect("the region is built");
            let linker = Linker::<()>::new();
            let cold = region.prepare(&module, &linker).expect("it links");
            let mut instance = cold.try_instantiate(()).expect("a slot is free");
            instance.call_values("fill", &[]).expect("it returns");
            let wanted = instance.memory().as_slice().to_vec();
            assert_eq!(wanted.len(), bytes as usize);
            let snapshot = instance.snapshot().expect("it can be taken");
            let warm = region.prepare(&snapshot, &linker).expect("it links");
            for round in 0..2 {
                let made = (0..70).map(|_| warm.try_instantiate(()).expect("a slot is free"));
                let mut all: Vec<_> = made.collect();
                for (slot, instance) in all.iter_mut().enumerate() {
                    let is_found = instance.memory().as_slice() == wanted;
                    assert!(is_found, "{address} {reset:?} {round} {slot}");
                    // The last byte, a page of zeros, and one that no other slot writes.
                    for at in [bytes as i32 - 1, 4096, slot as i32 * 8192] {
                        call(instance, "store", &[at]);
                    }
                    let past = instance.call_values("store", &[Value::I32(bytes as i32)]);
                    assert!(past.is_err(), "{address} {reset:?}");
                    if slot % 3 == 0 {
                        call(instance, "grow", &[]);
                        let past = &instance.memory().as_slice()[bytes as usize..].to_vec();
                        assert_eq!(past[0], 0xdd);
                        assert!(past[1..].iter().all(|byte| *byte == 0));
                    }
                }
            }
        }
    }
}
