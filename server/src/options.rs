//! [`Options`]: the options that the command line and the configuration file share.

use crate::operations::access::Format;
use crate::units::{
    Address, Count, Destination, Endpoint, MemoryFolder, Ratio, Size, Time, parsed,
};
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// The options of a server. The command line and the configuration file have the same ones. An
/// option that is `None` has its default.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    /// Address to listen on; port 0 takes any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) listen: Option<Address>,
    /// Address of /metrics, /healthz and /readyz, which the public address has otherwise
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) admin: Option<Address>,
    /// Most guests at a time: the number of slots [default: 64]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) slots: Option<Count>,
    /// Threads that run guests and serve connections [default: the number of processors]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) workers: Option<Count>,
    /// Longest wall time of a guest, as in 500us, 200ms or 2s [default: 1s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) deadline: Option<Time>,
    /// Longest time of a module's start function; its thread does nothing else in that time
    /// [default: 50ms]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) start_deadline: Option<Time>,
    /// Initialises each guest once, when the server starts; every request gets an instance that
    /// begins there
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) warm: Option<bool>,
    /// Longest time of the initialisation of a guest with --warm [default: 10s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) warm_deadline: Option<Time>,
    /// Longest time that a guest keeps a thread before others run [default: 500us]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) timeslice: Option<Time>,
    /// Most memory of a guest, as in 512KiB or 64MiB [default: 64MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) memory_max: Option<Size>,
    /// Stack size of a guest [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) stack: Option<Size>,
    /// Most bytes of a guest's answer [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) answer_max: Option<Size>,
    /// Most bytes of a guest's standard error that are logged [default: 8KiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) stderr_max: Option<Size>,
    /// Server that components may send HTTP requests to: HOST, HOST:PORT, HOST:*, *.HOST, or * for
    /// every public host; an address or a network such as 10.0.0.0/8 allows servers that are not
    /// public; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) http_allow: Option<Vec<Destination>>,
    /// Directory in memory for each request, as in /tmp, or /data=DIR or /data=TAR with the content
    /// of a directory or tar archive; may be given several times
    #[arg(long = "memory-dir", value_name = "GUEST[=DIR|TAR]")]
    #[serde(rename = "memory_dir")]
    pub(crate) memory_dirs: Option<Vec<MemoryFolder>>,
    /// Most bytes of memory that a guest changes in one such directory [default: 16MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) memory_dir_max: Option<Size>,
    /// Most files that a guest makes in one such directory [default: 4096]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) memory_dir_files: Option<Count>,
    /// Public key, a .pub file: nothing is served that none of these keys signed, and nothing is
    /// compiled; may be given several times
    #[arg(long, value_name = "PUB")]
    pub(crate) trust: Option<Vec<PathBuf>>,
    /// Most bytes of a request's body [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) body_max: Option<Size>,
    /// Most bytes of all requests' bodies together that the server keeps in memory; at least
    /// --body-max [default: 128MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) buffered_max: Option<Size>,
    /// Most requests that wait for a slot; more are refused at once [default: 1024]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) waiting_max: Option<Count>,
    /// Most requests of one route that have a guest or wait for a slot [default: no limit]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) route_requests: Option<Count>,
    /// Longest time that a request waits for a slot [default: 500ms]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) wait: Option<Time>,
    /// Longest time to receive the header of a request [default: 10s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) header_timeout: Option<Time>,
    /// Longest time to receive the body of a request [default: 30s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) body_timeout: Option<Time>,
    /// Longest time that a client takes to receive its answer [default: 30s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) write_timeout: Option<Time>,
    /// Most connections at a time; more wait to be accepted [default: 1024]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) connections: Option<Count>,
    /// Most connections of one client address at a time; more are closed [default: 256]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) client_connections: Option<Count>,
    /// Most bytes a second that the server logs for guests [default: 256KiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) log_max: Option<Size>,
    /// Longest time for requests to end after SIGTERM [default: 10s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) grace: Option<Time>,
    /// Time between SIGTERM, from which on /readyz fails, and the end of new connections
    /// [default: no delay]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) stop_delay: Option<Time>,
    /// Level of the log on standard error: off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) log: Option<LevelFilter>,
    /// File that gets a line for each request; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Form of the lines of the access log: json or combined [default: json]
    #[arg(long, value_name = "FORMAT")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) access_log_format: Option<Format>,
    /// Collector that gets a span for each request by OTLP over HTTP, as in http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) otlp: Option<Endpoint>,
    /// Part of the requests that get a span, from 0 to 1, unless their traceparent decides
    /// [default: 1]
    #[arg(long, value_name = "RATIO")]
    #[serde(deserialize_with = "parsed")]
    pub(crate) otlp_ratio: Option<Ratio>,
    /// The routes of the file. The command line writes them as --route PATH=MODULE.
    #[arg(skip)]
    #[serde(rename = "route")]
    pub(crate) routes: Vec<toml::Spanned<FileRoute>>,
}

/// A `[[route]]` of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct FileRoute {
    pub(crate) path: String,
    pub(crate) module: String,
    #[serde(default, deserialize_with = "parsed")]
    pub(crate) deadline: Option<Time>,
    #[serde(default, deserialize_with = "parsed")]
    pub(crate) requests: Option<Count>,
    #[serde(default)]
    pub(crate) warm: Option<bool>,
    #[serde(default)]
    pub(crate) http_allow: Option<Vec<Destination>>,
    #[serde(default, rename = "memory_dir")]
    pub(crate) memory_dirs: Option<Vec<MemoryFolder>>,
}

/// The options of the first value. An option that the first value lacks comes from the second
/// value.
macro_rules! either {
    ($first:ident, $second:ident: $($name:ident)*) => {
        Options {
            $($name: $first.$name.or($second.$name),)*
            routes: $second.routes,
        }
    };
}

impl Options {
    /// These options, completed by the options of the file. The routes come from the file.
    pub(crate) fn or(self, file: Self) -> Self {
        either!(self, file:
            listen admin slots workers deadline start_deadline warm warm_deadline timeslice
            memory_max stack answer_max stderr_max body_max buffered_max waiting_max
            route_requests wait header_timeout body_timeout write_timeout connections
            client_connections log_max grace log access_log access_log_format otlp otlp_ratio
            stop_delay http_allow memory_dirs memory_dir_max memory_dir_files trust)
    }
}
