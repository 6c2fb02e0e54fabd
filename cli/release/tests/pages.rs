//! The man pages and shell completions of all programs, as `pirn-release pages` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Each program, its section of the manual, its commands, and the page that describes its options.
const PROGRAMS: [(&str, &str, &[&str], &str); 3] = [
    (
        "aotc",
        "1",
        &["keygen", "sign", "verify", "inspect"],
        "cli.md",
    ),
    ("aotrun", "1", &[], "cli.md"),
    ("pirn-serve", "8", &[], "pirn-serve.md"),
];

/// A folder with the pages. All tests share it.
static PAGES: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let output = release(&["pages".as_ref(), folder.path().as_os_str()]);
    assert!(output.status.success(), "{output:?}");
    folder
});

fn release(args: &[&std::ffi::OsStr]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pirn-release"));
    command.args(args).output().expect("pirn-release")
}

fn path(name: &str) -> PathBuf {
    PAGES.path().join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names of all files in a folder.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(path(folder)).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    entries
        .map(|entry| name(entry.expect("an entry")))
        .collect()
}

/// The names of all pages.
fn pages() -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for (program, section, commands, _) in PROGRAMS {
        pages.insert(format!("{program}.{section}"));
        pages.extend(
            commands
                .iter()
                .map(|name| format!("{program}-{name}.{section}")),
        );
    }
    pages
}

/// The long options that a page of the manual describes.
fn options(page: &str) -> BTreeSet<String> {
    let words = page.split(r"\fB\-\-").skip(1);
    let names = words.filter_map(|word| word.split_once(r"\fR"));
    let names = names.map(|(name, _)| name.replace('\\', ""));
    names
        .filter(|name| name != "help" && name != "version")
        .collect()
}

#[test]
fn each_program_and_command_has_a_page_and_completions() {
    assert_eq!(names("man"), pages());
    let files = |name: &dyn Fn(&str) -> String| -> BTreeSet<_> {
        PROGRAMS.iter().map(|(program, ..)| name(program)).collect()
    };
    assert_eq!(names("bash"), files(&|program| program.to_owned()));
    assert_eq!(names("zsh"), files(&|program| format!("_{program}")));
    assert_eq!(names("fish"), files(&|program| format!("{program}.fish")));
    for (program, _, commands, _) in PROGRAMS {
        for script in [
            text(&format!("bash/{program}")),
            text(&format!("zsh/_{program}")),
            text(&format!("fish/{program}.fish")),
        ] {
            for command in commands {
                assert!(script.contains(command), "{program}: {command}");
            }
        }
    }
}

#[test]
fn pages_are_named_as_they_are_called() {
    for (program, section, commands, _) in PROGRAMS {
        let page = text(&format!("man/{program}.{section}"));
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"] {
            let found = [format!(".SH {heading}\n"), format!(".SH \"{heading}\"\n")];
            assert!(
                found.iter().any(|line| page.contains(line)),
                "{program}: {heading}"
            );
        }
        for command in commands {
            let page = text(&format!("man/{program}-{command}.{section}"));
            assert!(
                page.contains(&format!("{program}\\-{command} \\- ")),
                "{page}"
            );
            assert!(
                page.contains(&format!("\\fB{program} {command}\\fR")),
                "{page}"
            );
            // The page of the program refers to the pages of its commands.
            let whole = text(&format!("man/{program}.{section}"));
            let name = format!("{program}\\-{command} ({section})");
            assert!(whole.contains(&name), "{name}");
        }
    }
}

#[test]
fn the_reference_and_the_completions_have_each_option() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (program, section, commands, reference) in PROGRAMS {
        let reference = fs::read_to_string(docs.join(reference)).expect("a page");
        let commands = commands.iter().map(|name| format!("{program}-{name}"));
        let mut found = BTreeSet::new();
        for page in std::iter::once(program.to_owned()).chain(commands) {
            found.extend(options(&text(&format!("man/{page}.{section}"))));
        }
        assert!(found.len() > 15, "{program}: {found:?}");
        let bash = text(&format!("bash/{program}"));
        for option in &found {
            assert!(
                reference.contains(&format!("--{option}")),
                "{program}: --{option}"
            );
            assert!(
                bash.contains(&format!("--{option}")),
                "{program}: --{option}"
            );
        }
    }
}

