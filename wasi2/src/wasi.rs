//! [`Wasi`]: the configuration of a guest, and the resources that it has.

use crate::io::{Input, Output};
use crate::message::SendRequest;
use crate::network::Network;
use crate::pipes::Nothing;
use crate::preopens::FilesConfig;
use crate::quota::Quota;
use crate::resolver::Resolver;
use crate::standard::{StandardInput, StandardOutput};
use crate::table::Table;
use crate::threads::{User, new_number};
use pirn_component::HostBytes;
use pirn_memory_files::MemoryDir;
use pirn_wasi::pipe::Pipe;
use pirn_wasi::{Clocks, FileQuota};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The data of an instance. It contains a [`Wasi`].
pub trait View: Send + 'static {
    /// The instance's [`Wasi`].
    fn wasi(&mut self) -> &mut Wasi;
}

impl View for Wasi {
    fn wasi(&mut self) -> &mut Wasi {
        self
    }
}

/// The configuration that all instances of a program share: arguments, variables, directories,
/// rules of the network. A server makes the configuration once.
#[derive(Default)]
pub struct WasiConfig {
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
    pub(crate) outgoing: Option<Arc<dyn SendRequest>>,
    pub(crate) files: FilesConfig,
    pub(crate) network: Network,
    pub(crate) resolver: Resolver,
    /// The number of the program, for the threads that all programs share.
    pub(crate) program: u64,
}

impl std::fmt::Debug for WasiConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Variables may contain secrets.
        let mut shown = f.debug_struct("WasiConfig");
        shown.field("args", &self.args);
        shown.finish_non_exhaustive()
    }
}

/// The configuration of a guest, and the resources that it has.
pub struct Wasi {
    pub(crate) config: Arc<WasiConfig>,
    pub(crate) table: Table,
    /// `None` until the guest asks for its directories.
    pub(crate) file_quota: Option<Arc<FileQuota>>,
    /// The guest's directories in memory, by their number among the preopened directories. Empty
    /// until the guest asks for its directories.
    pub(crate) memory_dirs: BTreeMap<usize, MemoryDir>,
    stdin: Option<Pipe<dyn Input>>,
    stdout: Option<Pipe<dyn Output>>,
    stderr: Option<Pipe<dyn Output>>,
    /// Whether standard input, output and error are terminals.
    pub(crate) terminals: [bool; 3],
    /// Counts connections to other servers (`wasi:http`).
    pub(crate) connections: Quota,
    pub(crate) clocks: Clocks,
    /// Counts the host memory for the guest. The instance counts its own memory with it, too.
    pub(crate) host_bytes: HostBytes,
    pub(crate) sockets: Quota,
    pub(crate) lookups: Quota,
    /// The number of the guest, for the threads that all guests share. 0 until the guest uses a
    /// thread.
    number: u64,
}

impl Wasi {
    /// The resources that the guest has.
    pub fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// The counter of the memory that the host keeps for the guest.
    /// [`Linker::host_bytes_max`](pirn_component::Linker::host_bytes_max) becomes its limit when
    /// the instance is made.
    #[must_use]
    pub fn host_bytes(&self) -> &HostBytes {
        &self.host_bytes
    }

    /// The user of threads that guests share.
    pub(crate) fn user(&mut self) -> User {
        if self.number == 0 {
            self.number = new_number();
        }
        User {
            program: self.config.program,
            guest: self.number,
        }
    }

    /// The source of one more stream of standard input.
    pub(crate) fn stdin(&self) -> Box<dyn Input> {
        match &self.stdin {
            Some(pipe) => Box::new(pipe.clone()),
            None => Box::new(Nothing),
        }
    }

    /// The sink of one more stream of standard output.
    pub(crate) fn stdout(&self) -> Box<dyn Output> {
        sink(self.stdout.as_ref())
    }

    /// The sink of one more stream of standard error.
    pub(crate) fn stderr(&self) -> Box<dyn Output> {
        sink(self.stderr.as_ref())
    }
}

fn shared(output: impl Output) -> Pipe<dyn Output> {
    let shared: Arc<Mutex<dyn Output>> = Arc::new(Mutex::new(output));
    shared.into()
}

fn sink(pipe: Option<&Pipe<dyn Output>>) -> Box<dyn Output> {
    match pipe {
        Some(pipe) => Box::new(pipe.clone()),
        None => Box::new(Nothing),
    }
}

