//! [`Versioned`]: names of interfaces with a version, as in `wasi:io/streams@0.2.0`.

use semver::Version;

/// The name of an interface, and its version.
pub(crate) struct Versioned<'a> {
    name: &'a str,
    pub(crate) version: Version,
}

impl<'a> Versioned<'a> {
    /// Splits a name into interface and version. `None` if the name has no valid version.
    pub(crate) fn parse(interface: &'a str) -> Option<Self> {
        let (name, version) = interface.rsplit_once('@')?;
        let version = Version::parse(version).ok()?;
        Some(Self { name, version })
    }

    /// Whether two interfaces have the same name and compatible versions.
    pub(crate) fn is_compatible(&self, other: &Self) -> bool {
        let one = track(&self.version);
        self.name == other.name && one.is_some() && one == track(&other.version)
    }
}

/// Whether a definition of interface `one` can satisfy an import of `other`: the names are equal,
/// or differ only in compatible versions.
pub(crate) fn is_compatible(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (Versioned::parse(one), Versioned::parse(other)) {
        (Some(one), Some(other)) => one.is_compatible(&other),
        _ => false,
    }
}

/// The part of a version that compatible versions share. `None` for a version that is compatible
/// with no other version.
fn track(version: &Version) -> Option<(u64, u64)> {
    match (version.major, version.minor) {
        _ if !version.pre.is_empty() => None,
        (0, 0) => None,
        (0, minor) => Some((0, minor)),
        (major, _) => Some((major, 0)),
    }
}
