//! The access log: a line for each request, what clients try to write into it, rotation, and
//! writers that cannot write.

use crate::common;
use crate::common::serving;

use common::{TestServer, WAITS, prints, soon, until};
use hyper::Request;
use hyper::header::HeaderValue;
use pirn_cli::text::is_plain;
use pirn_server::access::{Format, QUEUE_BYTES_MAX, TEXT_BYTES_MAX};
use pirn_server::{AccessLog, Limits, Settings};
use pirn_testing::process::not_run;
use serde_json::Value;
use serving::{PATIENT, Serving, serve};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

fn settings() -> Settings {
    Settings {
        slots: 1,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

fn limits() -> Limits {
    Limits {
        body_max: 10,
        ..common::limits()
    }
}

async fn server(guests: &[(&str, &str)], log: &Path, format: Format, limits: Limits) -> TestServer {
    let log = AccessLog::open(log, format).expect("it opens");
    TestServer::logging(guests, settings(), limits, log).await
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("text");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(line).collect()
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn each_request_has_a_line() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("log");
    let hello = prints("Status: 201\n\nhello");
    let guests = [
        ("/hello", hello.as_str()),
        ("/trap", "trap.wat"),
        ("/wait", WAITS),
    ];
    let wait = Duration::from_millis(1);
    let limits = Limits { wait, ..limits() };
    let server = server(&guests, &path, Format::Json, limits).await;
    let request = Request::post("/hello/a%20b?c=d").header("traceparent", PARENT);
    assert_eq!(server.ask(request, "four").await.status, 201);
    assert_eq!(server.get("/trap").await.status, 502);
    assert_eq!(server.get("/nowhere").await.status, 404);
    let large = server.ask(Request::post("/hello"), "eleven byte").await;
    assert_eq!(large.status, 413);
    let mut leaves = tokio::net::TcpStream::connect(server.address)
        .await
        .expect("it listens");
    let request = b"PUT /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    leaves.write_all(request).await.expect("it listens");
    until("the guest waits", || server.door.came() == 1).await;
    assert_eq!(server.get("/hello").await.status, 503);
    drop(leaves);
    server.rests().await;
    server.stop().await;
    // On a busy machine, the server may end before all lines are written.
    until("all lines", || common::newlines(&path) >= 6).await;
    let lines = lines(&path);
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let number = |name: &str| line[name].as_u64();
            (
                format!(
                    "{} {} {} {}",
                    text("method"),
                    text("path"),
                    text("route"),
                    text("outcome")
                ),
                number("status"),
                [number("bytes_in"), number("bytes_out")].map(Option::unwrap),
            )
        })
        .collect();
    let expected = [
        ("POST /hello/a%20b?c=d /hello ok", Some(201), [4, 5]),
        ("GET /trap /trap trap", Some(502), [0, 13]),
        ("GET /nowhere - not_found", Some(404), [0, 16]),
        ("POST /hello /hello too_large", Some(413), [0, 18]),
        ("GET /hello /hello full", Some(503), [0, 15]),
        ("PUT /wait /wait gone", None, [1, 0]),
    ];
    assert_eq!(
        told,
        expected.map(|(text, status, bytes)| (text.to_owned(), status, bytes))
    );
    for line in &lines {
        assert_eq!(line["client"], "127.0.0.1");
        let time = line["time"].as_str().expect("a time");
        assert!(
            time.len() == 27 && time.starts_with("20") && time.ends_with('Z'),
            "{time}"
        );
        let total = line["total_us"].as_u64().expect("a time");
        let parts = ["wait_us", "guest_us"].map(|name| line[name].as_u64());
        assert!(parts.iter().flatten().sum::<u64>() <= total, "{line}");
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(13));
    }
    assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert!(lines[1]["trace_id"].is_null() && lines[2]["guest_us"].is_null());
    assert!(lines[4]["guest_us"].is_null() && lines[4]["wait_us"].as_u64() >= Some(1000));
}

/// A C1 control character, which some terminals take for the start of an escape sequence, changes
/// of the direction of text, a line separator, and an invisible character.
const HOSTILE: &str = "a\u{9b}31m\u{202e}b\u{2028}c\u{2066}d\u{e0041}";

