//! What the compiler's tests share: guests, and how a binary module writes numbers.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};

/// The folder of the examples' guests.
pub(crate) fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests")
}

/// One of them as a binary module.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(guests().join(name)).expect("the guest is there");
    let wasm = pirn_compiler::parse_text(&bytes).expect("the guest is well-formed");
    wasm.into_owned()
}

/// A number as WebAssembly writes it (spec 5.2.2).
pub(crate) fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
