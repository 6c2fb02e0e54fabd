//! [`Container`]: a container. A separate process holds its state.
//!
//! libcontainer forks to create a container. The shim has threads, so after a fork the child may
//! only execute another program. So the shim forks a process without threads when it starts. This
//! process forks again for each container. The new process creates the container and keeps its
//! state.

use crate::entry::Signable;
use crate::executor::Executor;
use crate::outcome::one_line;
use crate::prepare::prepare;
use anyhow::{Context as _, Result, anyhow, bail};
use containerd_shimkit::sandbox::InstanceConfig;
use containerd_shimkit::zygote::Zygote;
use libcontainer::container::Container as Inner;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::signal::Signal;
use libcontainer::syscall::syscall::SyscallType;
use oci_spec::runtime::Spec;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::error::Error as _;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// The name of the shim. It separates the state of this shim's containers from the state of other
/// shims' containers.
pub const NAME: &str = "pirn";

thread_local! {
    /// The container that this process holds. The shim's main process holds no container.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// A container, in the process that holds it.
struct Held {
    container: Inner,
    /// Keeps the container's standard input from reaching end of file before the container starts.
    writer: Option<File>,
}

/// A container, as the shim's main process sees it.
pub(crate) struct Container {
    holder: Zygote,
    /// The process id of the container's first process.
    pub(crate) pid: i32,
}

/// The inputs for the creation of a container.
#[derive(Serialize, Deserialize)]
struct Plan {
    id: String,
    config: InstanceConfig,
    /// The program of an OCI artifact.
    layer: Option<Signable>,
}

/// A result that one process sends to another. The error is one line.
type Sent<T> = std::result::Result<T, String>;

impl Container {
    /// Creates a container without starting it.
    pub(crate) fn create(
        id: &str,
        config: &InstanceConfig,
        layer: Option<Signable>,
    ) -> Result<Self> {
        let holder = Zygote::global().spawn();
        let plan = Plan {
            id: id.to_owned(),
            config: config.clone(),
            layer,
        };
        let made = holder.try_run(|plan: Plan| sent(make(plan)), plan);
        let pid = received(made)?;
        Ok(Self { holder, pid })
    }

    /// Starts the container.
    pub(crate) fn start(&self) -> Result<()> {
        let start = |(): ()| {
            sent(with(|held| {
                held.writer = None;
                Ok(held.container.start()?)
            }))
        };
        received(self.holder.try_run(start, ()))
    }

    /// Sends a signal to all processes of the container.
    pub(crate) fn kill(&self, signal: u32) -> Result<()> {
        let kill = |signal: u32| {
            sent(with(|held| {
                let signal = Signal::try_from(signal.cast_signed())
                    .map_err(|_| anyhow!("{signal} is no signal"))?;
                Ok(held.container.kill(signal, true)?)
            }))
        };
        received(self.holder.try_run(kill, signal))
    }

    /// Ends the container's processes, and removes the container.
    pub(crate) fn delete(&self) -> Result<()> {
        let delete = |(): ()| sent(with(|held| Ok(held.container.delete(true)?)));
        received(self.holder.try_run(delete, ()))
    }
}

fn received<T>(sent: std::result::Result<Sent<T>, impl std::fmt::Display>) -> Result<T> {
    sent.map_err(|error| anyhow!("the process of the container failed: {error}"))?
        .map_err(|error| anyhow!(error))
}

fn sent<T>(result: Result<T>) -> Sent<T> {
    result.map_err(|error| one_line(&error))
}

fn with<T>(f: impl FnOnce(&mut Held) -> Result<T>) -> Result<T> {
    HELD.with_borrow_mut(|held| f(held.as_mut().context("the container was not made")?))
}

/// Creates the container that this process holds. Returns the process id of the container's first
/// process.
fn make(plan: Plan) -> Result<i32> {
    let Plan { id, config, layer } = plan;
    let spec = Spec::load(config.bundle.join("config.json")).context("cannot read the spec")?;
    let work = prepare(&config.bundle, &spec, layer)?;
    let (input, writer) = input(&config.stdin)?;
    let built = ContainerBuilder::new(id, SyscallType::Linux)
        .with_executor(Executor::new(work))
        .with_root_path(root(&config)?)?
        .with_stdin(input)
        .with_stdout(output(&config.stdout)?)
        .with_stderr(output(&config.stderr)?)
        .as_init(&config.bundle)
        .as_sibling(true)
        .with_systemd(config.config.systemd_cgroup)
        .build();
    let container = built.map_err(|error| {
        // Some errors of libcontainer do not name their cause.
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.ends_with(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        anyhow!("cannot make the container: {text}")
    })?;
    let pid = container.pid().context("the container has no process")?;
    HELD.set(Some(Held { container, writer }));
    Ok(pid.as_raw())
}

/// The folder for the state of containers.
fn root(config: &InstanceConfig) -> Result<PathBuf> {
    Ok(config.determine_rootdir(NAME)?)
}

/// Opens both ends of a container's standard input, a named pipe that containerd created. The
/// writer keeps the pipe from reaching end of file until the client opens it for writing.
fn input(path: &Path) -> Result<(File, Option<File>)> {
    if path.as_os_str().is_empty() {
        return Ok((File::open("/dev/null")?, None));
    }
    let writer = output(path)?;
    // This does not block, because the pipe has a writer.
    let reader = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok((reader, Some(writer)))
}

/// Opens an output stream of a container: a named pipe that containerd created, the file of a
/// `file://` address, or `/dev/null`.
fn output(path: &Path) -> Result<File> {
    match path.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", file)) => return log_file(Path::new(file)),
        Some((scheme, _)) => bail!(
            "log {} has the scheme {scheme}, the shim supports file; use file:///PATH, or a pipe",
            path.display()
        ),
        None => {}
    }
    let path = match path.as_os_str().is_empty() {
        true => Path::new("/dev/null"),
        false => path,
    };
    // A named pipe that is opened for reading and writing does not wait for another process.
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

/// Opens a file to which a container's output is appended. Makes the file and its folder.
fn log_file(path: &Path) -> Result<File> {
    let folder = path.parent().unwrap_or(path);
    let file = fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().append(true).create(true).open(path));
    file.with_context(|| format!("cannot open the log {}", path.display()))
}

/// Ends the processes of a container whose shim was killed, and removes the container's state.
///
/// # Errors
///
/// If the system refuses to remove the state.
pub fn clean_up(id: &str, config: &InstanceConfig) -> Result<()> {
    let state = root(config)?.join(id);
    if !state.exists() {
        return Ok(());
    }
    let mut container = Inner::load(state)?;
    Ok(container.delete(true)?)
}
