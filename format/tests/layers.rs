//! The order of the modules of each crate: a module uses only modules before it.
//!
//! The test reads the paths in each source file: `use` declarations, and paths that begin with
//! `crate`, `super` or `self` anywhere else. It refuses
//!
//! * a path from a module of a crate to a later module of the crate's order;
//! * a circle between the files of a folder, which have no listed order of their own;
//! * a path to a name of lib.rs or main.rs that is no constant; the path must name the module that
//!   defines it;
//! * a module that is in the crate but not in the order, or in the order but not in the crate.
//!
//! A folder's `mod.rs` and the files of the folder count as one unit: the files share types that
//! `mod.rs` defines, and `mod.rs` calls the files. The files that [`UNITS`] lists count as one
//! unit, too. Test code may use everything. A call of a method names no file, so the test cannot
//! see it.
//!
//! To add a crate, add it to [`CRATES`] with its modules, lowest first. Its root (lib.rs, or
//! main.rs of a program) must declare them in that order. A module with `#[path]` belongs to the
//! crate that has the file, and is in no other order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

mod order;

use order::CRATES;

/// Files of one folder that may use each other, because they are one unit. Each row has a reason.
const UNITS: [(&str, [&str; 2]); 1] = [
    // The record of an activation holds the architecture's registers, and each architecture's
    // assembly code reads and writes the record by its offsets.
    ("switch", ["activation", "arch"]),
];

/// The path of a module or an item below the crate: `crate::ir::types` is `["ir", "types"]`.
type ItemPath = Vec<String>;

/// A source file of a crate.
struct Source {
    /// The module that the file is.
    module: ItemPath,
    text: String,
}

#[test]
fn each_module_uses_only_earlier_modules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = vec![];
    for (folder, order) in CRATES {
        let (library, sources) = read(&root.join(folder));
        assert!(sources.len() >= order.len(), "only some files of {folder}");
        let problems = problems(order, &library, &sources);
        found.extend(
            problems
                .iter()
                .map(|problem| format!("{folder}: {problem}")),
        );
    }
    assert!(found.is_empty(), "layers:\n  {}", found.join("\n  "));
}

/// The text of a crate's root, and all other files of the crate except tests.
fn read(folder: &Path) -> (String, Vec<Source>) {
    let is_library = folder.join("lib.rs").exists();
    let root = Path::new(if is_library { "lib.rs" } else { "main.rs" });
    let mut sources = vec![];
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder of the crate") {
            let path = entry.expect("an entry").path();
            let below = path.strip_prefix(folder).expect("below the folder");
            // Programs beside a library are crates of their own, and tests may use everything.
            if below == Path::new("bin") || below.ends_with("tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let without_extension = below.with_extension("");
            let mut module: ItemPath = without_extension
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            let name = module.last().cloned().unwrap_or_default();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            // The models of loom are tests, too.
            if !is_source || name == "tests" || name == "orders" || below == root {
                continue;
            }
            if name == "mod" {
                module.pop();
            }
            let text = fs::read_to_string(&path).expect("text");
            sources.push(Source { module, text });
        }
    }
    sources.sort_by(|a, b| a.module.cmp(&b.module));
    let text = fs::read_to_string(folder.join(root)).expect("lib.rs or main.rs");
    (text, sources)
}

