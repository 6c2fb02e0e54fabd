//! [`PublicKey`]: a key whose signatures are trusted.

use crate::error::KeyError;
use crate::text::{KeyId, counted_lines, key_id};
use std::fmt;
use std::str::FromStr;

/// Most bytes of a file with a key. minisign writes at most 1,024 bytes of comment, and a secret
/// key has 212 characters of base64.
pub const KEY_BYTES_MAX: u64 = 4096;

/// A public key of minisign or `aotc keygen`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    id: KeyId,
}

/// The kind of a text that may be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A secret key without a password.
    SecretPlain,
    /// A secret key that a password encrypts.
    SecretEncrypted,
    /// A public key, by its length.
    Public,
    /// A signature.
    Signature,
    /// Another text.
    Other,
}

impl KeyKind {
    /// The kind that a text seems to have. Reads the algorithms and the length of the second line,
    /// and whether the third line is a trusted comment.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let line = text.lines().nth(1).unwrap_or_default();
        // In base64: "Ed", the function that derives a key from the password, and "B2".
        if line.starts_with("RWQAAEIy") {
            Self::SecretPlain
        } else if line.starts_with("RWRTY0Iy") {
            Self::SecretEncrypted
        } else if text.lines().nth(2).is_some_and(is_trusted_comment) {
            Self::Signature
        } else if line.starts_with("RW") && line.trim_end().len() == PUBLIC_KEY_CHARS {
            Self::Public
        } else {
            Self::Other
        }
    }
}

fn is_trusted_comment(line: &str) -> bool {
    line.starts_with("trusted comment: ")
}

/// Characters of a public key in base64: 2 bytes of algorithm, 8 of the id, 32 of the key.
const PUBLIC_KEY_CHARS: usize = 56;

impl PublicKey {
    /// Parses the text of a `.pub` file: a comment and a line of base64.
    ///
    /// # Errors
    ///
    /// [`KeyError`], which names the kind that the text has instead.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        match KeyKind::of(text) {
            KeyKind::SecretPlain | KeyKind::SecretEncrypted => return Err(KeyError::Secret),
            KeyKind::Signature => return Err(KeyError::Signature),
            KeyKind::Public | KeyKind::Other => {}
        }
        let not_a_key = |why: &str| KeyError::NotAKey(why.to_owned());
        let lines: Vec<&str> = text.lines().collect();
        let [comment, line] = *lines else {
            let why = format!("it has {}, a key has 2", counted_lines(lines.len()));
            return Err(KeyError::NotAKey(why));
        };
        if !comment.starts_with("untrusted comment: ") {
            return Err(not_a_key("it does not begin with \"untrusted comment: \""));
        }
        let key = minisign_verify::PublicKey::from_base64(line);
        match (key, key_id(line)) {
            (Ok(key), Some(id)) => Ok(Self { key, id }),
            _ => Err(not_a_key("its second line is not a key in base64")),
        }
    }

    /// The number of the key, for messages.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn inner(&self) -> &minisign_verify::PublicKey {
        &self.key
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}
