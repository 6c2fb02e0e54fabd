//! `aotc`: compiles a WebAssembly module to a native shared object.

fn main() {}
