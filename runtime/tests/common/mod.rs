//! What the runtime's tests share: from text to an open module.
#![allow(dead_code, reason = "each test uses a part of it")]

use pirn_compiler::Options;
use pirn_runtime::{Module, Region, Reset};
use std::io::Write;
use tempfile::TempPath;

/// Compiles a binary module for this machine's baseline and opens it.
pub(crate) fn open(wasm: &[u8]) -> Result<Module, String> {
    let so = pirn_compiler::compile(wasm, &Options::default()).map_err(|e| e.to_string())?;
    Module::from_bytes(&so).map_err(|e| e.to_string())
}

/// Compiles text and opens it; the text is the test's own.
pub(crate) fn wat(text: &str) -> Module {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
    open(&wasm).expect("the module is valid")
}

/// A file with these bytes, deleted when the path is dropped.
pub(crate) fn file(bytes: &[u8]) -> TempPath {
    let mut file = tempfile::Builder::new()
        .suffix(".so")
        .tempfile()
        .expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    file.into_temp_path()
}

/// The ways of resetting that this machine has; of the others it is said that they were not tested.
pub(crate) fn resets() -> Vec<Reset> {
    let works = |reset: &Reset| {
        let tried = Region::builder().slots(1).reset(*reset).build();
        if let Err(error) = &tried {
            // Past the test harness, which hides what a test that passes prints.
            let said = writeln!(std::io::stderr(), "NOT RUN: {error}");
            said.expect("stderr is open");
        }
        tried.is_ok()
    };
    Reset::ALL.into_iter().filter(works).collect()
}
