//! Tests of dependencies: the page of packages has the right numbers, and each dependency has an
//! allowed licence and comes from crates.io.
//!
//! The rules are those of deny.toml. cargo-deny checks them, too, if it is installed; it also knows
//! the vulnerable versions.

use super::{members, name, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::Table;

/// The page of packages.
const PAGE: &str = "docs/internals/rationale/packages.md";

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A lock file outside of the workspace whose packages the page counts.
const SHIM_LOCK: &str = "shim/Cargo.lock";

/// What a package is: its name and its version.
type Id = (String, String);

fn read(name: impl AsRef<Path>) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table(text: &str) -> Table {
    text.parse().expect("TOML")
}

/// The tables or strings of an array. A missing array has none.
fn list<'a>(table: &'a Table, name: &str) -> &'a [toml::Value] {
    table
        .get(name)
        .and_then(|it| it.as_array())
        .map_or(&[], Vec::as_slice)
}

fn text(value: &toml::Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// The output of a command of cargo, or `None` with a message if it lacks the sources of packages.
fn cargo(arguments: &[&str], manifest: &str) -> Option<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(arguments)
        .args(["--locked", "--offline", "--manifest-path", manifest]);
    let output = cargo.current_dir(root()).output().expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    // Cargo downloads what it needs to build. A listing also needs what was not built. Of packages
    // that were never asked for, Cargo says that it uses "offline mode (--offline)".
    if errors.contains("--offline") {
        eprintln!("NOT RUN: {arguments:?}; cargo fetch --locked --manifest-path {manifest}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// The packages of a lock file, with those that each depends on.
struct Lock(BTreeMap<Id, Vec<Id>>);

impl Lock {
    fn read(name: &str) -> Self {
        let lock = table(&read(name));
        let all = list(&lock, "package");
        let ids = all
            .iter()
            .map(|package| (text(&package["name"]), text(&package["version"])));
        let ids: Vec<Id> = ids.collect();
        let find = |dependency: &toml::Value| {
            // The version is only there if there are several.
            let dependency = text(dependency);
            let mut words = dependency.split(' ');
            let (name, version) = (words.next(), words.next());
            let is_it =
                |id: &&Id| name == Some(&*id.0) && version.is_none_or(|version| version == id.1);
            ids.iter().find(is_it).expect("a package").clone()
        };
        let links = all.iter().map(|package| {
            let package = package.as_table().expect("a table");
            list(package, "dependencies").iter().map(find).collect()
        });
        Self(ids.iter().cloned().zip(links).collect())
    }

    /// The packages that the members need if no member depends on the package `without`.
    fn reached(&self, members: &[Value], without: Option<&str>) -> BTreeSet<&Id> {
        let is_member = |id: &Id| members.iter().any(|member| name(member) == id.0);
        let mut next: Vec<_> = self.0.keys().filter(|id| is_member(id)).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = next.pop() {
            if found.insert(id) {
                let kept = |to: &&Id| !(is_member(id) && without == Some(&*to.0));
                next.extend(self.0[id].iter().filter(kept));
            }
        }
        found
    }
}

/// The cells of the page's tables, one list for each row whose first cell is a name in backticks.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        row.trim_matches(['|', ' '])
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

/// The rows below a heading, up to the next heading of the same level.
fn section(page: &str, heading: &str) -> Vec<Vec<String>> {
    let start = page
        .find(&format!("\n## {heading}\n"))
        .expect("the heading");
    let rest = &page[start + 1..];
    rows(&rest[..rest.find("\n## ").unwrap_or(rest.len())])
}

/// Asserts that a cell of a row has this number.
#[track_caller]
fn check(row: &[String], column: usize, number: usize) {
    assert_eq!(row[column], number.to_string(), "{PAGE}, row of {}", row[0]);
}

#[test]
fn the_page_counts_the_packages_of_each_program() {
    let rows = section(&read(PAGE), "How many packages does each program have?");
    let (locks, programs): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.len() == 2);
    let locks: Vec<_> = locks
        .iter()
        .map(|row| {
            let name = row[0].trim_matches('`');
            check(row, 1, Lock::read(name).0.len());
            name
        })
        .collect();
    assert_eq!(locks, ["Cargo.lock", SHIM_LOCK]);
    let packages: Vec<_> = programs
        .iter()
        .map(|row| row[1].trim_matches('`'))
        .collect();
    let expected = ["aotc", "aotrun", "server", "capi", "shim", "release"];
    assert_eq!(packages, expected.map(|name| format!("pirn-{name}")));
    let column = if std::env::consts::ARCH == "x86_64" {
        2
    } else {
        3
    };
    for (row, package) in programs.iter().zip(packages) {
        let manifest = if package == "pirn-shim" {
            "shim/Cargo.toml"
        } else {
            "Cargo.toml"
        };
        let arguments = [
            "tree",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--package",
            package,
        ];
        if let Some(tree) = cargo(&arguments, manifest) {
            // cargo marks packages that it listed before.
            let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
            let packages: BTreeSet<_> = lines.filter(|line| !line.is_empty()).collect();
            check(row, column, packages.len());
        }
    }
}

#[test]
fn the_page_has_each_dependency_and_its_packages() {
    let manifest = table(&read("Cargo.toml"));
    let dependencies = manifest["workspace"]["dependencies"]
        .as_table()
        .expect("a table");
    let expected: BTreeSet<_> = dependencies
        .keys()
        .map(String::as_str)
        .filter(|name| !name.starts_with("pirn-"))
        .collect();
    let rows = section(&read(PAGE), "What is each dependency for?");
    let found: BTreeSet<_> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(found, expected, "{PAGE}");
    let (lock, members) = (Lock::read("Cargo.lock"), members());
    let all = lock.reached(&members, None).len();
    assert_eq!(
        all,
        lock.0.len(),
        "Cargo.lock has packages that nothing needs"
    );
    for row in &rows {
        let name = row[0].trim_matches('`');
        check(row, 1, all - lock.reached(&members, Some(name)).len());
    }
}

/// Whether a licence expression (SPDX) offers a choice of which all parts are allowed.
fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    // Old manifests have a slash for OR.
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words: Vec<_> = spaced.split_whitespace().rev().collect();
    any(&mut words, allowed) == Some(true) && words.is_empty()
}

/// Parses alternatives, from words in reverse order. `None` if they are malformed.
fn any(words: &mut Vec<&str>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut result = all(words, allowed)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        result |= all(words, allowed)?;
    }
    Some(result)
}

