//! Requests to the servers of the engines, in turn.

use crate::HttpEngine;
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use pirn_server::load::{Load as Requests, Shot};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A number of requests over a number of connections.
pub struct Load {
    pub path: String,
    pub connections: usize,
    pub requests: usize,
}

/// A server that runs until this process ends.
struct Running {
    name: &'static str,
    address: SocketAddr,
    /// File of the scheduler with the time of the processor that the server has used.
    usage: PathBuf,
    samples: Vec<[f64; 2]>,
}

impl Running {
    fn start(engine: Box<dyn HttpEngine>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (name, address) = (engine.name(), listener.local_addr()?);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let _ = sender.send(std::fs::read_link("/proc/thread-self"));
            let ended = engine.serve(listener);
            panic!("{name}: the server has ended: {ended:?}");
        });
        let thread = receiver.recv()??;
        Ok(Self {
            name,
            address,
            usage: PathBuf::from("/proc").join(thread).join("schedstat"),
            samples: vec![],
        })
    }

    fn used_ns(&self) -> Result<f64> {
        let usage = std::fs::read_to_string(&self.usage)?;
        let first = usage.split(' ').next().context("schedstat is empty")?;
        Ok(first.parse()?)
    }
}

/// Prints requests per second, and time of the processor of the server for each request.
pub fn compare(engines: Vec<Box<dyn HttpEngine>>, load: &Load, rounds: usize) -> Result<()> {
    let servers = engines.into_iter().map(Running::start);
    let mut servers = servers.collect::<Result<Vec<_>>>()?;
    let client = tokio::runtime::Builder::new_current_thread();
    let client = { client }.enable_all().build()?;
    // The first round warms the slots up.
    for round in 0..=rounds {
        for server in &mut servers {
            let requests = Requests {
                address: server.address,
                connections: load.connections,
                requests: load.requests,
                patience: Duration::from_secs(10),
                shots: vec![Shot {
                    path: load.path.clone(),
                    body: Bytes::new(),
                    status: 200,
                    answer: None,
                    weight: 1,
                }],
            };
            let before = server.used_ns()?;
            let report = client.block_on(requests.run())?;
            let used = server.used_ns()? - before;
            if let Some(wrong) = report.wrong().next() {
                bail!("{}: {wrong}", server.name);
            }
            if round > 0 {
                let sample = [report.rate(), used / 1e3 / load.requests as f64];
                server.samples.push(sample);
            }
        }
    }
    println!(
        "{} connections, one server thread, medians of {rounds} rounds",
        load.connections
    );
    println!(
        "{:<10} {:>12} {:>28}",
        "", "requests/s", "us of the processor/request"
    );
    for server in servers {
        let median = |at: usize| {
            let mut all: Vec<f64> = server.samples.iter().map(|sample| sample[at]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{:<10} {:>12.0} {:>28.1}",
            server.name,
            median(0),
            median(1)
        );
    }
    Ok(())
}
