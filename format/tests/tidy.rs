//! Checks style and structure: the rules of CONTRIBUTING.md and docs/internals/invariants.md.
//!
//! The test is in this crate because no crate owns the workspace and all others depend on this one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file.
const LINES_MAX: usize = 800;
/// Widest line, where rustfmt cannot break it.
const COLUMNS_MAX: usize = 140;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the workspace")
}

/// The name and text of each file of the repository with one of these endings.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let found = texts(|name| endings.iter().any(|ending| name.ends_with(ending)));
    assert!(
        found.len() > 5,
        "the repository has files ending in {endings:?}"
    );
    found
}

/// The name and text of each file of the repository whose name is wanted. Other files than texts,
/// and files that tools make, are left out.
pub(crate) fn texts(wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let (root, mut found) = (root(), vec![]);
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(&root)
                .expect("below the root")
                .display()
                .to_string();
            let skip = [
                "target",
                ".git",
                "benches/peers/java/built",
                "examples/guests/built",
                "examples/guests/fixtures",
                "testing/fuzz/artifacts",
                "testing/fuzz/corpus",
                "cli/release/stage",
                "dist",
            ];
            if skip.contains(&name.as_str()) || name.ends_with("/target") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if wanted(&name) {
                let bytes = fs::read(&path).expect("a file");
                found.extend(String::from_utf8(bytes).ok().map(|text| (name, text)));
            }
        }
    }
    found.sort();
    found
}

/// Panics with the list of findings unless it is empty.
pub(crate) fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn files_are_short_and_start_with_a_summary() {
    let (mut long, mut wide, mut silent) = (vec![], vec![], vec![]);
    for (name, text) in files(&[".rs"]) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            long.push(format!("{name}: {lines} lines"));
        }
        if !text.starts_with("//! ") {
            silent.push(name.clone());
        }
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX {
                wide.push(format!("{name}:{}", number + 1));
            }
        }
    }
    none("files over the limit of lines", &long);
    none("lines over the limit of columns", &wide);
    none("files whose first line does not say what they own", &silent);
}

/// The shell scripts of the repository.
const SCRIPTS: [&str; 10] = [
    ".sh",
    ".ci/run",
    ".ci/deny",
    ".ci/sanitize",
    ".ci/nightly",
    ".ci/aarch64",
    "cli/release/build",
    "cli/release/needs",
    "cli/release/packages",
    "cli/release/rustdoc-json",
];

#[test]
fn scripts_are_narrow() {
    let mut wide = vec![];
    for (name, text) in files(&SCRIPTS) {
        let lines = text.lines().enumerate();
        let found = lines.filter(|(_, line)| line.chars().count() > TEXT_COLUMNS_MAX);
        wide.extend(found.map(|(number, _)| format!("{name}:{}", number + 1)));
    }
    none("lines of scripts over the limit of columns", &wide);
}

#[test]
fn text_is_clean() {
    let mut found = vec![];
    let sources = [".rs", ".md", ".toml", ".wat", ".c", ".h", ".go"];
    for (name, text) in files(&[&sources[..], &SCRIPTS].concat()) {
        if !text.ends_with('\n') || text.ends_with("\n\n") {
            found.push(format!("{name}: does not end with one line break"));
        }
        for (number, line) in text.lines().enumerate() {
            if line.ends_with(' ') || (line.contains('\t') && !name.ends_with(".go")) {
                found.push(format!("{name}:{}: space at the end, or a tab", number + 1));
            }
            // Split, so that the test does not find these words in itself.
            for mark in [
                concat!("TO", "DO"),
                concat!("FIX", "ME"),
                concat!("XX", "X"),
            ] {
                if line.contains(mark) {
                    found.push(format!("{name}:{}: {mark}", number + 1));
                }
            }
        }
    }
    none("untidy text", &found);
}

