//! The sets of programs: where their sources are, how they are compiled, and their expected output.

use crate::source::{self, Packages};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// libsodium's test programs.
    Libsodium,
    /// Small programs written for pirn, a JSON parser and a Lua interpreter.
    Programs,
}

impl Name {
    const ALL: [Self; 2] = [Self::Libsodium, Self::Programs];

    /// The set with this name.
    pub fn of(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|set| set.text() == name);
        let known = Self::ALL.map(Self::text).join(", ");
        found.with_context(|| format!("--set: there is no {name:?}; known are {known}"))
    }

    /// The name on the command line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Libsodium => "libsodium",
            Self::Programs => "programs",
        }
    }

    /// Name of the file for its samples.
    pub fn notes(self) -> &'static str {
        match self {
            Self::Libsodium => "samples.tsv",
            Self::Programs => "samples-programs.tsv",
        }
    }

    /// Title of its graph.
    pub fn title(self) -> &'static str {
        match self {
            Self::Libsodium => "libsodium's test programs",
            Self::Programs => "programs beside libsodium's",
        }
    }
}

/// A set of programs.
pub struct Set {
    /// The authority for the expected output, as the end of a sentence.
    pub expects: &'static str,
    /// Origin of its sources, for the program's output.
    pub about: Vec<String>,
    /// Folder of its programs.
    pub folder: PathBuf,
    /// Its programs, sorted by name.
    pub programs: Vec<Program>,
    /// Libraries that the programs are linked with.
    pub libraries: Vec<Library>,
    /// Compiler flags for all files and both targets.
    pub flags: Vec<&'static str>,
    /// Include folders.
    pub includes: Vec<PathBuf>,
    /// Contents of compiled files that are in no package. A change in them causes a new build.
    pub contents: Vec<String>,
    /// Headers that are included first: in programs that print, and in timed programs.
    headers: Option<[PathBuf; 2]>,
}

/// A program of a set.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name of the program.
    pub name: String,
    /// The file that is compiled differently when the program is timed.
    pub main: PathBuf,
    /// Index of the library that it is linked with.
    pub library: usize,
    /// The file with its expected output.
    pub expected: PathBuf,
    /// Whether it computes anything when it is timed.
    pub timed: bool,
}

/// The variant of a program.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Prints its results, which are compared with the expected ones.
    Right,
    /// Computes this many times and prints picoseconds.
    Timed(u64),
}

impl Kind {
    /// The part of a file name that says the variant.
    pub fn name(self) -> String {
        match self {
            Self::Right => "right".to_owned(),
            Self::Timed(count) => format!("{count}"),
        }
    }
}

/// Files that are compiled once for each target.
pub struct Library {
    /// Name of its folder among the objects.
    pub name: &'static str,
    /// Root folder: object names are relative to it.
    pub root: PathBuf,
    /// The source files.
    pub files: Vec<PathBuf>,
    /// Compiler flags for these files only.
    pub flags: Vec<String>,
}

/// Flags for all files and both targets.
const FLAGS: &[&str] = &[
    "-O3",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fwrapv",
    "-w",
];

/// libsodium uses assembly, intrinsics and inline assembly only for CPUs that the flags name. These
/// flags name none. libsodium uses the AES tables by itself on WebAssembly.
const SODIUM_FLAGS: &[&str] = &[
    "-D_GNU_SOURCE=1",
    "-DCONFIGURED=1",
    "-DDEV_MODE=1",
    "-DFAVOR_PERFORMANCE=1",
    "-DHAVE_ATOMIC_OPS=1",
    "-DHAVE_C11_MEMORY_FENCES=1",
    "-DHAVE_CLOCK_GETTIME=1",
    "-DHAVE_GCC_MEMORY_FENCES=1",
    "-DHAVE_GETENTROPY=1",
    "-DHAVE_INTTYPES_H=1",
    "-DHAVE_NANOSLEEP=1",
    "-DHAVE_POSIX_MEMALIGN=1",
    "-DHAVE_STDINT_H=1",
    "-DHAVE_SYS_PARAM_H=1",
    "-DHAVE_SYS_RANDOM_H=1",
    "-DNATIVE_LITTLE_ENDIAN=1",
    "-include",
    "time.h",
];

