//! No file of the repository is of another project. Tests read such files from crates of a
//! registry: scripts of the component model from the crates that `component/tests/spec/suites`
//! locks, and the interfaces of WASI from `wasip2`.

use super::tidy::{none, root, texts};
use std::fs;

/// Folders whose files may name other authors: none. A file of another project belongs to a crate
/// that a lock file pins.
const FOLDERS: [&str; 0] = [];

/// The names that may follow `Copyright` and a year.
const AUTHORS: &str = "The authors of pirn";
/// The licence of this project.
const LICENCE: &str = "Apache-2.0 WITH LLVM-exception";

/// The licence of this project in Debian's format, which quotes it line by line.
const QUOTED: &str = "cli/release/debian/copyright";

/// Marks of a licence or an author. They are split so that the test does not find them in itself.
/// `Copyright` counts if a year, `(c)` or a colon follows it.
const MARKS: [&str; 10] = [
    concat!("spdx-", "license-identifier"),
    concat!("spdx-", "filecopyrighttext"),
    concat!("all rights", " reserved"),
    concat!("permission is", " hereby granted"),
    concat!("redistribution", " and use in source"),
    concat!("licensed", " under"),
    concat!("under the terms", " of"),
    concat!("public", " domain"),
    concat!("@auth", "or"),
    concat!("@lic", "ense"),
];

/// Whether a line names a licence, or who has the rights to a file.
fn is_licence_line(line: &str) -> bool {
    let line = line.to_lowercase();
    let rights = line.match_indices("copyright").any(|(at, word)| {
        let rest = line[at + word.len()..].trim_start();
        rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '\u{a9}'))
            || rest.starts_with("(c)")
    });
    rights || line.contains('\u{a9}') || MARKS.iter().any(|mark| line.contains(mark))
}

/// The reason why a file is one of another project.
fn foreign(name: &str, text: &str) -> Option<String> {
    let mut lines = text.lines().enumerate();
    let found = lines.find(|(_, line)| {
        is_licence_line(line) && !line.contains(AUTHORS) && !line.contains(LICENCE)
    });
    if let Some((number, line)) = found {
        return Some(format!("{name}:{}: {}", number + 1, line.trim()));
    }
    // These have no licence lines, but other projects write them.
    let is_script = name.ends_with(".wast");
    let mut lines = text.lines();
    let is_interface = lines.any(|line| {
        let package = line.trim_start().strip_prefix("package ");
        name.ends_with(".wit") && package.is_some_and(|package| !package.starts_with("pirn:"))
    });
    (is_script || is_interface).then(|| format!("{name}: a script or interface of others"))
}

/// Whether this is a file that has the licence of a project.
fn is_licence_file(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
        .iter()
        .any(|start| file == *start || file.starts_with(&format!("{start}.")))
}

#[test]
fn no_file_is_of_another_project() {
    let own = fs::read_to_string(root().join("LICENSE")).expect("LICENSE");
    let mut found = vec![];
    for (name, text) in texts(|_| true) {
        if name == QUOTED || FOLDERS.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        match is_licence_file(&name) {
            true if text != own => found.push(format!("{name}: not the licence of this project")),
            true => {}
            false => found.extend(foreign(&name, &text)),
        }
    }
    none("files of other projects", &found);
}

#[test]
fn a_file_of_another_project_is_found() {
    let holder = |line: &str| foreign("a.c", &format!("int a;\n{line}\n")).is_some();
    let copyright = concat!("/* Copy", "right");
    assert!(holder(&format!("{copyright} 2011 Somebody */")));
    assert!(holder(&format!("{copyright} (c) Somebody */")));
    assert!(holder(&format!("{copyright}: Somebody */")));
    assert!(!holder(&format!("{copyright}: 2026 {AUTHORS} */")));
    for mark in MARKS {
        assert!(holder(&format!("// {mark} MIT")), "{mark}");
        assert!(!holder(&format!("// {mark} {LICENCE}")), "{mark}");
    }
    assert!(!holder("// The copyright file of a Debian package."));
    assert!(foreign("a.wast", "(module)").is_some());
    assert!(foreign("a.wat", "(module)").is_none());
    assert!(foreign("a.wit", "package wasi:io@0.2.12;").is_some());
    assert!(foreign("a.wit", "package pirn:tests;").is_none());
    assert!(is_licence_file("a/LICENSE") && is_licence_file("a/LICENSE.txt"));
    assert!(!is_licence_file("a/licenses.rs"));
}
