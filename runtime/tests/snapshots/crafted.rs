//! Crafted files of snapshots, with right hashes: no check panics, and no rewrite does.

use super::saved::so;
use super::{GUEST, changed};
use crate::common;
use crate::common::campaign::share;
use crate::common::random::Random;
use pirn_compiler::Options;
use pirn_format::header::{HASH_BYTES, HASH_OFFSET, content_hash};
use pirn_format::read::Checked;
use pirn_format::rewrite;

/// Gives a file the right length and hash.
fn seal(file: &mut [u8], header_at: usize) {
    let bytes = file.len() as u64;
    file[header_at + 48..header_at + 56].copy_from_slice(&bytes.to_le_bytes());
    file[header_at + HASH_OFFSET..header_at + HASH_OFFSET + HASH_BYTES].fill(0);
    if let Ok(hash) = content_hash(file, header_at) {
        file[header_at + HASH_OFFSET..][..HASH_BYTES].copy_from_slice(&hash);
    }
}

#[test]
fn damage_with_a_right_hash_panics_nowhere() {
    let mut options = Options::default();
    options.debug_info = true;
    let snapshot = changed(&common::wat(GUEST)).to_bytes().expect("saved");
    let files = [so("(module)", &options), so(GUEST, &options), snapshot];
    let mut random = Random(11);
    let mut taken = 0;
    // Each file is read and hashed, which an emulator does at a fiftieth of the speed. Tests that
    // run in one send their modules to a compiler of the host.
    let emulated = std::env::var_os("PIRN_COMPILE_SERVER").is_some();
    let all = share(400_000, if emulated { 4000 } else { 300 });
    for _ in 0..all {
        let original = &files[random.below(files.len() as u64) as usize];
        let at = Checked::new(original).expect("sound").header_at as usize;
        let mut file = original.clone();
        for _ in 0..=random.below(2) {
            let len = file.len() as u64;
            // The headers, the end of the file, or anywhere.
            let place = match random.below(3) {
                0 => random.below(1024),
                1 => len - 8 - random.below(2048.min(len - 8)),
                _ => random.below(len - 8),
            } as usize;
            match random.below(5) {
                0 => file[place] ^= 1 << random.below(8),
                1 => file[place] = random.u64() as u8,
                2 => file[place & !7..][..8].copy_from_slice(&random.u64().to_le_bytes()),
                3 => file[place & !7..][..8]
                    .copy_from_slice(&(u64::MAX - random.below(9)).to_le_bytes()),
                _ => {
                    let word = u64::from_le_bytes(file[place & !7..][..8].try_into().expect("8"));
                    let other = word
                        .wrapping_add(random.below(1 << 17))
                        .wrapping_sub(1 << 16);
                    file[place & !7..][..8].copy_from_slice(&other.to_le_bytes());
                }
            }
        }
        seal(&mut file, at);
        let Ok(checked) = Checked::new(&file) else {
            continue;
        };
        taken += 1;
        // Refused or not, it must not panic.
        let _ = rewrite::snapshot(&file, &checked.metadata, &[], &[]);
    }
    assert!(taken > all / 40, "{taken} of {all}");
}

/// Neither section headers nor program headers are mapped, so the check leaves them anywhere.
#[test]
fn headers_in_odd_places_give_no_snapshot() {
    let file = so("(module)", &Options::default());
    let at = Checked::new(&file).expect("it is sound").header_at as usize;
    let word = |file: &[u8], at: usize| {
        u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"))
    };
    let refused = |mut file: Vec<u8>, why: &str| {
        seal(&mut file, at);
        let checked = Checked::new(&file).expect("the check does not look there");
        let made = rewrite::snapshot(&file, &checked.metadata, &[], &[]);
        let error = made.map(drop).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    };
    // The last section but one claims to lie near the end of the address space.
    let mut far = file.clone();
    let last = file.len() - 2 * 64 + 24;
    far[last..last + 8].copy_from_slice(&(u64::MAX - 8).to_le_bytes());
    refused(far, "past 2^64");
    // The program headers lie after the image, whose place a snapshot fills.
    let (from, count) = (word(&file, 32) as usize, usize::from(file[56]));
    let mut late = file.clone();
    late[32..40].copy_from_slice(&(file.len() as u64).to_le_bytes());
    late.extend_from_slice(&file[from..from + 56 * count]);
    refused(late, "the end of its program headers");
}
