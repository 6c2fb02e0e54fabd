//! [`Instance`]: the container of one task. Implements the trait of the shim library.

use crate::artifact;
use crate::container::Container;
use crate::entry::Signable;
use crate::outcome::one_line;
use crate::policy::Policy;
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use containerd_shim::monitor::{Subscription, Topic, monitor_subscribe, wait_pid};
use containerd_shimkit::sandbox::sync::WaitableCell;
use containerd_shimkit::sandbox::{Instance as Task, InstanceConfig, Result};
use std::thread;

/// A container of the shim.
pub struct Instance {
    container: Container,
    exit: WaitableCell<(u32, DateTime<Utc>)>,
}

impl Task for Instance {
    async fn new(id: String, config: &InstanceConfig) -> Result<Self> {
        let layer = layer(&id, config).await;
        // The shim library reports only the message of an error, without its causes.
        let layer = layer.map_err(|error| anyhow!(one_line(&error)))?;
        // Subscribes before the container exists, to receive its exit event.
        let ends = monitor_subscribe(Topic::Pid)?;
        let container = Container::create(&id, config, layer)?;
        let exit = WaitableCell::new();
        watch(container.pid, ends, exit.clone())?;
        Ok(Self { container, exit })
    }

    async fn start(&self) -> Result<u32> {
        self.container.start()?;
        Ok(self.container.pid.cast_unsigned())
    }

    async fn kill(&self, signal: u32) -> Result<()> {
        Ok(self.container.kill(signal)?)
    }

    async fn delete(&self) -> Result<()> {
        Ok(self.container.delete()?)
    }

    async fn wait(&self) -> (u32, DateTime<Utc>) {
        *self.exit.wait().await
    }
}

/// The program of a container whose image is an OCI artifact.
async fn layer(id: &str, config: &InstanceConfig) -> anyhow::Result<Option<Signable>> {
    // The shim reads the policy for each container, because an operator may have changed it.
    let policy = Policy::of_node()?;
    artifact::layer(id, config, policy.module_bytes_max).await
}

/// Waits on a new thread for the end of the container's first process. The reaper of the shim
/// library gets the exit code from the kernel.
fn watch(pid: i32, ends: Subscription, exit: WaitableCell<(u32, DateTime<Utc>)>) -> Result<()> {
    let wait = move || {
        let code = wait_pid(pid, ends);
        // No other code sets the exit code.
        let _ = exit.set((code.cast_unsigned(), Utc::now()));
    };
    thread::Builder::new().name("exit".to_owned()).spawn(wait)?;
    Ok(())
}
