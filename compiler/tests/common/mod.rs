//! Shared by the compiler's tests: guests, listings, and the encoding of numbers.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) use pirn_testing::campaign;

use pirn_compiler::{Compilation, CompileError, Emit, Options, parse_text};
use pirn_format::metadata::{Metadata, Source};
use pirn_format::read::{Checked, slice};
use pirn_format::sections::Section;
use std::path::{Path, PathBuf};

/// The folder of the examples' guests.
pub(crate) fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests")
}

/// A guest as a binary module.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(guests().join(name)).expect("the guest is there");
    let wasm = pirn_compiler::parse_text(&bytes).expect("the guest is well-formed");
    wasm.into_owned()
}

/// A compiled module without what it says of its source: its metadata, and all other sections.
pub(crate) fn except_source(so: &[u8]) -> (Metadata, Vec<Vec<u8>>) {
    let checked = Checked::new(so).expect("the compiler wrote it");
    let sections = Section::ALL
        .into_iter()
        .filter(|section| *section != Section::Metadata);
    let bytes = sections.map(|section| {
        let range = checked.header.section(section);
        slice(so, range).expect("it is in the file").to_vec()
    });
    let bytes = bytes.collect();
    let mut metadata = checked.metadata;
    metadata.source = Source::default();
    (metadata, bytes)
}

/// The output of a compilation.
pub(crate) fn emit(wasm: &[u8], options: &Options, kind: Emit) -> Result<Vec<u8>, CompileError> {
    let emitted = Compilation::new(options).emit(kind).run(wasm)?;
    Ok(emitted.bytes)
}

/// The units of work that a valid module needs.
pub(crate) fn work(wasm: &[u8], options: &Options) -> u64 {
    let emitted = Compilation::new(options).run(wasm);
    emitted.expect("the module is valid").work
}

/// The machine code of a module in the format of `--emit asm`: functions and trampolines, separated
/// by empty lines.
pub(crate) fn listing(text: &str, options: &Options) -> String {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let asm = emit(&wasm, options, Emit::Asm).expect("the module is valid");
    String::from_utf8(asm).expect("it is text")
}

/// The instructions of a function or trampoline, without offsets and comments.
pub(crate) fn instructions(piece: &str) -> impl Iterator<Item = &str> {
    let lines = piece.lines().filter_map(|line| line.split_once(": "));
    let lines = lines.filter(|(offset, _)| !offset.contains(';'));
    lines.map(|(_, text)| text.split(";;").next().unwrap_or_default().trim())
}

/// The instructions of a module's first function.
pub(crate) fn first_function(text: &str, options: &Options) -> Vec<String> {
    let listing = listing(text, options);
    let function = listing.split("\n\n").next().expect("a function");
    instructions(function).map(str::to_owned).collect()
}

/// A number in LEB128 (spec 5.2.2).
pub(crate) fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
