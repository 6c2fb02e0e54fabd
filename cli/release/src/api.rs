//! Lists the public interfaces: `api.txt` in the folder of each published crate.
//!
//! rustdoc describes each crate as JSON, and the crate `public-api` converts the JSON to lines. The
//! JSON is unstable: its format version changes with Rust's version. Stable rustdoc writes the JSON
//! if the environment variable `RUSTC_BOOTSTRAP` is set. The script `cli/release/rustdoc-json` sets
//! the variable for rustdoc only, so Cargo compiles all code as usual.

use crate::metadata::{Package, Workspace, cargo};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The format version that `public-api` reads. Rust 1.95 writes it.
const FORMAT_VERSION: &str = "57";

/// Auto traits that the listings omit, because a line for each type would say little. The listings
/// contain `Send` and `Sync`.
const MINOR_TRAITS: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// The options for JSON output of rustdoc. The build of the pages reports warnings, so this one
/// does not.
const RUSTDOC_FLAGS: &str = "-Zunstable-options --output-format=json --cap-lints=allow";

/// The command that writes the listings.
const RENEW: &str = "cargo run -p pirn-release -- api --renew";

/// Writes all listings.
pub(crate) fn renew() -> Result<()> {
    for (package, found) in all()? {
        let path = package.folder.join("api.txt");
        fs::write(&path, found).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Compares all listings with the committed ones, and prints the lines that differ.
pub(crate) fn check() -> Result<ExitCode> {
    let (mut count, mut is_same) = (0, true);
    for (package, found) in all()? {
        let path = package.folder.join("api.txt");
        let listed = fs::read_to_string(&path).unwrap_or_default();
        for line in differences(&listed, &found) {
            println!("{} {line}", package.name);
            is_same = false;
        }
        count += 1;
    }
    if is_same {
        println!("the public interfaces of {count} crates are as listed");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "pirn-release: public interfaces differ from the listings api.txt; if that is intended, \
         run `{RENEW}`, and name each removed line in CHANGELOG.md"
    );
    Ok(ExitCode::FAILURE)
}

/// Removed lines with `-`, and added lines with `+`.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let [listed, found] = [listed, found].map(|text| text.lines().collect::<BTreeSet<_>>());
    let removed = listed.difference(&found).map(|line| format!("-{line}"));
    let added = found.difference(&listed).map(|line| format!("+{line}"));
    removed.chain(added).collect()
}

/// The published crates and their listings. Each listing ends with a line break.
fn all() -> Result<Vec<(Package, String)>> {
    let workspace = Workspace::read()?;
    let documents = workspace.target.join("doc");
    let status = cargo()
        // With examples, Cargo selects the features that the gate's lints have, and reuses what
        // they checked.
        .args([
            "doc",
            "--workspace",
            "--no-deps",
            "--lib",
            "--examples",
            "--locked",
        ])
        // These libraries have the name or the sources of the compiler.
        .args(["--exclude", "pirn-compiler-client"])
        .args(["--exclude", "pirn-verify-faults"])
        .env(
            "RUSTDOC",
            concat!(env!("CARGO_MANIFEST_DIR"), "/rustdoc-json"),
        )
        .env("RUSTDOCFLAGS", RUSTDOC_FLAGS)
        .status()?;
    if !status.success() {
        bail!("cargo doc failed; see above");
    }
    let published = workspace.into_published();
    let libraries = published.filter_map(|package| {
        let library = package.library.as_ref()?.replace('-', "_");
        let json = documents.join(library + ".json");
        Some(listing(&json).map(|text| (package, text)))
    });
    libraries.collect()
}

/// The listing of one crate.
fn listing(json: &Path) -> Result<String> {
    let text = fs::read_to_string(json).with_context(|| json.display().to_string())?;
    let version = format_version(&text);
    if version != Some(FORMAT_VERSION) {
        bail!(
            "{} has format version {}, and listings are made of version {FORMAT_VERSION}; use \
             Rust 1.95",
            json.display(),
            version.unwrap_or("none")
        );
    }
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let mut lines = String::new();
    for item in api.items() {
        let line = item.to_string();
        if !is_minor(&line) {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    Ok(lines)
}

/// Whether the line names a trait that the listings omit.
fn is_minor(line: &str) -> bool {
    let implements = |name: &str| {
        let positive = format!("{name} for ");
        line.starts_with("impl") && line.contains(&positive)
    };
    MINOR_TRAITS.iter().any(|name| implements(name))
}

/// The format version, which is the last field of rustdoc's JSON.
fn format_version(json: &str) -> Option<&str> {
    let (_, version) = json.rsplit_once("\"format_version\":")?;
    Some(version.trim().trim_end_matches('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_lines_are_found() {
        let listed = "pub fn a()\npub fn b()\n";
        assert!(differences(listed, listed).is_empty());
        let found = "pub fn a()\npub fn b(u8)\n";
        assert_eq!(differences(listed, found), ["-pub fn b()", "+pub fn b(u8)"]);
        assert_eq!(differences(listed, ""), ["-pub fn a()", "-pub fn b()"]);
        assert_eq!(differences("", "pub fn a()\n"), ["+pub fn a()"]);
    }

    #[test]
    fn send_and_sync_are_listed() {
        for line in [
            "impl core::marker::Send for a::B",
            "impl !core::marker::Sync for a::B",
            "pub fn a::unpin(impl core::marker::Unpin)",
        ] {
            assert!(!is_minor(line), "{line}");
        }
        for line in [
            "impl core::marker::Freeze for a::B",
            "impl<T> !core::marker::Unpin for a::B<T>",
        ] {
            assert!(is_minor(line), "{line}");
        }
    }

    #[test]
    fn the_format_version_is_read() {
        let json = r#"{"root":1,"format_version":57}"#;
        assert_eq!(format_version(json), Some(FORMAT_VERSION));
        assert_eq!(format_version("{}"), None);
    }
}
