//! [`AccessLog`]: one line for each request, written by a thread of its own.
//!
//! A request never waits for the disk: it hands its line to the thread, or drops the line if too
//! many lines wait.

use super::utc::Utc;
use crate::units::parsed;
use anyhow::{Context as _, Error, Result, bail};
use pirn_cli::output::append_to;
use pirn_cli::text;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Serializer;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Most bytes of lines that wait to be written.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Most bytes of a text that the client chose. The log cuts off the rest.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Longest time to write the last lines when the server stops.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// The form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object on each line.
    Json,
    /// Apache's combined log format.
    Combined,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "json" => Ok(Self::Json),
            "combined" => Ok(Self::Combined),
            _ => bail!("{text:?} is not a format of the access log; write json or combined"),
        }
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

/// The data of a request that a line of the log reports.
#[derive(Debug, Clone)]
pub(crate) struct Line<'a> {
    pub(crate) time: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) method: &'a str,
    /// Path and query as received.
    pub(crate) path: &'a str,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
    pub(crate) route: Option<&'a str>,
    /// `None` if the client hung up before there was an answer.
    pub(crate) status: Option<u16>,
    pub(crate) outcome: &'a str,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) wait: Option<Duration>,
    pub(crate) guest: Option<Duration>,
    pub(crate) total: Duration,
    pub(crate) trace_id: Option<&'a str>,
}

/// A line in JSON.
#[derive(Serialize)]
struct Json<'a> {
    time: String,
    client: String,
    method: Cow<'a, str>,
    path: Cow<'a, str>,
    route: Option<&'a str>,
    status: Option<u16>,
    outcome: &'a str,
    bytes_in: u64,
    bytes_out: u64,
    wait_us: Option<u64>,
    guest_us: Option<u64>,
    total_us: u64,
    trace_id: Option<&'a str>,
}

/// Escapes the characters that [`text::json`] escapes, within all strings.
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write!(writer, "{}", text::json(fragment))
    }
}

impl Line<'_> {
    /// The line with its line feed.
    fn text(&self, format: Format) -> Vec<u8> {
        let mut text = match format {
            Format::Json => self.json(),
            Format::Combined => self.combined().into_bytes(),
        };
        text.push(b'\n');
        text
    }

    fn json(&self) -> Vec<u8> {
        let us = |time: Duration| time.as_micros() as u64;
        let json = Json {
            time: Utc::from(self.time).rfc3339(),
            client: self.client.to_string(),
            method: cut(self.method.as_bytes()),
            path: cut(self.path.as_bytes()),
            route: self.route,
            status: self.status,
            outcome: self.outcome,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            wait_us: self.wait.map(us),
            guest_us: self.guest.map(us),
            total_us: us(self.total),
            trace_id: self.trace_id,
        };
        let mut line = vec![];
        let mut writer = Serializer::with_formatter(&mut line, Escaping);
        // A struct of strings and numbers is always JSON, and a vector takes all bytes.
        let _ = json.serialize(&mut writer);
        line
    }

    fn combined(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        format!(
            "{} - - [{}] \"{} {} HTTP/1.1\" {} {} \"{}\" \"{}\"",
            self.client,
            Utc::from(self.time).common_log(),
            start(self.method.as_bytes()),
            start(self.path.as_bytes()),
            status.as_deref().unwrap_or("-"),
            self.bytes_out,
            self.referer.map_or(text::ascii(b"-"), start),
            self.agent.map_or(text::ascii(b"-"), start),
        )
    }
}

/// At most [`TEXT_BYTES_MAX`] bytes of a text.
pub(crate) fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_BYTES_MAX)]
}

/// A client's text within quotes, up to [`TEXT_BYTES_MAX`].
fn start(text: &[u8]) -> text::Ascii<'_> {
    text::ascii(shortened(text))
}

/// A client's text up to [`TEXT_BYTES_MAX`].
fn cut(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(shortened(text))
}

