//! Tests of all manifests: a published package has complete metadata and contains all files that it
//! needs. `packages/dependencies.rs` has the tests of dependencies.

#[path = "packages/dependencies.rs"]
mod dependencies;

use serde_json::Value;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// The packages of this repository, as Cargo reports them.
fn members() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let args = ["metadata", "--no-deps", "--format-version=1", "--locked"];
    let output = cargo
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all["packages"].as_array().expect("packages").clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a name")
}

fn folder(package: &Value) -> PathBuf {
    let manifest = package["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a folder").to_owned()
}

/// Cargo reports `publish = false` as an empty list of registries.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The package `pirn-verify-faults` compiles the compiler's sources once more, with a feature that
/// breaks their code. No other package may have or get that code.
#[test]
fn only_the_broken_compilers_have_faults() {
    let members = members();
    let mut with_faults = members
        .iter()
        .filter(|it| !it["features"]["faults"].is_null());
    let broken = with_faults.next().expect("a member has faults");
    assert_eq!(name(broken), "pirn-verify-faults");
    assert!(with_faults.next().is_none() && !is_published(broken));
    for package in &members {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let what = dependency["name"].as_str().expect("a name");
            assert_ne!(what, name(broken), "{} depends on it", name(package));
        }
    }
    // Development dependencies have a kind.
    let dependencies = |package: &Value| -> Vec<String> {
        let all = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter();
        let normal = all.filter(|it| it["kind"].is_null());
        normal
            .map(|it| format!("{} {} {}", it["name"], it["req"], it["features"]))
            .collect()
    };
    let compiler = members.iter().find(|it| name(it) == "pirn-compiler");
    assert_eq!(
        dependencies(broken),
        dependencies(compiler.expect("a member"))
    );
}

/// The faults of a published package's manifest.
fn faults(package: &Value) -> Vec<String> {
    let mut faults = vec![];
    let count = |field: &str| package[field].as_array().map_or(0, Vec::len);
    for field in ["description", "license", "readme", "rust_version"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            faults.push(format!("it has no {field}"));
        }
    }
    if !(1..=5).contains(&count("keywords")) || !(1..=5).contains(&count("categories")) {
        faults.push("it has not 1 to 5 keywords and categories".to_owned());
    }
    for dependency in package["dependencies"].as_array().expect("dependencies") {
        let on = dependency["name"].as_str().expect("a name");
        let (req, is_test) = (&dependency["req"], dependency["kind"] == "dev");
        let exact = format!("={}", package["version"].as_str().expect("a version"));
        // Cargo must publish a versioned dependency of tests first. With cyclic dependencies that
        // is impossible.
        match (dependency["path"].is_null(), is_test) {
            (false, false) if *req != exact => {
                faults.push(format!("it depends on {on} {req}, not {exact}"));
            }
            (false, true) if *req != "*" => {
                faults.push(format!("its tests depend on {on} {req}, not by path alone"));
            }
            (true, _) if *req == "*" => faults.push(format!("it depends on any version of {on}")),
            _ => {}
        }
    }
    faults
}

#[test]
fn published_packages_are_complete() {
    let members = members();
    let license = fs::read(root().join("LICENSE")).expect("LICENSE");
    let published: Vec<_> = members.iter().filter(|it| is_published(it)).collect();
    assert!(published.len() > 10 && published.len() < members.len());
    for package in published {
        let faults = faults(package);
        assert!(faults.is_empty(), "{}: {faults:?}", name(package));
        let folder = folder(package);
        assert_eq!(fs::read(folder.join("LICENSE")).expect("LICENSE"), license);
        let readme = fs::read_to_string(folder.join("README.md")).expect("README.md");
        assert!(
            readme.starts_with(&format!("# {}\n", name(package))),
            "{readme}"
        );
    }
}

#[test]
fn only_packages_of_tests_and_tools_are_not_published() {
    let members = members();
    let kept = members.iter().filter(|it| !is_published(it));
    let mut kept: Vec<_> = kept.map(name).collect();
    kept.sort_unstable();
    let expected = [
        "pirn-benches",
        "pirn-compiler-client",
        "pirn-component-tests",
        "pirn-examples",
        "pirn-fuzz-checks",
        "pirn-hosts",
        "pirn-release",
        "pirn-testing",
        "pirn-verify-faults",
    ];
    assert_eq!(kept, expected);
}

