//! The command line.

use anyhow::{Context, Result, bail};
use clap::Parser;
use pirn_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs a module that aotc compiled, or compiles a .wasm or .wat first.
///
/// The exit code is the guest's; 134 after a trap or an uncaught exception; 124 after a deadline or
/// when the fuel is used up; 1 if the guest could not run.
#[derive(Debug, Parser)]
#[command(name = "aotrun", version)]
pub(crate) struct Args {
    /// The module: .so, .wasm or .wat
    pub(crate) program: PathBuf,
    /// Arguments of the guest, or with --invoke of the function; after `--` also those that begin
    /// with a dash
    pub(crate) args: Vec<String>,
    /// Gives the guest a directory, under its own name or as GUEST; with :ro only for reading
    #[arg(long, value_name = "HOST[::GUEST][:ro]")]
    dir: Vec<String>,
    /// Sets a variable in the guest's environment, or passes on the host's value
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Calls this exported function instead of `_start`, and prints its results
    #[arg(long, value_name = "NAME")]
    pub(crate) invoke: Option<String>,
    /// Most memory of the guest, as in 64MiB
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = bytes)]
    pub(crate) memory_max: usize,
    /// Stack size of the guest, as in 8MiB
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = bytes)]
    pub(crate) stack: usize,
    /// Most files and directories that the guest may have open at a time, besides those that it is
    /// given
    #[arg(long, value_name = "N", default_value_t = 1024)]
    fd_max: u32,
    /// Most bytes that the guest may write to files, as in 64MiB; a new file or directory counts as
    /// 4KiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    disk_max: Option<usize>,
    /// Ends the guest when a call of it has run this long, as in 500ms, 2s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) deadline: Option<Duration>,
    /// Ends the guest when it has executed this many operators; a .so must be compiled with `aotc
    /// --fuel`
    #[arg(long, value_name = "N", value_parser = fuel)]
    pub(crate) fuel: Option<u64>,
    /// Writes a module whose instances have started: instead of `_start`, calls the initialisation,
    /// and saves the state after it
    #[arg(long, value_name = "OUT.so", conflicts_with_all = ["invoke", "usage"])]
    pub(crate) snapshot: Option<PathBuf>,
    /// Export that initialises the guest, after `_initialize` if there is one [default:
    /// `wizer-initialize`, else `_initialize` alone]
    #[arg(long, value_name = "EXPORT", requires = "snapshot")]
    pub(crate) init: Option<String>,
    /// Prints the microseconds that each phase took
    #[arg(long)]
    pub(crate) timings: bool,
    /// Prints what the guest used: time, memory, bytes, calls
    #[arg(long)]
    pub(crate) usage: bool,
}

/// Parses a number of bytes: plain, or with the unit KiB, MiB or GiB.
fn bytes(text: &str) -> Result<usize> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number: usize = match number.trim().parse() {
        Ok(number) => number,
        Err(_) => {
            bail!("{text:?} is not a number of bytes; write it as in 65536, 512KiB, 64MiB or 4GiB")
        }
    };
    match number.checked_mul(1 << shift) {
        Some(bytes) => Ok(bytes),
        None => bail!("{text:?} is larger than the address space; give a smaller size"),
    }
}

/// Parses a number of operators.
fn fuel(text: &str) -> Result<u64> {
    let number = text.parse().ok();
    number.with_context(|| format!("{text:?} is not a number of operators; write it as in 1000000"))
}

/// Parses a nonzero time with the unit us, ms, s or m.
fn time(text: &str) -> Result<Duration> {
    let units = [
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000u64),
    ];
    let parsed = units.iter().find_map(|(unit, ns)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number.checked_mul(*ns))
    });
    match parsed {
        Some(Some(0)) => bail!("{text:?} is zero; give a longer time"),
        Some(Some(ns)) => Ok(Duration::from_nanos(ns)),
        Some(None) => bail!("{text:?} is longer than 584 years; give a shorter time"),
        None => bail!("{text:?} is not a time; write it as in 500us, 20ms, 2s or 5m"),
    }
}

impl Args {
    /// The WASI context that these options describe.
    pub(crate) fn wasi(&self) -> Result<WasiCtx> {
        Ok(self.add_to(WasiCtxBuilder::new())?.build())
    }

    /// Number of descriptors that the guest is given: the standard streams and the directories.
    pub(crate) fn given(&self) -> u32 {
        3 + self.dir.len() as u32
    }

    /// Adds what these options describe to a WASI context.
    pub(crate) fn add_to(&self, wasi: WasiCtxBuilder) -> Result<WasiCtxBuilder> {
        let mut wasi = wasi.inherit_stdio().descriptors_max(self.fd_max);
        if let Some(bytes) = self.disk_max {
            wasi = wasi.disk_bytes_max(bytes as u64);
        }
        let name = self
            .program
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let arguments = if self.invoke.is_some() {
            &[][..]
        } else {
            &self.args
        };
        for arg in name.iter().chain(arguments) {
            wasi = wasi
                .arg(arg)
                .with_context(|| format!("argument {arg:?} cannot be passed to the guest"))?;
        }
        for variable in &self.env {
            let (name, value) = variable_of(variable)?;
            wasi = wasi
                .env(&name, &value)
                .with_context(|| format!("variable {name:?} cannot be passed to the guest"))?;
        }
        for dir in &self.dir {
            wasi = Directory::of(dir)?.open(wasi)?;
        }
        Ok(wasi)
    }
}

