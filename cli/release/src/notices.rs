//! The licence texts of the crates that the programs and the C library link. Most licences require
//! that a program comes with these texts.

use crate::metadata::{Package, Workspace};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages whose programs or libraries are in a release.
const ROOTS: [&str; 4] = ["pirn-aotc", "pirn-aotrun", "pirn-server", "pirn-capi"];

/// Prefixes of the names of licence files, in lower case.
const NAMES: [&str; 6] = [
    "licen",
    "copying",
    "copyright",
    "notice",
    "unlicense",
    "authors",
];

/// A list of all crates with their licences. Then follows each licence text once, with the crates
/// that contain it.
pub(crate) fn text() -> Result<String> {
    let workspace = Workspace::read()?;
    let linked = workspace.linked(&ROOTS);
    let others = linked
        .iter()
        .filter(|package| !package.name.starts_with("pirn-"));
    let mut list = String::from(HEAD);
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in others {
        let license = package.license.as_deref().unwrap_or("in its files");
        let crate_name = format!("{} {}", package.name, package.version);
        let found = licences(package)?;
        let remark = if found.is_empty() {
            ", whose package has no text of it"
        } else {
            ""
        };
        writeln!(list, "{crate_name}: {license}{remark}")?;
        for text in found {
            texts.entry(text).or_default().push(crate_name.clone());
        }
    }
    for text in standard_library()? {
        let owner = "Rust's standard library".to_owned();
        texts.entry(text).or_default().push(owner);
    }
    for (text, owners) in texts {
        let line = "-".repeat(80);
        write!(
            list,
            "\n{line}\n{}:\n\n{}\n",
            owners.join(", "),
            text.trim_end()
        )?;
    }
    Ok(list)
}

const HEAD: &str = "\
The programs and the C library of pirn contain code of Rust's standard library (MIT OR Apache-2.0)
and of these crates. The texts of their licences are below.

";

/// The texts of the licences in a package's folder.
fn licences(package: &Package) -> Result<Vec<String>> {
    let read = texts(&package.folder, &NAMES);
    read.with_context(|| format!("cannot read {}", package.folder.display()))
}

/// The texts of files whose names begin with one of these words, in any case.
fn texts(folder: &Path, names: &[&str]) -> Result<Vec<String>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        let is_text = !name.ends_with(".rs") && !name.ends_with(".html");
        if path.is_file() && is_text && names.iter().any(|start| name.starts_with(start)) {
            // Some files have names of people in encodings other than UTF-8.
            found.push(String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n"));
        }
    }
    found.sort();
    Ok(found)
}

/// The licence texts beside the toolchain's documentation.
fn standard_library() -> Result<Vec<String>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output()?;
    let root = String::from_utf8(output.stdout)?;
    let documents = Path::new(root.trim()).join("share/doc");
    let place = documents.join("rust/licenses");
    let found = match place.is_dir() {
        true => texts(&place, &["mit", "apache-2.0"])?,
        false => vec![],
    };
    if found.len() != 2 {
        bail!(
            "{} has {} of 2 licences; use a toolchain of rustup",
            place.display(),
            found.len()
        );
    }
    Ok(found)
}
