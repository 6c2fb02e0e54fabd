//! Spans of requests, as a collector gets them; parents that clients claim; collectors that fail.

use crate::common;

use common::{ENVIRONMENT, TestServer, module, prints, soon, until, variable};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use pirn_server::units::{Endpoint, Ratio};
use pirn_server::{Extras, Settings, Traces};
use prost::Message as _;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// What a collector does with spans.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    Takes,
    /// Never answers.
    Hangs,
    /// Answers with a status and a body without end.
    Fails,
}

type Spans = Arc<Mutex<Vec<Span>>>;

/// A collector in this process: its endpoint, and what it gets.
async fn collector(habit: Habit) -> (Endpoint, Spans) {
    let spans = Spans::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let got = Arc::clone(&spans);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let got = Arc::clone(&got);
            let service = service_fn(move |request| take(request, habit, Arc::clone(&got)));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    let endpoint = format!("http://{address}").parse();
    (endpoint.expect("an endpoint"), spans)
}

async fn take(
    request: Request<Incoming>,
    habit: Habit,
    spans: Spans,
) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    assert_eq!(
        (request.method().as_str(), request.uri().path()),
        ("POST", "/v1/traces")
    );
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let export = ExportTraceServiceRequest::decode(body).expect("protobuf");
    for resource in export.resource_spans {
        let attributes = resource.resource.expect("a resource").attributes;
        assert_eq!(text(&attributes, "service.name"), "pirn-serve");
        let all = resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        spans.lock().expect("no panic").extend(all);
    }
    match habit {
        Habit::Takes => Ok(Response::default()),
        Habit::Hangs => std::future::pending().await,
        Habit::Fails => {
            let mut response = Response::new(Full::from(vec![b'x'; 1 << 20]));
            *response.status_mut() = hyper::StatusCode::BAD_REQUEST;
            Ok(response)
        }
    }
}

/// An attribute as text; `-` if it is not there.
fn text(all: &[opentelemetry_proto::tonic::common::v1::KeyValue], key: &str) -> String {
    let found = all.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        _ => "-".to_owned(),
    }
}

