//! The programs: how they are compiled, and how one measurement is made.

use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Numbers of threads.
pub(crate) const THREADS: [u32; 4] = [1, 2, 4, 8];

/// A line of the graph and of the table: task, allocator and world.
pub(crate) type Row = (Task, Allocator, World);

/// What the threads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    Compute,
    Allocate,
    /// A thread is spawned 5 us after another has ended.
    SpawnSoon,
    /// A thread is spawned 200 us after another has ended.
    SpawnLate,
    /// A thread is woken.
    Wake,
}

impl Task {
    pub(crate) const ALL: [Self; 5] = [
        Self::Compute,
        Self::Allocate,
        Self::SpawnSoon,
        Self::SpawnLate,
        Self::Wake,
    ];

    /// The first and the last argument of the program.
    fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Compute => ["compute", "50"],
            Self::Allocate => ["allocate", "40000"],
            Self::SpawnSoon => ["spawn", "5"],
            Self::SpawnLate => ["spawn", "200"],
            Self::Wake => ["wake", "50"],
        }
    }

    /// Whether the program prints nanoseconds of one event, not seconds of the whole.
    pub(crate) fn is_latency(self) -> bool {
        !matches!(self, Self::Compute | Self::Allocate)
    }

    pub(crate) fn allocators(self) -> &'static [Allocator] {
        match self {
            Self::Allocate => &[Allocator::System, Allocator::Dlmalloc, Allocator::Mimalloc],
            _ => &[Allocator::System],
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Compute => "compute",
            Self::Allocate => "allocate",
            Self::SpawnSoon => {
                "`pthread_create`, 5 us after a thread has ended | its first instruction"
            }
            Self::SpawnLate => "`pthread_create`, 200 us after that | its first instruction",
            Self::Wake => "waking a thread | its next instruction",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allocator {
    /// That of the C library.
    System,
    /// Behind one lock.
    Dlmalloc,
    Mimalloc,
}

impl fmt::Display for Allocator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::System => "of the C library",
            Self::Dlmalloc => "dlmalloc, one lock",
            Self::Mimalloc => "mimalloc",
        })
    }
}

/// What runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum World {
    Native,
    Pirn,
    Wasmtime,
}

impl World {
    pub(crate) const ALL: [Self; 3] = [Self::Native, Self::Pirn, Self::Wasmtime];
}

impl fmt::Display for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Native => "native",
            Self::Pirn => "pirn",
            Self::Wasmtime => "Wasmtime 46",
        })
    }
}

/// The compiled programs.
pub(crate) struct Programs {
    aotrun: PathBuf,
    folder: TempDir,
}

