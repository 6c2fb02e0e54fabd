//! [`Config`]: the settings of a server, from its command line and its configuration file.

use crate::front::RESERVED;
use crate::guest::pirn::Settings;
use crate::limits::Limits;
use crate::operations::access::Format;
use crate::options::{FileRoute, Options, Values};
use crate::site::{Mount, check};
use crate::units::{Destination, Endpoint, MemoryFolder, Ratio};
use anyhow::{Context as _, Result, anyhow, bail};
use pirn_cli::text::one_line;
use pirn_signature::read_regular;
use pirn_wasi2::MemoryLimits;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// Most bytes of a configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The settings of a server.
#[derive(Debug)]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address of the server's own pages.
    pub admin: Option<SocketAddr>,
    /// Time between the order to stop and its execution.
    pub stop_delay: Duration,
    /// Threads that run guests and serve connections.
    pub workers: Option<NonZero<usize>>,
    /// Limits for clients.
    pub limits: Limits,
    /// Limits for guests.
    pub settings: Settings,
    /// Longest time of a guest's initialisation when the server starts.
    pub warm_deadline: Duration,
    /// Limits of the changes of one request in a directory in memory.
    pub memory_dir: MemoryLimits,
    /// Files of the keys that must have signed the guests. `None` if guests need no signature.
    pub trust: Option<Vec<PathBuf>>,
    /// The guests, in the order of their routes.
    pub routes: Vec<Route>,
    /// Level of the log.
    pub log: LevelFilter,
    /// File of the access log.
    pub access_log: Option<PathBuf>,
    /// Form of the access log.
    pub access_log_format: Format,
    /// Collector of spans.
    pub otlp: Option<Endpoint>,
    /// Part of the requests that get a span.
    pub otlp_ratio: Ratio,
}

/// A route and its guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The path prefix.
    pub path: String,
    /// The guest: a compiled module, or a WebAssembly module to compile.
    pub module: PathBuf,
    /// Longest wall time of the guest, if the route has its own limit.
    pub deadline: Option<Duration>,
    /// Most requests of the route, if the route has its own limit.
    pub requests: Option<usize>,
    /// Whether the guest is initialised when the server starts.
    pub warm: bool,
    /// The servers that a component may send requests to.
    pub http_allow: Vec<Destination>,
    /// The guest's directories in memory.
    pub memory_dirs: Vec<MemoryFolder>,
    /// The file and line of the route, or the option.
    pub origin: String,
}

/// A route of the command line: a path and a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgRoute {
    pub(crate) path: String,
    pub(crate) module: PathBuf,
}

/// Parses a route of the command line, as in /hello=hello.so.
pub(crate) fn arg_route(text: &str) -> Result<ArgRoute> {
    match text.split_once('=') {
        Some((path, module)) if path.starts_with('/') && !module.is_empty() => Ok(ArgRoute {
            path: path.to_owned(),
            module: module.into(),
        }),
        _ => bail!("{text:?} is not a route; write it as in /hello=hello.so"),
    }
}

impl Config {
    /// The settings of a command line: its options, its routes, and its configuration file.
    pub(crate) fn new(args: Options, routes: &[ArgRoute], file: Option<&Path>) -> Result<Self> {
        let (options, file_routes) = match file {
            Some(path) => {
                let (file, routes) = read(path)?;
                (args.or(file), routes)
            }
            None => (args, vec![]),
        };
        let routes = merged(file_routes, routes, &options);
        if routes.is_empty() {
            bail!(
                "there is no route; give --route PATH=MODULE, or a [[route]] in the --config file"
            );
        }
        let reserved: &[&str] = if options.admin.is_some() {
            &[]
        } else {
            &RESERVED
        };
        if options.trust.as_ref().is_some_and(Vec::is_empty) {
            bail!("trust is an empty list, so no module could be served; name a key, or remove it");
        }
        for (at, route) in routes.iter().enumerate() {
            let earlier = routes[..at].iter().map(|route| route.path.as_str());
            check(&route.path, reserved, earlier).with_context(|| route.origin.clone())?;
            check_memory_dirs(&route.memory_dirs).with_context(|| route.origin.clone())?;
        }
        Ok(Self::of(&options, routes))
    }

