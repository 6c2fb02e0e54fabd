//! [`Options`]: the options that the command line and the configuration file share.

use crate::guest::pirn::Settings;
use crate::limits::Limits;
use crate::operations::access::Format;
use crate::units::{
    Address, Count, Destination, Endpoint, MemoryFolder, Ratio, Size, Time, parsed,
};
use clap::Args;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// The limits that options set.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) limits: Limits,
    pub(crate) settings: Settings,
}

/// Defines [`Options`] by the list of all options. `=>` names the limit that an option sets.
macro_rules! options {
    ($($(#[$attribute:meta])* $name:ident: $type:ty $(=> $part:ident.$limit:ident)?;)*) => {
        /// The options of a server. The command line and the configuration file have the same ones.
        /// An option that is `None` has its default.
        #[derive(Debug, Default, Clone, Args, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct Options {
            $($(#[$attribute])* pub(crate) $name: Option<$type>,)*
            /// The routes of the file. The command line writes them as --route PATH=MODULE.
            #[arg(skip)]
            #[serde(rename = "route")]
            pub(crate) routes: Vec<toml::Spanned<FileRoute>>,
        }

        impl Options {
            /// These options, completed by the options of the file. The routes come from the file.
            pub(crate) fn or(self, file: Self) -> Self {
                Self {
                    $($name: self.$name.or(file.$name),)*
                    routes: file.routes,
                }
            }

            /// Sets the limits of the given options.
            pub(crate) fn set(&self, values: &mut Values) {
                $($(if let Some(value) = self.$name {
                    values.$part.$limit = value.into();
                })?)*
            }
        }
    };
}

options! {
    /// Address to listen on; port 0 takes any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Address;
    /// Address of /metrics, /healthz and /readyz, which the public address has otherwise
    #[arg(long, value_name = "ADDRESS")]
    admin: Address;
    /// Most guests at a time: the number of slots [default: 64]
    #[arg(long, value_name = "N")]
    slots: Count => settings.slots;
    /// Threads that run guests and serve connections [default: the number of processors]
    #[arg(long, value_name = "N")]
    workers: Count;
    /// Longest wall time of a guest, as in 500us, 200ms or 2s [default: 1s]
    #[arg(long, value_name = "TIME")]
    deadline: Time => settings.deadline;
    /// Longest time of a module's start function; its thread does nothing else in that time
    /// [default: 50ms]
    #[arg(long, value_name = "TIME")]
    start_deadline: Time => settings.start_deadline;
    /// Initialises each guest once, when the server starts; every request gets an instance that
    /// begins there
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    warm: bool;
    /// Longest time of the initialisation of a guest with --warm [default: 10s]
    #[arg(long, value_name = "TIME")]
    warm_deadline: Time;
    /// Longest time that a guest keeps a thread before others run [default: 500us]
    #[arg(long, value_name = "TIME")]
    timeslice: Time => settings.timeslice;
    /// Most memory of a guest, as in 512KiB or 64MiB [default: 64MiB]
    #[arg(long, value_name = "BYTES")]
    memory_max: Size => settings.memory_bytes_max;
    /// Stack size of a guest [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    stack: Size => settings.stack_bytes;
    /// Most bytes of a CGI guest's answer, with its header [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    answer_max: Size => settings.output_max;
    /// Most bytes of a guest's standard error that are logged [default: 8KiB]
    #[arg(long, value_name = "BYTES")]
    stderr_max: Size => settings.errors_max;
    /// Server that components may send HTTP requests to: HOST, HOST:PORT, HOST:*, *.HOST, or * for
    /// every public host; an address or a network such as 10.0.0.0/8 allows servers that are not
    /// public; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    http_allow: Vec<Destination>;
    /// Directory in memory for each request, as in /tmp, or /data=DIR or /data=TAR with the content
    /// of a directory or tar archive; may be given several times
    #[arg(long = "memory-dir", value_name = "GUEST[=DIR|TAR]")]
    #[serde(rename = "memory_dir")]
    memory_dirs: Vec<MemoryFolder>;
    /// Most bytes of memory that a guest changes in one such directory [default: 16MiB]
    #[arg(long, value_name = "BYTES")]
    memory_dir_max: Size;
    /// Most files that a guest makes in one such directory [default: 4096]
    #[arg(long, value_name = "N")]
    memory_dir_files: Count;
    /// Public key, a .pub file: nothing is served that none of these keys signed, and nothing is
    /// compiled; may be given several times
    #[arg(long, value_name = "PUB")]
    trust: Vec<PathBuf>;
    /// Most bytes of a request's body [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    body_max: Size => limits.body_max;
    /// Most bytes of a body with Content-Length that arrive before its CGI guest starts; the guest
    /// gets the rest while it runs [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    body_ahead: Size => limits.body_ahead;
    /// Most bytes of all requests' bodies together that the server keeps in memory; at least
    /// --body-max [default: 128MiB]
    #[arg(long, value_name = "BYTES")]
    buffered_max: Size => limits.buffered_max;
    /// Most requests that wait for a slot; more are refused at once [default: 1024]
    #[arg(long, value_name = "N")]
    waiting_max: Count => limits.waiting_max;
    /// Most requests of one route that have a guest or wait for a slot [default: no limit]
    #[arg(long, value_name = "N")]
    route_requests: Count => limits.route_requests;
    /// Longest time that a request waits for a slot [default: 500ms]
    #[arg(long, value_name = "TIME")]
    wait: Time => limits.wait;
    /// Longest time to receive the header of a request [default: 10s]
    #[arg(long, value_name = "TIME")]
    header_timeout: Time => limits.header_timeout;
    /// Longest time to wait for the body of a request to a CGI guest [default: 30s]
    #[arg(long, value_name = "TIME")]
    body_timeout: Time => limits.body_timeout;
    /// Longest time that the socket of a client takes no bytes, and longest time for the rest of an
    /// answer after the guest has ended [default: 30s]
    #[arg(long, value_name = "TIME")]
    write_timeout: Time => limits.write_timeout;
    /// Most connections at a time; more wait to be accepted [default: 1024]
    #[arg(long, value_name = "N")]
    connections: Count => limits.connections;
    /// Most connections of one client address at a time; more are closed [default: 256]
    #[arg(long, value_name = "N")]
    client_connections: Count => limits.client_connections;
    /// Most bytes a second that the server logs for guests [default: 256KiB]
    #[arg(long, value_name = "BYTES")]
    log_max: Size => limits.log_max;
    /// Longest time for requests to end after SIGTERM [default: 10s]
    #[arg(long, value_name = "TIME")]
    grace: Time => limits.grace;
    /// Time between SIGTERM, from which on /readyz fails, and the end of new connections
    /// [default: no delay]
    #[arg(long, value_name = "TIME")]
    stop_delay: Time;
    /// Level of the log on standard error: off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    #[serde(deserialize_with = "level")]
    log: LevelFilter;
    /// File that gets a line for each request; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: PathBuf;
    /// Form of the lines of the access log: json or combined [default: json]
    #[arg(long, value_name = "FORMAT")]
    access_log_format: Format;
    /// Collector that gets a span for each request by OTLP over HTTP, as in http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Endpoint;
    /// Part of the requests that get a span, from 0 to 1, unless their traceparent decides
    /// [default: 1]
    #[arg(long, value_name = "RATIO")]
    otlp_ratio: Ratio;
}

/// Reads a level of the log.
fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LevelFilter>, D::Error> {
    parsed(deserializer).map(Some)
}

/// A `[[route]]` of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct FileRoute {
    pub(crate) path: String,
    pub(crate) module: String,
    pub(crate) deadline: Option<Time>,
    pub(crate) requests: Option<Count>,
    pub(crate) warm: Option<bool>,
    pub(crate) http_allow: Option<Vec<Destination>>,
    #[serde(rename = "memory_dir")]
    pub(crate) memory_dirs: Option<Vec<MemoryFolder>>,
}
