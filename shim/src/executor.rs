//! [`Executor`]: runs a guest in the process that libcontainer has moved into the container.
//!
//! libcontainer has entered the namespaces, the control group and the root file system, and has
//! dropped privileges that the container may not have. The process is a fork of the shim and
//! executes no other program. So it still has the shim's descriptors. The executor closes them
//! before the guest runs.

use crate::command;
use crate::given::Given;
use crate::outcome::Outcome;
use crate::prepare::{Guest, Role, Work};
use crate::serve::serve;
use crate::stop::{Stop, hold};
use anyhow::{Context as _, Result};
use caps::CapSet;
use libcontainer::workload::default::DefaultExecutor;
use libcontainer::workload::{
    Executor as Workload, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError,
};
use oci_spec::runtime::Spec;
use std::collections::HashMap;
use std::fs;
use std::os::fd::RawFd;
use std::process;
use std::rc::Rc;

/// Runs the guest or the Linux program of a container.
#[derive(Clone)]
pub(crate) struct Executor(Rc<Work>);

impl Executor {
    pub(crate) fn new(work: Work) -> Self {
        Self(Rc::new(work))
    }
}

impl Workload for Executor {
    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        match &*self.0 {
            Work::Native => DefaultExecutor {}.exec(spec),
            Work::Guest(guest) => {
                let code = run(guest, spec);
                process::exit(code);
            }
        }
    }

    fn validate(&self, _spec: &Spec) -> Result<(), ExecutorValidationError> {
        match &*self.0 {
            // The shim has found the program. libcontainer's own check needs a PATH, which the
            // pause container does not have.
            Work::Native => Ok(()),
            // A stop signal may arrive before the container has started.
            Work::Guest(_) => match hold() {
                Ok(_) => Ok(()),
                Err(error) => Err(ExecutorValidationError::ArgValidationError(
                    error.to_string(),
                )),
            },
        }
    }

    fn setup_envs(&self, envs: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        match &*self.0 {
            Work::Native => DefaultExecutor {}.setup_envs(envs),
            // The guest gets the container's variables. The environment of this process does not
            // change.
            Work::Guest(_) => Ok(()),
        }
    }
}

/// Runs a guest, and returns the exit code of the container.
fn run(guest: &Guest, spec: &Spec) -> i32 {
    let stop = match Stop::listen() {
        Ok(stop) => stop,
        Err(error) => return Outcome::from(error).tell(),
    };
    let outcome = match enter(guest, spec) {
        Err(error) => error.into(),
        Ok(given) => match guest.role {
            Role::Command(limits) => {
                command::run(&guest.module, &limits, &guest.policy, given, &stop)
            }
            Role::Server(limits, ports) => {
                let ended = serve(&guest.module, &limits, &guest.policy, ports, given, &stop);
                ended.map_or_else(Outcome::from, |()| Outcome::Exited(0))
            }
        },
    };
    match (&outcome, stop.code()) {
        (Outcome::Killed, Some(code)) => code,
        _ => outcome.tell(),
    }
}

/// Opens the directories of the container, and gives up the capabilities and descriptors of the
/// shim.
fn enter(guest: &Guest, spec: &Spec) -> Result<Given> {
    drop_rights().context("cannot drop capabilities")?;
    close_others(guest.view.descriptor())?;
    Ok(Given::new(spec, guest.view.open()?))
}

/// Drops the capabilities that a user other than root loses when it executes a program
/// (capabilities(7)): all except the ambient capabilities. This process executes no program, so the
/// kernel does not drop these capabilities.
fn drop_rights() -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let ambient = caps::read(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Effective, &ambient)?;
    caps::set(None, CapSet::Permitted, &ambient)?;
    Ok(())
}

/// Closes all descriptors except the standard streams and `kept`. Nothing uses the closed
/// descriptors: this process never returns to the code that opened them.
fn close_others(kept: RawFd) -> Result<()> {
    // One of the closed descriptors is the log of the shim.
    log::set_max_level(log::LevelFilter::Off);
    let all = fs::read_dir("/proc/self/fd").context("cannot list the descriptors of the shim")?;
    let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // Collect all numbers before the first close, because reading the directory needs a descriptor,
    // too.
    let all: Vec<RawFd> = all.collect();
    for fd in all {
        if fd > 2 && fd != kept {
            // The directory's own descriptor is already closed, so this call may fail.
            let _ = nix::unistd::close(fd);
        }
    }
    Ok(())
}