/// The violations in the layers of a crate, one line for each.
fn problems(order: &[&str], library: &str, sources: &[Source]) -> Vec<String> {
    let mut found = differences(order, library, sources);
    let modules: BTreeSet<&[String]> = sources.iter().map(|file| &file.module[..]).collect();
    // For each folder, the pairs of its modules in which the first uses the second.
    let mut siblings: BTreeMap<ItemPath, BTreeSet<(String, String)>> = BTreeMap::new();
    for source in sources {
        let from = &source.module;
        for path in paths(&source.text, from) {
            let to = (0..=path.len()).rev().map(|len| &path[..len]);
            let to = to.into_iter().find(|to| modules.contains(to));
            let Some(to) = to else {
                let item = path.first().map_or("", String::as_str);
                if !defines(library, item) {
                    found.push(format!(
                        "{} uses {item} of the crate's root; name the module that has it",
                        from.join("::")
                    ));
                }
                continue;
            };
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // A module is one unit with the modules that it contains and that contain it.
            let (Some(a), Some(b)) = (from.get(common), to.get(common)) else {
                continue;
            };
            if common > 0 {
                let folder = from[..common].join("::");
                let both = [a, b];
                let is_in = |unit: &(&str, [&str; 2])| {
                    unit.0 == folder && both.iter().all(|file| unit.1.contains(&file.as_str()))
                };
                if UNITS.iter().any(is_in) {
                    continue;
                }
                let edges = siblings.entry(from[..common].to_vec()).or_default();
                edges.insert((a.clone(), b.clone()));
                continue;
            }
            let place = |name: &String| order.iter().position(|module| module == name);
            if place(a) < place(b) {
                found.push(format!(
                    "{} uses {}, which comes later in the order",
                    from.join("::"),
                    to.join("::")
                ));
            }
        }
    }
    // A module may use several items of another one.
    found.sort();
    found.dedup();
    for (folder, edges) in &siblings {
        if let Some(circle) = circle(edges) {
            let names = circle.join(" -> ");
            found.push(format!("{}: a circle of {names}", folder.join("::")));
        }
    }
    found
}

/// The differences between the order, the files, and the declarations in the crate's root.
fn differences(order: &[&str], library: &str, sources: &[Source]) -> Vec<String> {
    let mut found = vec![];
    let files: BTreeSet<&str> = sources.iter().map(|file| file.module[0].as_str()).collect();
    let listed: BTreeSet<&str> = order.iter().copied().collect();
    for name in files.difference(&listed) {
        found.push(format!("the order lacks {name}"));
    }
    for name in listed.difference(&files) {
        found.push(format!("the order has {name}, which is not there"));
    }
    let lines = library.lines();
    let declared: Vec<&str> = lines
        .clone()
        .zip(iter::once("").chain(lines))
        .filter(|(_, before)| !before.starts_with("#[path"))
        .filter_map(|(line, _)| {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';')
        })
        .collect();
    if declared != order {
        found.push(format!("the root declares {declared:?}, in another order"));
    }
    found
}

/// Whether the root itself defines a constant of this name, or takes a module of this name from
/// another crate by `#[path]`. A re-export does not count.
fn defines(library: &str, name: &str) -> bool {
    let pairs = library.lines().zip(library.lines().skip(1));
    let of_another = format!("mod {name};");
    library.contains(&format!("pub const {name}:"))
        || pairs
            .into_iter()
            .any(|(path, line)| path.starts_with("#[path") && line == of_another)
}

/// Modules that use each other in a circle, the first one again at the end.
fn circle(edges: &BTreeSet<(String, String)>) -> Option<Vec<String>> {
    let mut left: BTreeSet<&(String, String)> = edges.iter().collect();
    // A module that uses nothing, or that nothing uses, is in no circle.
    loop {
        let is_in_the_middle = |edge: &&(String, String)| {
            left.iter().any(|other| other.1 == edge.0) && left.iter().any(|other| other.0 == edge.1)
        };
        let kept: BTreeSet<_> = left.iter().copied().filter(is_in_the_middle).collect();
        if kept.len() == left.len() {
            break;
        }
        left = kept;
    }
    // Each remaining module uses another remaining module, so the walk must reach a circle.
    let mut walk = vec![left.first()?.0.clone()];
    loop {
        let last = walk.last()?;
        let next = left.iter().find(|edge| edge.0 == *last)?.1.clone();
        if let Some(start) = walk.iter().position(|module| *module == next) {
            walk.drain(..start);
            walk.push(next);
            return Some(walk);
        }
        walk.push(next);
    }
}

/// The paths in a file's code that begin with `crate`, `super` or `self`, from the crate's root.
fn paths(text: &str, module: &[String]) -> Vec<ItemPath> {
    let code = code(text);
    let mut found = vec![];
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            // The path began earlier, or the word is the end of a longer one.
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            let mut all = vec![];
            tree(&code[at..], &mut vec![], &mut all);
            found.extend(all.into_iter().map(|path| absolute(&path, module)));
        }
    }
    found
}

