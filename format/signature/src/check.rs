//! [`check`]: whether one of the trusted keys signed these bytes.

use crate::comment::{Claims, printable};
use crate::error::SignatureError;
use crate::key::PublicKey;
use crate::text::{KeyId, counted_lines, key_id};
use minisign_verify::{Error, Signature};

/// Most bytes of a signature file. minisign writes at most 1,024 bytes of untrusted and 8,192 of
/// trusted comment.
pub const SIGNATURE_BYTES_MAX: u64 = 16 << 10;

/// Characters of base64 of the algorithm, the id of the key and the signature: 74 bytes.
const SIGNATURE_CHARS: usize = 100;
/// Characters of base64 of the signature over the signature and the trusted comment: 64 bytes.
const GLOBAL_CHARS: usize = 88;

/// A signature that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signed {
    /// The key that made the signature.
    pub key: KeyId,
    /// The trusted comment, which the key has signed, too, as [`printable`] text.
    pub comment: String,
}

/// Checks that one of the keys signed these bytes. `signature` is the text of a `.minisig` file.
///
/// # Errors
///
/// [`SignatureError`], which says how `bytes` differ from the signed bytes.
pub fn check(bytes: &[u8], signature: &str, keys: &[PublicKey]) -> Result<Signed, SignatureError> {
    Candidate::new(signature, keys)?.verify(bytes)
}

/// A signature that names a trusted key, before the bytes are known. A candidate proves nothing
/// yet.
pub(crate) struct Candidate<'a> {
    signature: Signature,
    id: KeyId,
    /// The trusted keys with the id `id`. Two keys may have the same id, because anyone can make a
    /// key with any id.
    keys: Vec<&'a PublicKey>,
}

impl<'a> Candidate<'a> {
    /// Parses a signature. Refuses a signature that is invalid for any bytes.
    pub(crate) fn new(text: &str, keys: &'a [PublicKey]) -> Result<Self, SignatureError> {
        if keys.is_empty() {
            return Err(SignatureError::NoKeys);
        }
        let (signature, id) = parse(text)?;
        let with_id: Vec<_> = keys.iter().filter(|key| key.id() == id).collect();
        let Some(first) = with_id.first() else {
            let trusted: Vec<_> = keys.iter().map(|key| key.id().to_string()).collect();
            return Err(SignatureError::OtherKey {
                found: id,
                trusted: trusted.join(", "),
            });
        };
        // Only for the legacy format does the library refuse a check in pieces.
        if let Err(Error::UnsupportedLegacyMode) = first.inner().verify_stream(&signature) {
            return Err(SignatureError::Legacy);
        }
        Ok(Self {
            signature,
            id,
            keys: with_id,
        })
    }

    /// Refuses a file whose length differs from the length that the signature claims, if it claims
    /// a length. So a file that cannot be the signed file is not read.
    pub(crate) fn check_length(&self, found: u64) -> Result<(), SignatureError> {
        match Claims::of(self.signature.trusted_comment()) {
            Some(Claims { bytes: signed, .. }) if signed != found => {
                Err(SignatureError::Length { found, signed })
            }
            _ => Ok(()),
        }
    }

    /// Checks that one of the keys signed these bytes.
    pub(crate) fn verify(&self, bytes: &[u8]) -> Result<Signed, SignatureError> {
        let comment = self.signature.trusted_comment();
        let holds = |key: &&PublicKey| key.inner().verify(bytes, &self.signature, false).is_ok();
        match self.keys.iter().any(holds) {
            true => Ok(Signed {
                key: self.id,
                comment: printable(comment),
            }),
            false => Err(difference(bytes, comment, self.id)),
        }
    }
}

/// Parses a signature file, and the id of its key.
fn parse(text: &str) -> Result<(Signature, KeyId), SignatureError> {
    let malformed = |why: String| SignatureError::Malformed { why };
    if text.len() as u64 > SIGNATURE_BYTES_MAX {
        let why = format!("it has more than {SIGNATURE_BYTES_MAX} bytes");
        return Err(malformed(why));
    }
    // The library reads four lines and ignores further lines.
    let lines: Vec<&str> = text.lines().collect();
    let [comment, line, _, last] = *lines else {
        let why = format!("it has {}, a signature has 4", counted_lines(lines.len()));
        return Err(malformed(why));
    };
    if !comment.starts_with("untrusted comment: ") {
        let why = "it does not begin with \"untrusted comment: \"";
        return Err(malformed(why.to_owned()));
    }
    // The library also reads base64 whose end is missing.
    if (line.len(), last.len()) != (SIGNATURE_CHARS, GLOBAL_CHARS) {
        let (found, last) = (line.len(), last.len());
        let why = format!(
            "its lines of base64 have {found} and {last} characters, not {SIGNATURE_CHARS} and \
             {GLOBAL_CHARS}"
        );
        return Err(malformed(why));
    }
    match (Signature::decode(text), key_id(line)) {
        (Ok(parsed), Some(id)) => Ok((parsed, id)),
        (Err(Error::UnsupportedAlgorithm), _) => {
            Err(malformed("its algorithm is unknown".to_owned()))
        }
        _ => Err(malformed(
            "a line of it is not what minisign writes".to_owned(),
        )),
    }
}

/// Explains how the file differs from the signed file. Call this function only for a signature that
/// does not hold.
fn difference(bytes: &[u8], comment: &str, key: KeyId) -> SignatureError {
    let found = bytes.len() as u64;
    let Some(claims) = Claims::of(comment) else {
        return SignatureError::OtherFile {
            found,
            key,
            comment: shortened(comment),
        };
    };
    let hash = blake3::hash(bytes).to_hex();
    if claims.bytes != found {
        SignatureError::Length {
            found,
            signed: claims.bytes,
        }
    } else if !claims.blake3.eq_ignore_ascii_case(&hash) {
        let half = |hash: &str| hash.chars().take(16).collect();
        SignatureError::Content {
            found: half(&hash),
            signed: half(claims.blake3),
        }
    } else {
        SignatureError::Forged { key }
    }
}

/// The start of a comment, for a message of one line.
fn shortened(comment: &str) -> String {
    const CHARS_MAX: usize = 80;
    printable(comment).chars().take(CHARS_MAX).collect()
}
