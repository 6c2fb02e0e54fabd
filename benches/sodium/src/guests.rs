//! The guests: the programs of a set. The same clang with the same flags compiles them for
//! wasm32-wasi and for this machine. pirn then compiles the modules.

use crate::set::{Kind, Library, Program, Set};
use anyhow::{Context, Result, bail, ensure};
use pirn_compiler::Options;
use pirn_format::cpu::{CpuFeatures, detect};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places the stack below the data, so that a stack overflow is detected.
const LINK_FLAGS: &[&str] = &["-Wl,--stack-first"];

/// Bytes of a module's stack, the same as for threads of a C library. [`PLACES`] has the additional
/// bytes for each position of the data.
///
/// A load waits if it has the same low twelve address bits as a store shortly before it (Intel's
/// Optimization Reference Manual, "4-KByte aliasing"). Therefore the time of a module depends on
/// the position of its data relative to its stack frames, which differs between engines. BLAKE2b
/// takes up to twice the time of its best position. The stack of a native program has a different
/// address in each run.
const STACK_BYTES: usize = 1 << 20;
pub const PLACES: [usize; 4] = [0, 2064, 1040, 3088];

/// The target of a compilation.
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

/// The built files of one program.
#[derive(Debug, Clone)]
pub struct Built {
    /// The native program.
    pub native: PathBuf,
    /// The WebAssembly module.
    pub wasm: PathBuf,
    /// The module compiled by pirn for its baseline.
    pub so: PathBuf,
    /// The module compiled by pirn for this CPU.
    pub so_native: PathBuf,
}

/// Additional compiler flags.
pub struct Flags {
    /// For both targets.
    pub both: Vec<String>,
    /// For WebAssembly.
    pub wasm: Vec<String>,
}

/// Builds the guests of a set.
pub struct Guests {
    set: Set,
    out: PathBuf,
    cc: String,
    flags: Vec<String>,
    wasm_flags: Vec<String>,
    /// The objects of each library, for each target.
    objects: [Vec<Vec<PathBuf>>; 2],
}

impl Guests {
    /// Compiles the set's libraries for both targets, unless they are compiled already.
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
            // Files that were built in another way are in another folder.
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

    /// Builds the files of one program, with its data at one of the [`PLACES`], unless they exist.
    pub fn program(&self, program: &Program, kind: Kind, place: usize) -> Result<Built> {
        let native = self.native(program, kind)?;
        let raw = self.link(Target::Wasm, program, kind, place)?;
        let wasm = raw.with_extension("wasm");
        if !wasm.exists() {
            let part = raw.with_extension("part");
            // `-g` keeps the names for people who read the code. They cost nothing at run time.
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

    /// Builds only the native program.
    pub fn native(&self, program: &Program, kind: Kind) -> Result<PathBuf> {
        self.link(Target::Native, program, kind, 0)
    }

    /// The set of the programs.
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// A folder for files that belong to these guests.
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

    /// Compiles one file without linking: a clang that links with optimisation would run wasm-opt
    /// itself.
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

    /// Compiles a library and returns its objects.
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

    /// Links one program, without wasm-opt.
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

/// Compiles a module with pirn, unless the file is newer than this program.
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

/// Runs a tool and returns its output. Its standard error becomes the error.
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

/// The first line of a tool's output.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// FNV-1a, for the name of a folder.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