/// The files that opt in to unsafe code.
fn unsafe_files() -> BTreeSet<String> {
    let is_source = |name: &str| name.contains("/src/");
    let opts_in = |text: &str| text.contains(concat!("allow(unsafe", "_code"));
    let all = files(&[".rs"]).into_iter();
    all.filter(|(name, text)| is_source(name) && opts_in(text))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn safety_md_lists_all_files_with_unsafe_code() {
    let listed: BTreeSet<String> = fs::read_to_string(root().join("docs/internals/safety.md"))
        .expect("docs/internals/safety.md")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned()))
        .collect();
    assert_eq!(
        listed,
        unsafe_files(),
        "docs/internals/safety.md and the code agree"
    );
    for (name, text) in files(&[".rs"]) {
        if listed.contains(&name) {
            assert!(
                text.contains("# Safety"),
                "{name} says which invariants it owns"
            );
        }
    }
    for krate in [
        "format",
        "format/signature",
        "compiler",
        "memory-files",
        "wasi",
        "component",
        "component/macros",
        "wasi2",
        "cli/aotc",
        "cli/aotrun",
        "benches",
        "server",
    ] {
        let lib = if krate == "benches" {
            "benches/lib.rs".into()
        } else {
            format!("{krate}/src/lib.rs")
        };
        let text = fs::read_to_string(root().join(&lib)).expect("a library");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{lib}");
    }
}

/// The items of the list that follows a sentence, without line breaks.
fn list_after(text: &str, sentence: &str) -> Vec<String> {
    let (_, rest) = text.split_once(sentence).expect("the sentence");
    let lines = rest.lines().map(|line| line.trim_start_matches("//!"));
    let lines = lines.map(str::trim).skip_while(|line| line.is_empty());
    let mut items: Vec<String> = vec![];
    for line in lines.take_while(|line| !line.is_empty()) {
        match (line.strip_prefix("* "), items.last_mut()) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(last)) => *last += &format!(" {line}"),
            (None, None) => break,
        }
    }
    items
}

#[test]
fn the_signal_handler_and_the_document_have_the_same_list() {
    let list = |path: &str| {
        let text = fs::read_to_string(root().join(path)).expect("text");
        list_after(&text, "It touches only:\n")
    };
    let handler = list("runtime/src/signals/handler.rs");
    assert!(handler.len() > 4, "{handler:?}");
    assert_eq!(handler, list("docs/internals/invariants.md"));
}

#[test]
fn conditional_compilation_is_only_in_listed_files() {
    let places = [
        "benches/intrinsics/native.rs",
        "runtime/src/region/reset/lines",
        "runtime/src/switch/arch",
        "runtime/src/sys/",
        "runtime/src/lib.rs",
        "runtime/tests/floats/arch.rs",
        "runtime/tests/races/arch",
        "format/src/cpu/detect.rs",
        "format/tests/tidy.rs",
        "verify/tests/executed/main.rs",
    ];
    let mut found = vec![];
    for (name, text) in files(&[".rs"]) {
        if places.iter().any(|place| name.starts_with(place)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if line.contains("target_arch") || line.contains("target_os") {
                found.push(format!("{name}:{}", number + 1));
            }
        }
    }
    none("target_arch or target_os outside the listed files", &found);
}

#[test]
fn layout_numbers_are_defined_in_one_file() {
    // Only format/src/layout.rs may define numbers of the layout.
    let mut found = vec![];
    for (name, text) in files(&[".rs"]) {
        let defines = |line: &str| {
            let name = line.split_once("const ").map_or("", |(_, rest)| rest);
            let (name, typed) = name.split_once(':').unwrap_or_default();
            !typed.is_empty() && (name.starts_with("CONTEXT_") || name == "GUARD_BYTES")
        };
        if name != "format/src/layout.rs"
            && name != "format/tests/tidy.rs"
            && text.lines().any(defines)
        {
            found.push(name);
        }
    }
    none("offsets outside format/src/layout.rs", &found);
}

#[test]
fn documents_name_files_that_exist() {
    let root = root();
    let mut found = vec![];
    for (name, text) in files(&[".md"]) {
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted
                .split('{')
                .next()
                .unwrap_or(quoted)
                .trim_end_matches('/');
            let looks = [
                "format/",
                "compiler/",
                "runtime/",
                "wasi/",
                "docs/",
                "examples/guests/",
                "server/",
                "capi/",
                "cli/",
                "testing/src/",
                "testing/fuzz/checks/",
            ];
            let is_path =
                looks.iter().any(|start| path.starts_with(start)) && !path.contains([' ', '*']);
            if is_path && !root.join(path).exists() {
                found.push(format!("{name}: {quoted}"));
            }
        }
    }
    none("documents that name what is not there", &found);
}