/// The flag for 128-bit integers in libsodium. Its configure script does not detect them for
/// WebAssembly.
pub const INT128: &str = "-DHAVE_TI_MODE=1";

/// libsodium programs that fault on purpose, to test the guard pages of a native allocator.
const LEFT_OUT: [&str; 2] = ["sodium_utils2", "sodium_utils3"];

/// libsodium programs that compute nothing when they are timed. AES-GCM needs CPU instructions that
/// the build does not have. Other programs compute only in arguments of printf, which a timed
/// program removes. One program measures the host's random numbers.
const UNTIMED: [&str; 7] = [
    "aead_aes256gcm",
    "aead_aes256gcm2",
    "misuse",
    "onetimeauth2",
    "randombytes",
    "sodium_core",
    "sodium_version",
];

/// The project's own programs that consist of one file.
const OWN: [&str; 6] = ["fib", "integers", "lists", "matmul", "sha256", "states"];

/// Lua without setjmp, which WASI lacks: an error aborts the program. Hashes have the same seed in
/// each run.
const LUA_FLAGS: &[&str] = &[
    "-DLUAI_THROW(L,c)=abort()",
    "-DLUAI_TRY(L,c,a)={a}",
    "-Dluai_jmpbuf=int",
    "-Dl_signalT=int",
    "-Dluai_makeseed(L)=1u",
];

/// Parts of Lua that the script does not use: files, processes, time, coroutines, the debugger.
const LUA_LEFT_OUT: [&str; 8] = [
    "lcorolib.c",
    "ldblib.c",
    "linit.c",
    "liolib.c",
    "lmathlib.c",
    "loadlib.c",
    "loslib.c",
    "lutf8lib.c",
];

impl Set {
    /// Finds the set with this name. Its sources are unpacked or written below `out`.
    pub fn find(name: Name, packages: &Packages, out: &Path) -> Result<Self> {
        match name {
            Name::Libsodium => Self::libsodium(packages, out),
            Name::Programs => Self::programs(packages, out),
        }
    }

    fn libsodium(packages: &Packages, out: &Path) -> Result<Self> {
        let source = packages.libsodium(out)?;
        let root = source.join("src/libsodium");
        let tests = source.join("test/default");
        let program = |path: PathBuf| {
            let name = path.file_stem()?.to_string_lossy().into_owned();
            Some(Program {
                main: path,
                library: 0,
                expected: tests.join(format!("{name}.exp")),
                timed: !UNTIMED.contains(&name.as_str()),
                name,
            })
        };
        let mut programs = vec![];
        sources(&tests, &mut programs)?;
        let mut programs: Vec<_> = programs.into_iter().filter_map(program).collect();
        programs.retain(|program| !LEFT_OUT.contains(&program.name.as_str()));
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        let mut files = vec![];
        sources(&root, &mut files)?;
        files.sort();
        let include = root.join("include");
        let version = &packages.get("libsodium-sys-stable")?.version;
        let folder = source::folder()?;
        Ok(Self {
            expects: "libsodium's authors expect",
            about: vec![format!("libsodium: as in libsodium-sys-stable {version}")],
            programs,
            libraries: vec![Library {
                name: "library",
                root,
                files,
                flags: vec!["-fvisibility=hidden".to_owned()],
            }],
            flags: [FLAGS, SODIUM_FLAGS].concat(),
            includes: vec![
                include.clone(),
                include.join("sodium"),
                source.join("test/quirks"),
            ],
            folder: tests,
            contents: vec![
                include_str!("../right.h").to_owned(),
                include_str!("../timed.h").to_owned(),
            ],
            headers: Some(["right.h", "timed.h"].map(|name| folder.join(name))),
        })
    }

