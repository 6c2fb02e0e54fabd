//! The reasons of traps: what the scripts say, and what pirn says.

/// Parts of a script's message, and of the message that says the same here.
const REASONS: [(&str, &str); 19] = [
    ("cannot leave component instance", "may not be left"),
    (
        "cannot remove owned resource while borrowed",
        "is lent to a call",
    ),
    (
        "discriminant 2 out of range",
        "discriminant 2 of a type with 2 cases",
    ),
    (
        "handle index 1 used with the wrong type",
        "handle 1 refers to a resource of another type",
    ),
    (
        "incomplete utf-8 byte sequence",
        "a string is not valid UTF-8",
    ),
    ("invalid `char` bit pattern", "no Unicode scalar value"),
    ("invalid utf-8", "a string is not valid UTF-8"),
    (
        "invalid variant discriminant",
        "a discriminant without a case",
    ),
    (
        "list content out-of-bounds",
        "a list out of the bounds of its memory",
    ),
    (
        "realloc return: beyond end of memory",
        "exceeds the memory of",
    ),
    ("realloc return: result not aligned", "is not aligned to"),
    (
        "string content out-of-bounds",
        "a string out of the bounds of its memory",
    ),
    ("string pointer not aligned to 2", "is not aligned to 2"),
    (
        "string pointer/length out of bounds of memory",
        "exceeds the memory of",
    ),
    ("unaligned pointer", "an unaligned pointer"),
    ("unaligned pointer", "is not aligned to"),
    ("unreachable", "unreachable"),
    ("cannot enter component instance", "may not be entered"),
    (
        "cannot enter component instance",
        "an earlier call of the instance has failed",
    ),
];

/// Whether a call ended for the expected reason.
pub(crate) fn same(wanted: &str, found: &str) -> bool {
    // The handles are compared, too.
    let handle = wanted.strip_prefix("unknown handle index");
    found.contains(wanted)
        || handle.is_some_and(|number| {
            let message = "the component instance has no handle";
            found.contains(&format!("{message}{number}"))
        })
        || REASONS
            .iter()
            .any(|(theirs, ours)| wanted.contains(theirs) && found.contains(ours))
}
