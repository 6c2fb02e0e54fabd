//! Modules as native programs: wasm2c translates a module to C, which clang compiles with full
//! optimisation. So LLVM sees the same WebAssembly as the other engines.
//!
//! Memory is checked as wasm2c does by default: a reservation of 8 GiB and a signal handler, so
//! code has no bounds checks. Overflow of the native stack is detected the same way.

use crate::source;
use crate::tool::said;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's package wabt keeps the files that its programs are linked with.
const RUNTIME: &str = "/usr/share/wabt/wasm2c";

/// The version of wasm2c.
pub fn version() -> Result<String> {
    let version = said(Command::new("wasm2c").arg("--version"));
    let version = version.context("Debian: apt-get install wabt")?;
    let file = Path::new(RUNTIME).join("wasm-rt-impl.c");
    ensure!(
        file.is_file(),
        "{}: no such file; Debian: apt-get install wabt",
        file.display()
    );
    Ok(version.trim().to_owned())
}

/// The native program of a module, beside the module, unless it exists.
pub fn program(cc: &str, wasm: &Path) -> Result<PathBuf> {
    let to = wasm.with_extension("wasm2c");
    if to.exists() {
        return Ok(to);
    }
    let file = wasm.with_extension("wasm2c.c");
    let mut wasm2c = Command::new("wasm2c");
    wasm2c.args(["-n", "guest"]).arg(wasm).arg("-o").arg(&file);
    said(&mut wasm2c)?;
    let header = file.with_extension("h");
    let part = wasm.with_extension("wasm2c.part");
    let mut clang = Command::new(cc);
    clang
        .args(["-O3", "-w", "-I", RUNTIME])
        .arg(format!("-DGUEST_HEADER=\"{}\"", header.display()))
        .arg(&file)
        .arg(source::folder()?.join("wasm2c.c"))
        .arg(Path::new(RUNTIME).join("wasm-rt-impl.c"))
        .args(["-lm", "-o"])
        .arg(&part);
    said(&mut clang)?;
    // The C text is ten times as large as the module.
    fs::remove_file(&file)?;
    fs::rename(part, &to)?;
    Ok(to)
}
