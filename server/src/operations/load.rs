//! A client that puts a server under load and checks each answer, for the tests and for
//! `pirn-load`.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A kind of request, and the expected answer.
#[derive(Debug, Clone)]
pub struct Shot {
    /// Path and query.
    pub path: String,
    /// Body of the request. If it is not empty, the request is a POST.
    pub body: Bytes,
    /// The expected status.
    pub status: u16,
    /// The expected body; `None` accepts any body.
    pub answer: Option<Bytes>,
    /// Share of the requests that are of this kind, relative to the other weights.
    pub weight: usize,
}

/// A load: a fixed number of requests over a fixed number of connections.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// Requests of all connections together.
    pub requests: usize,
    /// Longest time to wait for an answer.
    pub patience: Duration,
    /// The kinds of requests.
    pub shots: Vec<Shot>,
}

/// The result of a load.
#[derive(Debug)]
pub struct Report {
    /// The result of each kind of request, in the order of [`Load::shots`].
    pub shots: Vec<Hits>,
    /// Time from the first request to the last answer.
    pub took: Duration,
}

/// The result of one kind of request.
#[derive(Debug, Clone)]
pub struct Hits {
    /// Path and query.
    pub path: String,
    /// Number of correct answers.
    pub right: usize,
    /// Descriptions of the first wrong answers.
    pub wrong: Vec<String>,
    /// Number of wrong answers.
    pub wrong_count: usize,
    /// Time of each answer in nanoseconds, ascending.
    nanoseconds: Vec<u64>,
}

/// Most wrong answers that a report describes.
const TOLD_MAX: usize = 5;

impl Hits {
    fn new(shot: &Shot) -> Self {
        Self {
            path: shot.path.clone(),
            right: 0,
            wrong: vec![],
            wrong_count: 0,
            nanoseconds: vec![],
        }
    }

    fn add(&mut self, took: Duration, answered: Result<()>) {
        self.nanoseconds.push(took.as_nanos() as u64);
        match answered {
            Ok(()) => self.right += 1,
            Err(error) => {
                self.wrong_count += 1;
                if self.wrong.len() < TOLD_MAX {
                    self.wrong.push(format!("{}: {error:#}", self.path));
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.right += other.right;
        self.wrong_count += other.wrong_count;
        self.wrong.extend(other.wrong);
        self.wrong.truncate(TOLD_MAX);
        self.nanoseconds.extend(other.nanoseconds);
    }

    /// The quantile `part` of the times, from 0 to 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let last = self.nanoseconds.len().saturating_sub(1);
        let at = (part * last as f64).round() as usize;
        Duration::from_nanos(self.nanoseconds.get(at).copied().unwrap_or_default())
    }
}

impl Report {
    /// Requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let all: usize = self.shots.iter().map(|hits| hits.nanoseconds.len()).sum();
        all as f64 / self.took.as_secs_f64()
    }

    /// Descriptions of wrong answers.
    pub fn wrong(&self) -> impl Iterator<Item = &String> {
        self.shots.iter().flat_map(|hits| &hits.wrong)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            f,
            "{:<28} {:>9} {:>7} {:>9} {:>9} {:>9}",
            "", "right", "wrong", "p50 ms", "p99 ms", "max ms"
        )?;
        for hits in &self.shots {
            writeln!(
                f,
                "{:<28} {:>9} {:>7} {:>9.3} {:>9.3} {:>9.3}",
                hits.path,
                hits.right,
                hits.wrong_count,
                ms(hits.quantile(0.5)),
                ms(hits.quantile(0.99)),
                ms(hits.quantile(1.0)),
            )?;
        }
        write!(
            f,
            "{:.0} requests/s in {:.2} s",
            self.rate(),
            self.took.as_secs_f64()
        )
    }
}

impl Load {
    /// Sends all requests and waits for their answers.
    ///
    /// # Errors
    ///
    /// If all weights are 0, or a connection cannot be made.
    pub async fn run(self) -> Result<Report> {
        if self.shots.iter().all(|shot| shot.weight == 0) {
            bail!("all weights are 0, so there are no requests; set one to 1 or more");
        }
        let (load, next) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        let start = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..load.connections.max(1) {
            clients.spawn(client(Arc::clone(&load), Arc::clone(&next)));
        }
        let mut shots: Vec<_> = load.shots.iter().map(Hits::new).collect();
        while let Some(hits) = clients.join_next().await {
            for (all, hits) in shots.iter_mut().zip(hits??) {
                all.merge(hits);
            }
        }
        let took = start.elapsed();
        for hits in &mut shots {
            hits.nanoseconds.sort_unstable();
        }
        Ok(Report { shots, took })
    }