/// Parses parts that all apply.
fn all(words: &mut Vec<&str>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut result = one(words, allowed)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        result &= one(words, allowed)?;
    }
    Some(result)
}

/// Parses one licence, or an expression in parentheses.
fn one(words: &mut Vec<&str>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    if words.pop_if(|word| *word == "(").is_some() {
        let result = any(words, allowed)?;
        return (words.pop()? == ")").then_some(result);
    }
    let license = words.pop()?;
    Some(match words.pop_if(|word| *word == "WITH") {
        Some(_) => allowed(&format!("{license} WITH {}", words.pop()?)),
        None => allowed(license),
    })
}

#[test]
fn dependencies_have_allowed_licences() {
    let rules = table(&read("deny.toml"));
    let rules = rules["licenses"].as_table().expect("a table");
    let allow: Vec<_> = list(rules, "allow").iter().map(text).collect();
    let exceptions: Vec<_> = list(rules, "exceptions")
        .iter()
        .map(|it| (text(&it["crate"]), text(&it["allow"][0])))
        .collect();
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments = [
        "metadata",
        "--format-version=1",
        "--filter-platform",
        &platform,
    ];
    let Some(metadata) = cargo(&arguments, "Cargo.toml") else {
        return;
    };
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 200, "{}", packages.len());
    for package in packages {
        let allowed = |license: &str| {
            let mut exceptions = exceptions.iter();
            allow.iter().any(|it| it == license)
                || exceptions.any(|(crate_name, it)| crate_name == name(package) && it == license)
        };
        let license = package["license"].as_str().unwrap_or("none");
        assert!(
            is_allowed(license, &allowed),
            "{} has the licence {license}",
            name(package)
        );
    }
}

