//! Files: a guest reads and writes 4 KiB at a time, a thousand times, in a directory on disk, on a
//! RAM disk, and in memory. The time is that of all calls. The guest runs on the main thread, on a
//! second one, and on both at once with a file each. The last group starts and ends instances with
//! and without a base of 50 MB.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pirn_benches::{FILE_IMPORTS, text};
use pirn_runtime::{
    ExternType, Instance, Linker, Module, Prepared, Region, SharedMemory, TypedFunc,
};
use pirn_wasi::memory_files::{BaseLimits, Limits};
use pirn_wasi::{Dir, MemoryBase, MemoryDir, WasiCtx, WasiCtxBuilder, ambient_authority};
use std::path::Path;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tempfile::TempDir;

/// Calls of one run.
const CALLS: u32 = 1000;
/// Bytes of one call, as in the guest.
const BYTES: u64 = 4096;
const READS: u32 = 0;
const WRITES: u32 = 1;
/// Files on Linux's RAM disk.
const RAM_DISK: &str = "/dev/shm";
/// Bytes of the large base.
const BASE_BYTES: usize = 50 << 20;

/// The guest. `open` opens the file `fileN`; `run` reads or writes at successive offsets of 1 MiB.
fn guest(memory: &str) -> Module {
    text(&format!(
        r#"(module
          {FILE_IMPORTS}
          (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
          {memory}
          (func (export "close") (param $fd i32)
            (if (call $close (local.get $fd)) (then (unreachable))))
          (func (export "open") (param $number i32) (result i32) (local $place i32)
            (local.set $place (i32.mul (local.get $number) (i32.const 1024)))
            (i32.store (local.get $place) (i32.const 0x656c6966))
            (i32.store8 offset=4 (local.get $place)
              (i32.add (i32.const 48) (local.get $number)))
            (i32.store offset=16 (local.get $place)
              (i32.add (i32.const 65536) (i32.mul (local.get $number) (i32.const 8192))))
            (i32.store offset=20 (local.get $place) (i32.const {BYTES}))
            (if (call $open (i32.const 3) (i32.const 0) (local.get $place) (i32.const 5)
                  (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0)
                  (i32.add (local.get $place) (i32.const 8)))
              (then (unreachable)))
            (i32.load offset=8 (local.get $place)))
          (func (export "run")
            (param $number i32) (param $fd i32) (param $kind i32) (param $left i32)
            (local $place i32) (local $offset i64) (local $errno i32)
            (local.set $place (i32.mul (local.get $number) (i32.const 1024)))
            (loop $next
              (if (local.get $kind)
                (then (local.set $errno (call $write (local.get $fd)
                  (i32.add (local.get $place) (i32.const 16)) (i32.const 1) (local.get $offset)
                  (i32.add (local.get $place) (i32.const 12)))))
                (else (local.set $errno (call $read (local.get $fd)
                  (i32.add (local.get $place) (i32.const 16)) (i32.const 1) (local.get $offset)
                  (i32.add (local.get $place) (i32.const 12))))))
              (if (i32.or (local.get $errno)
                    (i32.ne (i32.load offset=12 (local.get $place)) (i32.const {BYTES})))
                (then (unreachable)))
              (local.set $offset (i64.and (i64.add (local.get $offset) (i64.const {BYTES}))
                (i64.const 0xfffff)))
              (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#
    ))
}

/// The prepared guest, with a memory of its own or a shared one.
struct Setup {
    prepared: Prepared<WasiCtx>,
    open: TypedFunc<u32, u32>,
    close: TypedFunc<u32, ()>,
    run: TypedFunc<(u32, u32, u32, u32), ()>,
}

impl Setup {
    fn new(is_shared: bool) -> Self {
        let memory = match is_shared {
            true => r#"(import "env" "memory" (memory 4 4 shared)) (export "memory" (memory 0))"#,
            false => r#"(memory (export "memory") 4)"#,
        };
        let module = guest(memory);
        let mut linker = Linker::new();
        pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
        let imported = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(ty),
            _ => None,
        });
        if let Some(ty) = imported {
            let memory = SharedMemory::new(&ty).expect("memory");
            linker
                .memory("env", "memory", &memory)
                .expect("the name is free");
        }
        let region = Region::builder().slots(2).build().expect("a region");
        let prepared = region.prepare(&module, &linker).expect("it links");
        Self {
            open: prepared.func("open").expect("it is exported"),
            close: prepared.func("close").expect("it is exported"),
            run: prepared.func("run").expect("it is exported"),
            prepared,
        }
    }

    /// An instance that has written its file of 1 MiB.
    fn thread(&self, wasi: &WasiCtx, number: u32) -> Thread<'_> {
        let mut instance = self.prepared.try_instantiate(wasi.clone()).expect("a slot");
        let fd = instance.call(&self.open, number).expect("it opens");
        let mut thread = Thread {
            setup: self,
            instance,
            number,
            fd,
        };
        thread.run(WRITES);
        thread
    }
}

/// A thread of the guest.
struct Thread<'a> {
    setup: &'a Setup,
    instance: Instance<WasiCtx>,
    number: u32,
    fd: u32,
}

