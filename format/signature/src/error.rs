//! [`SignatureError`] and [`KeyError`]: why a module or a key is refused, one line each.

use crate::text::KeyId;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a signature does not make a module trusted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// There is no key to trust, so no module could be trusted.
    #[error("no key is trusted, so no module is; give at least one public key")]
    NoKeys,
    /// The module has no signature.
    #[error(
        "it is not signed: {signature} does not exist; sign it, as `aotc --sign` does, or take \
         both files from where they were made"
    )]
    Unsigned {
        /// Path that the signature would have.
        signature: PathBuf,
    },
    /// The signature cannot be read.
    #[error("cannot read its signature {signature}: {error}")]
    Unreadable {
        /// Path of the signature.
        signature: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The text is not a signature.
    #[error("its signature is damaged: {why}; sign it again, or copy the signature again")]
    Malformed {
        /// The defect.
        why: String,
    },
    /// The signature was made by minisign before 2022, or by `minisign -l`.
    #[error(
        "its signature has minisign's legacy format (Ed), only the prehashed format (ED) is \
         accepted; sign it again without -l"
    )]
    Legacy,
    /// Another key signed the module.
    #[error(
        "it is signed with key {found}, trusted are {trusted}; sign it with a trusted key, or \
         trust its key"
    )]
    OtherKey {
        /// The key that the signature names.
        found: KeyId,
        /// The trusted keys.
        trusted: String,
    },
    /// The file has fewer or more bytes than the signed file.
    #[error(
        "it has {found} bytes, its signature is of {signed} bytes: it was cut, replaced, or \
         compiled again without --sign; copy it again, or sign it again"
    )]
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes of the file that was signed, as the signature file says.
        signed: u64,
    },
    /// The file has the length of the signed file, but other bytes.
    #[error(
        "it has hash {found}, its signature is of {signed}: it was replaced, or compiled again \
         without --sign; sign it again, or restore the signed file"
    )]
    Content {
        /// First half of the BLAKE3 hash of the file.
        found: String,
        /// First half of the hash of the signed file, as the signature file says.
        signed: String,
    },
    /// The signature does not hold, and its comment claims no length and no hash of the signed
    /// file.
    #[error(
        "its {found} bytes are not what key {key} signed (the signature says \"{comment}\"); sign \
         it again, or restore the signed file"
    )]
    OtherFile {
        /// Bytes of the file.
        found: u64,
        /// The key that the signature names.
        key: KeyId,
        /// The trusted comment, without control characters. Nothing has proven it.
        comment: String,
    },
    /// The signature does not hold, although its comment claims the length and the hash of this
    /// file.
    #[error(
        "its signature names this file, but key {key} did not make it: the signature was changed, \
         or another key has this id; sign it again, or restore the signature"
    )]
    Forged {
        /// The key that the signature names.
        key: KeyId,
    },
}

/// Reason why a text is not a public key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(io::Error),
    /// The text is a secret key.
    #[error(
        "it is a secret key, a public key is needed; give the .pub file, and keep the secret key \
         from machines that only verify"
    )]
    Secret,
    /// The text is a signature.
    #[error("it is a signature, a public key is needed; give the .pub file of the key")]
    Signature,
    /// The text is neither a key nor a signature.
    #[error("it is not a public key: {0}; give a .pub file, as `aotc keygen` writes it")]
    NotAKey(String),
}
