//! The sets of programs: where their sources are, how they are compiled, and their expected output.

mod libsodium;
mod programs;

use crate::source::Packages;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// libsodium's test programs.
    Libsodium,
    /// Programs of many kinds, from packages of the registry or written for pirn.
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
    /// How the program learns its number of passes.
    pub counts: Counts,
}

impl Program {
    /// Whether it is written in Go, and not in C or C++.
    pub fn is_go(&self) -> bool {
        self.main
            .extension()
            .is_some_and(|extension| extension == "go")
    }
}

/// How a program learns whether it is timed, and its number of passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The compiler defines macros, so that each [`Kind`] is a program of its own.
    Compiled,
    /// A timed program has the number as its argument. One program serves all kinds.
    Argument,
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
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Name of its folder among the objects.
    pub name: String,
    /// Root folder: object names are relative to it.
    pub root: PathBuf,
    /// The source files.
    pub files: Vec<PathBuf>,
    /// Compiler flags for these files only.
    pub flags: Vec<String>,
    /// The same, only for WebAssembly.
    pub wasm_flags: Vec<String>,
    /// Linker flags, only for WebAssembly.
    pub wasm_links: Vec<String>,
}

/// Flags for all files and both targets.
const FLAGS: &[&str] = &[
    "-O3",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fwrapv",
    "-w",
];

/// The flag for 128-bit integers in libsodium. Its configure script does not detect them for
/// WebAssembly.
pub const INT128: &str = "-DHAVE_TI_MODE=1";

impl Set {
    /// Finds the set with this name. Its sources are unpacked or written below `out`.
    pub fn find(name: Name, packages: &Packages, out: &Path) -> Result<Self> {
        match name {
            Name::Libsodium => libsodium::find(packages, out),
            Name::Programs => programs::find(packages, out),
        }
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
