//! Changes compiled modules in ways that the format's check does not notice.

#[allow(dead_code, reason = "not every test uses it")]
pub(crate) mod mutations;

use pirn_format::header::{HASH_BYTES, HASH_OFFSET, content_hash};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use std::ops::Range;

/// The byte range of a section in the file.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn section(checked: &Checked, section: Section) -> Range<usize> {
    let range = checked.header.section(section);
    range.vaddr as usize..(range.vaddr + range.len) as usize
}

/// Changes bytes of a compiled module, and updates its hash.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn forge(file: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let checked = Checked::new(file).expect("the compiler wrote the file");
    change(file);
    set_hash(file, checked.header_at);
}

/// Updates the hash of a module whose header is at the given file offset.
pub(crate) fn set_hash(file: &mut [u8], header_at: u64) {
    let header_at = header_at as usize;
    let hash = content_hash(file, header_at).expect("the file has a header");
    let place = header_at + HASH_OFFSET;
    file[place..place + HASH_BYTES].copy_from_slice(&hash);
}
