//! Counts the cache lines that two threads of a guest share, in the rows of
//! docs/performance/threads.md.
//!
//! ```text
//! cargo run --release -p pirn-benches --bin lines | c++filt       # needs qemu-user and gcc
//! ```
//!
//! The program runs itself in QEMU's user mode, with the plugin `lines/plugin.c`. Two host threads
//! run one guest with a shared memory. Each makes [`CALLS`] calls of a kind, after as many that are
//! not recorded. The plugin records the line of each access. A line is shared if one thread wrote
//! it, and the other read or wrote it.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use pirn_benches::{FILE_IMPORTS, text};
use pirn_runtime::{ExternType, Linker, Module, Prepared, Region, SharedMemory, TypedFunc};
use pirn_wasi::memory_files::{BaseLimits, Limits};
use pirn_wasi::{Dir, MemoryBase, MemoryDir, WasiCtx, WasiCtxBuilder, ambient_authority};
use rustix::process::{Pid, getpgid};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::{env, fmt, fs, thread};
use tempfile::TempDir;

/// Calls of one kind by one thread that are recorded.
const CALLS: u32 = 1000;
/// The argument with which the program runs itself.
const INNER: &str = "--inner";
/// Marks the arguments of `getpgid` that the plugin interprets.
const MARK: u32 = 0x7000_0000;
/// Bytes of the base's file.
const BASE_BYTES: usize = 1 << 20;

/// A call that reads or writes 4 KiB of a file.
macro_rules! transfer {
    ($call:literal, $fd:literal) => {
        concat!(
            "(call $check (call $",
            $call,
            " (local.get $",
            $fd,
            ") (local.get $vector) (i32.const 1) (i64.const 0)
               (i32.add (local.get $own) (i32.const 64))))"
        )
    };
}

/// The loops whose accesses are recorded: a name, and the body in WebAssembly's text format. `$own`
/// is an address in the 64 KiB of the thread.
const KINDS: &[(&str, &str)] = &[
    (
        "control: both add to one word",
        "(drop (i32.atomic.rmw.add (i32.const 64) (i32.const 1)))",
    ),
    (
        "computes, loads and stores",
        "(i64.store (local.get $own) (i64.mul (i64.load (local.get $own)) (i64.const 3)))",
    ),
    (
        "`memory.size`, atomic operators",
        "(drop (i32.atomic.rmw.add (local.get $own) (memory.size)))",
    ),
    (
        "a host function of the embedder",
        "(drop (call $nothing (i32.const 1)))",
    ),
    (
        "`clock_time_get`",
        "(call $check (call $clock (i32.const 1) (i64.const 1) (local.get $own)))",
    ),
    (
        "`memory.atomic.notify`, nobody waits",
        "(drop (memory.atomic.notify (local.get $own) (i32.const 1)))",
    ),
    (
        "`fd_pread`, files in memory of their own",
        transfer!("read", "fd"),
    ),
    (
        "`fd_pwrite`, files in memory of their own",
        transfer!("write", "fd"),
    ),
    (
        "`fd_pread`, one unchanged file of the base, a descriptor each",
        transfer!("read", "base"),
    ),
    (
        "`fd_pwrite`, one file in memory, a descriptor each",
        transfer!("write", "same"),
    ),
    (
        "`fd_pread`, files of the host of their own",
        transfer!("read", "host"),
    ),
    (
        "`random_get`",
        "(call $check (call $random (local.get $own) (i32.const 8)))",
    ),
    ("`memory.grow`", "(drop (memory.grow (i32.const 1)))"),
    (
        "`memory.atomic.wait32` that returns at once",
        "(drop (memory.atomic.wait32 (local.get $own) (i32.const -1) (i64.const 0)))",
    ),
    (
        "`memory.atomic.notify`, another thread waits",
        "(drop (memory.atomic.notify (local.get $own) (i32.const 1)))",
    ),
];

/// Files that each thread opens: the number of the directory, and the name.
const FILES: [(u32, &str); 4] = [(3, "own"), (3, "base"), (3, "same"), (4, "own")];

fn main() -> Result<()> {
    match env::args().nth(1).as_deref() {
        None => outer(),
        Some(INNER) => inner(),
        Some(other) => bail!("unknown argument \"{other}\"; the program takes none"),
    }
}

