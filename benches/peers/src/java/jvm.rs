//! A Java virtual machine: [`Shared`] by all invocations, [`Forked`] for each, or in a new
//! [`Process`] for each.
//!
//! The virtual machines run in processes of their own, so that their signal handlers and threads
//! do not meet those of the other engines. `guests/jvm.c` measures the time there.

use super::engine::JavaEngine;
use super::program::{JavaProgram, built};
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// One virtual machine. It compiles what runs often, and every invocation sees what earlier ones
/// left.
pub struct Shared(JvmHost);

/// A forked process for each invocation, which makes a virtual machine.
pub struct Forked(JvmHost);

impl Shared {
    /// # Errors
    ///
    /// The host cannot be started.
    pub fn new(program: &JavaProgram) -> Result<Self> {
        JvmHost::new("shared", program).map(Self)
    }
}

impl Forked {
    /// # Errors
    ///
    /// The host cannot be started.
    pub fn new(program: &JavaProgram) -> Result<Self> {
        JvmHost::new("fork", program).map(Self)
    }
}

impl JavaEngine for Shared {
    fn run(&mut self, count: u64) -> Result<Duration> {
        self.0.run(count)
    }
}

impl JavaEngine for Forked {
    fn run(&mut self, count: u64) -> Result<Duration> {
        self.0.run(count)
    }
}

/// What Java prints.
///
/// # Errors
///
/// The host cannot be started, or fails.
pub fn output(program: &JavaProgram) -> Result<Vec<u8>> {
    let output = host("print", program).stderr(Stdio::inherit()).output();
    let output = output.context(MISSING)?;
    ensure!(output.status.success(), "jvm print: {}", output.status);
    Ok(output.stdout)
}

const MISSING: &str = "benches/peers/java/built/jvm; run benches/peers/java/build.sh";

fn host(mode: &str, program: &JavaProgram) -> Command {
    let mut command = Command::new(built().join("jvm"));
    command.arg(mode).arg(built().join("classes"));
    command.arg(program.class).args(program.argument);
    command
}

/// A process of `guests/jvm.c`.
struct JvmHost {
    child: Child,
    /// `None` once it is closed.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl JvmHost {
    fn new(mode: &str, program: &JavaProgram) -> Result<Self> {
        let mut command = host(mode, program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context(MISSING)?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().context("it is piped")?;
        Ok(Self {
            child,
            requests,
            answers: BufReader::new(answers),
        })
    }

    fn run(&mut self, count: u64) -> Result<Duration> {
        let requests = self.requests.as_mut().context("it is open")?;
        writeln!(requests, "{count}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let ns = line.trim().parse().context("the host of the JVM failed")?;
        Ok(Duration::from_nanos(ns))
    }
}

impl Drop for JvmHost {
    fn drop(&mut self) {
        // The host ends at the end of its input.
        self.requests = None;
        if let Err(error) = self.child.wait() {
            eprintln!("the host of the JVM: {error}");
        }
    }
}

/// A process of the command `java` for each invocation, with the shared archive of classes that
/// comes with it.
pub struct Process {
    program: JavaProgram,
}

impl Process {
    pub fn new(program: &JavaProgram) -> Self {
        Self { program: *program }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("java");
        command.args([
            "-Xshare:auto",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-cp",
        ]);
        command.arg(built().join("classes"));
        command.arg(self.program.class).args(self.program.argument);
        command.stderr(Stdio::inherit());
        command
    }

    /// What the program prints.
    ///
    /// # Errors
    ///
    /// `java` cannot be started, or fails.
    pub fn output(&self) -> Result<Vec<u8>> {
        let output = self.command().output().context("java")?;
        ensure!(output.status.success(), "java: {}", output.status);
        Ok(output.stdout)
    }
}

impl JavaEngine for Process {
    fn run(&mut self, count: u64) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..count {
            let status = self.command().stdout(Stdio::null()).status()?;
            ensure!(status.success(), "java: {status}");
        }
        Ok(start.elapsed())
    }
}
