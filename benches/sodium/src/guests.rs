//! The guests: the programs of a set, compiled for wasm32-wasi and for this machine by the same clang with the
//! same flags, and then by pirn.

use crate::set::{Library, Program, Set};
use anyhow::{Context, Result, bail, ensure};
use pirn_compiler::Options;
use pirn_format::cpu::{CpuFeatures, detect};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A stack below the data, where running over it is seen.
const LINK_FLAGS: &[&str] = &["-Wl,--stack-first"];

/// Bytes of a module's stack, as long as threads of a C library have, and how many more there are at each place where
/// its data can lie. A load that has the low twelve bits of a store shortly before it waits for it, so a module's time
/// depends on where its data lies beside the frames of its code (Intel's Optimization Reference Manual, "4-KByte
/// aliasing"), which each engine has elsewhere: BLAKE2b takes up to twice the time of its best place. A native
/// program's stack lies elsewhere each time that it is started.
const STACK_BYTES: usize = 1 << 20;
pub const PLACES: [usize; 4] = [0, 2064, 1040, 3088];

/// What code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Native,
    Wasm,
}

impl Target {
    fn folder(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Wasm => "wasm",
        }
    }
}

/// What a program does.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Prints what it finds, which is to be right.
    Right,
    /// Computes so many times and prints picoseconds.
    Timed(u64),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Right => "right".to_owned(),
            Self::Timed(count) => format!("{count}"),
        }
    }
}

/// One program, built.
#[derive(Debug, Clone)]
pub struct Built {
    /// The program for this machine.
    pub native: PathBuf,
    /// The module.
    pub wasm: PathBuf,
    /// Compiled by pirn for its baseline.
    pub so: PathBuf,
    /// Compiled by pirn for this machine.
    pub so_native: PathBuf,
}

/// Flags beside those that there always are.
pub struct Flags {
    /// For both targets.
    pub both: Vec<String>,
    /// For WebAssembly.
    pub wasm: Vec<String>,
}

/// The workshop.
pub struct Guests {
    set: Set,
    out: PathBuf,
    cc: String,
    flags: Vec<String>,
    wasm_flags: Vec<String>,
    /// Of each library, for each target.
    objects: [Vec<Vec<PathBuf>>; 2],
}

impl Guests {
    /// Compiles the set's libraries for both targets, or finds them compiled.
    pub fn new(set: Set, out: &Path, flags: Flags, jobs: usize) -> Result<Self> {
        let Flags { both, wasm } = flags;
        let sdk = std::env::var("WASI_SDK_PATH");
        let cc = sdk.map_or("clang".to_owned(), |sdk| format!("{sdk}/bin/clang"));
        let version = said(Command::new(&cc).arg("--version"))
            .context("Debian: apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32")?;
        let opt = said(Command::new("wasm-opt").arg("--version"))
            .context("Debian: apt-get install binaryen")?;
        let (version, opt) = (first_line(&version), first_line(&opt));
        let flags = [set.flags[0]].into_iter();
        let flags = flags.chain(both.iter().chain(&wasm).map(String::as_str));
        let flags: Vec<_> = flags.collect();
        println!("guests: {version}, {opt}, {}", flags.join(" "));
        let (all, contents) = (&set.flags, &set.contents);
        let stamp = format!(
            "{version} {opt} {all:?} {LINK_FLAGS:?} {STACK_BYTES} {PLACES:?} {both:?} {wasm:?} {contents:?}"
        );
        let mut guests = Self {
            set,
            // Whatever is built otherwise lies elsewhere.
            out: out.join(format!("{:016x}", hash(&stamp))),
            cc,
            flags: both,
            wasm_flags: wasm,
            objects: [vec![], vec![]],
        };
        for target in [Target::Native, Target::Wasm] {
            let libraries = guests.set.libraries.iter();
            let built = libraries.map(|library| guests.library(target, library, jobs));
            guests.objects[target as usize] = built.collect::<Result<_>>()?;
        }
        Ok(guests)
    }

    /// The files of one program with its data at one of the [`PLACES`], made if they are not there.
    pub fn program(&self, program: &Program, kind: Kind, place: usize) -> Result<Built> {
        let native = self.native(program, kind)?;
        let raw = self.link(Target::Wasm, program, kind, place)?;
        let wasm = raw.with_extension("wasm");
        if !wasm.exists() {
            let part = raw.with_extension("part");
            // With names, for who reads the code; they cost nothing at run time.
            let mut opt = Command::new("wasm-opt");
            opt.args(["-O4", "-g"]).arg(&raw).arg("-o").arg(&part);
            said(&mut opt)?;
            fs::rename(part, &wasm)?;
        }
        let (so, so_native) = (raw.with_extension("so"), raw.with_extension("native.so"));
        compile(&wasm, &so, Options::default().cpu)?;
        compile(&wasm, &so_native, detect())?;
        Ok(Built {
            native,
            wasm,
            so,
            so_native,
        })
    }