/// A message to the writing thread.
enum Message {
    Line(Vec<u8>),
    /// Opens the file again, because something has renamed it.
    Reopen,
    /// Writes all earlier lines, reports that to the sender, and ends the thread.
    Close(oneshot::Sender<()>),
}

/// The log of requests.
#[derive(Debug)]
pub struct AccessLog {
    format: Format,
    sender: Sender<Message>,
    queue: Arc<Queue>,
}

/// Bytes of the lines that wait for the writing thread, and the number of dropped lines.
#[derive(Debug, Default)]
struct Queue {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl AccessLog {
    /// Opens a file to append to, or standard output if the path is `-`, and starts the thread.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or the system refuses a thread.
    pub fn open(path: &Path, format: Format) -> Result<Self> {
        let (sender, receiver) = channel();
        let queue = Arc::<Queue>::default();
        let writer = Writer {
            output: output(path)?,
            path: path.to_owned(),
            queue: Arc::clone(&queue),
            has_failed: false,
        };
        let thread = thread::Builder::new().name("access-log".into());
        let thread = thread.spawn(move || writer.run(&receiver));
        thread.context("cannot start the thread of the access log")?;
        Ok(Self {
            format,
            sender,
            queue,
        })
    }

    /// Hands a line to the thread, or drops it.
    pub(crate) fn log(&self, line: &Line<'_>) {
        let text = line.text(self.format);
        let bytes = text.len();
        let waiting = self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        if waiting + bytes > QUEUE_BYTES_MAX || self.sender.send(Message::Line(text)).is_err() {
            self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.queue.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file again by its path. Later lines go to the file that now has this path.
    pub fn reopen(&self) {
        // The thread runs until `close`.
        let _ = self.sender.send(Message::Reopen);
    }

    /// Writes the waiting lines, and ends the thread.
    pub(crate) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.sender.send(Message::Close(done)).is_ok()
            && timeout(CLOSE_MAX, ended).await.is_err()
        {
            tracing::warn!("access log took no more lines");
        }
    }

    /// Number of lines that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.dropped.load(Ordering::Relaxed)
    }
}

type Output = BufWriter<Box<dyn Write + Send>>;

fn output(path: &Path) -> Result<Output> {
    if path == Path::new("-") {
        return Ok(BufWriter::new(Box::new(io::stdout())));
    }
    let file = append_to(path);
    let file = file.with_context(|| format!("cannot open access log {}", path.display()))?;
    Ok(BufWriter::new(Box::new(file)))
}

/// The writing thread.
struct Writer {
    output: Output,
    path: PathBuf,
    queue: Arc<Queue>,
    /// Whether the last write failed. The server's log reports a failure once.
    has_failed: bool,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let message = match receiver.try_recv() {
                Err(TryRecvError::Empty) => {
                    let flushed = self.output.flush();
                    self.told(&flushed);
                    receiver.recv().ok()
                }
                message => message.ok(),
            };
            match message {
                Some(Message::Line(line)) => {
                    let written = self.output.write_all(&line);
                    self.queue.bytes.fetch_sub(line.len(), Ordering::Relaxed);
                    if written.is_err() {
                        self.queue.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                    self.told(&written);
                }
                Some(Message::Reopen) => self.reopen(),
                Some(Message::Close(done)) => {
                    let flushed = self.output.flush();
                    self.told(&flushed);
                    // The server may have stopped waiting.
                    let _ = done.send(());
                    return;
                }
                // The drop of the output writes its buffered lines.
                None => return,
            }
        }
    }

    fn reopen(&mut self) {
        let flushed = self.output.flush();
        self.told(&flushed);
        match output(&self.path) {
            Ok(output) => self.output = output,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "access log stays in its old file");
            }
        }
    }

    fn told(&mut self, written: &io::Result<()>) {
        if let Err(error) = written
            && !self.has_failed
        {
            tracing::error!(%error, "access log cannot be written");
        }
        self.has_failed = written.is_err();
    }
}
