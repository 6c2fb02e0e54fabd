//! The guests: the programs of a set. The same clang with the same flags compiles them for
//! wasm32-wasi and for this machine, and `go build` those in Go. pirn then compiles the modules.

use crate::set::{Counts, Kind, Library, Program, Set};
use crate::tool::{first_line, said};
use crate::{source, wasm2c};
use anyhow::{Context, Result, bail};
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
    /// The module as a native program, by wasm2c and clang. If there is none, why.
    pub wasm2c: Result<PathBuf, String>,
    /// The argument of a program that is timed and learns its passes by [`Counts::Argument`].
    pub passes: Option<u64>,
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
    /// Whether modules are also translated to C.
    wasm2c: bool,
    /// The objects of each library, for each target.
    objects: [Vec<Vec<PathBuf>>; 2],
}

impl Guests {
    /// Compiles the set's libraries for both targets, unless they are compiled already.
    pub fn new(set: Set, out: &Path, flags: Flags, wasm2c: bool, jobs: usize) -> Result<Self> {
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
            wasm2c,
            objects: [vec![], vec![]],
        };
        for target in [Target::Native, Target::Wasm] {
            let used = |number| {
                let mut programs = guests.set.programs.iter();
                programs.any(|program| program.library == number)
            };
            let libraries = guests.set.libraries.iter().enumerate();
            let built = libraries.map(|(number, library)| match used(number) {
                true => guests.library(target, library, jobs),
                false => Ok(vec![]),
            });
            guests.objects[target as usize] = built.collect::<Result<_>>()?;
        }
        Ok(guests)
    }

    /// Builds the files of one program, with its data and code at one of the [`PLACES`], unless
    /// they exist.
    pub fn program(&self, program: &Program, kind: Kind, place: usize) -> Result<Built> {
        let native = self.link(Target::Native, program, kind, place)?;
        let raw = self.link(Target::Wasm, program, kind, place)?;
        let wasm = raw.with_extension("wasm");
        if program.is_go() {
            // Modules of Go are used without wasm-opt.
            fs::copy(&raw, &wasm)?;
        } else if !wasm.exists() {
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
        let wasm2c = match self.wasm2c {
            _ if program.is_go() => {
                Err("the C of Go's modules takes too long to compile".to_owned())
            }
            true => wasm2c::program(&self.cc, &wasm).map_err(|error| format!("{error:#}")),
            false => Err("not wanted".to_owned()),
        };
        Ok(Built {
            native,
            wasm,
            so,
            so_native,
            wasm2c,
            passes: passes(program, kind),
        })
    }

    /// Builds those programs that are the same for all kinds, for that many rounds, with `jobs`
    /// threads. The others are built when their number of passes is known.
    pub fn ahead(&self, programs: &[Program], rounds: usize, jobs: usize) -> Result<()> {
        let same = programs.iter();
        let same = same.filter(|program| program.counts == Counts::Argument);
        let same: Vec<_> = same.collect();
        if same.is_empty() {
            return Ok(());
        }
        // Places of one program share objects, so they are not built at once.
        for place in 0..rounds.clamp(1, PLACES.len()) {
            for target in [Target::Native, Target::Wasm] {
                self.pad(target, place)?;
            }
            in_parallel(&same, jobs, |program| {
                self.program(program, Kind::Right, place)?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The object that moves code to one of the [`PLACES`].
    fn pad(&self, target: Target, place: usize) -> Result<PathBuf> {
        let pad = self
            .out
            .join(target.folder())
            .join(format!("pad.{place}.o"));
        let file = source::folder()?.join("pad.c");
        self.object(target, &file, &pad, &[format!("-DPLACE={place}")])?;
        Ok(pad)
    }

    /// Builds only the native program.
    pub fn native(&self, program: &Program, kind: Kind) -> Result<Built> {
        Ok(Built {
            native: self.link(Target::Native, program, kind, 0)?,
            wasm: PathBuf::new(),
            so: PathBuf::new(),
            so_native: PathBuf::new(),
            wasm2c: Err("not built".to_owned()),
            passes: passes(program, kind),
        })
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
        let folder = self.out.join(target.folder()).join(&library.name);
        fs::create_dir_all(&folder)?;
        let files = &library.files;
        let object = |file: &Path| {
            let name = file.strip_prefix(&library.root).unwrap_or(file).display();
            folder.join(name.to_string().replace('/', "-") + ".o")
        };
        let mut flags = library.flags.clone();
        if let Target::Wasm = target {
            flags.extend_from_slice(&library.wasm_flags);
        }
        in_parallel(files, jobs, |file| {
            self.object(target, file, &object(file), &flags)
        })?;
        Ok(files.iter().map(|file| object(file)).collect())
    }

    /// Links one program, without wasm-opt.
    fn link(&self, target: Target, program: &Program, kind: Kind, place: usize) -> Result<PathBuf> {
        let folder = self.out.join(target.folder());
        let name = match program.counts {
            Counts::Compiled => format!("{}.{}", program.name, kind.name()),
            Counts::Argument => program.name.clone(),
        };
        let (object, to) = (
            folder.join(name.clone() + ".o"),
            folder.join(format!("{name}.{place}.linked")),
        );
        if to.exists() {
            return Ok(to);
        }
        if program.is_go() {
            go(target, &program.main, &to)?;
            return Ok(to);
        }
        self.object(target, &program.main, &object, &self.set.flags_for(kind))?;
        let part = to.with_added_extension("part");
        let library = &self.set.libraries[program.library];
        let mut cc = self.compiler(target);
        // Code is moved only in programs that are linked once for all kinds.
        if program.counts == Counts::Argument {
            cc.arg(self.pad(target, place)?);
        }
        if let Target::Wasm = target {
            let stack_bytes = STACK_BYTES + PLACES[place];
            cc.args(LINK_FLAGS)
                .arg(format!("-Wl,-z,stack-size={stack_bytes}"))
                .args(&library.wasm_links);
        }
        cc.arg(&object)
            .args(&self.objects[target as usize][program.library]);
        said(cc.args(["-lm", "-o"]).arg(&part))?;
        fs::rename(part, &to)?;
        Ok(to)
    }
}

/// Builds a program in Go with `main.go` beside it. Go's linker has no option that moves the data,
/// so the program is the same for all places.
fn go(target: Target, file: &Path, to: &Path) -> Result<()> {
    let part = to.with_added_extension("part");
    let mut go = Command::new("go");
    if let Target::Wasm = target {
        go.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
    }
    go.args(["build", "-o"]).arg(&part);
    said(go.arg(file.with_file_name("main.go")).arg(file))?;
    Ok(fs::rename(part, to)?)
}

/// Calls a function for each item, by `jobs` threads. Ends with one of the errors, if any.
fn in_parallel<T: Sync>(
    items: &[T],
    jobs: usize,
    each: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            each(item)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let mut ends = workers.into_iter().map(|worker| worker.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| bail!("a worker panicked")))
    })
}

/// The argument of a program.
fn passes(program: &Program, kind: Kind) -> Option<u64> {
    match (program.counts, kind) {
        (Counts::Argument, Kind::Timed(count)) => Some(count),
        _ => None,
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

/// FNV-1a, for the name of a folder.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