#[test]
fn bash_loads_the_completions_and_completes() {
    for (program, given, expected) in [
        ("aotc", "--em", "--emit"),
        ("aotc", "keyg", "keygen"),
        ("aotrun", "--dead", "--deadline"),
        ("pirn-serve", "--rou", "--route"),
    ] {
        // Calls the function as readline does.
        let script = format!(
            "set -u; source \"$1\"; set_by=$(complete -p {program}); \
             function=${{set_by##*-F }}; function=${{function%% *}}; \
             COMP_WORDS=({program} {given}); COMP_CWORD=1; \
             $function {program} {given} {program}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let file = path("bash").join(program);
        let mut bash = Command::new("bash");
        let output = bash
            .args(["-c", &script, "bash"])
            .arg(file)
            .output()
            .expect("bash");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(
            words.lines().any(|word| word == expected),
            "{program}: {words}"
        );
    }
}

/// A command line that ends where the user wants a completion, and one of the words that a shell
/// must and must not offer.
const COMPLETED: [(&str, &str, &str); 11] = [
    ("aotc --em", "--emit", "--key"),
    ("aotc --emit ", "asm", "keygen"),
    ("aotc keyg", "keygen", "--emit"),
    ("aotc Cargo.t", "Cargo.toml", "keygen"),
    ("aotc Cargo.toml --em", "--emit", "--key"),
    ("aotc keygen --", "--no-password", "--emit"),
    ("aotc sign --", "--key", "--emit"),
    ("aotc verify Cargo.toml --k", "--key", "--emit"),
    ("aotc inspect --", "--help", "--emit"),
    ("aotrun --dead", "--deadline", "--emit"),
    ("pirn-serve --rou", "--route", "--emit"),
];

/// Whether a text has a word, which no letter of another word touches.
fn has_word(text: &str, word: &str) -> bool {
    let inner = |char: char| char.is_alphanumeric() || "-_.".contains(char);
    text.split(|char| !inner(char)).any(|found| found == word)
}

#[test]
fn fish_completes_options_and_commands() {
    for (line, expected, other) in COMPLETED {
        let mut fish = Command::new("fish");
        let load = format!(
            "for file in {}/*; source $file; end",
            path("fish").display()
        );
        fish.args([
            "--no-config",
            "-c",
            &format!("{load}; complete -C '{line}'"),
        ]);
        let Ok(output) = fish.current_dir(env!("CARGO_MANIFEST_DIR")).output() else {
            eprintln!("NOT RUN: fish; apt-get install fish");
            return;
        };
        let words = String::from_utf8_lossy(&output.stdout);
        let words: Vec<_> = words.lines().map(|line| line.split('\t').next()).collect();
        assert!(words.contains(&Some(expected)), "{line}: {words:?}");
        assert!(!words.contains(&Some(other)), "{line}: {words:?}");
    }
}

#[test]
fn zsh_completes_options_and_commands() {
    // A terminal in which a user types the line, and then the key that lists completions.
    const SCRIPT: &str = r#"
        zmodload zsh/zpty
        zpty z 'TERM=dumb PS1=START zsh -f -i'
        zpty -r z text '*START*'
        zpty -w z "fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u; PS1=PRO''MPT"
        zpty -w z "bindkey '^I' list-choices; LISTMAX=1000; PS1=LI''NE"
        zpty -r z text '*PROMPT*LINE*'
        zpty -n -w z "$2"$'\t'
        zpty -n -w z $'\x15PS1=EN\'\'D\n'
        zpty -r z text '*END*'
        print -r -- "$text"
    "#;
    for (line, expected, other) in COMPLETED {
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", SCRIPT, "zsh"])
            .arg(path("zsh"))
            .arg(line);
        let Ok(output) = zsh.current_dir(env!("CARGO_MANIFEST_DIR")).output() else {
            eprintln!("NOT RUN: zsh; apt-get install zsh");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(has_word(&text, expected), "{line}: {output:?}");
        assert!(!has_word(&text, other), "{line}: {text}");
    }
}

#[test]
fn groff_has_no_warnings() {
    for page in pages() {
        let mut groff = Command::new("groff");
        let args = ["-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=100n"];
        let Ok(output) = groff.args(args).arg(path("man").join(&page)).output() else {
            eprintln!("NOT RUN: groff; apt-get install groff-base");
            return;
        };
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && warnings.is_empty(),
            "{page}: {warnings}"
        );
        // The output is text, without macros that groff does not know.
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("SYNOPSIS"), "{page}: {shown}");
    }
}

#[test]
fn the_same_pages_are_written_again() {
    let again = tempfile::tempdir().expect("a folder");
    assert!(
        release(&["pages".as_ref(), again.path().as_os_str()])
            .status
            .success()
    );
    for folder in ["man", "bash", "zsh", "fish"] {
        for name in names(folder) {
            let name = format!("{folder}/{name}");
            let second = fs::read_to_string(again.path().join(&name)).expect("a page");
            assert_eq!(text(&name), second, "{name}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let file = PAGES.path().join("man/aotc.1");
    let output = release(&["pages".as_ref(), file.as_os_str()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.starts_with("pirn-release: cannot write ") && said.lines().count() == 1,
        "{said}"
    );
}
