//! Error messages for an invalid command line: one line each, like all errors. `aotrun` includes
//! this file, too.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::process::ExitCode;

/// Prints the error of clap, or the help that the user asked for, and returns the exit code.
///
/// The exit code of an error is 1, as for all errors of the program, because 2 may be the exit code
/// of a guest.
pub(crate) fn tell(program: &str, error: &Error) -> ExitCode {
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
                format!("{option} {value:?} is unknown; take one of {known}")
            }
            (Some(value), None) => format!("{option} does not take {value:?}"),
            (None, Some(known)) => format!("{option} is without a value; take one of {known}"),
            (None, None) => format!("{option} is without a value; give it one"),
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
                (Some(meant), _) => format!("option {option} is unknown; {meant} is like it"),
                (None, true) => format!("option {option} is unknown"),
                (None, false) => format!("{option:?} is one argument too many; leave it out"),
            }
        }
        (ErrorKind::TooManyValues, Some(option)) => {
            format!(
                "{option} takes no value, {:?} was given",
                value.unwrap_or_default()
            )
        }
        (ErrorKind::MissingRequiredArgument, Some(missing)) => {
            format!("{missing} is missing; give one")
        }
        (ErrorKind::ArgumentConflict, Some(option)) => match get(ContextKind::PriorArg) {
            Some(prior) if !prior.starts_with(&option) => {
                format!("{option} does not go with {prior}; leave one out")
            }
            _ => format!("{option} is given twice; leave one out"),
        },
        (ErrorKind::ArgumentConflict, None) => {
            let command = get(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!(
                "{command:?} is one argument too many: there is one module at a time, and a command is the first \
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
    said.replace('\n', " ")
}

/// A value of clap's error, as text.
fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}
