//! [`Policy`]: the rules of the node's operator, from `/etc/pirn/shim.toml`.
//!
//! The file decides which code runs. So it must belong to root, and no other user may write to it
//! or to its folder. Images and containers cannot change the policy: annotations only narrow it.

use crate::owner;
use crate::units::{Count, Size, Time, parsed};
use anyhow::{Context as _, Result, bail, ensure};
use pirn_format::text::one_line;
use pirn_signature::PublicKey;
use pirn_wasi2::Network;
use pirn_wasi2::http::Allowed;
use serde::Deserialize;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The policy file, unless [`POLICY_VARIABLE`] names another file.
pub const POLICY_FILE: &str = "/etc/pirn/shim.toml";

/// The variable in containerd's environment that names another policy file.
pub const POLICY_VARIABLE: &str = "PIRN_SHIM_POLICY";

/// Maximum size of the policy file.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// The rule for WebAssembly that the node compiles and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WasmRule {
    /// Any file.
    Any,
    /// Only files that a trusted key signed.
    Signed,
}

/// The rule for compiled modules (machine code) in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoRule {
    /// Only files that a trusted key signed.
    Signed,
    /// Also unsigned modules if the verifier proves that they stay in their sandbox.
    Verified,
    /// All modules. The image's author then runs machine code in the container's process.
    Any,
}

/// The rule for Linux programs as entry points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NativeRule {
    /// No Linux program. Pods then cannot start, because their pause container is a Linux program.
    Refuse,
    /// Only the pause container of a pod.
    Pause,
    /// All Linux programs, in a container like runc's.
    Allow,
}

/// The rules of the node's operator.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Trusted keys for signatures.
    pub keys: Vec<PublicKey>,
    /// The rule for WebAssembly.
    pub wasm: WasmRule,
    /// The rule for compiled modules of images.
    pub so: SoRule,
    /// The rule for Linux programs.
    pub native: NativeRule,
    /// Maximum size of an entry point.
    pub module_bytes_max: u64,
    /// The folder of compiled modules.
    pub cache: PathBuf,
    /// Maximum total size of the compiled modules in `cache`.
    pub cache_bytes_max: u64,
    /// The settings of the compiler.
    pub compile: Compile,
    /// Servers that components may send HTTP requests to.
    pub servers: Allowed,
    /// Addresses that the sockets of components may use.
    pub network: Network,
    /// Limits of commands.
    pub command: Command,
    /// Limits of servers.
    pub server: Server,
}

/// The settings of the compiler.
#[derive(Debug, Clone)]
pub struct Compile {
    /// The path of `aotc`.
    pub compiler: PathBuf,
    /// The value of `aotc`'s option `--cpu`.
    pub cpu: String,
    /// Maximum processor time of one compilation.
    pub time_max: Duration,
    /// Maximum address space of one compilation, in bytes.
    pub memory_max: u64,
    /// Maximum number of concurrent compilations.
    pub at_once: u32,
}

/// Limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Maximum size of each linear memory, in bytes.
    pub memory_max: usize,
    /// Stack size, in bytes.
    pub stack: usize,
    /// Maximum wall time; `None` is unlimited.
    pub deadline: Option<Duration>,
    /// Maximum number of files that the guest has open at the same time.
    pub descriptors_max: u32,
}

/// Limits of a server, and of each guest that answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Number of guests that run at the same time.
    pub slots: u32,
    /// Maximum size of each linear memory of a guest, in bytes.
    pub memory_max: usize,
    /// Stack size of a guest, in bytes.
    pub stack: usize,
    /// Maximum wall time of a guest.
    pub deadline: Duration,
    /// Maximum time that a request waits for a slot.
    pub wait: Duration,
    /// Maximum size of a request's body, in bytes.
    pub body_max: usize,
    /// Maximum time for running requests to end after the stop signal.
    pub grace: Duration,
}

