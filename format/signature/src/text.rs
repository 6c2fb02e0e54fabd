//! The text form that keys and signatures share: a comment, and a line in base64 that begins with
//! an algorithm and the id of the key.

use std::fmt;

/// Number of a key: eight random bytes, which the public key and each signature contain.
///
/// Messages name keys by their ids. An id proves nothing: anyone can make a key with any id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

/// The id in a line of base64 that is a public key or a signature: bytes 2 to 10. `None` if the
/// line is too short or is not base64.
pub(crate) fn key_id(line: &str) -> Option<KeyId> {
    // 16 characters are 12 bytes.
    let mut bits: u128 = 0;
    for character in line.as_bytes().get(..16)? {
        bits = bits << 6 | u128::from(sextet(*character)?);
    }
    let [.., b0, b1, b2, b3, b4, b5, b6, b7, _, _] = bits.to_be_bytes();
    Some(KeyId(u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])))
}

/// The number of lines of a text, for a message: `1 line`, `2 lines`.
pub(crate) fn counted_lines(count: usize) -> String {
    format!("{count} line{}", if count == 1 { "" } else { "s" })
}

/// The six bits that a character of base64 stands for.
fn sextet(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_that_which_minisign_prints() {
        // The key of minisign's own releases.
        let line = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        assert_eq!(key_id(line), Some(KeyId(0xE762_0F18_42B4_E81F)));
        assert_eq!(KeyId(0x1F).to_string(), "000000000000001F");
    }

    #[test]
    fn a_short_or_foreign_line_has_no_id() {
        for line in [
            "",
            "RWQf6LRCGA9i53m",
            "RWQf6LRC GA9i53mlYecO",
            "RWQf6LRCGA9i5é3",
        ] {
            assert_eq!(key_id(line), None, "{line}");
        }
    }
}
