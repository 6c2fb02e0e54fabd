//! `pirn-release`: makes and checks man pages, completions, notices, SBOMs and interface listings.
//! The script `cli/release/build` runs it.

#![forbid(unsafe_code)]

mod metadata;
mod programs;
mod completions;
mod pages;
mod notices;
mod sbom;
mod api;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes and checks man pages, completions, notices, SBOMs and interface listings of a release
#[derive(Debug, Parser)]
#[command(name = "pirn-release", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes man pages and shell completions of all programs to a folder
    Pages {
        /// The folder, which is created if it does not exist
        folder: PathBuf,
    },
    /// Prints the licence texts of all crates that the programs and the C library link
    Notices,
    /// Checks that an SBOM in CycloneDX's JSON lists the packages that Cargo compiles for a package
    Sbom {
        /// The package of this repository whose program or library the SBOM describes
        package: String,
        /// The SBOM
        file: PathBuf,
    },
    /// Prints the names of the published crates, one a line
    Packages,
    /// Compares the public interfaces of the published crates with the committed listings
    Api {
        /// Writes the listings instead
        #[arg(long)]
        renew: bool,
    },
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return pirn_cli::usage::tell("pirn-release", &error),
    };
    match run(&args.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!(
                "pirn-release: {}",
                pirn_cli::text::one_line(format_args!("{error:#}"))
            );
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Pages { folder } => pages::write(folder)?,
        Command::Notices => pirn_cli::output::print(&notices::text()?)?,
        Command::Sbom { package, file } => {
            let told = sbom::check(package, file).with_context(|| file.display().to_string())?;
            pirn_cli::output::print(&told)?;
        }
        Command::Packages => {
            let names = metadata::Workspace::read()?.into_published();
            let names = names.map(|package| format!("{}\n", package.name));
            pirn_cli::output::print(&names.collect::<String>())?;
        }
        Command::Api { renew: true } => api::renew()?,
        Command::Api { renew: false } => return api::check(),
    }
    Ok(ExitCode::SUCCESS)
}