/// The code of a file without comments, test modules, and items for loom's models.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if ["#[cfg(test)]", "#[cfg(all(test,", "#[cfg(loom)]"]
            .iter()
            .any(|start| line.trim().starts_with(start))
        {
            let is_attribute = |line: &&str| line.trim().starts_with("#[");
            let item = lines
                .by_ref()
                .find(|line| !is_attribute(line))
                .unwrap_or_default();
            let indent = item.len() - item.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            if item.ends_with('{') {
                lines
                    .by_ref()
                    .find(|line| line.trim_end_matches(';') == end);
            }
            continue;
        }
        let line = line.split("//").next().unwrap_or_default();
        code.extend([line, "\n"]);
    }
    code
}

/// Reads a path at the start of `code`, with all branches of its braces. Returns the rest.
fn tree<'a>(code: &'a str, path: &mut ItemPath, found: &mut Vec<ItemPath>) -> &'a str {
    let mut rest = code.trim_start();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') && !rest.is_empty() {
            let before = rest.len();
            rest = tree(rest, path, found).trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
            if rest.len() == before {
                return rest;
            }
        }
        return rest.strip_prefix('}').unwrap_or(rest);
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | '*');
    let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(len);
    if name.is_empty() {
        return rest;
    }
    path.push(name.to_owned());
    let rest = match after.strip_prefix("::") {
        Some(more) if more.trim_start().starts_with(|c| is_name(c) || c == '{') => {
            tree(more, path, found)
        }
        _ => {
            found.push(path.clone());
            after
        }
    };
    path.pop();
    // In `use a::b as c`, `c` is no path of its own.
    let rest = rest.trim_start();
    match rest.strip_prefix("as ") {
        Some(alias) => alias.trim_start().trim_start_matches(is_name),
        None => rest,
    }
}

/// Converts a path in a module to a path from the crate's root.
fn absolute(path: &[String], module: &[String]) -> ItemPath {
    let mut from = module.to_vec();
    let mut rest = path;
    while let Some((first, more)) = rest.split_first() {
        match first.as_str() {
            "crate" => from.clear(),
            "super" => drop(from.pop()),
            "self" => {}
            _ => break,
        }
        rest = more;
    }
    from.extend_from_slice(rest);
    from
}

/// The problems of a made-up crate with the modules `low`, `folder` and `high`.
fn problems_of(files: &[(&str, &str)]) -> Vec<String> {
    let library =
        "mod low;\nmod folder;\npub mod high;\npub use high::Shown;\npub const VERSION: u32 = 1;\n";
    let defaults = ["low", "folder", "high"].map(|name| (name, ""));
    let defaults = defaults
        .into_iter()
        .filter(|(name, _)| files.iter().all(|(file, _)| file != name));
    let sources: Vec<_> = defaults
        .chain(files.iter().copied())
        .map(|(module, text)| Source {
            module: module.split("::").map(str::to_owned).collect(),
            text: text.to_owned(),
        })
        .collect();
    problems(&["low", "folder", "high"], library, &sources)
}

#[test]
fn a_use_of_an_earlier_module_is_allowed() {
    let none: &[String] = &[];
    for text in [
        "use crate::low::Item;",
        "use crate::{low::{self, Item}, folder::Other as Renamed};",
        "fn f() { crate::low::call(crate::VERSION); super::folder::call(); }",
        "pub(in crate::high) fn f() {}",
        "use super::high::inner::Item;",
    ] {
        assert_eq!(problems_of(&[("high", text)]), none, "{text}");
    }
    // A file and the mod.rs of its folder are one unit.
    let files = [
        ("folder", "use one::Item;"),
        ("folder::one", "use super::Shared;"),
    ];
    assert_eq!(problems_of(&files), none);
}

