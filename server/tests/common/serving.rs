//! The program `pirn-serve`, as a process.
#![allow(dead_code, reason = "each test uses a part of it")]

use pirn_testing::program;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The program, with pipes for what it prints.
pub(crate) fn serve() -> Command {
    let mut command = program::program(env!("CARGO_BIN_EXE_pirn-serve"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Options without a limit of time that a request could reach.
pub(crate) const PATIENT: [&str; 14] = [
    "--deadline",
    "3600s",
    "--start-deadline",
    "3600s",
    "--warm-deadline",
    "3600s",
    "--wait",
    "3600s",
    "--header-timeout",
    "3600s",
    "--body-timeout",
    "3600s",
    "--write-timeout",
    "3600s",
];

/// A running program. It ends when the test ends, however it ends.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// Starts the program, and waits until it listens.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("a pipe was asked for");
        let mut serving = Self {
            child,
            address: String::new(),
        };
        let mut line = String::new();
        let said = BufReader::new(stdout).read_line(&mut line);
        said.expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ");
        serving.address = address.expect("an address").to_owned();
        serving
    }

    /// Sends a GET request; returns the response.
    pub(crate) fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }

    /// Sends a signal, as in `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let told = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(told.expect("there is a kill").success());
    }

    /// Stops the program; returns what it logged, if that is a pipe.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        let mut log = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut log).expect("text");
        }
        assert!(self.child.wait().expect("it ends").success(), "{log}");
        log
    }
}

/// Sends a GET request of HTTP/1.0; returns the response.
///
/// A body then ends with the connection. In HTTP/1.1 the server sends chunks if it has the head of
/// a response before the end of its body, so that the bytes would depend on the time.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut client = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The one-line error of a server that does not start.
pub(crate) fn refusal(args: &[&str]) -> String {
    let output = serve().args(args).output().expect("it starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}
