//! [`Workspace`]: the packages of this repository and their dependencies, as Cargo reports them.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package: one of this repository, or a dependency.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression of the manifest.
    pub(crate) license: Option<String>,
    /// The folder of the manifest.
    pub(crate) folder: PathBuf,
    /// The name of the library that Rust code links, if there is one.
    pub(crate) library: Option<String>,
    id: String,
    is_member: bool,
    is_published: bool,
    is_proc_macro: bool,
}

/// A dependency of a package on another, by their ids.
struct Link {
    from: String,
    to: String,
    /// Whether only the build script uses the other package.
    is_build: bool,
}

/// All packages and their dependencies.
pub(crate) struct Workspace {
    packages: Vec<Package>,
    links: Vec<Link>,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Reads the output of `cargo metadata`.
    pub(crate) fn read() -> Result<Self> {
        let args = ["metadata", "--format-version=1", "--locked"];
        // Releases are made for the architecture of the machine, and dependencies differ by it.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = cargo()
            .args(args)
            .args(["--filter-platform", &platform])
            .output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("cargo metadata failed: {}", why.trim());
        }
        let all: Value = serde_json::from_slice(&output.stdout)?;
        Self::parse(&all).context("cargo metadata printed something else than expected")
    }

    fn parse(all: &Value) -> Option<Self> {
        let members = all["workspace_members"].as_array()?;
        let mut packages = vec![];
        for value in all["packages"].as_array()? {
            packages.push(package(value, members.contains(&value["id"]))?);
        }
        let mut links = vec![];
        for node in all["resolve"]["nodes"].as_array()? {
            links.extend(links_of(node)?);
        }
        let target = all["target_directory"].as_str()?.into();
        Some(Self {
            packages,
            links,
            target,
        })
    }

    /// The packages of this repository that are published, by name.
    pub(crate) fn into_published(self) -> impl Iterator<Item = Package> {
        let all = self.packages.into_iter();
        all.filter(|package| package.is_member && package.is_published)
    }

    /// The given packages of the repository, and all packages that their programs and libraries
    /// link.
    ///
    /// Cargo selects the features of all packages of the repository together. So the result may
    /// contain too many packages, but never too few.
    pub(crate) fn linked(&self, roots: &[&str]) -> Vec<&Package> {
        self.reached(roots, |link, to| !link.is_build && !to.is_proc_macro)
    }

    /// The packages that Cargo compiles to build these packages of the repository: linked packages,
    /// procedural macros, and dependencies of build scripts.
    pub(crate) fn compiled(&self, roots: &[&str]) -> Vec<&Package> {
        self.reached(roots, |_, _| true)
    }

    /// The packages with these names, and all packages that are reachable through the chosen links.
    fn reached(&self, roots: &[&str], choose: impl Fn(&Link, &Package) -> bool) -> Vec<&Package> {
        let is_root = |package: &&Package| roots.contains(&package.name.as_str());
        let mut next: Vec<_> = self.packages.iter().filter(is_root).collect();
        let mut found = BTreeSet::new();
        while let Some(package) = next.pop() {
            if !found.insert(&package.id) {
                continue;
            }
            let links = self.links.iter().filter(|link| link.from == package.id);
            for link in links {
                let to = self.packages.iter().find(|other| other.id == link.to);
                next.extend(to.filter(|to| choose(link, to)));
            }
        }
        let all = self.packages.iter();
        all.filter(|package| found.contains(&package.id)).collect()
    }
}

/// The links of a node in Cargo's graph. Omits packages that only tests depend on.
fn links_of(node: &Value) -> Option<Vec<Link>> {
    let mut links = vec![];
    for dependency in node["deps"].as_array()? {
        let kinds = dependency["dep_kinds"].as_array()?.iter();
        // A normal dependency has no kind.
        let kinds: Vec<_> = kinds.map(|kind| kind["kind"].as_str()).collect();
        let is_normal = kinds.contains(&None);
        if is_normal || kinds.contains(&Some("build")) {
            links.push(Link {
                from: node["id"].as_str()?.to_owned(),
                to: dependency["pkg"].as_str()?.to_owned(),
                is_build: !is_normal,
            });
        }
    }
    Some(links)
}

/// Reads a package from the output of `cargo metadata`.
fn package(value: &Value, is_member: bool) -> Option<Package> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let targets = value["targets"].as_array()?;
    let has_kind = |target: &&Value, name: &str| {
        let kinds = target["kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
    };
    let is_proc_macro = targets.iter().any(|t| has_kind(&t, "proc-macro"));
    let mut targets = targets.iter();
    let is_library = |target: &&Value| {
        let kinds = ["lib", "rlib", "proc-macro"];
        kinds.iter().any(|kind| has_kind(target, kind))
    };
    let library = targets.find(is_library);
    Some(Package {
        name: text("name")?,
        version: text("version")?,
        license: text("license"),
        folder: Path::new(value["manifest_path"].as_str()?).parent()?.into(),
        library: library.and_then(|target| target["name"].as_str().map(str::to_owned)),
        id: text("id")?,
        is_member,
        // Cargo reports `publish = false` as an empty list of registries.
        is_published: value["publish"].is_null(),
        is_proc_macro,
    })
}

/// A Cargo command that runs in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}