#[test]
fn a_use_of_a_later_module_is_refused() {
    for text in [
        "use crate::high::Item;",
        "use crate::high;",
        "use crate::{low::Item, high::{Item, Other}};",
        "use crate::{\n    low::{One, Two},\n    high,\n};",
        "pub(crate) use super::high::Item;",
        "fn f() { let x = crate::high::call(); }",
        "fn f(x: &super::high::Item) {}",
        "use self::super::high::Item;",
        "use crate::high::*;",
    ] {
        let found = problems_of(&[("low", text)]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("low uses high"), "{found:?}");
    }
    // From a file in a folder, too.
    for text in ["use super::super::high::Item;", "use crate::high::Item;"] {
        let found = problems_of(&[("folder::one", text)]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
}

#[test]
fn comments_and_tests_may_name_every_module() {
    let text = "//! See [`crate::high`].\n/// [Item](crate::high::Item)\nfn f() {} // crate::high\n\
        #[cfg(loom)]\nuse crate::high::Item;\n#[cfg(test)]\nmod more;\n\
        #[cfg(test)]\nmod tests {\n    use crate::high::Item;\n}\n\
        #[cfg(all(test, unix))]\n#[allow(unused)]\nmod others {\n    use crate::high::Item;\n}\n";
    assert_eq!(problems_of(&[("low", text)]), [""; 0]);
    // The test reads the code after a test module, or after a `use` for tests.
    let uses = "#[cfg(test)]\nuse crate::{\n    high::Item,\n    low::Item,\n};\n";
    for text in [text, uses] {
        let text = format!("{text}use crate::high::Item;\n");
        assert_eq!(problems_of(&[("low", &text)]).len(), 1, "{text}");
    }
}

#[test]
fn a_circle_between_files_of_a_folder_is_refused() {
    let one_way = [
        ("folder::one", "use super::two::Item;"),
        ("folder::two", "use super::three::Item;"),
        ("folder::three", "use crate::low::Item;"),
    ];
    assert_eq!(problems_of(&one_way), [""; 0]);
    let mut around = one_way;
    around[2].1 = "fn f() { crate::folder::one::call(); }";
    let found = problems_of(&around);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("one -> two -> three -> one"), "{found:?}");
    // The only files that may use each other are those of a unit.
    let units = [
        ("low::activation", "use super::arch::Item;"),
        ("low::arch", "use super::activation::Item;"),
    ];
    assert_eq!(problems_of(&units).len(), 1);
    let units = units.map(|(file, text)| (file.replace("low", "switch"), text));
    let sources: Vec<_> = iter::once(("switch".to_owned(), ""))
        .chain(units)
        .map(|(file, text)| Source {
            module: file.split("::").map(str::to_owned).collect(),
            text: text.to_owned(),
        })
        .collect();
    assert_eq!(problems(&["switch"], "mod switch;\n", &sources), [""; 0]);
    // Files in folders of a folder count as those folders.
    let deep = [
        ("folder::a", ""),
        ("folder::a::one", "use super::super::b::Item;"),
        ("folder::b", "use super::a::one::Item;"),
    ];
    assert_eq!(problems_of(&deep).len(), 1);
}

#[test]
fn a_path_to_a_reexported_name_is_refused() {
    let found = problems_of(&[("low", "use crate::Shown;")]);
    assert_eq!(
        found,
        ["low uses Shown of the crate's root; name the module that has it"]
    );
}

#[test]
fn the_order_and_the_crate_list_the_same_modules() {
    let found = problems_of(&[("other", "")]);
    assert_eq!(found, ["the order lacks other"]);
    let source = |name: &str| Source {
        module: vec![name.to_owned()],
        text: String::new(),
    };
    let found = problems(&["low", "high"], "mod low;\nmod high;\n", &[source("low")]);
    assert_eq!(found, ["the order has high, which is not there"]);
    let both = [source("low"), source("high")];
    let found = problems(&["low", "high"], "mod high;\nmod low;\n", &both);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("in another order"), "{found:?}");
    // A module that is a file of another crate.
    let with_path = "#[path = \"../other.rs\"]\nmod other;\nmod low;\nmod high;\n";
    assert_eq!(problems(&["low", "high"], with_path, &both), [""; 0]);
}
