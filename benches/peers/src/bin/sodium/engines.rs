//! The engines: how each one runs a guest, and which ones this machine lacks.

use crate::guests::Built;
use crate::source::{self, Packages};
use crate::tool::{first_line, said};
use crate::wasm2c;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Seconds after which a guest is stopped and counts as failed.
const LIMIT_S: &str = "300";

/// How a guest is run.
#[derive(Debug, Clone)]
enum Runner {
    /// The guest is a native program.
    Native,
    /// This program runs pirn's code for its baseline. `ForThisMachine` is pirn's code for this
    /// CPU, and `Library` another engine on the module.
    Baseline,
    ForThisMachine,
    Library,
    /// The guest is a native program, which wasm2c and clang made of the module.
    Translated,
    /// Another program with arguments runs the module.
    Other(PathBuf, Vec<String>),
}

/// An available engine.
#[derive(Debug, Clone)]
pub struct SodiumEngine {
    /// Its name in tables.
    pub name: &'static str,
    runner: Runner,
}

/// The names of all engines, in the order of the table.
pub const NAMES: [&str; 10] = [
    "native",
    "wasm2c",
    "pirn",
    "pirn-native",
    "wasmtime",
    "wasmer",
    "wasmer-llvm",
    "v8",
    "wazero",
    "wasm3",
];

/// Checks that all names are engines, available or not.
pub fn check(names: &[String]) -> Result<()> {
    for name in names {
        let known = NAMES.join(", ");
        ensure!(
            NAMES.contains(&name.as_str()),
            "--engines: there is no {name:?}; known are {known}"
        );
    }
    Ok(())
}

/// Finds the available engines of these names. Prints which ones are missing, and why.
pub fn find(names: &[String], packages: &Packages, out: &Path) -> Result<Vec<SodiumEngine>> {
    let mut found = vec![];
    let wanted = |name: &&str| *name == "native" || names.iter().any(|wanted| wanted == name);
    for name in NAMES.into_iter().filter(wanted) {
        match engine(name, packages, out) {
            Ok((about, runner)) => {
                println!("{name}: {about}");
                found.push(SodiumEngine { name, runner });
            }
            Err(error) => println!("{name}: missing: {error:#}"),
        }
    }
    Ok(found)
}

fn engine(name: &str, packages: &Packages, out: &Path) -> Result<(String, Runner)> {
    let version = |package| Ok::<_, anyhow::Error>(packages.get(package)?.version.as_str());
    Ok(match name {
        "native" => (
            "the same source for this machine".to_owned(),
            Runner::Native,
        ),
        "wasm2c" => (
            format!(
                "{}, then clang -O3; memory guarded by pages and a signal handler",
                wasm2c::version()?
            ),
            Runner::Translated,
        ),
        "pirn" => (
            "ahead of time, for its baseline".to_owned(),
            Runner::Baseline,
        ),
        "pirn-native" => (
            "the same with --cpu native".to_owned(),
            Runner::ForThisMachine,
        ),
        "wasmtime" => (version("wasmtime")?.to_owned(), Runner::Library),
        "wasmer" => (
            format!("{}, Cranelift", version("wasmer")?),
            Runner::Library,
        ),
        "wasmer-llvm" if cfg!(feature = "llvm") => {
            (format!("{}, LLVM", version("wasmer")?), Runner::Library)
        }
        "wasmer-llvm" => bail!("build with --features llvm, which needs LLVM 22"),
        "v8" => v8()?,
        "wazero" => wazero(out)?,
        "wasm3" => wasm3(packages, out)?,
        _ => bail!("unknown"),
    })
}

/// V8 in Node.js. Its optimising compiler compiles everything before the run; its baseline compiler
/// is off.
fn v8() -> Result<(String, Runner)> {
    let node = "node";
    let version = said(Command::new(node).args(["-p", "process.versions.v8"]))
        .context("node 20 or newer: https://nodejs.org")?;
    let script = source::folder()?.join("node.mjs");
    let flags = [
        "--no-liftoff",
        "--no-wasm-lazy-compilation",
        "--no-warnings",
    ];
    let about = format!("{}, {}", version.trim(), flags[..2].join(" "));
    let flags = flags.map(str::to_owned).into_iter();
    let arguments = flags.chain([script.display().to_string()]).collect();
    Ok((about, Runner::Other(node.into(), arguments)))
}

fn wazero(out: &Path) -> Result<(String, Runner)> {
    let folder = source::folder()?.join("wazero");
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(&folder)
            .env("GOWORK", "off")
            .env("GOTOOLCHAIN", "local");
        go
    };
    let program = out.join("wazero");
    let mut build = go();
    build.args(["build", "-trimpath", "-buildvcs=false", "-o"]);
    said(build.arg(&program).arg(".")).context("Go: https://go.dev/dl")?;
    let version = said(go().args(["list", "-m", "github.com/tetratelabs/wazero"]))?;
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    Ok((version.to_owned(), Runner::Other(program, vec![])))
}

fn wasm3(packages: &Packages, out: &Path) -> Result<(String, Runner)> {
    let (folder, program) = (packages.wasm3()?, out.join("wasm3"));
    let header = std::fs::read_to_string(folder.join("wasm3.h"))?;
    let version = header.lines().find_map(|line| {
        let rest = line.strip_prefix("#define M3_VERSION ")?;
        Some(rest.trim().trim_matches('"').to_owned())
    });
    let mut cc = Command::new("clang");
    cc.args(["-O3", "-w", "-Dd_m3HasWASI=1", "-Dd_m3LogOutput=0", "-I"])
        .arg(&folder)
        .arg(source::folder()?.join("wasm3.c"));
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            cc.arg(path);
        }
    }
    said(cc.arg("-lm").arg("-o").arg(&program))?;
    let about = format!("{}, an interpreter", version.unwrap_or_default());
    Ok((about, Runner::Other(program, vec![])))
}

impl SodiumEngine {
    /// Whether the engine is so slow that a second round would double the total time.
    pub fn is_slow(&self) -> bool {
        self.name == "wasm3"
    }

    /// Why the engine cannot have this guest at all, if so.
    pub fn lacks<'a>(&self, guest: &'a Built) -> Option<&'a str> {
        match (&self.runner, &guest.wasm2c) {
            (Runner::Translated, Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Runs a guest until its end and returns its output.
    pub fn run(&self, guest: &Built) -> Result<Vec<u8>> {
        let output = self.output(guest)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(124) => bail!("runs for more than {LIMIT_S} s"),
            _ => bail!("{}: {}", output.status, first_line(&error)),
        }
    }

    fn output(&self, guest: &Built) -> Result<Output> {
        let mut command = Command::new("timeout");
        command.arg(LIMIT_S);
        let itself = |command: &mut Command, file: &Path| -> Result<()> {
            let name = self.name.trim_end_matches("-native");
            command
                .arg(std::env::current_exe()?)
                .args(["guest", name])
                .arg(file);
            Ok(())
        };
        match &self.runner {
            Runner::Native => {
                command.arg(&guest.native);
            }
            Runner::Baseline => itself(&mut command, &guest.so)?,
            Runner::ForThisMachine => itself(&mut command, &guest.so_native)?,
            Runner::Library => itself(&mut command, &guest.wasm)?,
            Runner::Translated => match &guest.wasm2c {
                Ok(program) => {
                    command.arg(program);
                }
                Err(error) => bail!("{error}"),
            },
            Runner::Other(program, arguments) => {
                command.arg(program).args(arguments).arg(&guest.wasm);
            }
        }
        command.args(guest.passes.map(|passes| passes.to_string()));
        command.output().context("cannot start timeout")
    }
}
