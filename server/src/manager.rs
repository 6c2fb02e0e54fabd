//! The service manager, such as systemd: what the server tells it, and the socket that it passes.
//!
//! Without a manager all of this does nothing.

use anyhow::{Context as _, Result, bail};
use listenfd::ListenFd;
use sd_notify::NotifyState;
use std::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

/// The socket that the manager passed, by `LISTEN_FDS`.
///
/// # Errors
///
/// If there are several, or if it is not a TCP socket that listens.
pub(crate) fn socket() -> Result<Option<TcpListener>> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        bail!("service manager passed {} sockets; pass one", passed.len());
    }
    let socket = passed.take_tcp_listener(0);
    let socket = socket.context("service manager passed a socket that is not for TCP clients")?;
    if let Some(socket) = &socket {
        socket.set_nonblocking(true)?;
    }
    Ok(socket)
}

/// Tells the manager that requests are served.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells the manager that a reload begins. It ends by [`ready`].
pub(crate) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Tells the manager that the server ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the manager, for as long as the future runs, that this thread still runs tasks.
pub(crate) async fn watch() {
    let Some(most) = sd_notify::watchdog_enabled().filter(|most| !most.is_zero()) else {
        return;
    };
    let mut ticks = interval(most / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "service manager is not told");
    }
}