/// Runs the program in QEMU, and prints a row for each kind.
fn outer() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (plugin, report) = (folder.path().join("lines.so"), folder.path().join("report"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("lines/plugin.c");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin);
    run(cc.arg(source), "gcc")?;
    let mut qemu = Command::new("qemu-x86_64");
    let plugin = format!("file={},out={}", plugin.display(), report.display());
    qemu.args(["-cpu", "max", "-plugin", &plugin]);
    run(qemu.arg(env::current_exe()?).arg(INNER), "qemu-user")?;
    let rows = rows(&fs::read_to_string(report).context("the plugin made no report")?)?;
    println!("| both threads run | shared lines | accesses to them a call | written by |");
    println!("|---|---|---|---|");
    for ((name, _), shared) in KINDS.iter().zip(rows) {
        println!("| {name} | {shared} |");
    }
    Ok(())
}

fn run(command: &mut Command, package: &str) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status();
    let status =
        status.with_context(|| format!("cannot run {name}; Debian: apt-get install {package}"))?;
    ensure!(status.success(), "{name} failed: {status}");
    Ok(())
}

/// What both threads share in one kind of call.
#[derive(Default)]
struct Shared {
    lines: u32,
    accesses: u32,
    writers: BTreeSet<String>,
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = f64::from(2 * CALLS);
        let writers: Vec<&str> = self.writers.iter().map(String::as_str).collect();
        let (lines, accesses) = (self.lines, f64::from(self.accesses) / calls);
        write!(f, "{lines} | {accesses:.2} | {}", writers.join(", "))
    }
}

/// Adds up the report of the plugin.
fn rows(report: &str) -> Result<Vec<Shared>> {
    let mut rows: BTreeMap<usize, Shared> = BTreeMap::new();
    let mut last = "";
    for line in report.lines() {
        let fields: Vec<&str> = line.splitn(7, ' ').collect();
        if let [phase, _, accesses0, _, accesses1, _, writer] = fields[..] {
            let row = rows.entry(phase.parse()?).or_default();
            row.lines += 1;
            row.accesses += accesses0.parse::<u32>()? + accesses1.parse::<u32>()?;
            row.writers.insert(writer.to_owned());
        }
        last = line;
    }
    ensure!(
        last == "end",
        "the report ends with \"{last}\", not \"end\""
    );
    let rows: Vec<Shared> = (1..=KINDS.len())
        .map(|n| rows.remove(&n).unwrap_or_default())
        .collect();
    let control = rows.first().map_or(0, |row| row.accesses);
    ensure!(
        control >= 2 * CALLS,
        "{control} accesses to one word, not {}; the plugin does not see them",
        2 * CALLS
    );
    Ok(rows)
}

/// The guest: a function for each kind, and one to open files.
fn guest() -> Module {
    let loops: String = KINDS
        .iter()
        .enumerate()
        .map(|(n, (_, body))| {
            format!(
                r#"(func (export "kind{n}") (param $number i32) (param $left i32)
            (local $own i32) (local $vector i32)
            (local $fd i32) (local $base i32) (local $same i32) (local $host i32)
            (local.set $own (i32.mul (local.get $number) (i32.const 65536)))
            (local.set $vector (i32.add (local.get $own) (i32.const 128)))
            (i32.store (local.get $vector) (i32.add (local.get $own) (i32.const 4096)))
            (i32.store offset=4 (local.get $vector) (i32.const 4096))
            (local.set $fd (i32.load offset=256 (local.get $own)))
            (local.set $base (i32.load offset=260 (local.get $own)))
            (local.set $same (i32.load offset=264 (local.get $own)))
            (local.set $host (i32.load offset=268 (local.get $own)))
            (loop $next {body}
              (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))"#
            )
        })
        .collect();
    text(&format!(
        r#"(module
          {FILE_IMPORTS}
          (import "wasi_snapshot_preview1" "clock_time_get"
            (func $clock (param i32 i64 i32) (result i32)))
          (import "wasi_snapshot_preview1" "random_get"
            (func $random (param i32 i32) (result i32)))
          (import "host" "nothing" (func $nothing (param i32) (result i32)))
          (import "env" "memory" (memory 4 32768 shared)) (export "memory" (memory 0))
          (func $check (param $errno i32) (if (local.get $errno) (then (unreachable))))
          (func (export "open") (param $number i32) (param $index i32)
              (param $folder i32) (param $name i64) (param $len i32) (local $own i32)
            (local.set $own (i32.mul (local.get $number) (i32.const 65536)))
            (i64.store (local.get $own) (local.get $name))
            (call $check (call $open (local.get $folder) (i32.const 0) (local.get $own)
              (local.get $len) (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0)
              (i32.add (local.get $own)
                (i32.add (i32.const 256) (i32.mul (local.get $index) (i32.const 4)))))))
          (func (export "wait")
            (drop (memory.atomic.wait32 (i32.const 128) (i32.const 0) (i64.const -1))))
          (func (export "wake") (result i32)
            (memory.atomic.notify (i32.const 128) (i32.const 1)))
          {loops})"#
    ))
}