#[test]
fn a_licence_that_is_not_allowed_is_found() {
    let allowed = |license: &str| ["MIT", "ISC", "A WITH B"].contains(&license);
    for yes in [
        "MIT",
        "GPL OR MIT",
        "GPL/MIT",
        "MIT AND ISC",
        "A WITH B",
        "(GPL OR MIT) AND ISC",
        "GPL AND X OR MIT",
        "GPL OR (A WITH B AND (MIT))",
    ] {
        assert!(is_allowed(yes, &allowed), "{yes}");
    }
    for no in [
        "",
        "none",
        "GPL",
        "MIT AND GPL",
        "A",
        "MIT WITH B",
        "MIT WITH",
        "GPL OR MIT AND X",
        "(GPL OR MIT) AND X",
        "(MIT",
        "MIT)",
        "MIT ISC",
        "MIT OR",
        "MIT OR OR ISC",
        "AND MIT",
        "mit",
    ] {
        assert!(!is_allowed(no, &allowed), "{no}");
    }
}

/// The lock files of the repository.
fn lock_files() -> Vec<PathBuf> {
    let (mut found, mut folders) = (vec![], vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file_name = path.file_name().expect("a name");
            // Builds download and make other files.
            let is_built = file_name == "target" || file_name.as_encoded_bytes().starts_with(b".");
            if path.is_dir() && !is_built {
                folders.push(path);
            } else if file_name == "Cargo.lock" {
                found.push(path);
            }
        }
    }
    found
}

/// The packages of a lock file that come from elsewhere than crates.io, or have no checksum. Those
/// without a source are in this repository.
fn foreign(lock: &str) -> Vec<String> {
    let lock = table(lock);
    let packages = list(&lock, "package").iter();
    let is_foreign = |package: &&toml::Value| {
        let has = |name: &str| package.get(name).is_some();
        let is_known = package
            .get("source")
            .is_none_or(|it| it.as_str() == Some(CRATES_IO));
        !is_known || has("source") != has("checksum")
    };
    packages
        .filter(is_foreign)
        .map(|package| text(&package["name"]))
        .collect()
}

#[test]
fn all_dependencies_are_from_one_registry() {
    let rules = table(&read("deny.toml"));
    let allowed = &rules["sources"]["allow-registry"];
    assert_eq!(format!("registry+{}", text(&allowed[0])), CRATES_IO);
    let files = lock_files();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let foreign = foreign(&read(&file));
        assert!(foreign.is_empty(), "{}: {foreign:?}", file.display());
    }
    // Any version: nobody has tested it.
    for member in members() {
        for dependency in member["dependencies"].as_array().expect("dependencies") {
            let is_any = dependency["req"] == "*" && dependency["path"].is_null();
            assert!(
                !is_any,
                "{} depends on {}",
                name(&member),
                dependency["name"]
            );
        }
    }
}

#[test]
fn a_dependency_from_elsewhere_is_found() {
    let package = |name: &str, rest: &str| format!("[[package]]\nname = '{name}'\n{rest}\n");
    let source = |source: &str| format!("source = '{source}'\nchecksum = '00'");
    let lock = [
        package("here", ""),
        package("good", &source(CRATES_IO)),
        package("git", &source("git+https://example.com/a#1")),
        package("other", &source("registry+https://example.com/index")),
        package("unchecked", &format!("source = '{CRATES_IO}'")),
    ];
    assert_eq!(foreign(&lock.concat()), ["git", "other", "unchecked"]);
}
