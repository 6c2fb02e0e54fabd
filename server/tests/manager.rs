//! The service manager: what it is told, and the socket that it passes.

use crate::common;
use crate::common::serving;

use common::{PATIENCE, guest};
use serving::{Serving, serve};
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A manager's socket for notifications.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a short path");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { socket, folder }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("notify")
    }

    /// The next notification that is not for the watchdog.
    fn told(&self) -> String {
        loop {
            let next = self.next();
            if next != "WATCHDOG=1\n" {
                return next;
            }
        }
    }

    fn next(&self) -> String {
        let mut bytes = [0; 512];
        let length = self.socket.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

fn config(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("serve.toml");
    let hello = guest("web-hello.wasm");
    let text = format!(
        "listen = '127.0.0.1:0'\nslots = 1\nlog = 'off'\ndeadline = '3600s'\n\
         header_timeout = '3600s'\n[[route]]\npath = '/'\nmodule = '{}'\n",
        hello.display()
    );
    fs::write(&path, text).expect("room");
    path
}

#[test]
fn it_is_told_of_the_start_of_reloads_and_of_the_end() {
    let manager = Manager::new();
    let path = config(manager.folder.path());
    let mut command = serve();
    command.arg("--config").arg(&path);
    command.env("NOTIFY_SOCKET", manager.path());
    let serving = Serving::start(command);
    assert_eq!(manager.told(), "READY=1\n");
    fs::write(&path, "nonsense").expect("room");
    for _ in 0..2 {
        serving.signal("HUP");
        let told = manager.told();
        let time = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        assert!(
            time.is_some_and(|time| time.trim().parse::<u64>().is_ok()),
            "{told}"
        );
        assert_eq!(
            manager.told(),
            "READY=1\n",
            "also after a reload that failed"
        );
        config(manager.folder.path());
    }
    serving.signal("TERM");
    assert_eq!(manager.told(), "STOPPING=1\n");
    drop(serving);
}

#[test]
fn a_manager_may_have_an_abstract_socket() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // No other test has this folder.
    let name = folder.path().display().to_string();
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let socket = UnixDatagram::bind_addr(&address).expect("a free name");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut command = serve();
    command.arg("--config").arg(config(folder.path()));
    command.env("NOTIFY_SOCKET", format!("@{name}"));
    let _serving = Serving::start(command);
    let mut bytes = [0; 512];
    let length = socket.recv(&mut bytes).expect("a notification");
    assert_eq!(&bytes[..length], b"READY=1\n");
}

#[test]
fn a_watchdog_hears_from_it() {
    let manager = Manager::new();
    let mut command = serve();
    command.arg("--config").arg(config(manager.folder.path()));
    command
        .env("NOTIFY_SOCKET", manager.path())
        .env("WATCHDOG_USEC", "20000");
    let _serving = Serving::start(command);
    let mut alive = 0;
    while alive < 3 {
        alive += usize::from(manager.next() == "WATCHDOG=1\n");
    }
}

#[test]
fn a_manager_that_is_not_there_does_no_harm() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = serve();
    command.arg("--config").arg(config(folder.path()));
    command.env("NOTIFY_SOCKET", "/nowhere/notify");
    let serving = Serving::start(command);
    assert!(serving.get("/").ends_with("hello from a slot\n"));
    serving.stop();
}

/// A command that gets file descriptors from 3 on as a manager passes them.
fn passed(count: usize, socket: impl Into<OwnedFd>, args: &[&str]) -> Command {
    let program = serve();
    let mut command = Command::new("sh");
    let script =
        format!("exec 3<&0 4<&0 0</dev/null; LISTEN_FDS={count} LISTEN_PID=$$ exec \"$@\"");
    command
        .args(["-c", &script, "sh"])
        .arg(program.get_program());
    command.args(program.get_args()).args(args);
    command
        .stdin(socket.into())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn it_serves_the_socket_that_it_gets() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = config(folder.path());
    let args = ["--config", path.to_str().expect("text")];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let kept = listener.try_clone().expect("a descriptor");
    for _ in 0..2 {
        // A restart takes the same socket, so no client is refused in between.
        let socket = kept.try_clone().expect("a descriptor");
        let serving = Serving::start(passed(1, socket, &args));
        assert_eq!(serving.address, address.to_string());
        assert!(serving.get("/").ends_with("hello from a slot\n"));
        serving.stop();
    }
    let refused = |count, socket: OwnedFd| {
        let output = passed(count, socket, &args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("text")
    };
    let two = refused(2, listener.into());
    assert!(two.contains("passed 2 sockets; pass one"), "{two}");
    let file = fs::File::open(&path).expect("it is there");
    let file = refused(1, file.into());
    assert!(
        file.contains("not for TCP clients") && file.lines().count() == 1,
        "{file}"
    );
}