/// The content of the policy file. Omitted keys get their defaults later.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    trust: Vec<PathBuf>,
    wasm: Option<WasmRule>,
    so: Option<SoRule>,
    native: Option<NativeRule>,
    #[serde(deserialize_with = "parsed")]
    module_max: Option<Size>,
    cache: Option<PathBuf>,
    #[serde(deserialize_with = "parsed")]
    cache_max: Option<Size>,
    http_allow: Vec<String>,
    net_allow: Vec<String>,
    compile: CompileFile,
    command: CommandFile,
    server: ServerFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct CompileFile {
    compiler: Option<PathBuf>,
    cpu: Option<String>,
    #[serde(deserialize_with = "parsed")]
    time_max: Option<Time>,
    #[serde(deserialize_with = "parsed")]
    memory_max: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    at_once: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct CommandFile {
    #[serde(deserialize_with = "parsed")]
    memory_max: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    stack: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    deadline: Option<Time>,
    #[serde(deserialize_with = "parsed")]
    descriptors_max: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct ServerFile {
    #[serde(deserialize_with = "parsed")]
    slots: Option<Count>,
    #[serde(deserialize_with = "parsed")]
    memory_max: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    stack: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    deadline: Option<Time>,
    #[serde(deserialize_with = "parsed")]
    wait: Option<Time>,
    #[serde(deserialize_with = "parsed")]
    body_max: Option<Size>,
    #[serde(deserialize_with = "parsed")]
    grace: Option<Time>,
}

impl Policy {
    /// Reads the policy of this node. If the file does not exist, all keys have their defaults.
    ///
    /// # Errors
    ///
    /// If another user than root may write to the file, or if its content is invalid.
    pub fn of_node() -> Result<Self> {
        let named = env::var_os(POLICY_VARIABLE).map(PathBuf::from);
        let path = named.as_deref().unwrap_or(Path::new(POLICY_FILE));
        let text = match owner::read_text(path, POLICY_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if named.is_none() && is_missing(&error) => String::new(),
            Err(error) => return Err(error.context(format!("policy {}", path.display()))),
        };
        Self::parse(&text).with_context(|| format!("policy {}", path.display()))
    }

    /// Parses the text of a policy file, and reads the keys that it names.
    ///
    /// # Errors
    ///
    /// If the text has an error, or a key cannot be read.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            anyhow::anyhow!("line {line}: {}", one_line(error.message()))
        })?;
        Self::of(file)
    }

    fn of(file: File) -> Result<Self> {
        let keys = file.trust.iter().map(|path| key(path));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let by_default = match keys.is_empty() {
            true => WasmRule::Any,
            false => WasmRule::Signed,
        };
        let wasm = file.wasm.unwrap_or(by_default);
        if wasm == WasmRule::Signed && keys.is_empty() {
            bail!("wasm is \"signed\", and trust names no key; name one");
        }
        let servers = allowed(&file.http_allow)?;
        let network = network(&file.net_allow)?;
        let cache = file.cache.unwrap_or_else(|| "/var/lib/pirn/shim".into());
        ensure!(
            cache.is_absolute(),
            "cache {} is not an absolute path; write it from /",
            cache.display()
        );
        Ok(Self {
            keys,
            wasm,
            so: file.so.unwrap_or(SoRule::Signed),
            native: file.native.unwrap_or(NativeRule::Pause),
            module_bytes_max: bytes(file.module_max, 256 << 20) as u64,
            cache,
            cache_bytes_max: bytes(file.cache_max, 1 << 30) as u64,
            compile: file.compile.with_defaults()?,
            servers,
            network,
            command: file.command.with_defaults(),
            server: file.server.with_defaults(),
        })
    }
}

impl CompileFile {
    fn with_defaults(self) -> Result<Compile> {
        let compiler = match self.compiler {
            Some(path) => path,
            None => beside_the_shim()?,
        };
        ensure!(
            compiler.is_absolute(),
            "compiler {} is not an absolute path; write it from /",
            compiler.display()
        );
        Ok(Compile {
            compiler,
            cpu: self.cpu.unwrap_or_else(|| "native".to_owned()),
            time_max: time(self.time_max, 300),
            memory_max: bytes(self.memory_max, 4 << 30) as u64,
            at_once: self.at_once.map_or(2, u32::from),
        })
    }
}

impl CommandFile {
    fn with_defaults(self) -> Command {
        Command {
            memory_max: bytes(self.memory_max, 4 << 30),
            stack: bytes(self.stack, 8 << 20),
            deadline: self.deadline.map(Duration::from),
            descriptors_max: self.descriptors_max.map_or(1024, u32::from),
        }
    }
}

impl ServerFile {
    fn with_defaults(self) -> Server {
        Server {
            slots: self.slots.map_or(64, u32::from),
            memory_max: bytes(self.memory_max, 64 << 20),
            stack: bytes(self.stack, 1 << 20),
            deadline: time(self.deadline, 1),
            wait: self.wait.map_or(Duration::from_millis(500), Duration::from),
            body_max: bytes(self.body_max, 1 << 20),
            grace: time(self.grace, 10),
        }
    }
}

fn bytes(size: Option<Size>, default: usize) -> usize {
    size.map_or(default, usize::from)
}

fn time(time: Option<Time>, default_s: u64) -> Duration {
    time.map_or(Duration::from_secs(default_s), Duration::from)
}

/// The path of `aotc` in the folder of the shim's program.
fn beside_the_shim() -> Result<PathBuf> {
    let shim = env::current_exe().context("cannot find the folder of the shim")?;
    Ok(shim.with_file_name("aotc"))
}

fn key(path: &Path) -> Result<PublicKey> {
    let read = || {
        let text = owner::read_text(path, pirn_signature::KEY_BYTES_MAX)?;
        Ok(PublicKey::parse(&text)?)
    };
    let key: Result<_> = read();
    key.with_context(|| format!("trust {}", path.display()))
}

fn allowed(rules: &[String]) -> Result<Allowed> {
    let mut all = Allowed::default();
    for rule in rules {
        all.add(rule).context("http_allow")?;
    }
    Ok(all)
}

fn network(rules: &[String]) -> Result<Network> {
    let mut all = rules.iter();
    let network = all.try_fold(Network::none(), |all, rule| all.allow_text(rule));
    network.context("net_allow")
}

fn is_missing(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
