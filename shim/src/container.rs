//! [`Container`]: a container, held by a process of its own.
//!
//! Making a container forks, and the shim has threads, after which a fork may only run another
//! program. So a process without threads, which was forked when the shim began, forks once for each
//! container. That process makes the container and keeps its state.

use crate::executor::Executor;
use crate::prepare::{Layer, prepare};
use anyhow::{Context as _, Result, anyhow};
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
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// The name of the shim, by which it keeps the state of its containers apart from other shims'.
pub const NAME: &str = "pirn";

thread_local! {
    /// The container of this process. The shim itself has none.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// The container of a process that holds one.
struct Held {
    container: Inner,
    /// Until the container starts, its standard input has a writer, and thus no end.
    writer: Option<File>,
}

/// A container.
pub(crate) struct Container {
    holder: Zygote,
    /// The number of its first process.
    pub(crate) pid: i32,
}

/// What a container is made of.
#[derive(Serialize, Deserialize)]
struct Plan {
    id: String,
    config: InstanceConfig,
    layer: Option<Layer>,
}

/// A result that a process sends to another. The error is one line.
type Sent<T> = std::result::Result<T, String>;

impl Container {
    /// Makes a container, which does not run yet.
    pub(crate) fn create(id: &str, config: &InstanceConfig, layer: Option<Layer>) -> Result<Self> {
        let holder = Zygote::global().spawn();
        let plan = Plan {
            id: id.to_owned(),
            config: config.clone(),
            layer,
        };
        let made = holder.try_run(|plan: Plan| sent(make(&plan)), plan);
        let pid = received(made)?;
        Ok(Self { holder, pid })
    }

    /// Lets the container run.
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

    /// Removes the container, and ends its processes.
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
    result.map_err(|error| format!("{error:#}").replace('\n', " "))
}

fn with<T>(f: impl FnOnce(&mut Held) -> Result<T>) -> Result<T> {
    HELD.with_borrow_mut(|held| f(held.as_mut().context("the container was not made")?))
}

/// Makes the container of this process, and returns the number of its first process.
fn make(plan: &Plan) -> Result<i32> {
    let Plan { id, config, layer } = plan;
    let spec = Spec::load(config.bundle.join("config.json")).context("cannot read the spec")?;
    let work = prepare(&config.bundle, &spec, layer.clone())?;
    let (input, writer) = input(&config.stdin)?;
    let built = ContainerBuilder::new(id.clone(), SyscallType::Linux)
        .with_executor(Executor::new(work))
        .with_root_path(root(config)?)?
        .with_stdin(input)
        .with_stdout(output(&config.stdout)?)
        .with_stderr(output(&config.stderr)?)
        .as_init(&config.bundle)
        .as_sibling(true)
        .with_systemd(config.config.systemd_cgroup)
        .build();
    let container = built.map_err(|error| {
        // Some of its errors do not name their cause.
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

/// The folder of the state of containers.
fn root(config: &InstanceConfig) -> Result<PathBuf> {
    Ok(config.determine_rootdir(NAME)?)
}

/// Opens the standard input of a container, a named pipe that containerd made, and a writer of it.
/// The writer keeps the pipe open until that of the client is there.
fn input(path: &Path) -> Result<(File, Option<File>)> {
    if path.as_os_str().is_empty() {
        return Ok((File::open("/dev/null")?, None));
    }
    let writer = output(path)?;
    // Does not wait: the pipe has a writer.
    let reader = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok((reader, Some(writer)))
}

/// Opens an output of a container: a named pipe that containerd made, or nothing.
fn output(path: &Path) -> Result<File> {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("/dev/null"),
        false => path,
    };
    // Opened for both, a named pipe does not wait for its other end.
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

/// Removes what a container left whose shim was killed, and ends its processes.
///
/// # Errors
///
/// If the system refuses it.
pub fn clean_up(id: &str, config: &InstanceConfig) -> Result<()> {
    let state = root(config)?.join(id);
    if !state.exists() {
        return Ok(());
    }
    let mut container = Inner::load(state)?;
    Ok(container.delete(true)?)
}
