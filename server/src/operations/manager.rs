//! The service manager, such as systemd: the messages of the server to the manager, and the socket
//! that the manager passes.
//!
//! Without a manager, the functions of this file do nothing.

use anyhow::{Context as _, Result, bail};
use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// The socket that the manager passed, by `LISTEN_FDS`.
///
/// # Errors
///
/// If there are several sockets, or if the socket is no listening TCP socket.
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

/// Tells the manager that the server takes requests.
pub(crate) fn ready() {
    tell("READY=1\n");
}

/// Tells the manager that a reload begins. [`ready`] ends the reload.
pub(crate) fn reloading() {
    // systemd tells reloads apart by this clock.
    let now = clock_gettime(ClockId::Monotonic);
    let now_us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
}

/// Tells the manager that the server ends.
pub(crate) fn stopping() {
    tell("STOPPING=1\n");
}

/// Tells the manager, for as long as the future runs, that this thread still runs tasks.
pub(crate) async fn watch() {
    let variables = ["WATCHDOG_USEC", "WATCHDOG_PID"].map(|name| env::var(name).ok());
    let [most, process] = variables.each_ref().map(Option::as_deref);
    let Some(most) = longest_silence(most, process, process::id()) else {
        return;
    };
    let mut ticks = interval(most / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tell("WATCHDOG=1\n");
    }
}

/// The time after which a watchdog ends this process. A manager sets two variables: the
/// microseconds, and the process that the watchdog is for. `None` if the watchdog is off or watches
/// another process.
fn longest_silence(most_us: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    if process.is_some_and(|process| process.parse() != Ok(own)) {
        return None;
    }
    let most_us = most_us?.parse().ok().filter(|us| *us > 0)?;
    Some(Duration::from_micros(most_us))
}

fn tell(message: &str) {
    if let Err(error) = send(message) {
        tracing::warn!(%error, "service manager is not told");
    }
}

/// Sends a message to the socket that `NOTIFY_SOCKET` names, if the variable is set: a path, or an
/// abstract name after an `@`.
fn send(message: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    // A datagram is sent as a whole or not at all.
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_for_another_process_hears_nothing() {
        let silence = |most, process| longest_silence(most, process, 7);
        let ms = Some(Duration::from_millis(20));
        assert_eq!(silence(Some("20000"), None), ms);
        assert_eq!(silence(Some("20000"), Some("7")), ms);
        for (most, process) in [
            (Some("20000"), Some("8")),
            (Some("20000"), Some("")),
            (Some("20000"), Some("x")),
            (Some("0"), None),
            (Some("-1"), None),
            (Some("1s"), Some("7")),
            (None, Some("7")),
            (None, None),
        ] {
            assert_eq!(silence(most, process), None, "{most:?} {process:?}");
        }
    }
}
