//! The host that a request is for: all guests, routes and logs see the same one, or nobody sees the
//! request. Requests are raw bytes, because a client library would correct them.

use crate::common;

use common::{ENVIRONMENT, TestServer, component, limits, rest, status, variable};
use pirn_server::access::Format;
use pirn_server::{AccessLog, Extras, Settings};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

/// A handler that answers with the authority, the path and the number of the scheme, a line each.
/// An absent value is an empty line.
const SEES: &str = r#"(data (i32.const 100) "\n")
    (func $line (param $stream i32)
      (if (i32.load8_u (i32.const 16))
        (then
          (call $write (local.get $stream) (i32.load (i32.const 20)) (i32.load (i32.const 24))
            (i32.const 0))))
      (call $write (local.get $stream) (i32.const 100) (i32.const 1) (i32.const 0)))
    (func (export "wasi:http/incoming-handler@0.2.12#handle") (param $request i32) (param $out i32)
      (local $response i32) (local $body i32) (local $stream i32)
      (local.set $response (call $response (call $fields)))
      (call $body (local.get $response) (i32.const 0))
      (local.set $body (call $ok))
      (call $stream (local.get $body) (i32.const 0))
      (local.set $stream (call $ok))
      (call $sent (local.get $out) (local.get $response))
      (call $incoming-authority (local.get $request) (i32.const 16))
      (call $line (local.get $stream))
      (call $incoming-path (local.get $request) (i32.const 16))
      (call $line (local.get $stream))
      (call $incoming-scheme (local.get $request) (i32.const 16))
      (i32.store8 (i32.const 101) (i32.add (i32.const 48) (i32.load8_u (i32.const 20))))
      (call $write (local.get $stream) (i32.const 101) (i32.const 1) (i32.const 0))
      (call $drop-stream (local.get $stream))
      (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 0)))"#;

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

/// A guest of each kind, which says how it sees a request.
async fn server(extras: Extras) -> TestServer {
    let guests = [
        ("/cgi", common::module(ENVIRONMENT)),
        ("/component", component(SEES)),
    ];
    TestServer::with(&guests, settings(), limits(), extras).await
}

/// Sends a request and its end to an address; returns the whole answer.
async fn raw(mut client: TcpStream, request: &[u8]) -> String {
    client.write_all(request).await.expect("it listens");
    rest(&mut client).await
}

/// The body of an answer that ends with its connection.
fn body(answer: &str) -> &str {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a header");
    body
}

/// The body of an answer, which has chunks or ends with its connection.
fn unchunked(answer: &str) -> String {
    let (head, mut rest) = answer.split_once("\r\n\r\n").expect("a header");
    if !head.contains("transfer-encoding: chunked") {
        return rest.to_owned();
    }
    let mut all = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return all;
        }
        all += &after[..size];
        rest = after[size..]
            .strip_prefix("\r\n")
            .expect("the end of a chunk");
    }
}

/// A request, as lines. `PATH` stands for the path of a guest. The server closes the connection
/// after it.
fn request(line: &str, path: &str, fields: &[&str]) -> String {
    let line = line.replace("PATH", path);
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!("{line}\r\n{fields}Connection: close\r\n\r\n")
}

/// Requests that are served: line, fields, and the host. `LOCAL` stands for the server's address.
const GOOD: [(&str, &[&str], &str); 19] = [
    ("GET PATH HTTP/1.1", &["Host: good.com"], "good.com"),
    ("GET PATH HTTP/1.1", &["host:good.com:81 "], "good.com:81"),
    ("GET PATH HTTP/1.1", &["Host: good.com:"], "good.com:"),
    (
        "GET PATH HTTP/1.1",
        &["Host: 10.0.0.1:65535"],
        "10.0.0.1:65535",
    ),
    ("GET PATH HTTP/1.1", &["Host: [::1]:80"], "[::1]:80"),
    ("GET PATH HTTP/1.1", &["Host: a_b.%C3%BC"], "a_b.%C3%BC"),
    (
        "GET http://evil.comPATH HTTP/1.1",
        &["Host: good.com"],
        "evil.com",
    ),
    (
        "GET http://evil.com:81PATH HTTP/1.1",
        &["Host: evil.com:81"],
        "evil.com:81",
    ),
    (
        "GET HTTP://evil.comPATH HTTP/1.1",
        &["Host: good.com:81"],
        "evil.com",
    ),
    (
        "GET https://evil.comPATH HTTP/1.1",
        &["Host: good.com"],
        "evil.com",
    ),
    (
        "GET http://[::1]:81PATH HTTP/1.1",
        &["Host: good.com"],
        "[::1]:81",
    ),
    (
        "GET http://EVIL.comPATH HTTP/1.1",
        &["Host: evil.com"],
        "EVIL.com",
    ),
    (
        "GET http://evil.comPATH HTTP/1.0",
        &["Host: good.com"],
        "evil.com",
    ),
    ("GET http://evil.comPATH HTTP/1.0", &[], "evil.com"),
    (
        "OPTIONS http://evil.comPATH HTTP/1.1",
        &["Host: good.com"],
        "evil.com",
    ),
    ("OPTIONS PATH HTTP/1.1", &["Host: good.com"], "good.com"),
    ("GET PATH HTTP/1.0", &["Host: good.com"], "good.com"),
    ("GET PATH HTTP/1.0", &[], "LOCAL"),
    (
        "GET PATH HTTP/1.1",
        &["Host: good.com", "X-Forwarded-Host: evil.com"],
        "good.com",
    ),
];

