//! What is said of a command line that is wrong: one line, as of all errors. `aotrun` has this file, too.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::process::ExitCode;

/// Prints what clap did not take, or the help that was asked for, and gives the exit code: 1, as of all errors
/// of ours, because 2 may be a guest's.
pub(crate) fn tell(program: &str, error: &Error) -> ExitCode {
    if error.use_stderr() {
        eprintln!("{program}: {}; see `{program} --help`", line(error));
        return ExitCode::FAILURE;
    }
    // Nothing can be done if the terminal is gone.
    let _ = error.print();
    ExitCode::SUCCESS
}

fn line(error: &Error) -> String {
    let get = |kind| error.get(kind).map(text).filter(|text| !text.is_empty());
    // `--option <VALUE>`, without the value.
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
        // Whatever else there may be: the first line of what clap would print.
        _ => {
            let all = error.to_string();
            let first = all.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    };
    said.replace('\n', " ")
}

/// What clap knows, in words.
fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}
