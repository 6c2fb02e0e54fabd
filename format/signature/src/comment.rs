//! The trusted comment that `aotc` signs along with a module.
//!
//! ```text
//! timestamp:1767225600 <tab> file:module.so <tab> hashed <tab> bytes:12345 <tab> blake3:...
//! ```
//!
//! minisign writes the first three fields, too. The length and the hash serve messages only: they
//! say how the file differs from the signed file. The signature decides, never the comment.

use std::ffi::OsStr;

/// The claims of a trusted comment about the signed file. Nothing proves these claims.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claims<'a> {
    pub(crate) bytes: u64,
    pub(crate) blake3: &'a str,
}

/// The trusted comment for a file with this name and these bytes, signed at this time.
#[must_use]
pub fn describe(name: &OsStr, bytes: &[u8], unix_seconds: u64) -> String {
    let name = printable(&name.to_string_lossy());
    let (count, hash) = (bytes.len(), blake3::hash(bytes).to_hex());
    format!("timestamp:{unix_seconds}\tfile:{name}\thashed\tbytes:{count}\tblake3:{hash}")
}

/// Makes untrusted text one line that a terminal only prints. A space replaces a tab. Other control
/// characters, separators of lines and invisible characters are escaped as in a Rust string.
/// `pirn_format::text` escapes no other characters. This crate depends on no other crate of the
/// repository, so it cannot use that function.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\t' => printable.push(' '),
            '\'' | '"' | '\\' => printable.push(char),
            _ => printable.extend(char.escape_debug()),
        }
    }
    printable
}

impl<'a> Claims<'a> {
    /// The claims of a trusted comment, if it has both a length and a hash.
    pub(crate) fn of(comment: &'a str) -> Option<Self> {
        // The last field of a name wins: a file name has no tabs, so the last fields are `aotc`'s.
        let field = |name: &str| {
            let mut fields = comment.rsplit('\t');
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix(':'))
        };
        let blake3 = field("blake3")?;
        let is_hash = blake3.len() == 64 && blake3.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Self {
            bytes: field("bytes")?.parse().ok()?,
            blake3: is_hash.then_some(blake3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn text_adds_no_line_and_does_not_change_what_a_terminal_shows() {
        let hostile = "it's\t\\ \"b\"\n\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{2066}\u{7f}";
        assert_eq!(
            printable(hostile),
            "it's \\ \"b\"\\n\\u{1b}[2J\\u{9b}\\u{202e}\\u{2028}\\u{2066}\\u{7f}"
        );
    }

    #[test]
    fn what_is_described_is_claimed() {
        let comment = describe(OsStr::new("a.so"), b"abc", 7);
        assert!(comment.starts_with("timestamp:7\tfile:a.so\thashed\tbytes:3\tblake3:6437b3ac"));
        let claims = Claims::of(&comment).unwrap();
        assert_eq!((claims.bytes, claims.blake3.len()), (3, 64));
    }

    #[test]
    fn a_name_cannot_add_lines_or_fields() {
        let name = OsStr::from_bytes(b"a\nb\tbytes:9\x1b\xff");
        let comment = describe(name, b"abc", 7);
        assert_eq!(comment.lines().count(), 1);
        assert_eq!(comment.matches('\t').count(), 4, "{comment:?}");
        assert_eq!(Claims::of(&comment).unwrap().bytes, 3);
    }

    #[test]
    fn a_comment_without_both_claims_claims_nothing() {
        let hash = "0".repeat(64);
        for comment in [
            String::new(),
            "timestamp:1\tfile:a\thashed".to_owned(),
            "bytes:3".to_owned(),
            format!("bytes:\tblake3:{hash}"),
            format!("bytes:99999999999999999999\tblake3:{hash}"),
            format!("bytes:3\tblake3:{}", &hash[1..]),
            format!("bytes:3\tblake3:{}g", &hash[1..]),
        ] {
            assert_eq!(Claims::of(&comment), None, "{comment}");
        }
        assert!(Claims::of(&format!("bytes:3\tblake3:{hash}")).is_some());
    }
}