#[test]
fn each_test_suite_is_in_testing_md() {
    let document = fs::read_to_string(root().join("docs/internals/testing.md")).expect("text");
    let suite = |name: &str| {
        let (package, test) = name.split_once("/tests/")?;
        let folder = test
            .strip_suffix("/main.rs")
            .or(test.strip_suffix("/mod.rs"));
        let test = folder.or(test.strip_suffix(".rs"))?;
        let is_suite = !test.contains('/') && !["main", "common"].contains(&test);
        is_suite.then(|| format!("{package}/tests/{test}"))
    };
    let files = files(&[".rs"]);
    let suites: Vec<_> = files.iter().filter_map(|(name, _)| suite(name)).collect();
    assert!(suites.len() > 30, "only {suites:?}");
    let has_row = |suite: &String| {
        let parent = suite.rsplit_once('/').map_or("", |(parent, _)| parent);
        let named = |path: &str| document.contains(&format!("`{path}`"));
        named(&format!("{suite}.rs")) || named(suite) || named(parent)
    };
    let missing: Vec<_> = suites.into_iter().filter(|suite| !has_row(suite)).collect();
    none(
        "test suites without a row in docs/internals/testing.md",
        &missing,
    );
}

#[test]
fn dependencies_point_one_way() {
    let manifest = |krate: &str| {
        let text = fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a manifest");
        let (_, rest) = text.split_once("\n[dependencies]\n").expect("dependencies");
        rest.split("\n[").next().unwrap_or_default().to_owned()
    };
    let forbidden = [
        ("format", &["pirn-"][..]),
        ("format/signature", &["pirn-"]),
        (
            "verify",
            &["pirn-compiler", "pirn-runtime", "cranelift", "wasmparser"],
        ),
        (
            "compiler",
            &[
                "pirn-runtime",
                "pirn-wasi",
                "pirn-verify",
                "pirn-cli",
                "clap",
            ],
        ),
        (
            "runtime",
            &[
                "pirn-compiler",
                "pirn-wasi",
                "pirn-component",
                "cranelift",
                "wasmparser",
            ],
        ),
        (
            "component",
            &["pirn-compiler", "pirn-wasi", "cranelift", "wasmparser"],
        ),
        ("memory-files", &["pirn-", "wasi", "wiggle"]),
        (
            "wasi",
            &[
                "pirn-compiler",
                "pirn-cli",
                "clap",
                "cranelift",
                "wasmparser",
            ],
        ),
        (
            "wasi2",
            &[
                "pirn-compiler",
                "pirn-cli",
                "clap",
                "cranelift",
                "wasmparser",
            ],
        ),
        (
            "capi",
            &["pirn-compiler", "cranelift", "wasmparser", "cbindgen"],
        ),
    ];
    for (krate, names) in forbidden {
        for name in names {
            assert!(!manifest(krate).contains(name), "{krate} depends on {name}");
        }
    }
    for program in ["cli/aotrun", "server"] {
        let optional = "pirn-compiler = { workspace = true, optional = true }";
        assert!(manifest(program).contains(optional), "{program}");
    }
}

/// The lines of a page outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// The anchors that GitHub assigns to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut name = anchor.clone();
        for number in 1.. {
            if found.insert(name) {
                break;
            }
            name = format!("{anchor}-{number}");
        }
    }
    found
}

/// Relative links of a page to missing files or headings.
fn broken_links(name: &str, text: &str) -> Vec<String> {
    let page = root().join(name);
    let folder = page.parent().expect("a folder");
    let mut broken = vec![];
    let text: String = prose(text).flat_map(|line| [line, "\n"]).collect();
    let links = text.split("](").skip(1);
    for link in links.filter_map(|rest| rest.split(')').next()) {
        if link.contains(':') {
            continue;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() {
            Some(text.clone())
        } else if folder.join(path).extension().is_some_and(|e| e == "md") {
            fs::read_to_string(folder.join(path)).ok()
        } else {
            folder.join(path).exists().then(String::new)
        };
        let leads = |target: String| anchor.is_empty() || anchors(&target).contains(anchor);
        if !target.is_some_and(leads) {
            broken.push(format!("{name}: {link}"));
        }
    }
    broken
}

#[test]
fn links_of_documents_lead_to_pages_and_headings() {
    let pages = files(&[".md"]);
    let broken: Vec<_> = pages
        .iter()
        .flat_map(|(name, text)| broken_links(name, text))
        .collect();
    none("links that lead nowhere", &broken);
}

#[test]
fn each_page_is_in_the_summary() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("docs/SUMMARY.md");
    let pages = files(&[".md"]).into_iter().map(|(name, _)| name);
    let missing: Vec<_> = pages
        .filter(|name| {
            let page = name
                .strip_prefix("docs/")
                .filter(|page| *page != "SUMMARY.md");
            page.is_some_and(|page| !summary.contains(&format!("]({page})")))
        })
        .collect();
    none("pages that docs/SUMMARY.md lacks", &missing);
}

