//! Preview 0, which old guests import as `wasi_unstable`: the functions that differ from preview 1,
//! and one that does not.

use crate::common::setup::{linker, module};
use pirn_runtime::{Instance, Linker, Prepared, Region};
use pirn_wasi::{Dir, MODULE, WasiCtx, WasiCtxBuilder, ambient_authority};

const GUEST: &str = r#"(module
  (import "wasi_unstable" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_unstable" "fd_seek" (func $seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_unstable" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
  (import "wasi_unstable" "path_filestat_get"
    (func $stat_at (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_unstable" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_unstable" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "file")
  (func (export "open") (result i32)
    (call $open (i32.const 3) (i32.const 1) (i32.const 16) (i32.const 4) (i32.const 0)
      (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
  (func (export "seek") (param i32 i64 i32) (result i32)
    (call $seek (local.get 0) (local.get 1) (local.get 2) (i32.const 64)))
  (func (export "stat") (param i32) (result i32) (call $stat (local.get 0) (i32.const 64)))
  (func (export "stat_at") (result i32)
    (call $stat_at (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 64)))
  (func (export "poll") (param i32) (result i32)
    (call $poll (i32.const 1024) (i32.const 4096) (local.get 0) (i32.const 64)))
  (func (export "random") (result i32) (call $random (i32.const 64) (i32.const 8))))"#;

const SUCCESS: i32 = 0;
const INVAL: i32 = 28;
/// Address of results.
const OUT: u32 = 64;
/// Addresses of the subscriptions, 56 bytes each, and of the events of a poll.
const SUBSCRIPTIONS: u32 = 1024;
const EVENTS: u32 = 4096;

struct Guest {
    _folder: tempfile::TempDir,
    prepared: Prepared<WasiCtx>,
    instance: Instance<WasiCtx>,
}

impl Guest {
    fn new(change: impl FnOnce(&mut Linker<WasiCtx>)) -> Self {
        let mut linker = linker();
        change(&mut linker);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module(GUEST), &linker).expect("it links");
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("file"), "0123456789").expect("room for a file");
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("it opens");
        let wasi = WasiCtxBuilder::new().preopened_dir(dir, "/");
        let wasi = wasi.expect("the name is UTF-8").build();
        Self {
            _folder: folder,
            instance: prepared.try_instantiate(wasi).expect("a slot"),
            prepared,
        }
    }

    fn call<P: pirn_runtime::Params>(&mut self, name: &str, params: P) -> i32 {
        let func = self.prepared.func::<P, i32>(name).expect("it is exported");
        self.instance.call(&func, params).expect("it returns")
    }

    fn u64(&self, at: u32) -> u64 {
        self.instance.memory().read_u64(at).expect("it is inside")
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let mut memory = self.instance.memory_mut();
        memory.write(at, bytes).expect("it is inside");
    }
}

#[test]
fn a_seek_has_the_numbers_of_preview_0() {
    let mut guest = Guest::new(|_| {});
    assert_eq!(guest.call("open", ()), SUCCESS);
    // From the start (2), the current position (0) and the end (1).
    for (offset, whence, position) in [(2_i64, 2, 2), (3, 0, 5), (-4, 1, 6)] {
        assert_eq!(guest.call("seek", (4, offset, whence)), SUCCESS);
        assert_eq!(guest.u64(OUT), position);
    }
    assert_eq!(guest.call("seek", (4, 0_i64, 3)), INVAL);
}

#[test]
fn a_filestat_has_56_bytes() {
    let mut guest = Guest::new(|_| {});
    assert_eq!(guest.call("open", ()), SUCCESS);
    for name in ["stat", "stat_at"] {
        guest.put(OUT, &[7; 64]);
        let errno = match name {
            "stat" => guest.call(name, 4),
            _ => guest.call(name, ()),
        };
        assert_eq!(errno, SUCCESS);
        // A regular file with one name, and its size.
        assert_eq!(guest.u64(OUT + 16), 4 | 1 << 32, "{name}");
        assert_eq!(guest.u64(OUT + 24), 10, "{name}");
        let times = [32, 40, 48].map(|at| guest.u64(OUT + at));
        assert!(times.iter().all(|time| *time > 1 << 60), "{times:?}");
        assert_eq!(guest.u64(OUT + 56), 0x0707_0707_0707_0707, "{name}");
    }
}

#[test]
fn a_clock_has_user_data_of_its_own() {
    let mut guest = Guest::new(|_| {});
    // A relative clock: its user data, tag and identifier, the number of the monotonic clock, and a
    // timeout of a nanosecond.
    let mut subscription = [0; 56];
    subscription[0] = 42;
    subscription[16] = 77;
    subscription[24] = 1;
    subscription[32] = 1;
    guest.put(SUBSCRIPTIONS, &subscription);
    assert_eq!(guest.call("poll", 1), SUCCESS);
    assert_eq!(guest.u64(OUT) as u32, 1);
    assert_eq!([0, 8].map(|at| guest.u64(EVENTS + at)), [42, 0]);
    // A descriptor: standard input, which is empty, can be read.
    let mut subscription = [0; 56];
    (subscription[0], subscription[8]) = (43, 1);
    guest.put(SUBSCRIPTIONS, &subscription);
    assert_eq!(guest.call("poll", 1), SUCCESS);
    // No error, and the event of a descriptor to read.
    assert_eq!([0, 8].map(|at| guest.u64(EVENTS + at)), [43, 1 << 16]);
}

#[test]
fn a_poll_has_the_bounds_of_preview_1() {
    let mut guest = Guest::new(|_| {});
    for count in [0, 1025, -1] {
        assert_eq!(guest.call("poll", count), INVAL, "{count}");
    }
}

#[test]
fn an_embedder_replaces_one_function() {
    let mut guest = Guest::new(|linker| {
        assert!(linker.remove("wasi_unstable", "random_get"));
        assert!(!linker.remove("wasi_unstable", "random_get"));
        assert!(!linker.remove("nothing", "random_get"));
        let four = |_: u32, _: u32| 4_i32;
        linker
            .func("wasi_unstable", "random_get", four)
            .expect("the name is free");
        // The other version stays.
        let twice = linker.func(MODULE, "random_get", four).map(drop);
        assert!(twice.is_err());
    });
    assert_eq!(guest.call("random", ()), 4);
}