    /// The program for this machine alone.
    pub fn native(&self, program: &Program, kind: Kind) -> Result<PathBuf> {
        self.link(Target::Native, program, kind, 0)
    }

    /// What they are the programs of.
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// Where something that belongs to the guests can be kept.
    pub fn out(&self) -> &Path {
        &self.out
    }

    fn compiler(&self, target: Target) -> Command {
        let mut cc = Command::new(&self.cc);
        if let Target::Wasm = target {
            cc.arg("--target=wasm32-wasi").args(&self.wasm_flags);
            if let Ok(sdk) = std::env::var("WASI_SDK_PATH") {
                cc.arg(format!("--sysroot={sdk}/share/wasi-sysroot"));
            }
        }
        cc
    }

    /// Compiles one file; linked elsewhere, since a clang that optimises while it links runs wasm-opt too.
    fn object(&self, target: Target, file: &Path, to: &Path, flags: &[String]) -> Result<()> {
        if to.exists() {
            return Ok(());
        }
        let part = to.with_extension("part");
        let mut cc = self.compiler(target);
        cc.args(&self.set.flags).args(&self.flags).args(flags);
        for folder in &self.set.includes {
            cc.arg("-I").arg(folder);
        }
        said(cc.arg("-c").arg(file).arg("-o").arg(&part))?;
        Ok(fs::rename(part, to)?)
    }

    /// A library's objects.
    fn library(&self, target: Target, library: &Library, jobs: usize) -> Result<Vec<PathBuf>> {
        let folder = self.out.join(target.folder()).join(library.name);
        fs::create_dir_all(&folder)?;
        let files = &library.files;
        let object = |file: &Path| {
            let name = file.strip_prefix(&library.root).unwrap_or(file).display();
            folder.join(name.to_string().replace('/', "-") + ".o")
        };
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.object(target, file, &object(file), &library.flags)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
            let mut ends = workers.into_iter().map(|worker| worker.join());
            ends.try_for_each(|end| end.unwrap_or_else(|_| bail!("a worker panicked")))
        })?;
        Ok(files.iter().map(|file| object(file)).collect())
    }

    /// One program, before wasm-opt.
    fn link(&self, target: Target, program: &Program, kind: Kind, place: usize) -> Result<PathBuf> {
        let folder = self.out.join(target.folder());
        let name = format!("{}.{}", program.name, kind.name());
        let (object, to) = (
            folder.join(name.clone() + ".o"),
            folder.join(format!("{name}.{place}.linked")),
        );
        if to.exists() {
            return Ok(to);
        }
        self.object(target, &program.main, &object, &self.set.flags_for(kind))?;
        let part = to.with_extension("part");
        let mut cc = self.compiler(target);
        if let Target::Wasm = target {
            let stack_bytes = STACK_BYTES + PLACES[place];
            cc.args(LINK_FLAGS)
                .arg(format!("-Wl,-z,stack-size={stack_bytes}"));
        }
        cc.arg(&object)
            .args(&self.objects[target as usize][program.library]);
        said(cc.args(["-lm", "-o"]).arg(&part))?;
        fs::rename(part, &to)?;
        Ok(to)
    }
}

/// Compiles a module by pirn, unless this very program has.
fn compile(wasm: &Path, to: &Path, cpu: CpuFeatures) -> Result<()> {
    let made = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    let compiler = made(&std::env::current_exe()?)?;
    if made(to).is_ok_and(|made| made > compiler) {
        return Ok(());
    }
    let mut options = Options::default();
    options.cpu = cpu;
    let so = pirn_compiler::compile(&fs::read(wasm)?, &options)
        .with_context(|| wasm.display().to_string())?;
    let part = to.with_extension("part");
    fs::write(&part, so)?;
    Ok(fs::rename(part, to)?)
}

/// Runs a tool, and gives what it has printed; what it says on stderr is the error.
pub fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let line = error.lines().find(|line| line.contains("error"));
    let line = line.unwrap_or(first_line(&error));
    ensure!(output.status.success(), "{name}: {}: {line}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first line of what a tool says.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// FNV-1a, to name a folder by.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
