//! The C sources: crates of the registry bundle them. cargo fetches these crates, but does not
//! build them.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this package: from the running cargo, or else where it was built.
fn package() -> Result<PathBuf> {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let run = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let mut folders = run.into_iter().chain([built.clone()]);
    let found = folders.find(|folder| folder.join("sodium/wasm3.c").is_file());
    found.with_context(|| {
        format!(
            "the sources of this program are not in {} any more; start it by \
             `cargo run --release --manifest-path benches/peers/Cargo.toml --bin sodium`",
            built.display()
        )
    })
}

/// The folder of the C programs and of the other files of this program.
pub fn folder() -> Result<PathBuf> {
    Ok(package()?.join("sodium"))
}

/// The packages that this package depends on.
pub struct Packages(BTreeMap<String, Package>);

/// A package.
pub struct Package {
    /// Version of the package.
    pub version: String,
    /// The folder to which cargo has unpacked it.
    pub folder: PathBuf,
}

impl Packages {
    /// Asks cargo for the packages. cargo fetches the missing ones.
    pub fn find() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = package()?.join("Cargo.toml");
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .arg("--manifest-path")
            .arg(manifest)
            .output()
            .context("cannot start cargo")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cargo metadata: {said}");
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let packages = packages.filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            let found = Package {
                version: package["version"].as_str()?.to_owned(),
                folder: manifest.parent()?.to_owned(),
            };
            Some((package["name"].as_str()?.to_owned(), found))
        });
        Ok(Self(packages.collect()))
    }

    /// Finds a package by name.
    pub fn get(&self, name: &str) -> Result<&Package> {
        let found = self.0.get(name);
        found.with_context(|| format!("Cargo.lock names no {name}"))
    }

    /// The folder of libsodium's sources, unpacked below `out`.
    pub fn libsodium(&self, out: &Path) -> Result<PathBuf> {
        let archive = &self.get("libsodium-sys-stable")?.folder;
        let archive = archive.join("LATEST.tar.gz");
        let folder = out.join("libsodium-stable");
        let header = folder.join("src/libsodium/include/sodium/version.h");
        if header.exists() {
            return Ok(folder);
        }
        std::fs::create_dir_all(out)?;
        let tar = Command::new("tar")
            .arg("xzf")
            .arg(&archive)
            .arg("-C")
            .arg(out)
            .status();
        if !tar.context("cannot start tar")?.success() {
            bail!("cannot unpack {}", archive.display());
        }
        // Replaces the file that configure would generate from a template with a complete one.
        std::fs::copy(folder.join("builds/msvc/version.h"), header)?;
        Ok(folder)
    }

    /// The folder of wasm3's sources.
    pub fn wasm3(&self) -> Result<PathBuf> {
        Ok(self.get("wasm3-sys")?.folder.join("wasm3/source"))
    }
}