#[tokio::test]
async fn guests_of_both_kinds_see_the_same_host_and_path() {
    let server = server(Extras::default()).await;
    let local = server.address.to_string();
    for (line, fields, host) in GOOD {
        let host = host.replace("LOCAL", &local);
        let text = request(line, "/cgi/a?b=http://c", fields);
        let answer = raw(server.open().await, text.as_bytes()).await;
        assert_eq!(status(&answer), "200", "{text}");
        let seen = |name| variable(body(&answer), name).unwrap_or("");
        assert_eq!(seen("HTTP_HOST"), host, "{text}");
        assert_eq!(seen("REQUEST_URI"), "/cgi/a?b=http://c", "{text}");
        assert_eq!(seen("PATH_INFO"), "/a", "{text}");
        let (name, port) = host.rsplit_once(':').unwrap_or((&host, ""));
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_port { name } else { &host };
        assert_eq!(seen("SERVER_NAME"), name, "{text}");
        let text = request(line, "/component/a?b=http://c", fields);
        let answer = raw(server.open().await, text.as_bytes()).await;
        assert_eq!(status(&answer), "200", "{text}");
        let expected = format!("{host}\n/component/a?b=http://c\n0");
        assert_eq!(unchunked(&answer), expected, "{text}");
    }
    server.stop().await;
}

