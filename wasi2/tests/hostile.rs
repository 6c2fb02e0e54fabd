//! Handlers that want the host's memory, or requests that are not theirs, and servers that answer
//! such requests in hostile ways.

use crate::common;

use bytes::Bytes;
use common::http::{NoReply, Server, other_server};
use http::{Request, StatusCode};
use http_body_util::Full;
use pirn_testing::allocator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const HANDLE: &str = r#"(export "wasi:http/incoming-handler@0.2.12#handle")
  (param i32) (param $out i32)"#;

/// 60,000 letters at 8192.
const LETTERS: &str = "(memory.fill (i32.const 8192) (i32.const 97) (i32.const 60000))";

fn get() -> Request<Full<Bytes>> {
    Request::get("/").body(Full::default()).expect("a request")
}

/// How the call of a handler ends that gives no response.
async fn end(core: &str) -> String {
    match Server::of_text(core).reply(get()).await {
        Err(NoReply::Ended(Some(error))) => error.to_string(),
        other => panic!("{core}: {other:?}"),
    }
}

/// The status of a handler's response.
async fn status(server: &Server) -> StatusCode {
    server.reply(get()).await.expect("a response").0.status
}

/// Each of these would keep hundreds of MiB in the host.
#[tokio::test]
async fn what_the_host_keeps_for_a_guest_is_bounded() {
    let fields = format!(
        r#"(func {HANDLE} (local $fields i32) (local $left i32)
          {LETTERS}
          (local.set $fields (call $fields))
          (local.set $left (i32.const 100))
          (loop $more
            (call $append (local.get $fields) (i32.const 8192) (i32.const 10)
              (i32.const 8192) (i32.const 1000) (i32.const 0))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $more (local.get $left)))
          (loop $again (drop (call $clone (local.get $fields))) (br $again)))"#
    );
    let paths = format!(
        r#"(func {HANDLE}
          {LETTERS}
          (i32.store8 (i32.const 8192) (i32.const 47))
          (loop $again
            (if (call $path (call $request (call $fields)) (i32.const 1)
                (i32.const 8192) (i32.const 60000))
              (then unreachable))
            (br $again)))"#
    );
    let bodies = format!(
        r#"(func {HANDLE} (local $stream i32) (local $left i32)
          (loop $again
            (call $body (call $response (call $fields)) (i32.const 0))
            (call $stream (call $ok) (i32.const 0))
            (local.set $stream (call $ok))
            (local.set $left (i32.const 15))
            (loop $more
              (call $write (local.get $stream) (i32.const 8192) (i32.const 4096) (i32.const 0))
              (local.set $left (i32.sub (local.get $left) (i32.const 1)))
              (br_if $more (local.get $left)))
            (call $drop-stream (local.get $stream))
            (br $again)))"#
    );
    // The fields of a response that was dropped, which another one has.
    let shared = format!(
        r#"(func {HANDLE} (local $fields i32) (local $first i32) (local $second i32)
            (local $left i32)
          {LETTERS}
          (loop $again
            (local.set $fields (call $fields))
            (local.set $left (i32.const 2))
            (loop $more
              (call $append (local.get $fields) (i32.const 8192) (i32.const 10)
                (i32.const 8192) (i32.const 60000) (i32.const 0))
              (local.set $left (i32.sub (local.get $left) (i32.const 1)))
              (br_if $more (local.get $left)))
            (local.set $first (call $response (local.get $fields)))
            (drop (call $response (call $headers (local.get $first))))
            (call $drop-response (local.get $first))
            (br $again)))"#
    );
    for core in [fields, paths, bodies, shared] {
        let error = end(&core).await;
        assert!(error.contains("bytes of the host"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// What was dropped is not kept: the guest makes more resources than it may have at once (4,096),
/// with more bytes (16 MiB).
#[tokio::test]
async fn a_guest_that_drops_what_it_makes_may_go_on() {
    let core = format!(
        r#"(func {HANDLE} (local $left i32) (local $fields i32)
          {LETTERS}
          (local.set $left (i32.const 6000))
          (loop $more
            (local.set $fields (call $fields))
            (call $append (local.get $fields) (i32.const 8192) (i32.const 10)
              (i32.const 8192) (i32.const 4000) (i32.const 0))
            (call $drop-fields (local.get $fields))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $more (local.get $left)))
          (call $sent (local.get $out) (call $response (call $fields))))"#
    );
    assert_eq!(status(&Server::of_text(&core)).await, 200);
}

#[tokio::test]
async fn names_in_requests_have_a_limit() {
    for (set, limit) in [
        ("(call $method (local.get $request) (i32.const 9)", 256),
        ("(call $authority (local.get $request) (i32.const 1)", 1024),
    ] {
        let core = format!(
            r#"(func {HANDLE} (local $request i32)
              {LETTERS}
              (local.set $request (call $request (call $fields)))
              (if {set} (i32.const 8192) (i32.const {limit})) (then unreachable))
              (if (i32.eqz {set} (i32.const 8192) (i32.const {}))) (then unreachable))
              (call $sent (local.get $out) (call $response (call $fields))))"#,
            limit + 1
        );
        assert_eq!(status(&Server::of_text(&core)).await, 200, "{set}");
    }
}

