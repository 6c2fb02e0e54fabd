//! [`Stop`]: the signals that end a container.
//!
//! The guest's process is process 1 of its PID namespace. The kernel discards signals to process 1
//! that have no handler. So one thread waits for the signals that end a Linux program, and then
//! ends the guest. SIGKILL needs no handler.

use anyhow::{Context as _, Result};
use nix::sys::signal::{SigSet, Signal};
use pirn_runtime::KillSwitch;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::Notify;

/// The signals that end a container.
const SIGNALS: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Time for a command to end after its kill switch fires. The command ends at once, unless it is in
/// a long host call.
const GRACE: Duration = Duration::from_secs(1);

/// Handles the signals that end a container. All clones belong to the same container.
#[derive(Clone)]
pub(crate) struct Stop(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when a signal arrives. Servers wait for this notification.
    told: Notify,
}

#[derive(Default)]
struct State {
    /// The signal that arrived.
    signal: Option<Signal>,
    switch: Option<KillSwitch>,
    /// Whether the guest is a server, which ends its requests itself.
    is_server: bool,
}

impl Stop {
    /// Begins to wait for the signals. Call this before other threads exist, because they inherit
    /// the signal mask.
    pub(crate) fn listen() -> Result<Self> {
        let signals = hold()?;
        let stop = Self(Arc::new(Shared {
            state: Mutex::default(),
            told: Notify::new(),
        }));
        let waiting = stop.clone();
        let wait = move || {
            loop {
                if let Ok(signal) = signals.wait() {
                    waiting.arrived(signal);
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread
            .spawn(wait)
            .context("cannot start the thread of signals")?;
        Ok(stop)
    }

    fn arrived(&self, signal: Signal) {
        let is_server = self.with(|state| {
            state.signal.get_or_insert(signal);
            if let Some(switch) = &state.switch {
                // The guest may have ended already.
                let _ = switch.kill();
            }
            state.is_server
        });
        self.0.told.notify_one();
        if !is_server {
            thread::sleep(GRACE);
            std::process::exit(code_of(signal));
        }
    }

    /// Ends this guest when a signal arrives, or at once if a signal has arrived already.
    pub(crate) fn guard(&self, switch: KillSwitch) {
        self.with(|state| {
            if state.signal.is_some() {
                let _ = switch.kill();
            }
            state.switch = Some(switch);
        });
    }

    /// The exit code for the signal that arrived. `None` if no signal has arrived.
    pub(crate) fn code(&self) -> Option<i32> {
        self.with(|state| state.signal.map(code_of))
    }

    /// A future that completes when a stop signal arrives. The server then ends by itself.
    pub(crate) async fn told(self) {
        self.0.told.notified().await;
    }

    /// Marks this container as a server.
    pub(crate) fn is_server(&self) {
        self.with(|state| state.is_server = true);
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Blocks the signals until [`Stop::listen`], so that the process does not lose early signals.
pub(crate) fn hold() -> Result<SigSet> {
    let signals: SigSet = SIGNALS.into_iter().collect();
    signals
        .thread_block()
        .context("cannot block the stop signals")?;
    Ok(signals)
}

/// The exit code of a program that a signal ended, as shells and runc report it.
fn code_of(signal: Signal) -> i32 {
    128 + signal as i32
}
