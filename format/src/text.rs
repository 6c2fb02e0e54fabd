//! Text that a guest, a client or a file chose, on its way to a log, a terminal or an error line.
//!
//! There is one rule: characters that [`is_plain`] accepts are written as they are. All other
//! characters are escaped, so that the text cannot add a line, move the cursor, or reorder later
//! characters on a terminal. The functions differ only in how they write an escape.

use core::fmt::{self, Display, Formatter, Write as _};

/// Characters that are not plain, besides control characters: line and paragraph separators, and
/// format characters. Some format characters change the direction of text, others are invisible.
/// The first and last character of each range, ascending (Unicode 17, general categories Cf, Zl and
/// Zp).
const INVISIBLE: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character is written as it is: no control character (C0, DEL and C1), separator of
/// lines, or format character.
#[must_use]
pub fn is_plain(char: char) -> bool {
    let at = INVISIBLE.partition_point(|(_, last)| *last < char);
    let is_invisible = INVISIBLE.get(at).is_some_and(|(first, _)| *first <= char);
    !char.is_control() && !is_invisible
}

/// Text for a log, a terminal or an error line. Characters that are not plain are escaped as in a
/// Rust string: `\n`, `\u{9b}`. Escaping twice changes nothing.
#[must_use]
pub fn plain(text: &str) -> Plain<'_> {
    Plain { text, json: false }
}

/// A message as one line: spaces replace its line feeds, and the rest is [`plain`].
#[must_use]
pub fn one_line(message: impl Display) -> String {
    let message = message.to_string().replace('\n', " ");
    plain(&message).to_string()
}

/// A part of a JSON string whose quotes, backslashes and C0 characters are escaped already. The
/// other characters that are not plain are escaped as `\u009b`, so that a reader of the JSON gets
/// the text unchanged.
#[must_use]
pub fn json(fragment: &str) -> Plain<'_> {
    Plain {
        text: fragment,
        json: true,
    }
}

/// Bytes within double quotes, in ASCII, as in Apache's logs: quotes and backslashes after a
/// backslash, other bytes that are no plain ASCII as `\x9b`.
#[must_use]
pub fn ascii(text: &[u8]) -> Ascii<'_> {
    Ascii(text)
}

/// The text of [`plain`] and [`json`].
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    text: &'a str,
    json: bool,
}

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some(at) = rest.find(|char: char| !is_plain(char)) {
            let (before, from) = rest.split_at(at);
            f.write_str(before)?;
            let mut chars = from.chars();
            if let Some(char) = chars.next() {
                self.escape(f, char)?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

impl Plain<'_> {
    fn escape(self, f: &mut Formatter<'_>, char: char) -> fmt::Result {
        match self.json {
            true => {
                let mut units = [0; 2];
                let mut units = char.encode_utf16(&mut units).iter();
                units.try_for_each(|unit| write!(f, "\\u{unit:04x}"))
            }
            // `escape_default` has short forms for tabs and line breaks.
            false => write!(f, "{}", char.escape_default()),
        }
    }
}

/// The text of [`ascii`].
#[derive(Debug, Clone, Copy)]
pub struct Ascii<'a>(&'a [u8]);

impl Display for Ascii<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            let char = char::from(*byte);
            match byte {
                b'"' | b'\\' => write!(f, "\\{char}")?,
                _ if byte.is_ascii() && is_plain(char) => f.write_char(char)?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters with which a text could forge a line or the display of a terminal.
    const HOSTILE: [char; 22] = [
        '\0',
        '\t',
        '\n',
        '\r',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{85}',
        '\u{9b}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200e}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0041}',
    ];

    #[test]
    fn characters_that_do_more_than_show_themselves_are_escaped() {
        for char in HOSTILE {
            let text = format!("a{char}b");
            assert!(!is_plain(char), "{char:?}");
            let shown = plain(&text).to_string();
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
            let ascii = ascii(text.as_bytes()).to_string();
            for escaped in [&shown, &json(&text).to_string(), &ascii, &one_line(&text)] {
                assert!(escaped.chars().all(is_plain), "{char:?}: {escaped}");
            }
            assert_eq!(plain(&shown).to_string(), shown, "escaped twice");
        }
        assert_eq!(
            plain("\n\t\u{9b}\u{202e}").to_string(),
            r"\n\t\u{9b}\u{202e}"
        );
        assert_eq!(
            json("\u{9b}\u{2028}\u{e0041}").to_string(),
            r"\u009b\u2028\udb40\udc41"
        );
        assert_eq!(ascii(b"\"\\\x9b\n").to_string(), r#"\"\\\x9b\x0a"#);
        assert_eq!(one_line("a\nb\u{1b}"), r"a b\u{1b}");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let text = "core::ops::<&'a str> \"\\ f\u{fc}r \u{65e5}\u{672c} \u{5e9}\u{5dc} \u{1f600}";
        assert_eq!(plain(text).to_string(), text);
        assert_eq!(json(text).to_string(), text);
        assert!(text.chars().all(is_plain));
    }

    /// Messages that show text with `{:?}` keep the rule, too.
    #[test]
    fn debug_strings_escape_all_that_is_not_plain() {
        for char in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let shown = format!("{:?}", char.to_string());
            assert!(
                is_plain(char) || shown.starts_with("\"\\"),
                "{:#x}",
                u32::from(char)
            );
        }
    }

    #[test]
    fn ranges_ascend() {
        assert!(INVISIBLE.is_sorted_by(|one, next| one.1 < next.0));
        assert!(INVISIBLE.iter().all(|(first, last)| first <= last));
    }
}