/// The prepared guest.
struct Setup {
    prepared: Prepared<WasiCtx>,
    open: TypedFunc<(u32, u32, u32, u64, u32), ()>,
    wait: TypedFunc<(), ()>,
    wake: TypedFunc<(), u32>,
    kinds: Vec<TypedFunc<(u32, u32), ()>>,
}

impl Setup {
    fn new() -> Result<Self> {
        let module = guest();
        let mut linker = Linker::new();
        pirn_wasi::link(&mut linker, |wasi| wasi)?;
        linker.func("host", "nothing", |n: u32| n)?;
        let memory = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(ty),
            _ => None,
        });
        let memory = SharedMemory::new(&memory.context("the guest imports a memory")?)?;
        linker.memory("env", "memory", &memory)?;
        let prepared = Region::builder()
            .slots(4)
            .build()?
            .prepare(&module, &linker)?;
        let kinds = (0..KINDS.len()).map(|n| prepared.func(&format!("kind{n}")));
        Ok(Self {
            open: prepared.func("open")?,
            wait: prepared.func("wait")?,
            wake: prepared.func("wake")?,
            kinds: kinds.collect::<Result<_, _>>()?,
            prepared,
        })
    }
}

/// A context with a directory in memory, whose base has the file `base`, and one of the host.
fn context(folder: &TempDir) -> Result<WasiCtx> {
    let mut base = MemoryBase::builder(&BaseLimits::default());
    let bytes = vec![7; BASE_BYTES];
    base.file("base", BASE_BYTES as u64, &bytes[..], std::time::UNIX_EPOCH)?;
    let memory = MemoryDir::new(&base.build(), Limits::default());
    let host = Dir::open_ambient_dir(folder.path(), ambient_authority())?;
    let wasi = WasiCtxBuilder::new().memory_dir(memory, "/memory")?;
    Ok(wasi.preopened_dir(host, "/host")?.build())
}

/// Tells the plugin that this thread, 1 or 2, begins to run calls of a kind; 0 ends them.
fn mark(kind: usize, thread: u32) {
    let number = MARK | (kind as u32 + 1) << 8 | thread;
    let pid = Pid::from_raw(number as i32);
    // There is no such process. The plugin sees the system call.
    let _no_process = getpgid(pid);
}

/// Runs two threads of the guest, and a third one that waits during the last kind.
fn inner() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (setup, wasi) = (Setup::new()?, context(&folder)?);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let threads = [1, 2].map(|number| {
            let (setup, wasi, barrier) = (&setup, &wasi, &barrier);
            scope.spawn(move || calls(setup, wasi, number, barrier, scope))
        });
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => bail!("a thread panicked"),
            })
    })
}

fn calls<'scope>(
    setup: &'scope Setup,
    wasi: &'scope WasiCtx,
    number: u32,
    barrier: &Barrier,
    scope: &'scope thread::Scope<'scope, '_>,
) -> Result<()> {
    let mut instance = setup.prepared.try_instantiate(wasi.clone())?;
    for (index, (folder, name)) in (0..).zip(FILES) {
        // Files named `own` differ by thread.
        let name = match name {
            "own" => format!("own{number}"),
            name => name.to_owned(),
        };
        let mut bytes = [0; 8];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let name_len = name.len() as u32;
        let name = u64::from_le_bytes(bytes);
        instance.call(&setup.open, (number, index, folder, name, name_len))?;
    }
    for (kind, func) in setup.kinds.iter().enumerate() {
        let is_last = kind + 1 == setup.kinds.len();
        if is_last && number == 1 {
            scope.spawn(|| {
                let mut instance = setup
                    .prepared
                    .try_instantiate(wasi.clone())
                    .expect("a slot");
                instance.call(&setup.wait, ()).expect("it is woken");
            });
            thread::sleep(std::time::Duration::from_millis(500));
        }
        instance.call(func, (number, CALLS))?;
        barrier.wait();
        mark(kind, number);
        instance.call(func, (number, CALLS))?;
        mark(kind, 0);
        barrier.wait();
        if is_last && number == 1 {
            let woken = instance.call(&setup.wake, ())?;
            ensure!(woken == 1, "{woken} threads waited, not 1");
        }
    }
    Ok(())
}