/// Requests that nobody gets: line, fields, and the status.
const BAD: [(&str, &[&str], &str); 37] = [
    ("GET PATH HTTP/1.1", &[], "400"),
    ("GET http://good.comPATH HTTP/1.1", &[], "400"),
    ("OPTIONS * HTTP/1.1", &[], "400"),
    ("CONNECT good.com:80 HTTP/1.1", &[], "400"),
    ("GET PATH HTTP/1.1", &["Host: a", "Host: b"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a", "Host: a"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a", "X: y", "hOST: a"], "400"),
    ("GET PATH HTTP/1.0", &["Host: a", "Host: b"], "400"),
    ("GET http://aPATH HTTP/1.1", &["Host: a", "Host: a"], "400"),
    ("GET PATH HTTP/1.1", &["Host:"], "400"),
    ("GET PATH HTTP/1.0", &["Host:"], "400"),
    ("GET http://aPATH HTTP/1.1", &["Host: "], "400"),
    ("GET PATH HTTP/1.1", &["Host : a"], "400"),
    ("GET PATH HTTP/1.1", &["Host: :80"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a b"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a, b"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a:99999"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a:b"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a:80:80"], "400"),
    ("GET PATH HTTP/1.1", &["Host: u:p@a"], "400"),
    ("GET PATH HTTP/1.1", &["Host: a/b"], "400"),
    ("GET PATH HTTP/1.1", &["Host: http://a"], "400"),
    ("GET PATH HTTP/1.1", &["Host: x/../../ a\"<script>"], "400"),
    ("GET PATH HTTP/1.1", &["Host: ::1"], "400"),
    ("GET PATH HTTP/1.1", &["Host: \u{fc}.com"], "400"),
    ("GET PATH HTTP/1.0", &["Host: u@a"], "400"),
    ("GET http://aPATH HTTP/1.1", &["Host: u@a"], "400"),
    ("GET http://u:p@aPATH HTTP/1.1", &["Host: a"], "400"),
    ("GET http://u@aPATH HTTP/1.0", &[], "400"),
    ("GET http://a:99999PATH HTTP/1.1", &["Host: a"], "400"),
    ("GET http://:80PATH HTTP/1.1", &["Host: a"], "400"),
    ("GET ftp://aPATH HTTP/1.1", &["Host: a"], "400"),
    ("GET a:80 HTTP/1.1", &["Host: a"], "400"),
    ("GET * HTTP/1.1", &["Host: a"], "400"),
    ("OPTIONS * HTTP/1.1", &["Host: a"], "404"),
    ("CONNECT a:80 HTTP/1.1", &["Host: a"], "405"),
    ("CONNECT http://aPATH HTTP/1.1", &["Host: a"], "405"),
];

#[tokio::test]
async fn a_request_that_names_no_host_or_two_has_no_guest() {
    let server = server(Extras::default()).await;
    for (line, fields, expected) in BAD {
        for path in ["/cgi", "/component", "/metrics", "/healthz"] {
            let text = request(line, path, fields);
            let answer = raw(server.open().await, text.as_bytes()).await;
            assert_eq!(status(&answer), expected, "{text}");
        }
    }
    for path in ["/cgi", "/component"] {
        let ran = format!("pirn_guest_seconds_count{{route=\"{path}\"}}");
        assert_eq!(server.metric(&ran).await, 0.0, "{path}");
        assert!(server.count(path, "bad").await > 20.0, "{path}");
    }
    server.stop().await;
}

/// The connection stays usable after such a request, and the next one is read on its own.
#[tokio::test]
async fn a_request_without_a_host_does_not_end_the_requests_after_it() {
    let server = server(Extras::default()).await;
    let all = "GET /cgi HTTP/1.1\r\n\r\n\
               GET http://one/cgi HTTP/1.1\r\nHost: two\r\n\r\n\
               GET /cgi HTTP/1.1\r\nHost: three\r\nConnection: close\r\n\r\n";
    let answer = raw(server.open().await, all.as_bytes()).await;
    let heads: Vec<_> = answer.matches("HTTP/1.1 ").collect();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // `SERVER_PROTOCOL=HTTP/1.1` has no space after it.
    assert_eq!(heads.len(), 3, "{answer}");
    let at = |text: &str| {
        answer
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {answer}"))
    };
    assert!(at("HTTP_HOST=one\0") < at("HTTP_HOST=three\0"));
    assert!(!answer.contains("HTTP_HOST=two"), "{answer}");
    server.stop().await;
}

/// The server's own pages have the same rules, on both addresses.
#[tokio::test]
async fn the_pages_of_the_server_need_a_host_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let admin = listener.local_addr().expect("it listens");
    let extras = Extras {
        admin: Some(listener),
        ..Extras::default()
    };
    let (with, without) = (server(extras).await, server(Extras::default()).await);
    let cases: [(&str, &[&str], &str); 7] = [
        ("GET PATH HTTP/1.1", &["Host: a"], "200"),
        ("GET http://aPATH HTTP/1.1", &["Host: b"], "200"),
        ("GET PATH HTTP/1.0", &[], "200"),
        ("GET PATH HTTP/1.1", &[], "400"),
        ("GET PATH HTTP/1.1", &["Host: a", "Host: a"], "400"),
        ("GET PATH HTTP/1.1", &["Host: a b"], "400"),
        ("GET http://u@aPATH HTTP/1.1", &["Host: a"], "400"),
    ];
    for (line, fields, expected) in cases {
        for path in ["/healthz", "/readyz", "/metrics"] {
            let text = request(line, path, fields);
            for address in [admin, without.address] {
                let client = TcpStream::connect(address).await.expect("it listens");
                let answer = raw(client, text.as_bytes()).await;
                assert_eq!(status(&answer), expected, "{text}");
            }
        }
    }
    with.stop().await;
    without.stop().await;
}

/// The log has the path of the route and the guest, however the target was written.
#[tokio::test]
async fn the_log_has_the_path_that_guests_see() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("access.log");
    let access = AccessLog::open(&path, Format::Json).expect("room for a file");
    let extras = Extras {
        access: Some(access),
        ..Extras::default()
    };
    let server = server(extras).await;
    for line in ["GET http://evil.com/cgi?x HTTP/1.1", "GET /cgi?x HTTP/1.1"] {
        let text = request(line, "", &["Host: good.com"]);
        let answer = raw(server.open().await, text.as_bytes()).await;
        assert_eq!(status(&answer), "200", "{text}");
    }
    for (line, path) in [
        ("GET http://evil.com?x HTTP/1.1", "/?x"),
        ("GET a:80 HTTP/1.1", ""),
    ] {
        let text = request(line, "", &["Host: good.com"]);
        let answer = raw(server.open().await, text.as_bytes()).await;
        let expected = if path.is_empty() { "400" } else { "404" };
        assert_eq!(status(&answer), expected, "{text}");
    }
    server.stop().await;
    let log = std::fs::read_to_string(&path).expect("the log");
    let paths: Vec<_> = log
        .lines()
        .map(|line| {
            let (_, rest) = line.split_once("\"path\":\"").expect("a path");
            rest.split('"').next().expect("its end")
        })
        .collect();
    assert_eq!(paths, ["/cgi?x", "/cgi?x", "/?x", ""], "{log}");
}
