//! Man pages and shell completions.

use crate::completions;
use crate::programs::{self, Program};
use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::path::Path;

/// Writes man pages as `man/NAME.SECTION`, and completions to the folders `bash`, `zsh` and `fish`.
/// Each completion file has the name by which the shell finds it.
pub(crate) fn write(folder: &Path) -> Result<()> {
    for program in programs::all() {
        let name = program.command.get_name().to_owned();
        for (name, page) in manual(&program)? {
            put(&folder.join("man").join(name), &page)?;
        }
        let shells = [
            (Shell::Bash, "bash", name.clone()),
            (Shell::Zsh, "zsh", format!("_{name}")),
            (Shell::Fish, "fish", format!("{name}.fish")),
        ];
        for (shell, place, file) in shells {
            let script = completions::script(shell, &program.command)?;
            put(&folder.join(place).join(file), script.as_bytes())?;
        }
    }
    Ok(())
}

/// The names and contents of a program's pages: one for the program, one for each of its commands.
fn manual(program: &Program) -> Result<Vec<(String, Vec<u8>)>> {
    let mut command = program.command.clone();
    // Copies the program's version and name to its subcommands.
    command.build();
    let name = command.get_name().to_owned();
    let mut pages = vec![];
    for inner in command.get_subcommands() {
        let page = page(
            inner.clone(),
            program,
            &format!("{name}-{}", inner.get_name()),
        );
        pages.push(page?);
    }
    pages.push(page(command, program, &name)?);
    Ok(pages)
}

/// The name and content of one page.
fn page(mut command: Command, program: &Program, name: &str) -> Result<(String, Vec<u8>)> {
    let is_whole = command.get_name() == name;
    let section = program.section;
    let version = env!("CARGO_PKG_VERSION");
    let synopsis = synopsis(&mut command);
    let man = Man::new(command.display_name(name));
    // The date is empty: the page of one version is the same on every day.
    let mut page = format!(
        ".TH {} {section} \"\" \"pirn {version}\" \"pirn\"\n",
        name.to_uppercase()
    )
    .into_bytes();
    man.render_name_section(&mut page)?;
    page.extend_from_slice(synopsis.as_bytes());
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_whole {
        page.extend_from_slice(program.appendix.as_bytes());
    } else {
        let whole = program.command.get_name();
        let see = format!(".SH \"SEE ALSO\"\n.BR {whole} ({section})\n");
        page.extend_from_slice(see.as_bytes());
    }
    Ok((format!("{name}.{section}"), page))
}

/// The program's usage lines, as roff. clap_mangen's own synopsis would list every option.
fn synopsis(command: &mut Command) -> String {
    let usage = command.render_usage().to_string();
    let called = command.get_bin_name().unwrap_or(command.get_name());
    let mut text = String::from(".SH SYNOPSIS\n.nf\n");
    for line in usage.trim_start_matches("Usage:").lines() {
        let rest = line.trim().trim_start_matches(called).trim();
        let line = format!("\\fB{called}\\fR {rest}\n");
        text.push_str(&line.replace('-', r"\-"));
    }
    text.push_str(".fi\n");
    text
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().expect("a file in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}