#[test]
fn a_broken_link_is_found() {
    let broken = |text: &str| broken_links("docs/page.md", text).len();
    assert_eq!(broken("# A `b`: c\n[x](README.md) [x](#a-b-c)"), 0);
    assert_eq!(broken("[x](no-such-page.md)"), 1);
    assert_eq!(broken("[x](README.md#no-such-heading)"), 1);
    assert_eq!(broken("# A\n[x](#b)"), 1);
}

/// Widest line of a comment, a document's paragraph or a script.
const TEXT_COLUMNS_MAX: usize = 100;
/// Phrases that only this project used, or that refer to other text. They are split so that the
/// test does not find them in itself.
const PHRASES: [&str; 7] = [
    concat!("gone", " on with"),
    concat!("goes", " on"),
    concat!("who", " walks"),
    concat!("alive", " at once"),
    concat!("passed", " on"),
    concat!("as", " above"),
    concat!("SAFETY: the", " same"),
];

/// The reason why a line of a comment or document is refused.
fn unreadable(line: &str) -> Option<String> {
    // Tables, drawings and links cannot be wrapped.
    let is_prose = !line.contains(['│', '─', '═']) && !line.contains("](");
    let columns = line.chars().count();
    if is_prose && columns > TEXT_COLUMNS_MAX {
        return Some(format!("{columns} columns, more than {TEXT_COLUMNS_MAX}"));
    }
    let text = line.to_lowercase();
    let phrase = PHRASES
        .iter()
        .find(|phrase| text.contains(&phrase.to_lowercase()));
    phrase.map(|phrase| format!("{phrase:?} needs other text, or other words"))
}

/// The lines of a file that are comments or paragraphs, each with its number.
///
/// A comment that follows code on its line is not included, and neither is code in a comment.
fn readable_lines<'a>(name: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let is_document = name.ends_with(".md");
    let has_blocks = !is_document && !name.ends_with(".rs");
    let (mut is_code, mut in_block) = (false, false);
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        is_code ^= start.trim_start_matches(['/', '!', ' ']).starts_with("```");
        let opens = has_blocks && start.starts_with("/*");
        let is_text = match is_document {
            true => !line.starts_with(['|', ' ']),
            false => start.starts_with("//") || opens || in_block,
        };
        in_block = (opens || in_block) && !line.contains("*/");
        if is_text && !is_code {
            found.push((index + 1, line));
        }
    }
    found
}

#[test]
fn comments_and_documents_are_readable() {
    let mut found = vec![];
    for (name, text) in files(&[".rs", ".md", ".c", ".h", ".go", ".java"]) {
        // The change log keeps its words.
        if name == "CHANGELOG.md" {
            continue;
        }
        for (number, line) in readable_lines(&name, &text) {
            if let Some(why) = unreadable(line) {
                found.push(format!("{name}:{number}: {why}"));
            }
        }
    }
    none("comments and documents that are hard to read", &found);
}

#[test]
fn comments_of_every_language_are_read() {
    let numbers = |name: &str, text: &str| -> Vec<usize> {
        let lines = readable_lines(name, text).into_iter();
        lines.map(|(number, _)| number).collect()
    };
    let source = "/* one\n   two */\nint three; // three\n  // four\n/* five */\nint six;\n";
    for name in ["a.c", "a.h", "a.go", "a.java"] {
        assert_eq!(numbers(name, source), [1, 2, 4, 5], "{name}");
    }
    assert_eq!(
        numbers("a.rs", "/// ```\n/// let one;\n/// ```\n//! four\n"),
        [3, 4]
    );
    assert_eq!(numbers("a.md", "one\n| two |\n```\nfour\n```\n"), [1, 5]);
}

#[test]
fn an_unreadable_comment_is_found() {
    assert!(unreadable(&format!("// {}", "x".repeat(98))).is_some());
    assert!(unreadable(&format!("// {}", "x".repeat(97))).is_none());
    assert!(unreadable(concat!("// SAFETY: as", " above.")).is_some());
    assert!(unreadable(concat!("/// A guest is gone", " on with.")).is_some());
    assert!(unreadable("/// A guest is resumed.").is_none());
}