#[tokio::test]
async fn a_list_of_pollables_has_a_limit() {
    let core = |number: u32| {
        format!(
            r#"(func {HANDLE} (local $left i32) (local $timer i32)
              (local.set $timer (call $timer (i64.const 1)))
              (local.set $left (i32.const {number}))
              (loop $more
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (i32.store (i32.add (i32.const 65536) (i32.mul (local.get $left) (i32.const 4)))
                  (local.get $timer))
                (br_if $more (local.get $left)))
              (call $poll (i32.const 65536) (i32.const {number}) (i32.const 0))
              (if (i32.ne (i32.load (i32.const 4)) (i32.const {number})) (then unreachable))
              (call $sent (local.get $out) (call $response (call $fields))))"#
        )
    };
    assert_eq!(status(&Server::of_text(&core(4096))).await, 200);
    assert!(end(&core(4097)).await.contains("4097 pollables"));
}

/// A handler that sends a request, and answers with status 200 if there is a response, and with
/// 400 and the number of the error if not.
fn calls(authority: &str, path: &str) -> String {
    let (authority_len, path_len) = (authority.len(), path.len());
    format!(
        r#"(data (i32.const 1000) "{authority}") (data (i32.const 2000) "{path}")
        (func {HANDLE} (local $request i32) (local $future i32) (local $response i32)
          (local.set $request (call $request (call $fields)))
          (if (call $scheme (local.get $request) (i32.const 1) (i32.const 0) (i32.const 0)
              (i32.const 0))
            (then unreachable))
          (if (call $authority (local.get $request) (i32.const 1) (i32.const 1000)
              (i32.const {authority_len}))
            (then unreachable))
          (if (call $path (local.get $request) (i32.const 1) (i32.const 2000)
              (i32.const {path_len}))
            (then unreachable))
          (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 0))
          (if (i32.load8_u (i32.const 0))
            (then
              (local.set $response (call $response (call $fields)))
              (drop (call $status (local.get $response)
                (i32.add (i32.const 400) (i32.load8_u (i32.const 8)))))
              (call $sent (local.get $out) (local.get $response))
              (return)))
          (local.set $future (i32.load (i32.const 8)))
          (call $block (call $subscribe (local.get $future)))
          (call $get (local.get $future) (i32.const 0))
          (local.set $response (call $response (call $fields)))
          (if (i32.load8_u (i32.const 16))
            (then (drop (call $status (local.get $response)
              (i32.add (i32.const 400) (i32.load8_u (i32.const 24)))))))
          (call $sent (local.get $out) (local.get $response)))"#
    )
}

