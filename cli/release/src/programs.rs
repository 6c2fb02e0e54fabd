//! [`Program`]: the command lines of the programs of a release, as clap describes them.

use clap::{Command, CommandFactory as _};

/// A program of a release.
pub(crate) struct Program {
    pub(crate) command: Command,
    /// The section of the manual for the program's page.
    pub(crate) section: &'static str,
    /// Sections for the end of the page, as roff.
    pub(crate) appendix: &'static str,
}

/// All programs of a release.
pub(crate) fn all() -> [Program; 3] {
    let serve = pirn_server::Args::command().name("pirn-serve");
    [
        Program {
            command: pirn_aotc::command(),
            section: "1",
            appendix: include_str!("../man/aotc.roff"),
        },
        Program {
            command: pirn_aotrun::command(),
            section: "1",
            appendix: include_str!("../man/aotrun.roff"),
        },
        Program {
            // The text after the options is a table. The appendix has this table as roff.
            command: serve.after_help("").after_long_help(""),
            section: "8",
            appendix: include_str!("../man/pirn-serve.roff"),
        },
    ]
}