impl Thread<'_> {
    fn run(&mut self, kind: u32) {
        let arguments = (self.number, self.fd, kind, CALLS);
        self.instance
            .call(&self.setup.run, arguments)
            .expect("it returns");
    }

    fn time(&mut self, kind: u32, runs: u64) -> Duration {
        let start = Instant::now();
        (0..runs).for_each(|_| self.run(kind));
        start.elapsed()
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let closed = self.instance.call(&self.setup.close, self.fd);
        closed.expect("it closes");
    }
}

/// A directory of the host in `folder`, or one in memory, as a context.
fn context(folder: Option<&TempDir>) -> WasiCtx {
    let wasi = WasiCtxBuilder::new();
    let wasi = match folder {
        Some(folder) => {
            let dir = Dir::open_ambient_dir(folder.path(), ambient_authority());
            wasi.preopened_dir(dir.expect("it opens"), "/")
        }
        None => wasi.memory_dir(MemoryDir::new(&MemoryBase::empty(), Limits::default()), "/"),
    };
    wasi.expect("a descriptor").build()
}

fn transfers(c: &mut Criterion) {
    let mut group = c.benchmark_group("files");
    group.throughput(Throughput::Bytes(u64::from(CALLS) * BYTES));
    let disk = tempfile::tempdir_in(".").expect("a temporary directory");
    let ram = Path::new(RAM_DISK)
        .is_dir()
        .then(|| tempfile::tempdir_in(RAM_DISK));
    let ram = ram.map(|made| made.expect("a temporary directory"));
    if ram.is_none() {
        eprintln!("NOT RUN: a RAM disk; mount tmpfs at {RAM_DISK}");
    }
    let places = [
        ("disk", Some(&disk)),
        ("RAM disk", ram.as_ref()),
        ("memory", None),
    ];
    let places = places
        .into_iter()
        .filter(|(name, dir)| *name == "memory" || dir.is_some());
    for (place, folder) in places {
        for (memory, is_shared) in [("own", false), ("shared", true)] {
            let (setup, wasi) = (Setup::new(is_shared), context(folder));
            for (name, kind) in [("read", READS), ("write", WRITES)] {
                let id = |threads: &str| {
                    BenchmarkId::new(
                        format!("{name} {place}"),
                        format!("{memory} memory, {threads}"),
                    )
                };
                group.bench_function(id("main thread"), |b| {
                    let mut thread = setup.thread(&wasi, 1);
                    b.iter_custom(|runs| thread.time(kind, runs));
                });
                group.bench_function(id("second thread"), |b| {
                    let _main = setup.thread(&wasi, 1);
                    let (ask, asked) = mpsc::channel();
                    let (tell, told) = mpsc::channel();
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            let (asked, tell) = (asked, tell);
                            let mut thread = setup.thread(&wasi, 2);
                            asked
                                .iter()
                                .try_for_each(|runs| tell.send(thread.time(kind, runs)))
                        });
                        b.iter_custom(|runs| {
                            ask.send(runs).expect("the thread lives");
                            told.recv().expect("the thread lives")
                        });
                        drop(ask);
                    });
                });
                group.bench_function(id("both threads"), |b| {
                    b.iter_custom(|runs| both(&setup, &wasi, kind, runs));
                });
            }
        }
    }
    group.finish();
}

/// The time in which both threads have ended their runs.
fn both(setup: &Setup, wasi: &WasiCtx, kind: u32, runs: u64) -> Duration {
    let (ready, done) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for number in [1, 2] {
            let (ready, done) = (&ready, &done);
            scope.spawn(move || {
                let mut thread = setup.thread(wasi, number);
                ready.wait();
                (0..runs).for_each(|_| thread.run(kind));
                done.wait();
            });
        }
        ready.wait();
        let start = Instant::now();
        done.wait();
        start.elapsed()
    })
}

/// A base of 50 MB in 1,000 files.
fn large_base() -> MemoryBase {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    let bytes = vec![7; BASE_BYTES / 1000];
    for n in 0..1000 {
        let (path, len) = (format!("d{}/file{n}", n % 10), bytes.len() as u64);
        builder
            .file(&path, len, &bytes[..], UNIX_EPOCH)
            .expect("room");
    }
    builder.build()
}

fn starts(c: &mut Criterion) {
    let mut group = c.benchmark_group("files start");
    let (setup, large) = (Setup::new(false), large_base());
    let mut bench = |name: &str, base: Option<&MemoryBase>| {
        group.bench_function(name, |b| {
            b.iter(|| {
                let wasi = WasiCtxBuilder::new();
                let wasi = match base {
                    Some(base) => {
                        let dir = MemoryDir::new(base, Limits::default());
                        wasi.memory_dir(dir, "/").expect("a descriptor")
                    }
                    None => wasi,
                };
                setup
                    .prepared
                    .try_instantiate(wasi.build())
                    .expect("a slot")
            });
        });
    };
    bench("no directory", None);
    bench("an empty base", Some(&MemoryBase::empty()));
    bench("a base of 50 MB", Some(&large));
    group.finish();
}

criterion_group!(benches, transfers, starts);
criterion_main!(benches);
