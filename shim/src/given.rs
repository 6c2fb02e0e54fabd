//! [`Given`]: the arguments, environment variables and directories of a guest, from the container's
//! spec.

use crate::files::Preopen;
use oci_spec::runtime::{Process, Spec};
use std::path::Path;

/// Arguments, environment variables and directories of a guest.
pub(crate) struct Given {
    /// The first argument is the program, as the image names it.
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) dirs: Vec<Preopen>,
}

impl Given {
    /// Reads arguments and variables from the spec of a container.
    pub(crate) fn new(spec: &Spec, dirs: Vec<Preopen>) -> Self {
        let process = spec.process().as_ref();
        let args = process.and_then(|process| process.args().clone());
        let cwd = process.map_or(Path::new("/"), |process| process.cwd());
        Self {
            args: args.unwrap_or_default(),
            env: process.map(variables).unwrap_or_default(),
            cwd: cwd.to_string_lossy().into_owned(),
            dirs,
        }
    }
}

/// The environment variables of a container. Skips entries without `=`.
pub(crate) fn variables(process: &Process) -> Vec<(String, String)> {
    let all = process.env().iter().flatten();
    let all = all.filter_map(|text| text.split_once('='));
    let named = all.filter(|(name, _)| !name.is_empty());
    named
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
