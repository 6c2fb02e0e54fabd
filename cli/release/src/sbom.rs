//! Checks software bills of materials, which `cargo cyclonedx` writes.

use crate::metadata::Workspace;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Compares the components of an SBOM with the packages that Cargo compiles. Returns a message for
/// the user.
pub(crate) fn check(package: &str, file: &Path) -> Result<String> {
    let sbom: Value = serde_json::from_reader(BufReader::new(File::open(file)?))?;
    let listed = components(&sbom).context("it is no CycloneDX SBOM")?;
    let workspace = Workspace::read()?;
    let compiled = workspace.compiled(&[package]).into_iter();
    // The package itself is the subject of the SBOM, not a component.
    let others = compiled.filter(|other| other.name != package);
    let compiled: BTreeSet<_> = others
        .map(|it| format!("{} {}", it.name, it.version))
        .collect();
    if compiled.is_empty() {
        bail!("{package} has no dependencies, or is no package of this repository");
    }
    if let Some(missing) = compiled.difference(&listed).next() {
        bail!(
            "it lists {} packages and Cargo compiles {}, of which it lacks {missing}; \
             make it again",
            listed.len(),
            compiled.len()
        );
    }
    if let Some(foreign) = listed.difference(&compiled).next() {
        bail!(
            "it lists {} packages and Cargo compiles {}, but not {foreign}; make it again",
            listed.len(),
            compiled.len()
        );
    }
    Ok(format!(
        "{package}: the SBOM lists all {} packages\n",
        listed.len()
    ))
}

/// Names and versions of the components.
fn components(sbom: &Value) -> Option<BTreeSet<String>> {
    if sbom["bomFormat"] != "CycloneDX" {
        return None;
    }
    let all = sbom["components"].as_array()?.iter();
    all.map(|component| {
        let text = |name: &str| component[name].as_str();
        Some(format!("{} {}", text("name")?, text("version")?))
    })
    .collect()
}