impl Programs {
    /// Compiles all programs.
    ///
    /// # Errors
    ///
    /// If a compiler is missing, with its words.
    pub(crate) fn build(aotrun: PathBuf) -> Result<Self> {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = bench.join("../../examples/guests/threads/toolchain.sh");
        let toolchain = PathBuf::from(output(Command::new(script).arg("c"))?);
        let mimalloc = mimalloc(bench)?;
        let programs = Self {
            aotrun,
            folder: tempfile::tempdir()?,
        };
        let source = bench.join("programs/work.c");
        let compile = |compiler: &Path, allocator, world| {
            let mut command = Command::new(compiler);
            command
                .args(["-O2", "-DNDEBUG", "-w", "-pthread"])
                .arg(&source);
            match allocator {
                Allocator::Mimalloc => {
                    command
                        .arg("-DALLOCATOR=mi_")
                        .arg("-I")
                        .arg(mimalloc.join("include"));
                    command.arg(mimalloc.join("src/static.c"));
                    // Its port to WASI has no locks without the first definition. Two allocators in
                    // one guest corrupt it: dlmalloc assumes that pages added since its last growth
                    // belong to it. So mimalloc replaces `malloc`, too.
                    if world != World::Native {
                        command.args(["-DMI_USE_PTHREADS", "-DMI_MALLOC_OVERRIDE"]);
                        command.args(["-include", "pthread.h"]);
                    }
                }
                // With the settings of wasi-libc, whose `malloc` it is in guests.
                Allocator::Dlmalloc if world == World::Native => {
                    command.arg(toolchain.join("dlmalloc/malloc.c"));
                    command.args([
                        "-DALLOCATOR=dl",
                        "-D__wasilibc_unmodified_upstream=1",
                        "-DUSE_DL_PREFIX",
                        "-DUSE_LOCKS=1",
                    ]);
                    command.args(["-DHAVE_MMAP=0", "-DMORECORE_CANNOT_TRIM"]);
                    command.args(["-DMALLOC_ALIGNMENT=16", "-DLACKS_TIME_H", "-DNO_MALLINFO=1"]);
                }
                _ => {}
            }
            command.arg("-o").arg(programs.path(allocator, world));
            output(&mut command)
        };
        let guest = toolchain.join("bin/cc");
        for allocator in [Allocator::System, Allocator::Dlmalloc, Allocator::Mimalloc] {
            compile(Path::new("clang"), allocator, World::Native)?;
            compile(&guest, allocator, World::Pirn)?;
        }
        Ok(programs)
    }

    fn path(&self, allocator: Allocator, world: World) -> PathBuf {
        let kind = if world == World::Native {
            "native"
        } else {
            "wasm"
        };
        self.folder.path().join(format!("{allocator:?}.{kind}"))
    }

    /// Runs a program once. Returns the number that it prints.
    ///
    /// # Errors
    ///
    /// If the program fails.
    pub(crate) fn measure(&self, row: Row, threads: u32) -> Result<f64> {
        let (task, allocator, world) = row;
        let program = self.path(allocator, world);
        let mut command = match world {
            World::Native => Command::new(program),
            World::Pirn => {
                let mut command = Command::new(&self.aotrun);
                command
                    .args(["--memory-max", "1GiB"])
                    .arg(program)
                    .arg("--");
                command
            }
            World::Wasmtime => {
                let mut command = Command::new(env::current_exe()?);
                command.arg("wasmtime").arg(program);
                command
            }
        };
        let [what, amount] = task.arguments();
        let said = output(command.args([what, &threads.to_string(), amount]))?;
        said.parse()
            .with_context(|| format!("{row:?} printed {said:?}, not a number"))
    }
}

/// Folder of mimalloc's C source, which comes with a crate.
fn mimalloc(bench: &Path) -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--manifest-path",
    ]);
    let metadata = output(command.arg(bench.join("Cargo.toml")))?;
    let manifests = metadata.split("\"manifest_path\":\"").skip(1);
    let mut paths = manifests.filter_map(|rest| rest.split('"').next());
    let manifest = paths.find(|path| path.contains("/libmimalloc-sys-"));
    let manifest = Path::new(manifest.context("cargo names no libmimalloc-sys")?);
    let folder = manifest.parent().context("a manifest is in a folder")?;
    Ok(folder.join("c_src/mimalloc/v2"))
}

/// What a program prints, without the last line's end.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let ran = match command.output() {
        Ok(ran) => ran,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("no {name}; {}", remedy(&name))
        }
        Err(error) => bail!("cannot run {name}: {error}"),
    };
    let error = String::from_utf8_lossy(&ran.stderr);
    let error = error.trim_end();
    ensure!(
        ran.status.success(),
        "{name} failed: {}: {error}",
        ran.status
    );
    Ok(String::from_utf8(ran.stdout)?.trim_end().to_owned())
}

/// How to get a program that is missing.
fn remedy(name: &str) -> &'static str {
    match name {
        "clang" => "Debian: apt-get install clang",
        "cargo" => "https://rustup.rs",
        _ => "the first argument is the path of aotrun: cargo build --release --bin aotrun",
    }
}
