//! What a module says of the file and the options that it was compiled from.

use pirn_compiler::{Options, compile, parse_text};
use pirn_format::metadata::Source;
use pirn_format::read::Checked;

const TEXT: &[u8] = b"(module (func (export \"f\") (result i32) (i32.const 1)))";

fn wasm() -> Vec<u8> {
    parse_text(TEXT).expect("it is well-formed").into_owned()
}

fn source(options: &Options) -> Source {
    let file = compile(&wasm(), options).expect("it is valid");
    Checked::new(&file).expect("it is whole").metadata.source
}

#[test]
fn what_changes_no_output_is_not_in_it() {
    let mut options = Options::default();
    options.work_per_byte += 1;
    assert_eq!(source(&options), source(&Options::default()));
    // Another module has another hash, and no other difference.
    let other = parse_text(b"(module (func))").expect("it is well-formed");
    let file = compile(&other, &Options::default()).expect("it is valid");
    let other = Checked::new(&file).expect("it is whole").metadata.source;
    let one = source(&options);
    assert_ne!(other.wasm_sha256, one.wasm_sha256);
    assert_eq!((other.compiler, other.options), (one.compiler, one.options));
}