/// The status of a handler that sends a request to a server, and the request as it came.
async fn called(path: &str, answer: Vec<u8>) -> (StatusCode, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut request = vec![];
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.expect("a request"));
        }
        // The client may hang up.
        let _ = stream.write_all(&answer).await;
        String::from_utf8(request).expect("text")
    });
    let server = Server::of_text(&calls(&address, path)).allow(&address);
    let status = status(&server).await;
    (
        status,
        served
            .await
            .expect("a request")
            .replace(&address, "allowed"),
    )
}

/// A request target that names a host would be meant for it, whatever the field `Host` says
/// (RFC 9112, section 3.2.2).
#[tokio::test]
async fn a_path_cannot_name_another_host() {
    for (path, target) in [
        ("/", "/"),
        ("/a?b=c#d", "/a?b=c"),
        ("//other/", "//other/"),
        ("*", "*"),
    ] {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec();
        let (status, request) = called(path, answer).await;
        assert_eq!(status, 200, "{path}");
        let line = format!("GET {target} HTTP/1.1\r\n");
        assert!(request.starts_with(&line), "{path}: {request}");
        assert!(request.contains("host: allowed\r\n"), "{request}");
    }
    for path in [
        "other",
        "other:80",
        "http://other/",
        "*/",
        "/ x",
        "/\\r\\nx: y",
    ] {
        let error = end(&calls("127.0.0.1", path)).await;
        assert!(error.contains("unreachable"), "{path}: {error}");
    }
}

/// Numbers of errors, as `calls` gives them.
const DNS_ERROR: u16 = 401;
const IP_PROHIBITED: u16 = 404;
const DENIED: u16 = 415;
const URI_INVALID: u16 = 419;

/// Spellings of addresses of the host itself, of its network, and of a metadata service.
#[tokio::test]
async fn no_spelling_of_an_address_leads_to_the_host() {
    let (address, seen) = other_server().await;
    let port = address.port();
    for (host, expected) in [
        ("localhost", IP_PROHIBITED),
        ("LocalHost", IP_PROHIBITED),
        ("127.0.0.1", DENIED),
        ("127.255.255.254", DENIED),
        ("0.0.0.0", DENIED),
        ("10.0.0.1", DENIED),
        ("169.254.169.254", DENIED),
        ("[::1]", DENIED),
        ("[::]", DENIED),
        ("[0:0:0:0:0:0:0:1]", DENIED),
        ("[::127.0.0.1]", DENIED),
        ("[::ffff:127.0.0.1]", DENIED),
        ("[::ffff:7f00:1]", DENIED),
        ("[::ffff:169.254.169.254]", DENIED),
        ("[64:ff9b::7f00:1]", DENIED),
        ("[2002:7f00:1::]", DENIED),
        ("[fe80::1]", DENIED),
        ("[fd00:ec2::254]", DENIED),
        ("127.1", URI_INVALID),
        ("127.0.1", URI_INVALID),
        ("127.0.0.1.", URI_INVALID),
        ("2130706433", URI_INVALID),
        ("0x7f000001", URI_INVALID),
        ("0x7f.1", URI_INVALID),
        ("017700000001", URI_INVALID),
        ("0177.0.0.1", URI_INVALID),
        ("0", URI_INVALID),
        ("2852039166", URI_INVALID),
        ("[localhost]", URI_INVALID),
        ("example.com@127.0.0.1", URI_INVALID),
    ] {
        let server = Server::of_text(&calls(&format!("{host}:{port}"), "/")).allow("*:*");
        assert_eq!(status(&server).await, expected, "{host}");
    }
    // Not each resolver knows this name with a dot.
    let dotted = Server::of_text(&calls(&format!("localhost.:{port}"), "/")).allow("*:*");
    let status_of_dotted = status(&dotted).await.as_u16();
    assert!([DNS_ERROR, IP_PROHIBITED].contains(&status_of_dotted));
    assert!(seen.lock().expect("it is whole").is_empty());
    // The server answers when a rule names its address.
    for rule in [
        address.to_string(),
        "127.0.0.0/8:*".into(),
        "loopback:*".into(),
    ] {
        let server = Server::of_text(&calls(&address.to_string(), "/")).allow(&rule);
        assert_eq!(status(&server).await, 200, "{rule}");
    }
    assert_eq!(seen.lock().expect("it is whole").len(), 3);
}

