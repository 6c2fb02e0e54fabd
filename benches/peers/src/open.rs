//! Opens guests on pirn.

use pirn_runtime::Module;
use std::io::Write;

/// Compiles a guest in the binary format or the text format, and opens the module from a temporary
/// file. The file is gone when the function returns.
pub fn open(guest: &[u8]) -> Module {
    let wasm = pirn_compiler::parse_text(guest).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default());
    let mut file = tempfile::Builder::new()
        .suffix(".so")
        .tempfile()
        .expect("a file");
    file.write_all(&so.expect("it is valid"))
        .expect("room for a module");
    Module::open(file.path()).expect("it opens")
}
