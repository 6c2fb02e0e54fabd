//! Damaged tables and metadata with a hash that matches: whatever the numbers are, the verifier
//! answers, and never panics.

use crate::common;

use common::{section, set_hash};
use pirn_compiler::{Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::traps::CodeEntry;
use pirn_testing::campaign::sampled;
use pirn_verify::{VerifyError, verify};
use rayon::prelude::*;

/// A module with content in all tables: an image, data, traps, handlers, inlined functions, tables,
/// segments, globals and objects.
const MODULE: &str = r#"(module $named
    (type $pair (sub (struct (field i32) (field (ref null $pair)))))
    (type $more (sub $pair (struct (field i32) (field (ref null $pair)) (field i64))))
    (type $bytes (array (mut i8)))
    (type $binary (func (param i32 i32) (result i32)))
    (import "host" "log" (func $log (param i32 i64)))
    (import "host" "g" (global $g i32))
    (memory (export "memory") 3 9) (data (i32.const 70000) "in the image") (data $p "passive")
    (global $r (mut funcref) (ref.func $add))
    (global $o (ref null $pair) (struct.new $pair (i32.const 1) (ref.null $pair)))
    (table $t (export "t") 4 8 funcref) (elem (table $t) (i32.const 0) func $add $sub)
    (elem $e func $sub)
    (tag $tag (param i32))
    (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
    (func $sub (type $binary) (i32.div_u (local.get 0) (i32.load (local.get 1))))
    (func (export "call") (param i32) (result i32)
        (call_indirect $t (type $binary) (local.get 0) (local.get 0) (local.get 0)))
    (func (export "init") (memory.init $p (i32.const 5) (i32.const 0) (i32.const 3))
        (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1)))
    (func $throw (param i32) (loop (br_if 0 (local.get 0))) (throw $tag (local.get 0)))
    (func (export "catch") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $tag $caught) (call $throw (local.get 0)))
            (call $sub (i32.const 0) (local.get 0))))
    (func (export "cast") (param anyref) (result i64)
        (struct.get $more 2 (ref.cast (ref $more) (local.get 0))))
    (func (export "bytes") (param i32) (result i32)
        (array.get_u $bytes (array.new_default $bytes (local.get 0)) (i32.const 7)))
    (func (export "log") (call $log (i32.const 1) (i64.const 7)))
)"#;

fn file(arch: Arch) -> Vec<u8> {
    let wasm = parse_text(MODULE.as_bytes()).expect("the text is well-formed");
    let mut options = Options::new(arch);
    options.debug_info = true;
    compile(&wasm, &options).expect("the module is valid")
}

/// The answer for a file with other bytes at a place, and a hash that matches.
fn answer(file: &[u8], header_at: u64, at: usize, bytes: &[u8]) -> Result<(), VerifyError> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    set_hash(&mut file, header_at);
    verify(&file).map(drop)
}

#[test]
fn code_of_no_bytes_is_refused() {
    for arch in Arch::ALL {
        let file = file(arch);
        let checked = Checked::new(&file).expect("the compiler wrote the file");
        let table = section(&checked, Section::Code);
        for entry in table.step_by(CodeEntry::BYTES) {
            // The length is the second word.
            let refused = answer(&file, checked.header_at, entry + 4, &[0; 4]);
            let error = refused.expect_err("the entry has no code");
            assert!(error.to_string().contains("an entry of 0 bytes"), "{error}");
        }
    }
}

#[test]
fn no_number_of_a_table_ends_the_verifier() {
    for arch in Arch::ALL {
        let file = file(arch);
        let checked = Checked::new(&file).expect("the compiler wrote the file");
        let mut places = vec![];
        for name in Section::ALL {
            let range = section(&checked, name);
            match name {
                // The verifier's other suites change code. The image and data are only bytes.
                Section::Text | Section::Image | Section::Data => {}
                Section::Metadata => places.extend(range.map(|at| (at, 1))),
                _ => {
                    assert!(!range.is_empty(), "{}", name.name());
                    places.extend(range.step_by(4).map(|at| (at, 4)));
                }
            }
        }
        let header = checked.header_at as usize;
        places.extend((header + 56..header + 232).step_by(8).map(|at| (at, 8)));
        let changes = places.into_iter().flat_map(|(at, bytes)| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&file[at..at + bytes]);
            let old = u64::from_le_bytes(word);
            let numbers = [0, 1, 2, 4, 0x7f, 0x80, 0x7fff_ffff, u64::MAX];
            let near = [1, u64::MAX, 4, u64::MAX - 3, 16].map(|more| old.wrapping_add(more));
            let numbers = numbers.into_iter().chain(near);
            numbers.map(move |number| (at, bytes, number))
        });
        let changes = sampled(changes, 4, 0).collect::<Vec<_>>();
        let accepted = changes.par_iter().filter(|(at, bytes, number)| {
            let number = &number.to_le_bytes()[..*bytes];
            answer(&file, checked.header_at, *at, number).is_ok()
        });
        let (accepted, all) = (accepted.count(), changes.len());
        println!("{arch}: {accepted} of {all} changes are accepted");
        // Some changes keep the bytes as they are, or change a name.
        assert!(accepted > 0 && accepted < all, "{accepted} of {all}");
    }
}