/// Sends bytes that no library would send, and reads the answer.
fn raw(address: std::net::SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(address).expect("it listens");
    client.write_all(request).expect("it listens");
    let mut answer = vec![];
    client.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_forge_lines() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let hello = prints("Status: 200\n\nhello");
    let long = "x".repeat(3 * TEXT_BYTES_MAX);
    let end = "Host: a\r\nConnection: close";
    let requests = [
        format!("GET /a\"b\\c{{}}' HTTP/1.1\r\nUser-Agent: a\" 200 \"\\\r\n{end}\r\n\r\n"),
        format!("GET /%0a%22%00 HTTP/1.1\r\nUser-Agent: \x1b[31m\ttab\r\n{end}\r\n\r\n")
            .replace('\x1b', ""),
        format!("GET /\u{fc}\u{2028} HTTP/1.1\r\nReferer: \u{202e}\r\n{end}\r\n\r\n"),
        format!("GET /{HOSTILE} HTTP/1.1\r\nUser-Agent: {HOSTILE}\r\n{end}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nUser-Agent: {long}\r\nReferer: {long}\r\n{end}\r\n\r\n"),
        format!("A'B*|~ /m HTTP/1.1\r\n{end}\r\n\r\n"),
    ];
    let mut bytes = b"GET /bytes HTTP/1.1\r\nUser-Agent: \xff\xfe\x80\r\nHost: a\r\n".to_vec();
    bytes.extend(b"Connection: close\r\n\r\n");
    for format in [Format::Json, Format::Combined] {
        let path = folder.path().join(format!("{format:?}"));
        let server = server(&[("/", &hello)], &path, format, limits()).await;
        let mut served = 0;
        for request in requests.iter().map(String::as_bytes).chain([&bytes[..]]) {
            let answer = raw(server.address, request);
            // hyper refuses some before they are requests; the others are served.
            served +=
                usize::from(!answer.starts_with("HTTP/1.1 400 Bad Request\r\ncontent-length: 0"));
        }
        assert!(served >= 4, "{served}");
        server.stop().await;
        until("all lines", || common::newlines(&path) >= served).await;
        let text = fs::read(&path).expect("a log");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(text.lines().count(), served, "{text}");
        let shown = match format {
            // A reader of the JSON gets the text that the client sent.
            Format::Json => {
                let paths = text.lines().map(serde_json::from_str::<Value>);
                let mut paths = paths.map(|line| line.expect("JSON")["path"].clone());
                assert!(paths.any(|path| path == format!("/{HOSTILE}")), "{text}");
                r"/a\u009b31m\u202eb\u2028c\u2066d\udb40\udc41"
            }
            Format::Combined => r"/a\xc2\x9b31m\xe2\x80\xaeb\xe2\x80\xa8c",
        };
        assert!(text.contains(shown), "{text}");
        for line in text.lines() {
            assert!(line.chars().all(is_plain), "{line:?}");
            assert!(
                line.len() < 4 * TEXT_BYTES_MAX + 500,
                "{} bytes",
                line.len()
            );
            match format {
                Format::Json => drop(serde_json::from_str::<Value>(line).expect("JSON")),
                Format::Combined => {
                    assert!(line.is_ascii(), "{line}");
                    let bare = line.replace("\\\\", "").replace("\\\"", "");
                    assert_eq!(bare.matches('"').count(), 6, "{line}");
                    assert!(bare.starts_with("127.0.0.1 - - ["), "{line}");
                }
            }
        }
    }
}

#[test]
fn a_rotated_log_continues_in_a_new_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (log, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let hello = folder.path().join("hello.wat");
    fs::write(&hello, prints("Status: 200\n\nhello")).expect("room");
    let mut command = serve();
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--slots",
        "1",
        "--log",
        "off",
        "--access-log",
    ]);
    command
        .arg(&log)
        .args(PATIENT)
        .args(["--access-log-format", "combined", "--route"]);
    command.arg(format!("/={}", hello.display()));
    let serving = Serving::start(command);
    assert!(serving.get("/first").ends_with("hello"));
    fs::rename(&log, &old).expect("the same folder");
    serving.signal("HUP");
    let start = std::time::Instant::now();
    while !log.exists() {
        assert!(start.elapsed() < common::PATIENCE);
        std::thread::yield_now();
    }
    assert!(serving.get("/second").ends_with("hello"));
    assert_eq!(serving.stop(), "");
    let text = |path: &Path| fs::read_to_string(path).expect("text");
    assert!(
        text(&old).contains("\"GET /first HTTP/1.1\" 200 5 \"-\" \"-\"\n"),
        "{}",
        text(&old)
    );
    assert!(
        text(&log).contains("\"GET /second HTTP/1.1\" 200 5"),
        "{}",
        text(&log)
    );
    assert_eq!(
        (text(&old).lines().count(), text(&log).lines().count()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_log_that_nobody_takes_delays_no_request() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("there is a mkfifo").success());
    // Reads nothing. Without it, the server would refuse the pipe.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path);
    let hello = prints("Status: 200\n\nhello");
    let server = server(&[("/", &hello)], &path, Format::Combined, limits()).await;
    // The log escapes each of these bytes with four.
    let long = HeaderValue::from_bytes(&[0xff; TEXT_BYTES_MAX]).expect("it is allowed");
    let line_bytes_min = 2 * 4 * TEXT_BYTES_MAX;
    let mut client = pirn_server::load::connect(server.address)
        .await
        .expect("it listens");
    // The kernel's pipe takes some of them.
    for _ in 0..QUEUE_BYTES_MAX / line_bytes_min + 100 {
        client.ready().await.expect("the connection stays");
        let request = Request::get("/")
            .header("host", "a")
            .header("referer", &long)
            .header("user-agent", &long)
            .body(Default::default());
        let answer = client.send_request(request.expect("it is a request"));
        let answer = soon("an answer", answer).await.expect("an answer");
        assert_eq!(common::read(answer).await.status, 200);
    }
    let dropped = server.metric("pirn_access_log_lines_dropped_total").await;
    assert!(dropped > 0.0, "{dropped}");
    // Its end does not wait for the pipe forever.
    server.stop().await;
    drop(reader);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_counted() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        not_run("there is no /dev/full");
        return;
    }
    let hello = prints("Status: 200\n\nhello");
    let long = format!("/{}", "x".repeat(TEXT_BYTES_MAX));
    let server = server(&[("/", &hello)], full, Format::Json, limits()).await;
    let dropped = async {
        loop {
            assert_eq!(server.get(&long).await.status, 200);
            if server.metric("pirn_access_log_lines_dropped_total").await > 0.0 {
                break;
            }
        }
    };
    soon("a dropped line", dropped).await;
    server.stop().await;
    let missing = Path::new("/nowhere/log");
    let error = AccessLog::open(missing, Format::Json).expect_err("there is no folder");
    let error = format!("{error:#}");
    assert!(
        error.starts_with("cannot open access log /nowhere/log: No such"),
        "{error}"
    );
}
