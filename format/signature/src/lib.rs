//! Signatures of compiled modules, in [minisign]'s format and beside the module.
//!
//! ```text
//!   module.so ─────────▶ bytes, read once ──┐
//!   module.so.minisig ─▶ text, bounded ─────┼─▶ check ─▶ the checked bytes, which alone are mapped
//!   NAME.pub ──────────▶ PublicKey ─────────┘
//! ```
//!
//! A signature covers every byte of the module. [`read_signed`] returns the bytes that it checked,
//! so the caller need not read the file again: a file that changes after the check changes nothing.
//!
//! `aotc` and the runtime share this crate. The crate makes no signatures.
//!
//! [minisign]: https://jedisct1.github.io/minisign/

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod text;
mod error;
mod key;
mod comment;
mod check;
mod file;

pub use check::{SIGNATURE_BYTES_MAX, Signed, check};
pub use comment::{describe, printable};
pub use error::{KeyError, SignatureError};
pub use file::{
    ReadSignedError, SIGNED_BYTES_MAX, open_regular, read_regular, read_signed, signature_path,
};
pub use key::{KEY_BYTES_MAX, KeyKind, PublicKey};
pub use text::KeyId;
