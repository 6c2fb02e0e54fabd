//! [`compiled`]: returns the compiled module of a program, from the cache or from `aotc`.
//!
//! `aotc` runs in its own process as the user nobody, with limits on processor time and address
//! space. The shim links no compiler.

use crate::cache::{Cache, Key, Scratch};
use crate::policy::{Compile, Policy};
use anyhow::{Context as _, Result, bail};
use pirn_format::cpu;
use pirn_format::text::one_line;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The user and the group nobody.
const NOBODY: u32 = 65_534;

/// Maximum number of bytes of the compiler's message that an error repeats.
const MESSAGE_BYTES_MAX: usize = 1000;

/// Returns the compiled module of a WebAssembly file. Compiles the file if the cache does not have
/// the module.
///
/// # Errors
///
/// If the compiler refuses the file, or exceeds a limit.
pub fn compiled(cache: &Cache, policy: &Policy, wasm: &[u8]) -> Result<PathBuf> {
    let compile = &policy.compile;
    let compiler = fs::metadata(&compile.compiler)
        .with_context(|| format!("compiler {}", compile.compiler.display()))?;
    // Another compiler may generate other code. The size and the modification time of the program
    // distinguish compilers.
    let about = [
        compiler.dev().to_le_bytes(),
        compiler.ino().to_le_bytes(),
        compiler.size().to_le_bytes(),
        compiler.mtime().to_le_bytes(),
        compiler.mtime_nsec().to_le_bytes(),
    ];
    let machine = cpu::detect().to_string();
    let key = Key::of(&[
        b"wasm",
        wasm,
        about.as_flattened(),
        compile.cpu.as_bytes(),
        machine.as_bytes(),
    ]);
    cache.get(&key, |scratch| run(compile, wasm, scratch))
}

/// Stores a compiled module from an image in the cache. The policy has approved the module.
///
/// # Errors
///
/// If the system refuses to store the module.
pub fn stored(cache: &Cache, so: &[u8]) -> Result<PathBuf> {
    let key = Key::of(&[b"so", so]);
    cache.get(&key, |scratch| Ok(scratch.output().write_all(so)?))
}

/// Runs the compiler.
fn run(compile: &Compile, wasm: &[u8], scratch: &Scratch) -> Result<()> {
    let input = scratch.input(wasm)?;
    let mut command = Command::new(&compile.compiler);
    command
        .args(["/dev/stdin", "-o", "-", "--cpu", &compile.cpu])
        .env_clear()
        .current_dir("/")
        .stdin(input)
        .stdout(scratch.output().try_clone()?)
        .stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let child = {
        let _limits = Limits::set(compile);
        command.spawn()
    };
    let name = compile.compiler.display();
    let ended = child
        .and_then(Child::wait_with_output)
        .with_context(|| format!("cannot run the compiler {name}"))?;
    if ended.status.success() {
        return Ok(());
    }
    if let Some(signal) = ended.status.signal() {
        bail!(
            "signal {signal} ended the compiler, which may use {} s of processor time and {} bytes \
             of address space; raise compile.time_max or compile.memory_max",
            compile.time_max.as_secs(),
            compile.memory_max
        );
    }
    let message = &ended.stderr[..ended.stderr.len().min(MESSAGE_BYTES_MAX)];
    bail!("{}", one_line(String::from_utf8_lossy(message).trim()));
}

/// Sets resource limits of this process, which child processes inherit. Dropping the value restores
/// the old limits. This process has one thread.
struct Limits([(Resource, Rlimit); 2]);

impl Limits {
    fn set(compile: &Compile) -> Self {
        let wanted = [
            (Resource::As, compile.memory_max),
            (Resource::Cpu, compile.time_max.as_secs().max(1)),
        ];
        Self(wanted.map(|(resource, limit)| {
            let before = getrlimit(resource);
            let current = before.maximum.map_or(limit, |maximum| maximum.min(limit));
            let soft = Rlimit {
                current: Some(current),
                maximum: before.maximum,
            };
            // Lowering a soft limit needs no privilege.
            let _ = setrlimit(resource, soft);
            (resource, before)
        }))
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (resource, before) in &self.0 {
            let _ = setrlimit(*resource, *before);
        }
    }
}
