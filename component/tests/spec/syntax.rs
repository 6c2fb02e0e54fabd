//! Wasmtime's scripts have an older syntax than the text parser reads.

/// Parts of texts that have new words, and their replacements: references to functions of core
/// modules have the word `core`, and built-in functions of threads have other names.
const WORDS: [(&str, &str); 7] = [
    ("(callback (func ", "(callback (core func "),
    ("(dtor (func ", "(dtor (core func "),
    ("(post-return (func ", "(post-return (core func "),
    ("(realloc (func ", "(realloc (core func "),
    (
        "(canon thread.suspend-to-suspended",
        "(canon thread.suspend-then-resume",
    ),
    ("(canon thread.unsuspend", "(canon thread.resume-later"),
    (
        "(canon thread.yield-to-suspended",
        "(canon thread.yield-then-resume",
    ),
];

/// The text of a script in the newer syntax.
pub(crate) fn newer(text: &str) -> String {
    let mut text = tables(&memories(text));
    for (older, newer) in WORDS {
        text = text.replace(older, newer);
    }
    text
}

/// Writes the option `(memory $i "name")` as `(memory (core memory $i "name"))`. An export of a
/// core instance, `(export "a" (memory $i "name"))`, stays as it is.
fn memories(text: &str) -> String {
    let mut parts = text.split("(memory $");
    let mut newer = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (option, rest) = part.split_once(')').unwrap_or((part, ""));
        let is_export = newer.trim_end().ends_with('"');
        newer += &match option.contains('"') && !is_export {
            true => format!("(memory (core memory ${option})){rest}"),
            false => format!("(memory ${part}"),
        };
    }
    newer
}

/// Writes the table of a new thread, `(table $i "name")`, as `(core table $i "name")`.
fn tables(text: &str) -> String {
    let mut parts = text.split("(canon thread.new-indirect ");
    let mut newer = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        newer += "(canon thread.new-indirect ";
        newer += &part.replacen("(table ", "(core table ", 1);
    }
    newer
}