/// Makes a [`Wasi`]. By default a guest has no arguments, variables, files or network. Its standard
/// input is empty, and its output is discarded.
pub struct WasiBuilder {
    pub(crate) config: WasiConfig,
    wasi: Wasi,
}

impl Default for WasiBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl WasiBuilder {
    /// A guest that has nothing but clocks and random numbers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            config: WasiConfig::default(),
            wasi: Wasi::new(&Arc::default()),
        }
    }

    /// Adds an argument. The first argument is the name of the program.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.config.args.push(arg.into());
        self
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.env.push((name.into(), value.into()));
        self
    }

    /// Sets the initial working directory.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.config.cwd = Some(path.into());
        self
    }

    /// Lets the guest send HTTP requests to other servers. [`Client`](crate::http::Client) sends
    /// the requests to servers that are allowed.
    #[must_use]
    pub fn outgoing(mut self, send: impl SendRequest + 'static) -> Self {
        self.config.outgoing = Some(Arc::new(send));
        self
    }

    /// Sets the addresses that the guest's sockets may use. By default the guest may use no
    /// address.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.config.network = network;
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, input: impl Input) -> Self {
        self.wasi.set_stdin(input);
        self
    }

    /// Sets the standard output. Give a [`Pipe`] to read the output later.
    #[must_use]
    pub fn stdout(mut self, output: impl Output) -> Self {
        self.wasi.set_stdout(output);
        self
    }

    /// Sets the standard error.
    #[must_use]
    pub fn stderr(mut self, output: impl Output) -> Self {
        self.wasi.set_stderr(output);
        self
    }

    /// Gives the guest the standard streams of the process, without an extra buffer. A guest that
    /// waits for a pipe, a terminal or a socket holds no thread, and no unread byte is lost. A
    /// stream that the system cannot duplicate is empty.
    #[must_use]
    pub fn inherit_stdio(mut self) -> Self {
        use std::io::IsTerminal;
        if let Ok(input) = StandardInput::of(std::io::stdin()) {
            self.wasi.set_stdin(input);
        }
        if let Ok(output) = StandardOutput::of(std::io::stdout()) {
            self.wasi.set_stdout(output);
        }
        if let Ok(output) = StandardOutput::of(std::io::stderr()) {
            self.wasi.set_stderr(output);
        }
        self.wasi.terminals = [
            std::io::stdin().is_terminal(),
            std::io::stdout().is_terminal(),
            std::io::stderr().is_terminal(),
        ];
        self
    }

    /// Makes the [`Wasi`] of one instance. All guests that this function makes count as one program
    /// for the threads of name lookups and disk waits. If several programs run in a process, give
    /// each a configuration by [`config`](Self::config).
    #[must_use]
    pub fn build(self) -> Wasi {
        let mut wasi = self.wasi;
        wasi.config = Arc::new(self.config);
        wasi
    }

    /// Makes a configuration for many instances of one program, without the standard streams. Make
    /// it once for each program, not for each instance: the configuration identifies the program
    /// for the threads of name lookups and disk waits.
    #[must_use]
    pub fn config(mut self) -> WasiConfig {
        self.config.program = new_number();
        self.config
    }
}

impl Wasi {
    /// Makes the [`Wasi`] of one instance from a shared configuration. Its standard streams are
    /// empty.
    #[must_use]
    pub fn new(config: &Arc<WasiConfig>) -> Self {
        let host_bytes = HostBytes::default();
        Self {
            config: Arc::clone(config),
            table: Table::new(&host_bytes),
            file_quota: None,
            memory_dirs: BTreeMap::new(),
            stdin: None,
            stdout: None,
            stderr: None,
            terminals: [false; 3],
            connections: Quota::default(),
            clocks: Clocks::Kernel(Instant::now()),
            host_bytes,
            sockets: Quota::default(),
            lookups: Quota::default(),
            number: 0,
        }
    }

    /// Sets the standard input.
    pub fn set_stdin(&mut self, input: impl Input) {
        let shared: Arc<Mutex<dyn Input>> = Arc::new(Mutex::new(input));
        self.stdin = Some(shared.into());
    }

    /// Sets the standard output.
    pub fn set_stdout(&mut self, output: impl Output) {
        self.stdout = Some(shared(output));
    }

    /// Sets the standard error.
    pub fn set_stderr(&mut self, output: impl Output) {
        self.stderr = Some(shared(output));
    }
}

impl std::fmt::Debug for Wasi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Wasi");
        shown.field("config", &self.config);
        shown.field("resources", &self.table.len());
        shown.finish_non_exhaustive()
    }
}
