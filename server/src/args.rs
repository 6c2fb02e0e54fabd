//! The command line of a server. It is independent of the engine that runs the guests.

use crate::config::{ArgRoute, Config, arg_route};
use crate::options::Options;
use anyhow::Result;
use clap::Parser;
use clap::error::ErrorKind;
use pirn_cli::text;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serves HTTP with WASI programs that speak CGI, each request in its own sandbox
#[derive(Debug, Parser)]
#[command(name = "pirn-serve", version, after_long_help = ABI)]
pub struct Args {
    /// The guest of all paths that begin with PATH: a .so from aotc, or a .wasm or .wat to compile
    #[arg(long = "route", value_name = "PATH=MODULE", value_parser = arg_route)]
    routes: Vec<ArgRoute>,
    /// A TOML file with these options as keys, _ for -, and a table for each route; the command
    /// line wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Reads the configuration, loads all modules, and exits
    #[arg(long)]
    check_config: bool,
    #[command(flatten)]
    options: Options,
}

/// The text after the options in the output of `--help`.
const ABI: &str = "\
Guests are WASI commands (export _start) or reactors (export handle) that speak CGI/1.1 (RFC 3875):
the request's meta-variables are in the environment, its body is the standard input, and the
standard output is the answer: header lines with Status, Content-Type or Location, a blank line, the
body. Standard error is logged. With --warm, and for snapshots by aotrun --snapshot, each request
gets an instance that has started already.

  413  body over --body-max                 408  body later than --body-timeout
  503  no slot within --wait                504  guest over --deadline
  502  guest trapped (also if memory or stack is used up), exited with a code other than 0, printed
       more than --answer-max, or gave a malformed answer
  404  no route    400  bad path or body    500  the server's own fault

/metrics has Prometheus text, /healthz and /readyz say how the server is. SIGHUP reads configuration
and modules again; running requests keep the old ones. SIGTERM and SIGINT stop the server; running
requests may end within --grace. docs/guide/running-the-server.md has the rest.";

impl Args {
    /// Parses the command line of this process. Otherwise returns the exit code: a wrong command
    /// line is one line on standard error.
    ///
    /// # Errors
    ///
    /// If the command line is wrong, or asks for help or the version.
    pub fn of_process(program: &str) -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            eprintln!("{program}: {}", first_paragraph(&error.to_string()));
            ExitCode::FAILURE
        })
    }

    /// The settings from the options and from the configuration file. Each call reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has an error, or if a route is missing or wrong.
    pub fn config(&self) -> Result<Config> {
        Config::new(self.options.clone(), &self.routes, self.config.as_deref())
    }

    /// Whether the configuration is only checked.
    #[must_use]
    pub fn is_check(&self) -> bool {
        self.check_config
    }
}

/// The first paragraph of an error of clap, as one line.
fn first_paragraph(error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    text::plain(line.strip_prefix("error: ").unwrap_or(&line)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::pirn::Settings;
    use crate::limits::Limits;
    use clap::CommandFactory as _;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let args = ["pirn-serve", "--route", "/a=b=c.so", "--deadline", "20ms"];
        let config = Args::try_parse_from(args).unwrap().config().unwrap();
        assert_eq!(config.modules().collect::<Vec<_>>(), [Path::new("b=c.so")]);
        assert_eq!(config.settings.deadline, Duration::from_millis(20));
        let settings = Settings {
            deadline: config.settings.deadline,
            ..Settings::default()
        };
        assert_eq!(format!("{:?}", config.settings), format!("{settings:?}"));
        let limits = Limits::default();
        assert_eq!(format!("{:?}", config.limits), format!("{limits:?}"));
    }

    #[test]
    fn the_memory_for_bodies_has_room_for_the_largest_one() {
        let buffered_max = |options: &[&str]| {
            let args = ["pirn-serve", "--route", "/=a"].iter().chain(options);
            let args = Args::try_parse_from(args).unwrap();
            args.config().unwrap().limits.buffered_max
        };
        assert_eq!(buffered_max(&[]), 128 << 20);
        assert_eq!(buffered_max(&["--body-max=128MiB"]), 128 << 20);
        assert_eq!(buffered_max(&["--body-max=1GiB"]), 1 << 30);
        assert_eq!(buffered_max(&["--buffered-max=2MiB"]), 2 << 20);
        // A given value stays unchanged, and the server refuses a value that is too small.
        let given = ["--body-max=3MiB", "--buffered-max=2MiB"];
        assert_eq!(buffered_max(&given), 2 << 20);
    }

    /// Each default in the help text, parsed as the option's value, equals the real default.
    #[test]
    fn the_help_has_the_defaults() {
        let mut given = vec!["pirn-serve".to_owned(), "--route=/=a".to_owned()];
        for arg in Args::command().get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let default = help.split("[default: ").nth(1);
            if let Some(default) = default.and_then(|rest| rest.strip_suffix(']'))
                && !default.contains(' ')
            {
                given.push(format!("--{}={default}", arg.get_long().expect("a name")));
            }
        }
        assert!(given.len() > 20, "{given:?}");
        let config = |args: &[String]| Args::try_parse_from(args).unwrap().config().unwrap();
        assert_eq!(
            format!("{:?}", config(&given)),
            format!("{:?}", config(&given[..2]))
        );
    }

    #[test]
    fn errors_are_one_line() {
        let refused = |args: &[&str]| {
            let args = ["pirn-serve"].iter().chain(args);
            first_paragraph(&Args::try_parse_from(args).unwrap_err().to_string())
        };
        for bad in ["a=b", "/a", "/a=", "", "="] {
            let error = refused(&["--route", bad]);
            assert!(error.contains("write it as in /hello=hello.so"), "{error}");
        }
        assert_eq!(
            refused(&["--slots=0"]),
            "invalid value '0' for '--slots <N>': \
             \"0\" is not a count; write a number from 1 to 4294967295"
        );
        assert_eq!(refused(&["--slot=1"]), "unexpected argument '--slot' found");
        let none = Args::try_parse_from(["pirn-serve"]).unwrap().config();
        assert!(
            none.unwrap_err()
                .to_string()
                .starts_with("there is no route")
        );
    }
}
