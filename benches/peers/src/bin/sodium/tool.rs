//! Runs tools such as compilers.

use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Runs a tool and returns its output. Its standard error becomes the error.
pub fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let line = error.lines().find(|line| line.contains("error"));
    let line = line.unwrap_or(first_line(&error));
    ensure!(output.status.success(), "{name}: {}: {line}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first line of a tool's output.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
