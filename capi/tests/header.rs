//! The committed header is the one that cbindgen generates from the sources.
//!
//! `PIRN_BLESS=1 cargo test --test capi header::` writes it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources with public items, in the order of the header.
const SOURCES: [&str; 35] = [
    "abi.rs",
    "error.rs",
    "error/traps.rs",
    "error/frames.rs",
    "inspect.rs",
    "bytes.rs",
    "kinds.rs",
    "value.rs",
    "module.rs",
    "region.rs",
    "caller.rs",
    "host.rs",
    "linker.rs",
    "prepared.rs",
    "wasi.rs",
    "wasi/streams.rs",
    "wasi/files.rs",
    "instance.rs",
    "calls.rs",
    "nested.rs",
    "memory.rs",
    "table.rs",
    "shared.rs",
    "steps.rs",
    "kill.rs",
    "member.rs",
    "group.rs",
    "component/value.rs",
    "component/owned.rs",
    "component.rs",
    "component/caller.rs",
    "component/linker.rs",
    "component/prepared.rs",
    "component/wasi2.rs",
    "component/instance.rs",
];

/// The structs that lead to themselves, in the order of their definitions. cbindgen defines one of
/// them too early, and declares none before it is used: `cbindgen.toml` has the declarations.
const RECURSIVE: [&str; 2] = ["pirn_component_value_t", "pirn_component_field_t"];
/// The last of the other types on which they depend.
const BEFORE_RECURSIVE: &str = "} pirn_component_value_of_t;\n";

/// Moves the definitions of the recursive structs to one place.
fn in_order(mut text: String) -> String {
    let mut definitions = String::new();
    for name in RECURSIVE {
        let last = format!("}} {name};\n");
        let end = text.find(&last).expect("it is defined");
        let first = text[..end].rfind("typedef struct {").expect("a struct");
        let start = text[..first].rfind("/**").expect("documentation");
        let definition: String = text.drain(start..end + last.len()).collect();
        let definition = definition.replace("typedef struct {", &format!("struct {name} {{"));
        definitions.push('\n');
        definitions.push_str(&definition.replace(&last, "};\n"));
        // The empty line after it.
        text.remove(start);
    }
    let place = text.find(BEFORE_RECURSIVE).expect("it is defined") + BEFORE_RECURSIVE.len();
    text.insert_str(place, &definitions);
    text
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The header, generated from the sources.
fn generated() -> String {
    let folder = folder();
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a config");
    let head = fs::read_to_string(folder.join("include/head.txt")).expect("the first comment");
    let tail = fs::read_to_string(folder.join("include/tail.txt")).expect("the last lines");
    let mut builder = cbindgen::Builder::new()
        .with_config(config)
        .with_header(head.trim_end())
        .with_trailer(tail.trim_end());
    // cbindgen takes each source for the root of a crate: `mod linker;` in `component.rs` would
    // lead it to `linker.rs`, whose functions it would declare again. `SOURCES` lists all files.
    let copies = tempfile::tempdir().expect("a temporary directory");
    for source in SOURCES {
        let text = fs::read_to_string(folder.join("src").join(source)).expect("text");
        let is_module = |line: &str| line.starts_with("mod ") && line.ends_with(';');
        let lines = text.lines().filter(|line| !is_module(line));
        let copy = copies.path().join(source.replace('/', "-"));
        fs::write(&copy, lines.collect::<Vec<_>>().join("\n")).expect("a copy");
        builder = builder.with_src(copy);
    }
    let mut text = vec![];
    builder
        .generate()
        .expect("the sources parse")
        .write(&mut text);
    let text = in_order(String::from_utf8(text).expect("UTF-8"));
    text.trim_end().to_owned() + "\n"
}

/// All sources of the crate below a folder, by their paths in `src`.
fn sources(folder: &Path, below: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder.join(below)).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let name = format!("{below}{}", name.to_string_lossy());
        match folder.join(&name).is_dir() {
            true => sources(folder, &format!("{name}/"), all),
            false => all.push(name),
        }
    }
}

#[test]
fn the_header_is_generated_from_the_sources() {
    let path = folder().join("include/pirn.h");
    let generated = generated();
    if std::env::var_os("PIRN_BLESS").is_some() {
        fs::write(&path, &generated).expect("the header is writable");
    }
    let committed = fs::read_to_string(&path).expect("the header");
    let mut lines = generated.lines().zip(committed.lines());
    let differs = lines.find(|(wanted, found)| wanted != found);
    assert!(
        generated == committed,
        "{} is not what cbindgen generates, first at {differs:?}; run `PIRN_BLESS=1 cargo test \
         --test capi header::`",
        path.display()
    );
}

/// A file that cbindgen reads twice would have its functions in the header twice.
#[test]
fn no_function_is_declared_twice() {
    let header = generated();
    let code = header.lines().filter(|line| !line.starts_with(" *"));
    let names = code.filter_map(|line| {
        let before = line.split_once('(')?.0;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("pirn_").then_some(name)
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() > 80, "only {} functions", names.len());
    let mut once = HashSet::new();
    let twice: Vec<_> = names.iter().filter(|name| !once.insert(**name)).collect();
    assert!(twice.is_empty(), "declared twice: {twice:?}");
}

/// A function in a file that the header is not generated from would be missing in the header.
#[test]
fn each_exported_symbol_is_in_the_header() {
    let (header, folder) = (generated(), folder().join("src"));
    let mut all = vec![];
    sources(&folder, "", &mut all);
    assert!(all.len() > SOURCES.len(), "all sources: {all:?}");
    let mut symbols = 0;
    for source in &all {
        let text = fs::read_to_string(folder.join(source)).expect("text");
        for after in text.split("no_mangle)]").skip(1) {
            let name = after.split("pirn_").nth(1).expect("a name of the library");
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &name[..end.expect("an end")];
            assert!(
                header.contains(&format!("pirn_{name}")),
                "{source}: pirn_{name}"
            );
            symbols += 1;
        }
    }
    assert!(symbols > 80, "only {symbols} symbols");
}
