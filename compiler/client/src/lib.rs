//! The part of pirn's compiler that the runtime's tests use, for tests that run under an emulator.
//!
//! To build the compiler for the emulated machine takes minutes, and it would run slowly there. So
//! this crate compiles nothing: it starts `compiler/examples/compile_server.rs`, a program of the
//! host, and sends it each module. Only the interface is described here; `pirn_compiler` says what
//! each item means.
//!
//! A request is the number of its bytes (u32, little-endian), [`SETTINGS_BYTES`] of settings, and
//! the module. An answer is a byte, the number of the other bytes, and these: the compiled module
//! for 0, or else an error's message.

#![forbid(unsafe_code)]

use pirn_format::cpu::{Arch, CpuFeatures};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Path of the server.
const SERVER: &str = "PIRN_COMPILE_SERVER";

/// Bytes of the settings: architecture, CPU features, level, masks, relaxed SIMD, fuel, debug
/// information, units of work.
const SETTINGS_BYTES: usize = 1 + 8 + 1 + 1 + 1 + 1 + 1 + 8;

#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    pub cpu: CpuFeatures,
    pub opt_level: OptLevel,
    pub spectre: bool,
    pub relaxed_simd: RelaxedSimd,
    pub fuel: bool,
    pub debug_info: bool,
    pub work_per_byte: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptLevel {
    None,
    #[default]
    Speed,
    SpeedAndSize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelaxedSimd {
    #[default]
    Fastest,
    Deterministic,
}

/// An error with the compiler's message. Tests tell two kinds from all others.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompileError {
    Invalid { message: String },
    Limit { message: String },
    Other { message: String },
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid { message } | Self::Limit { message } | Self::Other { message }) = self;
        f.write_str(message)
    }
}

impl std::error::Error for CompileError {}

impl Options {
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self {
            cpu: CpuFeatures::level(arch, "baseline").unwrap_or(CpuFeatures::none(arch)),
            opt_level: OptLevel::default(),
            spectre: true,
            relaxed_simd: RelaxedSimd::default(),
            fuel: false,
            debug_info: false,
            work_per_byte: 100,
        }
    }

    fn encode(&self) -> [u8; SETTINGS_BYTES] {
        let mut bytes = [0; SETTINGS_BYTES];
        bytes[0] = u8::from(self.cpu.arch() == Arch::Aarch64);
        bytes[1..9].copy_from_slice(&self.cpu.bits().to_le_bytes());
        bytes[9] = self.opt_level as u8;
        bytes[10] = u8::from(self.spectre);
        bytes[11] = self.relaxed_simd as u8;
        bytes[12] = u8::from(self.fuel);
        bytes[13] = u8::from(self.debug_info);
        bytes[14..].copy_from_slice(&self.work_per_byte.to_le_bytes());
        bytes
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Arch::from_name(std::env::consts::ARCH).expect("a supported architecture"))
    }
}

/// # Errors
///
/// [`CompileError::Other`] if the text is not well-formed.
pub fn parse_text(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CompileError> {
    wat::parse_bytes(bytes).map_err(|error| CompileError::Other {
        message: error.to_string(),
    })
}

/// # Errors
///
/// The compiler's error.
///
/// # Panics
///
/// If the server cannot be started, or ends.
pub fn compile(wasm: &[u8], options: &Options) -> Result<Vec<u8>, CompileError> {
    let mut server = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked child must not read the answers of its parent's server.
    let server = match &mut *server {
        Some(server) if server.of == std::process::id() => server,
        other => other.insert(Server::start()),
    };
    let (kind, bytes) = server
        .ask(&options.encode(), wasm)
        .expect("the compile server answers");
    if kind == 0 {
        return Ok(bytes);
    }
    let message = String::from_utf8(bytes).expect("messages are UTF-8");
    Err(match kind {
        1 => CompileError::Invalid { message },
        2 => CompileError::Limit { message },
        _ => CompileError::Other { message },
    })
}

/// The server of this process.
static SERVERS: Mutex<Option<Server>> = Mutex::new(None);

struct Server {
    /// The process that started it.
    of: u32,
    requests: ChildStdin,
    answers: ChildStdout,
    /// Ends when the pipe for its requests is closed.
    _process: Child,
}

impl Server {
    fn start() -> Self {
        let path = std::env::var_os(SERVER);
        let path = path.unwrap_or_else(|| panic!("{SERVER} does not name the compile server"));
        let process = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = process.expect("the compile server starts");
        Self {
            of: std::process::id(),
            requests: process.stdin.take().expect("a pipe was asked for"),
            answers: process.stdout.take().expect("a pipe was asked for"),
            _process: process,
        }
    }

    fn ask(&mut self, settings: &[u8], wasm: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        let len = (settings.len() + wasm.len()) as u32;
        self.requests.write_all(&len.to_le_bytes())?;
        self.requests.write_all(settings)?;
        self.requests.write_all(wasm)?;
        let mut start = [0; 5];
        self.answers.read_exact(&mut start)?;
        let [kind, len @ ..] = start;
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        self.answers.read_exact(&mut bytes)?;
        Ok((kind, bytes))
    }
}
