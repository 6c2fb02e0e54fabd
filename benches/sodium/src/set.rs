//! A set of programs: where its sources are, how they are compiled, and what they are to print.

use crate::guests::Kind;
use crate::source::{self, Packages};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The set.
pub struct Set {
    /// Whose word its programs are to print, as the end of a sentence.
    pub expects: &'static str,
    /// Where its sources come from, for who reads the output.
    pub about: Vec<String>,
    /// Where its programs are.
    pub folder: PathBuf,
    /// Its programs by name.
    pub programs: Vec<Program>,
    /// What they are linked with.
    pub libraries: Vec<Library>,
    /// Flags for everything, and for both targets.
    pub flags: Vec<&'static str>,
    /// Where headers are looked for.
    pub includes: Vec<PathBuf>,
    /// What is compiled but lies in no package, so that it counts when it changes.
    pub contents: Vec<String>,
    /// What is included first in programs that print, and in those that are timed.
    headers: Option<[PathBuf; 2]>,
}

/// One program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The file that is compiled otherwise when it is timed.
    pub main: PathBuf,
    /// Which library it is linked with.
    pub library: usize,
    /// The file of what it is to print.
    pub expected: PathBuf,
    /// Whether it computes anything when it is timed.
    pub timed: bool,
}

/// Files that are compiled once for a target.
pub struct Library {
    /// Its folder among the objects.
    pub name: &'static str,
    /// What the names of its objects begin below.
    pub root: PathBuf,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Flags for these alone.
    pub flags: Vec<String>,
}

/// For all that is compiled, for both targets.
const FLAGS: &[&str] = &[
    "-O3",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fwrapv",
    "-w",
];

/// libsodium has its assembly, its intrinsics and its inline assembly for processors that it is told of, and it
/// is told of none; the tables of its AES are what it takes for WebAssembly by itself.
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

/// What makes libsodium compute with 128-bit integers. Its configure finds none for WebAssembly.
pub const INT128: &str = "-DHAVE_TI_MODE=1";

/// Programs of libsodium's that fault on purpose, to see the guard pages of a native allocator.
const LEFT_OUT: [&str; 2] = ["sodium_utils2", "sodium_utils3"];

/// Programs of libsodium's that compute nothing when they are timed: AES-GCM is there for processors with
/// instructions for it, and what stands in a call of printf goes with it. And one that measures the host's
/// random numbers.
const UNTIMED: [&str; 7] = [
    "aead_aes256gcm",
    "aead_aes256gcm2",
    "misuse",
    "onetimeauth2",
    "randombytes",
    "sodium_core",
    "sodium_version",
];

impl Set {
    /// libsodium's test programs; its sources are unpacked below `out`.
    pub fn libsodium(packages: &Packages, out: &Path) -> Result<Self> {
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

    /// Leaves the programs alone whose names hold one of these; all, where there are none of these.
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

    /// Flags for the file of a program that is compiled otherwise when it is timed.
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

/// C files below a folder.
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
