//! Error messages for an invalid command line: one line each, like all errors of the programs.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pirn_format::text::one_line;
use std::error::Error as _;
use std::process::ExitCode;

/// Prints the error of clap, or the help that the user asked for, and returns the exit code.
///
/// The exit code of an error is 1, as for all errors of the program, because 2 may be the exit code
/// of a guest.
#[must_use]
pub fn tell(program: &str, error: &Error) -> ExitCode {
    if error.use_stderr() {
        eprintln!("{program}: {}; see `{program} --help`", line(error));
        return ExitCode::FAILURE;
    }
    // A failure to print is ignored: there is no other place to show the text.
    let _ = error.print();
    ExitCode::SUCCESS
}

fn line(error: &Error) -> String {
    let get = |kind| error.get(kind).map(text).filter(|text| !text.is_empty());
    // The option's name: `--option <VALUE>` without the value.
    let option = get(ContextKind::InvalidArg).map(|arg| match arg.split_once(" <") {
        Some((option, _)) if option.starts_with('-') => option.to_owned(),
        _ => arg,
    });
    let value = get(ContextKind::InvalidValue);
    let known = get(ContextKind::ValidValue);
    let said = match (error.kind(), option) {
        (ErrorKind::InvalidValue, Some(option)) => match (value, known) {
            (Some(value), Some(known)) => {
                format!("{option} {value:?} is unknown; use one of {known}")
            }
            (Some(value), None) => format!("{option} {value:?} is not allowed; give another value"),
            (None, Some(known)) => format!("{option} has no value; use one of {known}"),
            (None, None) => format!("{option} has no value; give one"),
        },
        (ErrorKind::ValueValidation, Some(option)) => {
            let (value, why) = (value.unwrap_or_default(), error.source());
            let why = why.map(ToString::to_string).unwrap_or_default();
            match why.contains(&format!("{value:?}")) {
                true => format!("{option}: {why}"),
                false => format!("{option} {value:?}: {why}"),
            }
        }
        (ErrorKind::UnknownArgument, Some(option)) => {
            match (get(ContextKind::SuggestedArg), option.starts_with('-')) {
                (Some(meant), _) => format!("option {option} is unknown; {meant} is similar"),
                (None, true) => format!("option {option} is unknown"),
                (None, false) => format!("{option:?} is one argument too many; remove it"),
            }
        }
        (ErrorKind::TooManyValues, Some(option)) => {
            format!(
                "{option} takes no value, {:?} was given; remove the value",
                value.unwrap_or_default()
            )
        }
        (ErrorKind::MissingRequiredArgument, Some(missing)) => {
            format!("{missing} is missing; add it")
        }
        (ErrorKind::ArgumentConflict, Some(option)) => match get(ContextKind::PriorArg) {
            Some(prior) if !prior.starts_with(&option) => {
                format!("{option} cannot be used with {prior}; remove one")
            }
            _ => format!("{option} is given twice; remove one"),
        },
        (ErrorKind::ArgumentConflict, None) => {
            let command = get(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!(
                "{command:?} is one argument too many; give one module, or a command as the first \
                 argument, without options"
            )
        }
        // Any other error: the first line of clap's own message.
        _ => {
            let all = error.to_string();
            let first = all.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    };
    one_line(said)
}

/// A value of clap's error, as text.
fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}
