//! A damaged compiled module must be refused, because its hash covers the whole file.
//!
//! If the check makes the hash match, the later checks of the runtime see the damage. They may
//! refuse or accept the file. This check does not load an accepted file, because such a file must
//! be trusted like a program.

use crate::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_format::FormatError;
use pirn_format::cpu::Arch;
use pirn_format::header::{HASH_BYTES, HASH_OFFSET, content_hash};
use pirn_format::read::Checked;
use pirn_runtime::Module;
use std::ops::AddAssign;
use std::sync::LazyLock;

/// Counts of damaged files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Damaged files.
    pub files: usize,
    /// Files that were refused for their hash, their length, or a check before these.
    pub refused: usize,
    /// Files with a matching hash that were refused.
    pub sealed_refused: usize,
    /// Files with a matching hash that were accepted. The damaged bytes are unused, or have another
    /// valid meaning.
    pub sealed_taken: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.refused += other.refused;
        self.sealed_refused += other.sealed_refused;
        self.sealed_taken += other.sealed_taken;
    }
}

/// A compiled module, and the offset of its header.
struct Original {
    file: Vec<u8>,
    header_at: usize,
}

/// Modules with content in every section, for both architectures.
static ORIGINALS: LazyLock<Vec<Original>> = LazyLock::new(|| {
    let small = "(module (func (export \"f\")))";
    let large = r#"(module $named
        (import "host" "f" (func $f (param i32 v128) (result i64 externref)))
        (import "host" "g" (global $g i32))
        (memory (export "memory") 3 9) (data (i32.const 70000) "in the image") (data $p "passive")
        (global $a (export "a") (mut i64) (i64.const -5)) (global $r (mut funcref) (ref.func $div))
        (table $t (export "t") 7 20 funcref) (table 2 externref) (elem (table $t) (i32.const 2) func $div $start)
        (elem $e func $start) (start $start)
        (func $start (memory.init $p (i32.const 5) (i32.const 0) (i32.const 3))
          (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1)))
        (func $div (export "div") (param i32 i32) (result i32)
          (i32.div_s (i32.load (local.get 0)) (call_indirect $t (param i32) (result i32) (local.get 1) (i32.const 3)))))"#;
    let mut originals = vec![];
    let component = r#"(component
        (type $r (record (field "a" string) (field "b" (list u8))))
        (import "r" (type $i (eq $r)))
        (import "host" (func $h (param "x" $i) (result $i)))
        (type $own (resource (rep i32)))
        (core module $l (memory (export "m") 1)
          (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 8)))
        (core instance $l (instantiate $l))
        (core func $h (canon lower (func $h) (memory (core memory $l "m"))
          (realloc (core func $l "r"))))
        (core func $drop (canon resource.drop $own))
        (core module $m
          (import "h" "h" (func (param i32 i32 i32 i32 i32)))
          (import "h" "drop" (func (param i32)))
          (func (export "f") (param i32 i32 i32 i32) (result i32) (i32.const 0)))
        (core instance $m (instantiate $m (with "h" (instance
          (export "h" (func $h)) (export "drop" (func $drop))))))
        (func (export "f") (param "x" $i) (result $i)
          (canon lift (core func $m "f") (memory (core memory $l "m"))
            (realloc (core func $l "r")))))"#;
    for (text, arch) in [
        (component, Arch::X86_64),
        (small, Arch::X86_64),
        (large, Arch::X86_64),
        (large, Arch::Aarch64),
    ] {
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("well-formed");
        for debug in [false, true] {
            let mut options = Options::new(arch);
            (options.debug_info, options.opt_level, options.fuel) = (debug, OptLevel::Speed, debug);
            let file = pirn_compiler::compile(&wasm, &options).expect("valid");
            let header_at = Checked::new(&file)
                .expect("the compiler made the file")
                .header_at as usize;
            originals.push(Original { file, header_at });
        }
    }
    originals
});

/// Damages a compiled module as `data` says, and checks that the runtime refuses it. The canary
/// takes an undamaged file for a damaged one.
///
/// # Errors
///
/// If a damaged file was accepted.
pub fn check(data: &[u8], canary: bool) -> Result<Tally, String> {
    let mut random = Random::of_input(data);
    let original = &ORIGINALS[random.below(ORIGINALS.len())];
    let mut file = original.file.clone();
    if !canary {
        for _ in 0..=random.below(3) {
            damage(&mut file, data, &mut random);
        }
        if file == original.file {
            return Ok(Tally::default());
        }
    }
    let mut tally = Tally {
        files: 1,
        ..Tally::default()
    };
    // The hash reveals most damage. Half of the files get a hash that matches.
    if !canary && random.once_in(2) && seal(&mut file, original.header_at).is_some() {
        match Checked::new(&file) {
            Err(FormatError::Hash { .. }) => return Err("a hash that fits does not fit".to_owned()),
            Err(_) => tally.sealed_refused = 1,
            Ok(_) => {
                tally.sealed_taken = 1;
                // The verifier may refuse it. It must not panic.
                let _ = pirn_verify::verify(&file);
            }
        }
        return Ok(tally);
    }
    if Checked::new(&file).is_ok() || Module::from_bytes(&file).is_ok() {
        return Err(format!("a damaged file of {} bytes was taken", file.len()));
    }
    tally.refused = 1;
    Ok(tally)
}

/// Damages a file: a byte, a number, a range, or the length.
fn damage(file: &mut Vec<u8>, data: &[u8], random: &mut Random) {
    if file.len() < 16 {
        return;
    }
    // Most of a file is machine code, where only the hash reveals damage. So the first 4 KiB are
    // damaged more often.
    let end = if random.once_in(2) {
        file.len().min(4096)
    } else {
        file.len()
    };
    let at = random.below(end - 8);
    match random.below(8) {
        0 => file[at] ^= 1 << random.below(8),
        1 => file[at] = random.any() as u8,
        2 => file.truncate(at),
        3 => file.extend_from_slice(&data[..random.below(data.len() + 1)]),
        4 => {
            // A 32-bit number, such as a length or an offset: replaced by any number, or one that
            // is a random distance away.
            let word = u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
            let other = if random.once_in(2) {
                word.wrapping_add(random.bits() as u32)
            } else {
                random.bits() as u32
            };
            file[at..at + 4].copy_from_slice(&other.to_le_bytes());
        }
        5 => file[at & !7..][..8].copy_from_slice(&random.bits().to_le_bytes()),
        6 => {
            let (from, len) = (random.below(file.len()), random.below(200));
            let piece: Vec<_> = file[from..].iter().take(len).copied().collect();
            let end = file.len().min(at + piece.len());
            let cut = end - at;
            file[at..end].copy_from_slice(&piece[..cut]);
        }
        _ => {
            let from = random.below(data.len().max(1));
            let piece = data
                .get(from..)
                .unwrap_or_default()
                .iter()
                .take(64)
                .copied();
            file.iter_mut()
                .skip(at)
                .zip(piece)
                .for_each(|(into, byte)| *into = byte);
        }
    }
}

/// Sets the hash and the length in the header to match the file, if the file still contains both
/// fields.
fn seal(file: &mut [u8], header_at: usize) -> Option<()> {
    let len = file.len() as u64;
    let at = header_at + HASH_OFFSET;
    file.get_mut(at + HASH_BYTES..)?
        .first_chunk_mut::<8>()?
        .copy_from_slice(&len.to_le_bytes());
    let hash = content_hash(file, header_at).ok()?;
    file.get_mut(at..)?
        .first_chunk_mut::<HASH_BYTES>()?
        .copy_from_slice(&hash);
    Some(())
}
