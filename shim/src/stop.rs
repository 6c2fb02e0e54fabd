//! [`Stop`]: the signals that end a container.
//!
//! The guest's process is the first one of its namespace, for which the kernel ignores signals
//! that nobody handles. So one thread waits for the signals that end a Linux program, and ends the
//! guest. SIGKILL needs none of this.

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

/// Time that a command has to end after its kill. It is over at once, unless it is in a call of the
/// host that takes long.
const GRACE: Duration = Duration::from_secs(1);

/// The signals that end a container. Clones are of the same container.
#[derive(Clone)]
pub(crate) struct Stop(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when a signal arrives, for a server.
    told: Notify,
}

#[derive(Default)]
struct State {
    /// The signal that arrived.
    signal: Option<Signal>,
    switch: Option<KillSwitch>,
    /// Whether a server ends its requests itself.
    is_server: bool,
}

impl Stop {
    /// Begins to wait for the signals. Call this before other threads exist: they inherit which
    /// signals are blocked.
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
                // It may be over already.
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

    /// Ends this guest when a signal arrives, or now if one has arrived.
    pub(crate) fn guard(&self, switch: KillSwitch) {
        self.with(|state| {
            if state.signal.is_some() {
                let _ = switch.kill();
            }
            state.switch = Some(switch);
        });
    }

    /// The exit code after the signal that arrived, if one did.
    pub(crate) fn code(&self) -> Option<i32> {
        self.with(|state| state.signal.map(code_of))
    }

    /// Lets a server end by itself. Is ready when a signal arrives.
    pub(crate) async fn told(self) {
        self.0.told.notified().await;
    }

    /// Says that this container is a server.
    pub(crate) fn is_server(&self) {
        self.with(|state| state.is_server = true);
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Holds the signals back until [`Stop::listen`], so that none is lost that arrives earlier.
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
