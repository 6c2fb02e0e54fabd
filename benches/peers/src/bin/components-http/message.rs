//! [`Ask`]: a request. [`Ended`]: how the guest ended, and its response.

use bytes::Bytes;
use hyper::HeaderMap;
use std::fmt;

/// The authority of all requests.
const HOST: &str = "guest.example";

/// Fields of a request, about as many as a browser sends.
const FIELDS: [(&str, &str); 9] = [
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.5"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "none"),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
];

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub method: &'static str,
    pub target: String,
    pub fields: Vec<(&'static str, &'static str)>,
    pub body: Bytes,
}

impl Ask {
    fn get(target: &str) -> Self {
        Self {
            method: "GET",
            target: target.into(),
            fields: vec![("host", HOST)],
            body: Bytes::new(),
        }
    }

    fn post(target: &str, bytes: usize) -> Self {
        let line = b"sixteen bytes..\n";
        let body: Vec<u8> = line.iter().copied().cycle().take(bytes).collect();
        Self {
            method: "POST",
            body: body.into(),
            ..Self::get(target)
        }
    }

    fn browser(target: &str) -> Self {
        let mut ask = Self::get(target);
        ask.fields.extend(FIELDS);
        ask
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} bytes",
            self.method,
            self.target,
            self.body.len()
        )
    }
}

/// Replaced in a target by the address of a server of the engine, with percent signs.
pub const SERVER: &str = "SERVER";

/// A request for each path that the guests know (`examples/guests/README.md`).
pub fn known() -> Vec<Ask> {
    vec![
        Ask::get("/hello"),
        Ask::post("/echo?a=1&b=%20", 40),
        Ask::post("/echo", 300_000),
        Ask::browser("/headers"),
        Ask::get("/count"),
        Ask::post("/count", 1 << 20),
        Ask::get(&format!("/call?url=http%3A%2F%2F{SERVER}%2Fpath%3Fx%3D1")),
        Ask::get("/call?url=nothing%3A"),
        Ask::get("/keep"),
        Ask::get("/keep"),
        Ask::get("/fail"),
        Ask::get("/slow"),
        Ask::get("/big?n=0"),
        Ask::get("/big?n=1000000"),
        Ask::get("/never"),
        Ask::get("/trailers"),
        Ask::get("/other"),
    ]
}

/// The requests that are timed.
pub fn measured() -> Vec<(&'static str, Ask)> {
    vec![
        ("GET /hello", Ask::get("/hello")),
        ("GET /headers, 10 fields", Ask::browser("/headers")),
        ("POST /echo, 1 KiB", Ask::post("/echo", 1 << 10)),
        ("POST /echo, 64 KiB", Ask::post("/echo", 64 << 10)),
        ("POST /count, 1 MiB", Ask::post("/count", 1 << 20)),
        ("GET /big, 1 MiB", Ask::get("/big?n=1048576")),
    ]
}

/// A response.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
    /// Why the body ended before its end.
    pub broken: Option<String>,
}

/// What became of a request.
#[derive(Debug)]
pub struct Ended {
    /// Or why there is none.
    pub response: Result<Response, String>,
    /// The first line of the error with which the call of the guest ended, if it did.
    pub error: Option<String>,
}

impl Ended {
    pub fn status(&self) -> Option<u16> {
        self.response.as_ref().ok().map(|response| response.status)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.response {
            Ok(response) => write!(f, "{response}")?,
            Err(why) => writeln!(f, "no response: {why}")?,
        }
        match &self.error {
            Some(error) => writeln!(f, "guest: {error}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "status {}", self.status)?;
        fields(f, "", &self.fields)?;
        match std::str::from_utf8(&self.body) {
            Ok(text) if text.len() <= 2000 => write!(f, "{text}")?,
            _ => writeln!(
                f,
                "{} bytes, FNV-1a {:016x}",
                self.body.len(),
                hash(&self.body)
            )?,
        }
        if let Some(trailers) = &self.trailers {
            fields(f, "trailer ", trailers)?;
        }
        match &self.broken {
            Some(why) => writeln!(f, "body broken: {why}"),
            None => Ok(()),
        }
    }
}

/// Prints fields sorted by name.
fn fields(f: &mut fmt::Formatter<'_>, before: &str, all: &HeaderMap) -> fmt::Result {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in all {
        writeln!(
            f,
            "{before}{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        )?;
    }
    Ok(())
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Requests whose answers may have different bodies, and why.
const DIFFERENT: [(&str, &str); 2] = [
    (
        "/fail",
        "JavaScript exits with an open body: pirn breaks it off, Wasmtime ends it",
    ),
    ("/never", "the same"),
];

/// How the answers of two engines to a request differ, unless they may. The texts of errors may.
pub fn difference(ask: &Ask, one: &Ended, other: &Ended) -> Option<String> {
    let mut different = DIFFERENT.iter();
    let is_listed = different.any(|(start, _)| ask.target.starts_with(start));
    let shown = |ended: &Ended| match &ended.response {
        Ok(response) => {
            let broken = response.broken.as_ref().map(|_| String::new());
            let response = Response {
                status: response.status,
                fields: response.fields.clone(),
                body: response.body.clone(),
                trailers: response.trailers.clone(),
                broken,
            };
            response.to_string()
        }
        Err(_) => "no response\n".into(),
    };
    let is_broken = |ended: &Ended| {
        let response = ended.response.as_ref();
        response.is_ok_and(|response| response.broken.is_some())
    };
    let (first, second) = (shown(one), shown(other));
    let may_differ = is_listed && one.status() == other.status() && is_broken(one);
    if first != second && !may_differ {
        return Some(format!("{first:?} and {second:?}"));
    }
    let failed = [one.error.is_some(), other.error.is_some()];
    (failed[0] != failed[1]).then(|| format!("the guest failed: {failed:?}"))
}
