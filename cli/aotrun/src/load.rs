//! Opens the program: a compiled module, or a WebAssembly module that is compiled first.

use crate::timings::Timings;
use anyhow::{Context, Result};
use pirn_runtime::{Module, PublicKey};
use pirn_signature::open_regular;
use std::path::{Path, PathBuf};

/// The magic number of an ELF file. A compiled module starts with it.
const ELF: &[u8] = b"\x7fELF";

/// Opens a compiled module, or compiles a WebAssembly module first. With `fuel`, the compiled code
/// counts fuel. If `trust` has a key, nothing is compiled, and one of the keys must have signed the
/// module.
pub(crate) fn open(
    program: &Path,
    fuel: bool,
    trust: &[PathBuf],
    timings: &mut Timings,
) -> Result<Module> {
    if !trust.is_empty() {
        let keys = trust.iter().map(|path| {
            let key = PublicKey::read(path);
            key.with_context(|| format!("--trust {}", path.display()))
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        return Ok(timings.measure("load", || Module::open_signed(program, &keys))?);
    }
    if is_compiled(program)? {
        return Ok(timings.measure("load", || Module::open(program))?);
    }
    let so = timings.measure("compile", || compile(program, fuel))?;
    Ok(timings.measure("load", || Module::from_bytes(&so))?)
}

/// Whether the file is a compiled module: its name ends in `.so`, or it starts like an ELF file.
/// Refuses pipes, sockets and devices, which might block or never end.
fn is_compiled(program: &Path) -> Result<bool> {
    use std::io::Read;
    let unreadable = || format!("cannot read {}", program.display());
    let (mut file, _) = open_regular(program).with_context(unreadable)?;
    let mut start = vec![];
    (&mut file)
        .take(ELF.len() as u64)
        .read_to_end(&mut start)
        .with_context(unreadable)?;
    Ok(start == ELF
        || program
            .extension()
            .is_some_and(|extension| extension == "so"))
}

#[cfg(feature = "compiler")]
fn compile(program: &Path, fuel: bool) -> Result<Vec<u8>> {
    use pirn_compiler::{Options, parse_text};
    use pirn_signature::{SIGNED_BYTES_MAX, read_regular};
    let bytes = read_regular(program, SIGNED_BYTES_MAX)
        .with_context(|| format!("cannot read {}", program.display()))?;
    let mut options = Options::default();
    options.fuel = fuel;
    parse_text(&bytes)
        .and_then(|wasm| pirn_compiler::compile(&wasm, &options))
        .with_context(|| program.display().to_string())
}

#[cfg(not(feature = "compiler"))]
fn compile(program: &Path, _fuel: bool) -> Result<Vec<u8>> {
    let program = program.display();
    anyhow::bail!(
        "{program} is not compiled, and this aotrun has no compiler; run `aotc {program}` first"
    )
}
