//! The command line.

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Runs a module or a component that aotc compiled, or compiles a .wasm or .wat first.
///
/// The exit code is the guest's; 134 after a trap or an uncaught exception; 124 after a deadline or
/// when the fuel is used up; 1 if the guest could not run.
#[derive(Debug, Parser)]
#[command(name = "aotrun", version)]
pub(crate) struct Args {
    /// The module or component: .so, .wasm or .wat
    pub(crate) program: PathBuf,
    /// Arguments of the guest, or with --invoke of the function, for a component in the text form
    /// of values (WAVE); after `--` also those that begin with a dash
    pub(crate) args: Vec<OsString>,
    /// Gives the guest a directory, under its own name or as GUEST; with :ro only for reading
    #[arg(long, value_name = "HOST[::GUEST][:ro]")]
    pub(crate) dir: Vec<String>,
    /// Gives the guest a directory in memory as GUEST: an empty one, or a copy of the directory DIR
    /// or the tar archive TAR as it is at the start. The guest's changes end with it
    #[arg(long, value_name = "GUEST[=DIR|TAR]")]
    pub(crate) memory_dir: Vec<String>,
    /// Most host memory for the guest's changes in each directory in memory, as in 64MiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes)]
    pub(crate) memory_dir_max: usize,
    /// Sets a variable in the guest's environment, or passes on the host's value
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Calls this exported function instead of `_start` or `wasi:cli/run`, and prints its results
    #[arg(long, value_name = "NAME")]
    pub(crate) invoke: Option<String>,
    /// Lets a component send HTTP requests to this server: HOST for ports 80 and 443, HOST:PORT,
    /// `HOST:*`, `*.HOST`, or `*` for every public host; an address or a network such as 10.0.0.0/8
    /// allows servers that are not public
    #[cfg(feature = "components")]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) http_allow: Vec<String>,
    /// Lets a component use addresses by sockets, as in tcp-connect=192.0.2.0/24:443; further uses
    /// are tcp-listen, udp-send and udp-bind, further addresses `loopback` and `*`; or `lookup` to
    /// look up names
    #[cfg(feature = "components")]
    #[arg(long, value_name = "RULE")]
    pub(crate) net_allow: Vec<String>,
    /// Runs only a compiled module that this public key, a .pub file, has signed, and compiles
    /// nothing; may be repeated: one of the keys must have signed it
    #[arg(long, value_name = "PUB")]
    pub(crate) trust: Vec<PathBuf>,
    /// Most memory of the guest, as in 64MiB
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = bytes)]
    pub(crate) memory_max: usize,
    /// Stack size of the guest, as in 8MiB
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = bytes)]
    pub(crate) stack: usize,
    /// Most files and directories that the guest may have open at a time, besides those that it is
    /// given
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) fd_max: u32,
    /// Most bytes that the guest may write to files, as in 64MiB; a new file or directory counts as
    /// 4KiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) disk_max: Option<usize>,
    /// Ends the guest when a call of it has run this long, as in 500ms, 2s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) deadline: Option<Duration>,
    /// Ends the guest when it has executed this many operators; a .so must be compiled with `aotc
    /// --fuel`
    #[arg(long, value_name = "N", value_parser = fuel)]
    pub(crate) fuel: Option<u64>,
    /// Writes a module whose instances have started: instead of `_start`, calls the initialisation,
    /// and saves the state after it; not for components
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
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