    /// The settings of options, with their defaults.
    fn of(options: &Options, routes: Vec<Route>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 8080));
        let workers = options.workers.map(usize::from);
        let mut values = Values::default();
        options.set(&mut values);
        if options.buffered_max.is_none() {
            // The default has room for the largest body, too.
            let limits = &mut values.limits;
            limits.buffered_max = limits.buffered_max.max(limits.body_max);
        }
        Self {
            listen: options.listen.map_or(listen, |address| address.0),
            admin: options.admin.map(|address| address.0),
            stop_delay: options.stop_delay.map_or(Duration::ZERO, Duration::from),
            workers: workers.and_then(NonZero::new),
            limits: values.limits,
            settings: values.settings,
            warm_deadline: options
                .warm_deadline
                .map_or(Duration::from_secs(10), Duration::from),
            memory_dir: MemoryLimits {
                bytes_max: options.memory_dir_max.map_or(16 << 20, |max| max.0 as u64),
                files_max: options.memory_dir_files.map_or(4096, |max| max.0.into()),
            },
            trust: options.trust.clone(),
            routes,
            log: options.log.unwrap_or(LevelFilter::INFO),
            access_log: options.access_log.clone(),
            otlp: options.otlp.clone(),
            otlp_ratio: options.otlp_ratio.unwrap_or(Ratio(1.0)),
            access_log_format: options.access_log_format.unwrap_or(Format::Json),
        }
    }

    /// Paths of the modules, in the order of their routes.
    pub fn modules(&self) -> impl Iterator<Item = &Path> {
        self.routes.iter().map(|route| route.module.as_path())
    }

    /// The routes, for a server.
    pub fn mounts(&self) -> impl Iterator<Item = Mount> {
        self.routes.iter().map(|route| Mount {
            prefix: route.path.clone(),
            requests: route.requests,
        })
    }

    /// The options that differ between two configurations, and that only a restart changes.
    pub(crate) fn needing_restart(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("listen", self.listen == other.listen),
            ("admin", self.admin == other.admin),
            ("stop_delay", self.stop_delay == other.stop_delay),
            ("workers", self.workers == other.workers),
            (
                "connections",
                self.limits.connections == other.limits.connections,
            ),
            (
                "client_connections",
                self.limits.client_connections == other.limits.client_connections,
            ),
            ("log_max", self.limits.log_max == other.limits.log_max),
            ("log", self.log == other.log),
            ("otlp", self.otlp == other.otlp),
            ("otlp_ratio", self.otlp_ratio == other.otlp_ratio),
            ("access_log", self.access_log == other.access_log),
            (
                "access_log_format",
                self.access_log_format == other.access_log_format,
            ),
        ];
        let changed = same.into_iter().filter(|(_, same)| !same);
        changed.map(|(name, _)| name).collect()
    }

    /// Logs to standard error.
    ///
    /// # Errors
    ///
    /// If the process has a logger already.
    pub fn log(&self) -> Result<()> {
        tracing_subscriber::fmt()
            .with_max_level(self.log)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .try_init()
            .map_err(|error| anyhow!("cannot log: {error}"))
    }
}

/// Checks that no directory in memory is given twice.
fn check_memory_dirs(all: &[MemoryFolder]) -> Result<()> {
    for (at, dir) in all.iter().enumerate() {
        if all[..at].iter().any(|earlier| earlier.guest == dir.guest) {
            bail!(
                "directory in memory {:?} is given twice; remove one of the two",
                dir.guest
            );
        }
    }
    Ok(())
}

/// A route of the file, with its line and the folder of the file.
struct Found {
    route: FileRoute,
    line: usize,
    file: PathBuf,
}

/// The options and routes of a configuration file.
fn read(path: &Path) -> Result<(Options, Vec<Found>)> {
    let name = path.display();
    let bytes = read_regular(path, CONFIG_BYTES_MAX).with_context(|| name.to_string())?;
    let line = |at: usize| 1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    let text = str::from_utf8(&bytes).map_err(|error| {
        let line = line(error.valid_up_to());
        anyhow!("{name}:{line}: it is not valid UTF-8; save the file as UTF-8")
    })?;
    let mut options: Options = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let why = one_line(error.message());
        anyhow!(
            "{name}:{}: {why}{}",
            line(at),
            hint(text, error.span(), &why)
        )
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    if let Some(log) = options
        .access_log
        .as_mut()
        .filter(|log| **log != Path::new("-"))
    {
        *log = folder.join(&*log);
    }
    for key in options.trust.iter_mut().flatten() {
        *key = folder.join(&*key);
    }
    if let Some(dirs) = options.memory_dirs.take() {
        let dirs = dirs.into_iter().map(|dir| dir.in_folder(folder));
        options.memory_dirs = Some(dirs.collect());
    }
    let routes = std::mem::take(&mut options.routes).into_iter();
    let routes = routes.map(|route| Found {
        line: line(route.span().start),
        route: route.into_inner(),
        file: path.to_owned(),
    });
    Ok((options, routes.collect()))
}

/// The text that an error is about, if the message does not contain the text.
fn hint(text: &str, span: Option<Range<usize>>, why: &str) -> String {
    const CHARS_MAX: usize = 40;
    let wrong = span.and_then(|span| text.get(span)).unwrap_or_default();
    let wrong: String = wrong
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(CHARS_MAX)
        .collect();
    match wrong.is_empty() || why.contains(wrong.trim_matches(['"', '\''])) {
        true => String::new(),
        false => format!(", at {wrong:?}"),
    }
}

/// The routes of the file and of the command line. A route of the command line replaces a route of
/// the file with the same path.
fn merged(file: Vec<Found>, args: &[ArgRoute], options: &Options) -> Vec<Route> {
    let bare = |path: &str| path.trim_end_matches('/').to_owned();
    let warm = options.warm.unwrap_or(false);
    let http_allow = options.http_allow.clone().unwrap_or_default();
    let memory_dirs = options.memory_dirs.clone().unwrap_or_default();
    let mut all: Vec<_> = file
        .into_iter()
        .filter(|found| {
            args.iter()
                .all(|arg| bare(&arg.path) != bare(&found.route.path))
        })
        .map(|found| {
            let folder = found.file.parent().unwrap_or(Path::new(""));
            let own_dirs = found.route.memory_dirs;
            Route {
                module: folder.join(&found.route.module),
                path: found.route.path,
                deadline: found.route.deadline.map(|time| time.0),
                requests: found.route.requests.map(|count| count.0 as usize),
                warm: found.route.warm.unwrap_or(warm),
                http_allow: found.route.http_allow.unwrap_or_else(|| http_allow.clone()),
                memory_dirs: own_dirs
                    .map(|dirs| dirs.into_iter().map(|dir| dir.in_folder(folder)).collect())
                    .unwrap_or_else(|| memory_dirs.clone()),
                origin: format!("{}:{}", found.file.display(), found.line),
            }
        })
        .collect();
    all.extend(args.iter().map(|arg| Route {
        path: arg.path.clone(),
        module: arg.module.clone(),
        deadline: None,
        requests: None,
        warm,
        http_allow: http_allow.clone(),
        memory_dirs: memory_dirs.clone(),
        origin: format!("--route {}", arg.path),
    }));
    all
}
