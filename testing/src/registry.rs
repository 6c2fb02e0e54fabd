//! Finds the sources of crates that cargo has downloaded. Tests read files of other projects from
//! these sources, so that the repository has no copies of such files.

use std::path::{Path, PathBuf};

/// A crate of a registry, as a lock file pins it.
pub struct Locked {
    /// The crate's name.
    pub name: String,
    /// The crate's version, with its build metadata.
    pub version: String,
    /// SHA-256 of the crate's file, in hexadecimal digits.
    pub checksum: String,
}

/// The files of a crate in cargo's cache.
pub struct Cached {
    /// The crate's file, which is an archive.
    pub archive: PathBuf,
    /// The folder with the unpacked archive.
    pub sources: PathBuf,
}

impl Locked {
    /// The crate's entry in the lock file of the package in `folder`.
    pub fn of(folder: &Path, name: &str) -> Self {
        let lock = std::fs::read_to_string(folder.join("Cargo.lock")).expect("a lock file");
        let entry = format!("name = \"{name}\"\n");
        let (_, entry) = lock.split_once(&entry).expect("the crate is locked");
        let value = |key: &str| {
            let (_, rest) = entry.split_once(&format!("{key} = \"")).expect("a value");
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        Self {
            name: name.to_owned(),
            version: value("version"),
            checksum: value("checksum"),
        }
    }

    /// The crate's files, if cargo has downloaded and unpacked it from any registry.
    pub fn cached(&self) -> Option<Cached> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
        let name = format!("{}-{}", self.name, self.version);
        let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
        let mut cached = registries.filter_map(|registry| {
            let registry = registry.ok()?;
            let archives = home.join("registry/cache").join(registry.file_name());
            let cached = Cached {
                archive: archives.join(format!("{name}.crate")),
                sources: registry.path().join(&name),
            };
            // Cargo writes `.cargo-ok` after all other files of the crate.
            let is_whole = cached.sources.join(".cargo-ok").exists();
            is_whole.then_some(cached)
        });
        cached.next()
    }
}
