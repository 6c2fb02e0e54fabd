//! The crates whose scripts run here. `suites/Cargo.lock` pins their versions and checksums.

use pirn_testing::registry::Locked;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the sources of a crate, which cargo downloads if it is not there yet. An error
/// says why there is none, and the command that changes this.
pub(crate) fn of(name: &str) -> Result<PathBuf, String> {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/suites");
    let locked = Locked::of(&suites, name);
    if let Some(sources) = checked(&locked) {
        return Ok(sources);
    }
    // `cargo fetch` and `cargo metadata` would download all 138 packages of the lock file.
    let package = format!("{name}@{}", locked.version);
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["info", "--quiet", "--locked", &package])
        .current_dir(&suites)
        .env("CARGO_NET_RETRY", "0")
        .output();
    checked(&locked).ok_or_else(|| {
        let why = match output {
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => format!("cargo: {error}"),
        };
        let why = why
            .lines()
            .next()
            .unwrap_or("cargo's cache has no whole copy");
        let fetch = format!("(cd component/tests/spec/suites && cargo info --locked {package})");
        format!("{package}: {why}; {fetch}")
    })
}

/// The folder with the sources of a crate that is in cargo's cache. `cargo info` compares the
/// checksum of the index, and not that of the lock file.
fn checked(locked: &Locked) -> Option<PathBuf> {
    let cached = locked.cached()?;
    let archive = std::fs::read(cached.archive).ok()?;
    let mut checksum = String::new();
    for byte in Sha256::digest(archive) {
        write!(checksum, "{byte:02x}").expect("a string has room");
    }
    assert_eq!(
        checksum, locked.checksum,
        "{} {} is not the locked crate",
        locked.name, locked.version
    );
    Some(cached.sources)
}