/// Waits until a collector has this number of spans. On a busy machine, the server may end before
/// its exporter has sent all of them.
async fn all_come(spans: &Spans, number: usize) {
    let come = || spans.lock().expect("no panic").len() >= number;
    until("all spans", come).await;
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn server(endpoint: &Endpoint, ratio: f64) -> TestServer {
    let settings = Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    };
    let hello = prints("Status: 200\n\nhello");
    let guests = [("/env", ENVIRONMENT), ("/trap", "trap.wat"), ("/", &hello)];
    let guests = guests.map(|(path, source)| (path, module(source)));
    let traces = Traces::start(endpoint, Ratio(ratio)).expect("it starts");
    let extras = Extras {
        traces: Some(traces),
        ..Extras::default()
    };
    TestServer::with(&guests, settings, common::limits(), extras).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_span_with_its_wait_and_its_guest() {
    let (endpoint, spans) = collector(Habit::Takes).await;
    let server = server(&endpoint, 1.0).await;
    let continued = Request::post("/env/a?b=c")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .header("tracestate", "other=1");
    let answer = server.ask(continued, "four").await;
    let passed = variable(&answer.body, "HTTP_TRACEPARENT").expect("the guest has a parent");
    let passed = passed.to_owned();
    assert_eq!(variable(&answer.body, "HTTP_TRACESTATE"), Some("other=1"));
    assert_eq!(server.get("/trap").await.status, 502);
    assert_eq!(
        server
            .ask(Request::builder().method("BREW").uri("/"), "")
            .await
            .status,
        200
    );
    server.stop().await;
    all_come(&spans, 9).await;
    let spans = spans.lock().expect("no panic");
    let roots: Vec<_> = spans.iter().filter(|span| span.kind == 2).collect();
    let names: Vec<_> = roots.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["POST /env", "GET /trap", "HTTP /"]);
    let told = |span: &Span, keys: &[&str]| {
        let text = |key| text(&span.attributes, key);
        keys.iter().copied().map(text).collect::<Vec<_>>().join(" ")
    };
    let keys = [
        "http.request.method",
        "url.path",
        "http.route",
        "client.address",
        "pirn.outcome",
        "http.response.status_code",
        "http.request.body.size",
    ];
    assert_eq!(told(roots[0], &keys), "POST /env/a /env 127.0.0.1 ok 200 4");
    assert_eq!(
        told(roots[1], &keys),
        "GET /trap /trap 127.0.0.1 trap 502 0"
    );
    assert_eq!(told(roots[2], &keys), "_OTHER / / 127.0.0.1 ok 200 0");
    assert_eq!(
        roots[1].status.as_ref().map(|status| status.code),
        Some(2),
        "an error"
    );
    assert_eq!(
        (hex(&roots[0].trace_id), hex(&roots[0].parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert_eq!(passed, format!("00-{TRACE}-{}-01", hex(&roots[0].span_id)));
    for root in &roots {
        let children = spans
            .iter()
            .filter(|span| span.parent_span_id == root.span_id);
        let children: Vec<_> = children.collect();
        let names: Vec<_> = children.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["wait for a slot", "guest"]);
        assert!(children.iter().all(|child| child.trace_id == root.trace_id));
        let times = [
            root.start_time_unix_nano,
            children[0].start_time_unix_nano,
            children[0].end_time_unix_nano,
            children[1].start_time_unix_nano,
            children[1].end_time_unix_nano,
            root.end_time_unix_nano,
        ];
        assert!(times.is_sorted(), "{times:?}");
    }
    assert_eq!(spans.len(), 9);
    assert!(roots[1].parent_span_id.is_empty() && roots[1].trace_id != roots[2].trace_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_is_invalid_is_ignored_and_a_valid_one_decides() {
    let (endpoint, spans) = collector(Habit::Takes).await;
    let server = server(&endpoint, 0.0).await;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    let bad = [
        sampled.to_uppercase(),
        format!("{sampled}-"),
        format!("00-{TRACE}-{PARENT}"),
        format!("00-{}-{PARENT}-01", "0".repeat(32)),
        format!("ff-{TRACE}-{PARENT}-01"),
        "x".repeat(10_000),
    ];
    for parent in bad {
        let request = Request::get("/env").header("traceparent", &parent);
        let body = server
            .ask(request.header("tracestate", "a=b"), "")
            .await
            .body;
        let passed = variable(&body, "HTTP_TRACEPARENT").expect("a parent");
        assert!(
            !passed.contains(TRACE) && passed.ends_with("-00"),
            "{passed}"
        );
        assert_eq!(
            variable(&body, "HTTP_TRACESTATE"),
            None,
            "it belonged to no parent"
        );
    }
    let twice = Request::get("/env").header("traceparent", &sampled);
    let body = server
        .ask(twice.header("traceparent", &sampled), "")
        .await
        .body;
    assert!(!body.contains(TRACE), "{body}");
    let request = Request::get("/").header("traceparent", format!("00-{TRACE}-{PARENT}-00"));
    server.ask(request, "").await;
    // A state that is too long, or malformed, does not end the trace.
    for state in ["x".repeat(513), "nonsense".to_owned()] {
        let request = Request::get("/").header("traceparent", &sampled);
        server.ask(request.header("tracestate", state), "").await;
    }
    server.stop().await;
    all_come(&spans, 6).await;
    let spans = spans.lock().expect("no panic");
    assert_eq!(
        spans.len(),
        2 * 3,
        "only what its parent samples: {spans:?}"
    );
    assert!(
        spans
            .iter()
            .all(|span| hex(&span.trace_id) == TRACE && span.trace_state.is_empty())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_fails_delays_no_request_and_no_end_for_ever() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let closed = closed.local_addr().expect("it listens");
    let closed = format!("http://{closed}").parse().expect("an endpoint");
    let unknown = "http://name.invalid:1".parse().expect("an endpoint");
    let (hangs, fails) = (
        collector(Habit::Hangs).await.0,
        collector(Habit::Fails).await.0,
    );
    // At once: a server waits up to five seconds for a collector that hangs.
    tokio::join!(
        answers_and_ends(&closed, BATCH),
        answers_and_ends(&hangs, QUEUE),
        answers_and_ends(&fails, BATCH),
        answers_and_ends(&unknown, BATCH),
    );
}

/// Requests with more spans than one batch of the exporter (512), so that it sends some before the
/// server stops. A request has three spans.
const BATCH: usize = 200;

/// Requests with more spans than the queue of the exporter (2,048) and the batch that it sends.
const QUEUE: usize = 900;

/// Checks that a server with this collector answers requests, and then ends.
async fn answers_and_ends(collector: &Endpoint, requests: usize) {
    let server = server(collector, 1.0).await;
    let client = pirn_server::load::connect(server.address).await;
    let mut client = client.expect("it listens");
    for _ in 0..requests {
        client.ready().await.expect("the connection stays");
        let request = Request::get("/").header("host", "a");
        let request = request.body(Default::default()).expect("a request");
        let answer = soon("an answer", client.send_request(request)).await;
        let answer = common::read(answer.expect("an answer")).await;
        assert_eq!(answer.body, "hello");
    }
    drop(client);
    // A server that waited for its collector would never end.
    server.stop().await;
}
