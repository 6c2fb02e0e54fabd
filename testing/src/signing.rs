//! Keys and signatures for tests, made by the library that `aotc` signs with.

use minisign::KeyPair;
use pirn_signature::{PublicKey, describe};
use std::ffi::OsStr;

/// A pair of keys.
pub struct Pair {
    /// Both keys, in the form of the library that signs.
    pub pair: KeyPair,
    /// The public key, in the form of the crate that checks.
    pub public: PublicKey,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// A new pair.
    pub fn new() -> Self {
        let pair = KeyPair::generate_unencrypted_keypair().expect("random bytes");
        let public = PublicKey::parse(&public_text(&pair)).expect("a key");
        Self { pair, public }
    }

    /// The signature of bytes with a comment.
    pub fn sign_as(&self, bytes: &[u8], comment: &str) -> String {
        let signature = minisign::sign(None, &self.pair.sk, bytes, Some(comment), None);
        signature.expect("it signs").to_string()
    }

    /// The signature of bytes as `aotc` makes it.
    pub fn sign(&self, bytes: &[u8]) -> String {
        self.sign_as(
            bytes,
            &describe(OsStr::new("module.so"), bytes, 1_767_225_600),
        )
    }
}

/// The text of the file that `aotc keygen` writes for a public key.
pub fn public_text(pair: &KeyPair) -> String {
    pair.pk.to_box().expect("text").to_string()
}

/// Checks that an error is one lower-case line with a remedy, and contains all parts.
pub fn is_one_line(error: &dyn std::fmt::Display, parts: &[&str]) {
    let line = error.to_string();
    assert!(line.starts_with(|c: char| c.is_lowercase()), "{line}");
    assert!(
        !line.contains(['\n', '\x1b']) && !line.ends_with('.'),
        "{line}"
    );
    for part in parts {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
}