#[tokio::test]
async fn the_head_of_a_response_has_a_limit() {
    let answer = |bytes: usize| {
        let value = "a".repeat(bytes);
        format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: {value}\r\n\r\n").into_bytes()
    };
    assert_eq!(called("/", answer(30_000)).await.0, 200);
    // HTTP-response-header-section-size
    assert_eq!(called("/", answer(200_000)).await.0, 426);
}

/// A guest may set any timeout. One that has passed already gives the guest an error, or none if
/// the answer is there.
#[tokio::test]
async fn timeouts_of_any_length_end_in_an_answer_or_an_error() {
    for timeout in ["connect", "first-byte", "between-bytes"] {
        for ns in ["0", "1", "-1", "0x7fffffffffffffff"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
            let address = listener.local_addr().expect("an address").to_string();
            let served = tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    // The client may hang up.
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                }
            });
            let plain = "(call $handle (local.get $request) (i32.const 0) (i32.const 0)";
            let limited = format!(
                "(local.set $options (call $options))
                 (if (call ${timeout}-timeout (local.get $options) (i32.const 1) (i64.const {ns}))
                   (then unreachable))
                 (call $handle (local.get $request) (i32.const 1) (local.get $options)"
            );
            let core = calls(&address, "/");
            assert_eq!(core.matches(plain).count(), 1);
            let core = core.replace(plain, &limited);
            let core = core.replacen(
                "(local $request i32)",
                "(local $request i32) (local $options i32)",
                1,
            );
            let status = status(&Server::of_text(&core).allow(&address)).await;
            assert!(
                status == 200 || status.as_u16() >= 400,
                "{timeout} {ns}: {status}"
            );
            served.abort();
        }
    }
}

/// Most bytes of the host on this thread while a handler runs, which must answer.
async fn peak_bytes(core: &str) -> isize {
    let server = Server::of_text(core);
    allocator::start();
    assert_eq!(status(&server).await, 200);
    allocator::peak_bytes()
}

/// Zeros for an output that nobody reads, as many as a number can say.
#[tokio::test]
async fn zeros_take_no_memory_of_the_host() {
    let core = |zeros: &str| {
        format!(
            r#"(func {HANDLE} (local $left i32)
              (local.set $left (i32.const 100))
              (loop $more
                (call $zeros (call $stdout) (i64.const {zeros}) (i32.const 0))
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (br_if $more (local.get $left)))
              (call $sent (local.get $out) (call $response (call $fields))))"#
        )
    };
    let few = peak_bytes(&core("1")).await;
    let many = peak_bytes(&core("4096")).await;
    assert!(many < few + 65_536, "{few} and {many} bytes");
    for zeros in ["4097", "0x7fffffffffffffff", "-1"] {
        let error = end(&core(zeros)).await;
        assert!(error.contains("at most 4096"), "{zeros}: {error}");
    }
}

/// Pieces without bytes do not wait in a queue, however many a guest writes.
#[tokio::test]
async fn empty_writes_keep_nothing_in_the_host() {
    let core = |writes: u32| {
        format!(
            r#"(func {HANDLE} (local $response i32) (local $body i32) (local $stream i32)
                (local $left i32)
              (local.set $response (call $response (call $fields)))
              (call $body (local.get $response) (i32.const 0))
              (local.set $body (call $ok))
              (call $stream (local.get $body) (i32.const 0))
              (local.set $stream (call $ok))
              (local.set $left (i32.const {writes}))
              (loop $more
                (call $write (local.get $stream) (i32.const 8192) (i32.const 0) (i32.const 0))
                (drop (call $ok))
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (br_if $more (local.get $left)))
              (call $sent (local.get $out) (local.get $response))
              (call $drop-stream (local.get $stream))
              (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 0)))"#
        )
    };
    let few = peak_bytes(&core(10)).await;
    let many = peak_bytes(&core(100_000)).await;
    assert!(many < few + 65_536, "{few} and {many} bytes");
}