    fn programs(packages: &Packages, out: &Path) -> Result<Self> {
        let folder = source::folder()?.join("programs");
        let (lua, yyjson) = (packages.lua()?, packages.yyjson()?);
        let scripts = out.join("script");
        script(&folder.join("script.lua"), &scripts)?;

        let own = |name: &'static str| Library {
            name,
            root: folder.clone(),
            files: vec![folder.join(name).with_extension("c")],
            flags: vec![],
        };
        let mut libraries: Vec<_> = OWN.into_iter().map(own).collect();
        let mut json = own("json");
        json.files.push(yyjson.join("yyjson.c"));
        json.flags = vec![includes(&yyjson)];
        libraries.push(json);
        let mut interpreter = own("lua");
        sources(&lua, &mut interpreter.files)?;
        let used = |file: &PathBuf| !LUA_LEFT_OUT.iter().any(|name| file.ends_with(name));
        interpreter.files.retain(used);
        let folders = [&folder.join("no-setjmp"), &lua, &scripts];
        interpreter.flags = folders.map(|folder| includes(folder)).to_vec();
        let flags = LUA_FLAGS.iter().map(|flag| (*flag).to_owned());
        interpreter.flags.extend(flags);
        libraries.push(interpreter);

        let program = |(number, library): (usize, &Library)| Program {
            name: library.name.to_owned(),
            main: folder.join("main.c"),
            library: number,
            expected: folder.join(library.name).with_extension("exp"),
            timed: true,
        };
        let mut programs: Vec<_> = libraries.iter().enumerate().map(program).collect();
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        let about = vec![
            format!("lua: as in lua-src {}", packages.get("lua-src")?.version),
            format!(
                "yyjson: as in yyjson-sys {}",
                packages.get("yyjson-sys")?.version
            ),
        ];
        Ok(Self {
            expects: "the files beside them hold",
            contents: contents(&folder, &about)?,
            about,
            programs,
            libraries,
            flags: FLAGS.to_vec(),
            includes: vec![folder.clone()],
            folder,
            headers: None,
        })
    }

    /// Keeps only programs whose name contains one of `parts`; keeps all if `parts` is empty.
    pub fn only(&mut self, parts: &[String]) -> Result<()> {
        for part in parts {
            ensure!(
                self.programs
                    .iter()
                    .any(|program| program.name.contains(part)),
                "--only: no program has {part:?} in its name; they are in {}",
                self.folder.display()
            );
        }
        let wanted = |program: &Program| {
            parts.is_empty() || parts.iter().any(|part| program.name.contains(part))
        };
        self.programs.retain(wanted);
        Ok(())
    }

    /// Compiler flags for the file that is compiled differently when the program is timed.
    pub fn flags_for(&self, kind: Kind) -> Vec<String> {
        let (number, defines) = match kind {
            Kind::Right => (0, vec![]),
            Kind::Timed(count) => {
                let defines = ["-DBENCHMARKS=1".to_owned(), format!("-DITERATIONS={count}")];
                (1, defines.to_vec())
            }
        };
        let mut flags = vec![];
        if let Some(headers) = &self.headers {
            flags.extend(["-include".to_owned(), headers[number].display().to_string()]);
        }
        flags.extend(defines);
        flags
    }
}

/// The compiler flag for an include folder.
fn includes(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// Writes the script as the elements of a C array.
fn script(file: &Path, to: &Path) -> Result<()> {
    let text = fs::read(file).with_context(|| file.display().to_string())?;
    let text: String = text.iter().map(|byte| format!("{byte},")).collect();
    fs::create_dir_all(to)?;
    Ok(fs::write(to.join("script.inc"), text)?)
}

/// The contents of all files of the project, and the versions of foreign packages.
fn contents(folder: &Path, about: &[String]) -> Result<Vec<String>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension != "exp") {
            files.push(path);
        }
    }
    files.sort();
    let texts = files.iter().map(fs::read_to_string);
    let mut contents = texts.collect::<Result<Vec<_>, _>>()?;
    contents.extend_from_slice(about);
    contents.extend(LUA_FLAGS.iter().map(|flag| (*flag).to_owned()));
    Ok(contents)
}

/// Finds the C files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "c") {
            found.push(path);
        }
    }
    Ok(())
}