    /// The kind of the request with this number. The kinds are evenly mixed, and in the same order
    /// each time.
    fn shot(&self, number: usize) -> usize {
        let all: usize = self.shots.iter().map(|shot| shot.weight).sum();
        // A hash spreads the numbers evenly for any sum of weights.
        let hash = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut at = hash as usize % all;
        for (place, shot) in self.shots.iter().enumerate() {
            if at < shot.weight {
                return place;
            }
            at -= shot.weight;
        }
        0
    }
}

/// Sends one connection's share of the requests.
async fn client(load: Arc<Load>, next: Arc<AtomicUsize>) -> Result<Vec<Hits>> {
    let mut hits: Vec<_> = load.shots.iter().map(Hits::new).collect();
    let mut connection = connect(load.address).await?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= load.requests {
            return Ok(hits);
        }
        let place = load.shot(number);
        let start = Instant::now();
        let answered = timeout(load.patience, ask(&mut connection, &load.shots[place])).await;
        let answered = answered.unwrap_or_else(|_| bail!("no answer within {:?}", load.patience));
        let ended = answered.is_err() || connection.is_closed();
        hits[place].add(start.elapsed(), answered);
        // Reconnect: after a timeout an answer may still arrive, or the server has closed the
        // connection.
        if ended || connection.ready().await.is_err() {
            connection = connect(load.address).await?;
        }
    }
}

/// Opens a connection. A separate task drives the connection.
///
/// # Errors
///
/// If no connection can be made.
pub async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async {
        // Errors also reach the caller that sends a request.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Sends one request and checks its answer.
async fn ask(connection: &mut SendRequest<Full<Bytes>>, shot: &Shot) -> Result<()> {
    let method = if shot.body.is_empty() { "GET" } else { "POST" };
    let request = Request::builder()
        .method(method)
        .uri(&shot.path)
        .header(HOST, "localhost")
        .body(Full::new(shot.body.clone()))?;
    let answer = connection.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    check(shot, status, &body)
}

fn check(shot: &Shot, status: StatusCode, body: &Bytes) -> Result<()> {
    if status.as_u16() != shot.status {
        bail!("status is {}, expected {}", status.as_u16(), shot.status);
    }
    match &shot.answer {
        Some(answer) if answer != body => bail!(
            "answer is {:?}, expected {:?}",
            String::from_utf8_lossy(&body[..body.len().min(100)]),
            String::from_utf8_lossy(&answer[..answer.len().min(100)])
        ),
        _ => Ok(()),
    }
}

/// The value of a metric in a server's text, if the text has the metric.
#[must_use]
pub fn metric(text: &str, name: &str) -> Option<f64> {
    let line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shots_come_by_their_weights() {
        let shot = |weight| Shot {
            path: "/".into(),
            body: Bytes::new(),
            status: 200,
            answer: None,
            weight,
        };
        let load = Load {
            address: "127.0.0.1:1".parse().unwrap(),
            connections: 1,
            requests: 0,
            patience: Duration::ZERO,
            shots: vec![shot(90), shot(0), shot(9), shot(1)],
        };
        let mut counts = [0; 4];
        for number in 0..10_000 {
            counts[load.shot(number)] += 1;
        }
        for (count, expected) in counts.into_iter().zip([9_000, 0, 900, 100_i32]) {
            assert!((count - expected).abs() <= expected / 4, "{counts:?}");
        }
    }

    #[test]
    fn quantiles_are_those_of_all() {
        let mut hits = Hits::new(&Shot {
            path: "/".into(),
            body: Bytes::new(),
            status: 200,
            answer: None,
            weight: 1,
        });
        assert_eq!(hits.quantile(0.5), Duration::ZERO);
        hits.nanoseconds = (0..=100).collect();
        assert_eq!(hits.quantile(0.99), Duration::from_nanos(99));
        assert_eq!(hits.quantile(1.0), Duration::from_nanos(100));
        assert_eq!(metric("a_b 1\na 2.5\n", "a"), Some(2.5));
    }
}