#[test]
fn an_incomplete_package_is_found() {
    let members = members();
    let whole = members
        .iter()
        .find(|it| name(it) == "pirn-runtime")
        .expect("the runtime");
    assert!(faults(whole).is_empty());
    for field in [
        "description",
        "license",
        "readme",
        "rust_version",
        "keywords",
        "categories",
    ] {
        let mut changed = whole.clone();
        changed[field] = Value::Null;
        assert_eq!(faults(&changed).len(), 1, "{field}");
    }
    let dependencies = whole["dependencies"].as_array().expect("dependencies");
    for (number, dependency) in dependencies.iter().enumerate() {
        let is_local_test = !dependency["path"].is_null() && dependency["kind"] == "dev";
        let mut changed = whole.clone();
        let req = if is_local_test { "=0.1.0" } else { "*" };
        changed["dependencies"][number]["req"] = req.into();
        assert_eq!(faults(&changed).len(), 1, "{dependency}");
    }
}

/// The rest of the only line that starts so.
fn after<'a>(text: &'a str, start: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(start));
    let rest = lines.next().unwrap_or_else(|| panic!("no line {start}"));
    assert_eq!(lines.next(), None, "{start}");
    rest
}

#[test]
fn debian_packages_name_the_versions_that_they_need() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a file");
    let manifest = read("cli/release/Cargo.toml");
    let has = |text: &str| assert!(manifest.contains(text), "cli/release/Cargo.toml: {text}");
    let abi = read("capi/src/abi.rs");
    let abi = after(&abi, "pub const PIRN_ABI_VERSION: u32 = ").trim_end_matches(';');
    let version = &members()[0]["version"];
    let version = version.as_str().expect("a version");
    has(&format!("name = \"libpirn{abi}\"\n"));
    has(&format!("depends = \"libpirn{abi} (= {version}-1)\"\n"));
    let glibc = read("cli/release/needs");
    has(&format!("libc6 (>= {})", after(&glibc, "glibc_max=")));
    for package in [
        "pirn".to_owned(),
        format!("libpirn{abi}"),
        "libpirn-dev".to_owned(),
    ] {
        let name = format!("cli/release/debian/{package}.lintian-overrides");
        // Each exception follows a line with its reason.
        for (before, line) in read(&name).lines().zip(read(&name).lines().skip(1)) {
            let is_exception = line.starts_with(&format!("{package}: "));
            assert!(is_exception || line.starts_with("# "), "{name}: {line}");
            assert!(!is_exception || before.starts_with("# "), "{name}: {line}");
        }
    }
}

/// The paths that a source file includes, or names in `#[path]` attributes.
fn included(text: &str) -> Vec<&str> {
    let marks = [
        "include_str!(\"",
        "include_bytes!(\"",
        "include!(\"",
        "#[path = \"",
    ];
    let mut found = vec![];
    for mark in marks {
        let after = text.split(mark).skip(1);
        found.extend(after.filter_map(|rest| rest.split('"').next()));
    }
    found
}

/// Whether a path, relative to a file, leaves a folder.
fn leaves(folder: &Path, file: &Path, path: &str) -> bool {
    let mut place = file.parent().expect("a folder").to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            part => place.push(part),
        }
    }
    !place.starts_with(folder)
}

/// The Rust files in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (vec![], vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn sources_include_nothing_outside_of_their_package() {
    let mut count = 0;
    for package in members().iter().filter(|it| is_published(it)) {
        let src = folder(package).join("src");
        for file in sources(&src) {
            let text = fs::read_to_string(&file).expect("text");
            for path in included(&text) {
                count += 1;
                assert!(!leaves(&src, &file, path), "{}: {path}", file.display());
            }
        }
    }
    // The free list includes modules, and the compiler includes a guest.
    assert!(count > 3, "{count}");
}

#[test]
fn a_path_out_of_a_package_is_found() {
    let (src, file) = (Path::new("/a/src"), Path::new("/a/src/b/c.rs"));
    assert_eq!(
        included(r#"x(include_str!("../d")); #[path = "e"]"#),
        ["../d", "e"]
    );
    assert!(!leaves(src, file, "d"));
    assert!(!leaves(src, file, "../d"));
    assert!(leaves(src, file, "../../d"));
    assert!(leaves(src, file, "../../../a/d"));
}
