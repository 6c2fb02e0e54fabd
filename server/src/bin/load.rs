//! `pirn-load`: puts a server under a bounded load and checks each answer.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::Parser;
use http_body_util::BodyExt as _;
use hyper::Request;
use pirn_cli::text::one_line;
use pirn_server::load::{Load, Shot, connect, metric};
use pirn_server::units::time;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Puts a server under a bounded load, and checks each answer and the server's metrics
///
/// The exit code is 0 if every answer was right and no slot was lost, 2 otherwise, and 1 after an
/// error.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Address of the server
    address: SocketAddr,
    /// Number of counted requests
    #[arg(long, value_name = "N", default_value = "20000")]
    requests: usize,
    /// Number of requests before the counted ones
    #[arg(long, value_name = "N", default_value = "2000")]
    warm_up: usize,
    /// Connections, each with one request at a time
    #[arg(long, value_name = "N", default_value = "32")]
    connections: usize,
    /// Longest time that an answer may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    patience: Duration,
    /// A kind of request: its weight beside the others, the expected status, the path, the expected
    /// answer
    #[arg(long = "shot", value_name = "WEIGHT:STATUS:PATH[=ANSWER]", required = true, value_parser = shot)]
    shots: Vec<Shot>,
}

/// Parses a kind of request, as in 9:200:/hello or 1:502:/trap.
fn shot(text: &str) -> Result<Shot> {
    let how = || format!("{text:?} is not a shot; write it as in 9:200:/hello or 1:200:/hi=hello");
    let (weight, rest) = text.split_once(':').with_context(how)?;
    let (status, rest) = rest.split_once(':').with_context(how)?;
    let (path, answer) = match rest.split_once('=') {
        Some((path, answer)) => (path, Some(answer.replace("\\n", "\n").into())),
        None => (rest, None),
    };
    if !path.starts_with('/') {
        bail!(how());
    }
    Ok(Shot {
        path: path.to_owned(),
        body: Bytes::new(),
        status: status.parse().with_context(how)?,
        answer,
        weight: weight.parse().with_context(how)?,
    })
}

/// Fetches the server's metrics.
async fn metrics(address: SocketAddr) -> Result<String> {
    let mut connection = connect(address).await?;
    let request = Request::get("/metrics").header("host", "localhost");
    let answer = connection.send_request(request.body(Bytes::new().into())?);
    let body = answer.await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.into())?)
}

async fn load(args: Args) -> Result<bool> {
    let load = |requests| Load {
        address: args.address,
        connections: args.connections,
        requests,
        patience: args.patience,
        shots: args.shots.clone(),
    };
    load(args.warm_up).run().await?;
    let before = metrics(args.address).await?;
    let report = load(args.requests).run().await?;
    println!("{report}");
    for wrong in report.wrong() {
        println!("wrong: {}", one_line(wrong));
    }
    let after = metrics(args.address).await?;
    let value = |text: &str, name| {
        let missing = || format!("server has no metric {name}; give the address of pirn-serve");
        metric(text, name).with_context(missing)
    };
    let resident =
        |text: &str| Ok::<_, anyhow::Error>(value(text, "process_resident_memory_bytes")? / 1e6);
    println!(
        "resident: {:.1} MB before, {:.1} MB after",
        resident(&before)?,
        resident(&after)?
    );
    let (used, lost) = (
        value(&after, "pirn_slots_used")?,
        value(&after, "pirn_slots_lost")?,
    );
    println!("slots: {used} used, {lost} lost");
    Ok(report.wrong().next().is_none() && used == 0.0 && lost == 0.0)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let loaded = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")
        .and_then(|runtime| runtime.block_on(load(args)));
    match loaded {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("pirn-load: {}", one_line(format_args!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