/// A parsed `--dir` option.
#[derive(Debug, PartialEq, Eq)]
struct Directory<'a> {
    /// The option's text as the user wrote it.
    text: &'a str,
    host: &'a str,
    guest: &'a str,
    is_read_only: bool,
}

impl<'a> Directory<'a> {
    /// Parses `HOST[::GUEST][:ro]`. Only a `:ro` at the very end is the flag. The last `::`
    /// separates HOST and GUEST. Therefore the name of HOST may contain both.
    fn of(text: &'a str) -> Result<Self> {
        let (rest, is_read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (host, guest) = rest.rsplit_once("::").unwrap_or((rest, rest));
        if host.is_empty() || guest.is_empty() {
            bail!("--dir {text:?} has an empty HOST or GUEST; write --dir HOST[::GUEST][:ro]");
        }
        Ok(Self {
            text,
            host,
            guest,
            is_read_only,
        })
    }

    /// Adds the directory to the guest's context.
    fn open(&self, wasi: WasiCtxBuilder) -> Result<WasiCtxBuilder> {
        let Self {
            text, host, guest, ..
        } = self;
        let dir = Dir::open_ambient_dir(Path::new(host), ambient_authority());
        let dir = dir.with_context(|| {
            let remedy = self.remedy();
            format!("--dir {text}: cannot open the directory {host}{remedy}")
        })?;
        let given = match self.is_read_only {
            true => wasi.preopened_dir_read_only(dir, guest),
            false => wasi.preopened_dir(dir, guest),
        };
        given.with_context(|| format!("--dir {text}: cannot be given to the guest"))
    }

    /// For the error message: a better `--dir` option if a directory has exactly the given text as
    /// its name.
    fn remedy(&self) -> String {
        let text = self.text;
        match Path::new(text).is_dir() {
            true if text.contains("::") => format!("; for {text} write --dir {text}::GUEST"),
            true => format!("; for {text} write --dir {text}/"),
            false => String::new(),
        }
    }
}

/// Name and value of an `--env` option.
fn variable_of(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some(("", _)) | None if text.is_empty() || text.starts_with('=') => {
            bail!("--env {text:?} names no variable; write --env NAME=VALUE")
        }
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.to_owned(), value)),
            Err(error) => bail!("--env {text}: {error}; give it a value with --env {text}=VALUE"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_mistakes_named() {
        let parsed = |text| bytes(text).ok();
        assert_eq!(parsed("65536"), Some(65536));
        assert_eq!(parsed("64KiB"), Some(64 << 10));
        assert_eq!(parsed("64MiB"), Some(64 << 20));
        assert_eq!(parsed("4GiB"), Some(4 << 30));
        for text in ["", "MiB", "64MB", "-1", "1.5GiB", "99999999999GiB"] {
            let error = bytes(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{text:?}")) && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn times_are_parsed_and_mistakes_named() {
        let parsed = |text| time(text).ok();
        assert_eq!(parsed("500us"), Some(Duration::from_micros(500)));
        assert_eq!(parsed("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(parsed("2s"), Some(Duration::from_secs(2)));
        assert_eq!(parsed("5m"), Some(Duration::from_secs(300)));
        for text in ["", "s", "2", "2h", "-1s", "1.5s", "0ms", "99999999999999m"] {
            let error = time(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{text:?}")) && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn directories_are_named_and_may_be_read_only() {
        let parsed = |text| {
            let dir = Directory::of(text).ok()?;
            Some((dir.host, dir.guest, dir.is_read_only))
        };
        assert_eq!(parsed("a"), Some(("a", "a", false)));
        assert_eq!(parsed("a::/b"), Some(("a", "/b", false)));
        assert_eq!(parsed("a:ro"), Some(("a", "a", true)));
        assert_eq!(parsed("a::b:ro"), Some(("a", "b", true)));
        // HOST names that contain `:ro` or `::`.
        assert_eq!(parsed("a:ro/"), Some(("a:ro/", "a:ro/", false)));
        assert_eq!(parsed("a:ro::b"), Some(("a:ro", "b", false)));
        assert_eq!(parsed("a:ro:ro"), Some(("a:ro", "a:ro", true)));
        assert_eq!(parsed("a::b::c:ro"), Some(("a::b", "c", true)));
        for text in ["", ":ro", "::", "a::", "::b", "a:::ro", "::b:ro"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn variables_have_names() {
        assert_eq!(
            variable_of("A=b=c").unwrap(),
            ("A".to_owned(), "b=c".to_owned())
        );
        assert_eq!(variable_of("A=").unwrap(), ("A".to_owned(), String::new()));
        for text in ["", "=", "=b", "PIRN_NO_SUCH_VARIABLE"] {
            assert!(variable_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
