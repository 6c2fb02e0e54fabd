//! I/O buffers in guest memory before its first access. The kernel must read and write them
//! directly, and the guest must see the results.

use crate::common::setup::{linker, module};
use pirn_runtime::{Instance, Prepared, Region, Reset};
use pirn_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};
use std::fs;

/// The vectors are at 16. `read(fd, address, length)` and the other exports return the errno.
const GUEST: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pread" (func $pread (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 32)
  (data (i32.const 1000000) "far away")
  ;; An empty vector, and then that which counts.
  (func $vectors (param i32 i32)
    (i32.store (i32.const 16) (i32.const 7)) (i32.store (i32.const 20) (i32.const 0))
    (i32.store (i32.const 24) (local.get 0)) (i32.store (i32.const 28) (local.get 1)))
  (func (export "read") (param i32 i32 i32) (result i32)
    (call $vectors (local.get 1) (local.get 2))
    (call $read (local.get 0) (i32.const 16) (i32.const 2) (i32.const 8)))
  (func (export "read_at") (param i32 i32 i32) (result i32)
    (call $read (local.get 0) (local.get 1) (local.get 2) (i32.const 8)))
  (func (export "read_from") (param i32 i32 i32 i32) (result i32)
    (call $read (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
  (func (export "read_to") (param i32 i32 i32) (result i32)
    (call $vectors (i32.const 4096) (i32.const 10))
    (call $read (local.get 0) (i32.const 16) (i32.const 2) (local.get 1)))
  (func (export "pread") (param i32 i32 i32) (result i32)
    (call $vectors (local.get 1) (local.get 2))
    (call $pread (local.get 0) (i32.const 16) (i32.const 2) (i64.const 3) (i32.const 8)))
  (func (export "write") (param i32 i32 i32) (result i32)
    (call $vectors (local.get 1) (local.get 2))
    (call $write (local.get 0) (i32.const 16) (i32.const 2) (i32.const 8)))
  (func (export "random") (param i32 i32 i32) (result i32)
    (call $random (local.get 1) (local.get 2))))"#;

const SUCCESS: i32 = 0;
const BADF: i32 = 8;

struct Setup {
    folder: tempfile::TempDir,
    prepared: Prepared<WasiCtx>,
    content: Vec<u8>,
}

impl Setup {
    fn new(reset: Reset) -> Option<Self> {
        let region = Region::builder().slots(1).reset(reset).build().ok()?;
        let prepared = region.prepare(&module(GUEST), &linker());
        let folder = tempfile::tempdir().expect("a temporary directory");
        let content: Vec<u8> = (0..100_000_u32).map(|i| (i % 253) as u8 + 1).collect();
        fs::write(folder.path().join("in"), &content).expect("room for a file");
        fs::write(folder.path().join("out"), "").expect("room for a file");
        Some(Self {
            prepared: prepared.expect("it links"),
            folder,
            content,
        })
    }

    /// An instance whose standard input and output are files.
    fn instance(&self) -> Instance<WasiCtx> {
        let folder = Dir::open_ambient_dir(self.folder.path(), ambient_authority());
        let folder = folder.expect("it is there");
        let input = folder.open("in").expect("it is there");
        let output = folder.create("out").expect("it can be written to");
        let wasi = WasiCtxBuilder::new()
            .stdin_fd(input.into_std())
            .stdout_fd(output.into_std())
            .build();
        self.prepared
            .try_instantiate(wasi)
            .expect("the slot is free")
    }

    fn call(&self, instance: &mut Instance<WasiCtx>, name: &str, params: (i32, i32, i32)) -> i32 {
        let func = self
            .prepared
            .func::<(i32, i32, i32), i32>(name)
            .expect("it is exported");
        instance.call(&func, params).expect("it returns")
    }
}

/// Runs a test under every reset that this machine supports.
fn everywhere(test: impl Fn(Reset, Setup)) {
    for reset in Reset::ALL {
        if let Some(setup) = Setup::new(reset) {
            test(reset, setup);
        }
    }
}

fn count(instance: &Instance<WasiCtx>) -> usize {
    instance.memory().read_u32(8).expect("it is inside") as usize
}

/// Reads of several sizes into untouched pages, at aligned and unaligned addresses.
#[test]
fn reads_reach_untouched_pages_at_any_address() {
    everywhere(|reset, setup| {
        for (name, from) in [("read", 0), ("pread", 3)] {
            for (at, len) in [
                (4096, 1),
                (8190, 10),
                (20_000, 32 << 10),
                (20_001, 40_000),
                (9, 0),
            ] {
                let mut instance = setup.instance();
                let errno = setup.call(&mut instance, name, (0, at, len));
                assert_eq!(
                    (errno, count(&instance)),
                    (SUCCESS, len as usize),
                    "{reset} {name} {len}"
                );
                let memory = instance.memory();
                let got = memory.slice(at as u32, len as u32).expect("it is inside");
                assert_eq!(
                    got,
                    &setup.content[from..][..len as usize],
                    "{reset} {name} {len}"
                );
                // The bytes after the buffer are unchanged.
                assert_eq!(
                    memory
                        .slice((at + len).max(100) as u32, 5)
                        .expect("it is inside"),
                    [0; 5]
                );
            }
        }
        // Reads up to the end of the file.
        let mut instance = setup.instance();
        for expected in [60_000, 40_000, 0] {
            let errno = setup.call(&mut instance, "read", (0, 70_000, 60_000));
            assert_eq!((errno, count(&instance)), (SUCCESS, expected), "{reset}");
        }
    });
}

/// Writes from untouched pages must send the bytes of the module's image, and zeros elsewhere.
#[test]
fn writes_from_untouched_pages_send_initial_content() {
    everywhere(|reset, setup| {
        for (at, len, expected) in [
            (1_000_000, 8, b"far away".to_vec()),
            (500_000, 9000, vec![0; 9000]),
            (999_999, 1, vec![0]),
        ] {
            let mut instance = setup.instance();
            let errno = setup.call(&mut instance, "write", (1, at, len));
            assert_eq!(
                (errno, count(&instance)),
                (SUCCESS, len as usize),
                "{reset} {at}"
            );
            drop(instance);
            let written = fs::read(setup.folder.path().join("out")).expect("it is there");
            assert!(written == expected, "{reset} {at}");
        }
    });
}

#[test]
fn random_bytes_reach_untouched_pages() {
    everywhere(|reset, setup| {
        let mut instance = setup.instance();
        let errno = setup.call(&mut instance, "random", (0, 40_000, 50_000));
        assert_eq!(errno, SUCCESS, "{reset}");
        let memory = instance.memory();
        let bytes = memory.slice(40_000, 50_000).expect("it is inside");
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < 1000, "{reset}: {zeros} of 50000 are zero");
    });
}

/// A buffer out of bounds must trap before the call uses a descriptor.
#[test]
fn buffers_out_of_bounds_trap() {
    const END: i32 = 32 << 16;
    everywhere(|reset, setup| {
        let mut instance = setup.instance();
        let mut answer = |name, params| {
            let func = setup.prepared.func::<_, i32>(name).expect("it is exported");
            instance.call::<(i32, i32, i32), i32>(&func, params).ok()
        };
        for name in ["read", "pread", "write"] {
            let fd = i32::from(name == "write");
            for (at, len) in [
                (END, 1),
                (END - 1, 2),
                (END - 1, 100_000),
                (4096, -1),
                (-1, -1),
            ] {
                assert_eq!(
                    answer(name, (fd, at, len)),
                    None,
                    "{reset} {name} {at} {len}"
                );
            }
            assert_eq!(answer(name, (99, 4096, 5)), Some(BADF), "{reset} {name}");
        }
        assert_eq!(answer("random", (0, END - 1, 2)), None, "{reset}");
        // The vectors, and the address of the result, are out of bounds.
        for (at, count) in [(END - 8, 2), (END, 1), (-8, 1), (16, -1)] {
            assert_eq!(answer("read_at", (0, at, count)), None, "{reset} {at}");
        }
        assert_eq!(answer("read_to", (0, END - 3, 0)), None, "{reset}");
        let not_open_for_reading = answer("read_to", (1, 8, 0));
        assert_eq!(not_open_for_reading, Some(BADF), "{reset}");
        let no_vector = answer("read_at", (0, 16, 0));
        assert_eq!(no_vector, Some(SUCCESS), "{reset}");
    });
}

/// Small and large transfers must report equal errors for bad addresses.
#[test]
fn small_and_large_transfers_report_equal_errors() {
    // Address of the vectors, their number, the one that is not empty, and the address of the
    // result.
    let sound = (16_384, 1, 0, 40_000);
    let cases = [
        (sound, Some(SUCCESS)),
        ((16_385, 1, 0, 40_000), None),
        ((16_384, 1, 0, 40_001), None),
        ((16_384, 1, 0, i32::MAX - 255), None),
        ((16_384, 1024, 1023, 40_000), Some(SUCCESS)),
        ((16_384, 1 << 28, 0, 40_000), None),
        ((i32::MAX - 255, 1, 0, 40_000), None),
    ];
    everywhere(|reset, setup| {
        let func = setup
            .prepared
            .func::<_, i32>("read_from")
            .expect("it is exported");
        for ((vectors, count, which, received), expected) in cases {
            for len in [50, 40_000] {
                let mut instance = setup.instance();
                let mut memory = instance.memory_mut();
                // A write to vectors out of bounds fails, as expected.
                let at = (vectors + which * 8).cast_unsigned();
                let _ = memory.write_u32(at, 50_000);
                let _ = memory.write_u32(at + 4, len);
                let params: (i32, i32, i32, i32) = (0, vectors, count, received);
                let answer = instance.call(&func, params).ok();
                assert_eq!(
                    answer, expected,
                    "{reset} {vectors} {count} {which} {received} {len}"
                );
                if expected.is_some() {
                    let memory = instance.memory();
                    assert_eq!(memory.read_u32(received.cast_unsigned()).unwrap(), len);
                    let got = memory.slice(50_000, len).expect("it is inside");
                    assert_eq!(got, &setup.content[..len as usize], "{reset}");
                }
            }
        }
    });
}
