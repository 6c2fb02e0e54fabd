//! HTTP handlers from real toolchains: requests, streamed bodies, requests to other servers.

use crate::common;

use bytes::Bytes;
use common::http::{Reply, Server, other_server};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use pirn_wasi2::http::ErrorCode;

/// The handlers that are committed.
const HANDLERS: [&str; 2] = ["http-rust", "http-c"];

fn get(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).header("host", "example.com");
    request.body(Full::default()).expect("a request")
}

fn text(reply: Reply) -> String {
    let (head, body, _) = reply.expect("a response");
    assert_eq!(head.status, StatusCode::OK);
    String::from_utf8(body.expect("it is complete").to_vec()).expect("it is text")
}

#[tokio::test]
async fn a_handler_answers() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        let language = handler.trim_start_matches("http-");
        let text = text(server.reply(get("/hello")).await);
        assert!(text.to_lowercase().contains(language), "{text}");
    }
}

#[tokio::test]
async fn each_request_gets_a_fresh_instance() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        for _ in 0..3 {
            assert_eq!(text(server.reply(get("/keep")).await).trim(), "1");
        }
    }
}

#[tokio::test]
async fn fields_are_seen_but_those_of_the_connection() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        let mut request = get("/headers");
        for (name, value) in [("x-one", "1"), ("connection", "close"), ("upgrade", "h2c")] {
            request
                .headers_mut()
                .append(name, value.parse().expect("a value"));
        }
        let text = text(server.reply(request).await);
        assert!(text.contains("x-one"), "{text}");
        for hidden in ["connection", "upgrade", "host"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}

#[tokio::test]
async fn bodies_stream_in_both_directions() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        let pieces: Vec<_> = (0..50u8).map(|n| Bytes::from(vec![n; 10_007])).collect();
        let all = pieces.concat();
        let frames = pieces
            .into_iter()
            .map(|piece| Ok::<_, ErrorCode>(Frame::data(piece)));
        let body = StreamBody::new(futures::stream::iter(frames));
        let request = Request::post("/echo?a=b").body(body).expect("a request");
        let (head, body, _) = server.reply(request).await.expect("a response");
        assert_eq!(body.expect("it is complete"), all);
        assert_eq!(head.headers["x-method"], "POST");
        assert_eq!(head.headers["x-path"], "/echo?a=b");
    }
}

#[tokio::test]
async fn the_guest_waits_while_nobody_takes_its_body() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        let reply = server.reply(get("/big?n=3000000")).await;
        let (_, body, _) = reply.expect("a response");
        assert_eq!(body.expect("it is complete").len(), 3_000_000);
        // The call is dropped while the guest waits for a client that takes nothing.
        let answer = server
            .head(get("/big?n=3000000"))
            .await
            .expect("a response");
        drop(answer);
    }
}

#[tokio::test]
async fn a_guest_that_fails_gives_no_response() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        for path in ["/fail", "/never"] {
            let reply = server.reply(get(path)).await;
            assert!(reply.is_err(), "{handler} {path}: {reply:?}");
        }
        assert_eq!(server.slots_free(), 1);
    }
}

#[tokio::test]
async fn a_guest_sleeps_and_counts_and_sends_trailers() {
    for handler in HANDLERS {
        let server = Server::new(handler);
        let reply = server.reply(get("/slow")).await;
        assert!(reply.is_ok());
        let mut request = get("/count");
        *request.body_mut() = Full::from(vec![b'x'; 100_000]);
        assert!(text(server.reply(request).await).contains("100000"));
        let (_, body, trailers) = server.reply(get("/trailers")).await.expect("a response");
        body.expect("it is complete");
        assert!(!trailers.unwrap_or_default().is_empty());
    }
}

#[tokio::test]
async fn requests_to_other_servers_need_permission() {
    let (address, seen) = other_server().await;
    for handler in HANDLERS {
        let path = format!("/call?url=http://{address}/there");
        let denied = Server::new(handler);
        let (_, body, _) = denied.reply(get(&path)).await.expect("a response");
        assert!(!String::from_utf8_lossy(&body.expect("complete")).contains("other server"));
        assert_eq!(seen.lock().expect("it is whole").len(), 0);
        for allowed in ["example.com", "127.0.0.1", "127.0.0.1:1", "*"] {
            let denied = Server::new(handler).allow(allowed);
            let (_, body, _) = denied.reply(get(&path)).await.expect("a response");
            assert!(!String::from_utf8_lossy(&body.expect("complete")).contains("other server"));
        }
        assert_eq!(seen.lock().expect("it is whole").len(), 0);
        let server = Server::new(handler).allow(&address.to_string());
        let (_, body, _) = server.reply(get(&path)).await.expect("a response");
        let body = body.expect("it is complete");
        assert!(
            String::from_utf8_lossy(&body).contains("other server"),
            "{body:?}"
        );
        let seen: Vec<HeaderMap> = std::mem::take(&mut seen.lock().expect("it is whole"));
        assert_eq!(seen[0]["host"], address.to_string());
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_or_lies_is_an_error_of_the_guest() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a socket");
    let address = listener.local_addr().expect("an address");
    let answers = [
        &b""[..],
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
    ];
    tokio::spawn(async move {
        for answer in answers.iter().cycle() {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut buffer = [0; 1000];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answer).await;
        }
    });
    for handler in HANDLERS {
        let server = Server::new(handler).allow(&address.to_string());
        for _ in answers {
            // The handlers end in their own ways; the slot is free after each of them.
            let _ = server
                .reply(get(&format!("/call?url=http://{address}/")))
                .await;
            assert_eq!(server.slots_free(), 1);
        }
    }
}

#[tokio::test]
async fn bodies_are_read_to_their_end() {
    let body = Full::from("abc").map_err(|never| match never {});
    let body: http_body_util::combinators::BoxBody<Bytes, ErrorCode> = body.boxed();
    let server = Server::new("http-rust");
    let request = Request::post("/count").body(body).expect("a request");
    assert!(text(server.reply(request).await).contains('3'));
}
