//! [`Handler`]: a guest that is a `wasi:http` component.

use super::bounds::Bounds;
use super::engine::{Begun, End, Ended, Exchange};
use super::errors::core_end;
use super::grants::Grants;
use anyhow::{Context as _, Result};
use pirn_component::{CallError, Component, Limits, Linker, Prepared};
use pirn_runtime::{InstantiateError, Measure, Region, Usage};
use pirn_wasi2::http::{Client, HANDLE, Handle, begin, complete};
use pirn_wasi2::{Bounded, Exit, Pipe, Wasi, WasiBuilder, WasiConfig};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A guest that is a `wasi:http` component, ready to be instantiated for each request.
pub(crate) struct Handler {
    prepared: Prepared<Wasi>,
    handle: Handle,
    config: Arc<WasiConfig>,
}

impl Handler {
    /// Prepares a component. Fails if it does not export `wasi:http/incoming-handler`.
    pub(crate) fn new(
        region: &Region,
        component: &Component,
        linker: &Linker<Wasi>,
        start_deadline: Duration,
    ) -> Result<Self> {
        let prepared = linker.prepare(region, component)?;
        let prepared = prepared.start_deadline(start_deadline);
        let prepared = prepared.measured(Measure::CpuTime);
        let handle = prepared.typed(HANDLE);
        Ok(Self {
            handle: handle.context("it answers no HTTP requests")?,
            prepared,
            config: Arc::default(),
        })
    }

    /// Limits the time of a start function.
    pub(crate) fn set_start_deadline(&mut self, limit: Duration) {
        self.prepared = self.prepared.start_deadline(limit);
    }

    /// Applies the grants of the guest.
    pub(crate) fn allow(&mut self, grants: &Grants) {
        let client = Client::new(grants.servers.clone());
        let network = grants.network.clone();
        let mut builder = WasiBuilder::new().outgoing(client).network(network);
        for dir in &grants.memory_dirs {
            builder = builder.memory_dir(&dir.base, dir.limits, &dir.path);
        }
        for host in &grants.host_dirs {
            let dir = Arc::clone(&host.dir);
            builder = match host.is_read_only {
                true => builder.preopened_dir_read_only(dir, &host.path),
                false => builder.preopened_dir(dir, &host.path),
            };
        }
        for (name, value) in &grants.env {
            builder = builder.env(name, value);
        }
        self.config = Arc::new(builder.config());
    }

    /// Gives a request to a new instance. The guest runs while the caller polls the result's `run`.
    pub(crate) fn begin(&self, exchange: Exchange, bounds: Bounds) -> Result<Begun, End> {
        let mut wasi = Wasi::new(&self.config);
        let printed = Pipe::new(Bounded::new(vec![], bounds.errors_max));
        wasi.set_stdout(printed.clone());
        wasi.set_stderr(printed.clone());
        let begun = begin(&mut wasi, exchange.request);
        let (params, answer) = begun.map_err(|error| End::System(error.to_string()))?;
        let (prepared, handle) = (self.prepared.clone(), self.handle.clone());
        let place = exchange.place;
        let run = async move {
            let begin = Instant::now();
            let (made, since) = place.wait(prepared.instantiate_async(wasi)).await?;
            let (end, usage) = match made {
                Err(error) => (not_made(error), Usage::default()),
                Ok(mut instance) => {
                    let limits = Limits {
                        deadline: Some(bounds.deadline),
                        timeslice: Some(bounds.timeslice),
                    };
                    let called = instance.call_typed_async(limits, &handle, params).await;
                    if called.is_ok() {
                        complete(instance.data_mut());
                    }
                    let end = called.map_or_else(ended, |()| End::Exited(0));
                    let usage = instance.usage_without_pages();
                    (end, usage)
                }
            };
            let errors = printed.with(|printed| printed.get_ref().clone());
            Some(Ended {
                end,
                errors,
                waited: since - begin,
                took: since.elapsed(),
                usage,
            })
        };
        Ok(Begun {
            answer,
            run: Box::pin(run),
        })
    }
}

fn not_made(error: InstantiateError) -> End {
    match error {
        InstantiateError::Start(error) => ended(CallError::Core(error)),
        error => End::System(error.to_string()),
    }
}

/// Converts the error of a guest's call.
fn ended(error: CallError) -> End {
    if let Some(exit) = Exit::of(&error) {
        return End::Exited(exit.code);
    }
    match error {
        CallError::Core(error) => core_end(error),
        error => End::Trap(error.to_string()),
    }
}
