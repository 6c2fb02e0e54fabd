//! [`File`]: a compiled module that a test changes, with a matching content hash.

use super::random::Random;
use pirn_compiler::Options;
use pirn_format::header::{HASH_BYTES, HASH_OFFSET, content_hash};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_runtime::Module;
use std::ops::Range;

/// A file from the compiler, and the positions of its parts.
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checked: Checked,
    pub(crate) header_at: usize,
    pub(crate) metadata: Range<usize>,
}

impl File {
    /// Compiles a text in the WebAssembly text format.
    pub(crate) fn new(text: &str) -> Self {
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
        let bytes = pirn_compiler::compile(&wasm, &Options::default()).expect("it is valid");
        let checked = Checked::new(&bytes).expect("it is the compiler's");
        let encoded = checked
            .metadata
            .encode()
            .expect("decoded metadata can be encoded");
        let mut windows = bytes.windows(encoded.len());
        let at = windows.position(|bytes| bytes == encoded);
        let at = at.expect("the file has its metadata");
        Self {
            header_at: checked.header_at as usize,
            metadata: at..at + encoded.len(),
            checked,
            bytes,
        }
    }

    /// Range of a section in the file.
    pub(crate) fn section(&self, section: Section) -> Range<usize> {
        let section = self.checked.header.section(section);
        section.vaddr as usize..(section.vaddr + section.len) as usize
    }

    /// Opens the file with other bytes at some positions.
    pub(crate) fn open(&self, changes: &[(usize, &[u8])]) -> Result<Module, String> {
        let mut file = self.bytes.clone();
        for (at, bytes) in changes {
            file[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        self.open_as(file)
    }

    /// Opens other bytes in place of the file, with a matching content hash.
    pub(crate) fn open_as(&self, mut bytes: Vec<u8>) -> Result<Module, String> {
        let hash = content_hash(&bytes, self.header_at).expect("it has a header");
        bytes[self.header_at + HASH_OFFSET..][..HASH_BYTES].copy_from_slice(&hash);
        Module::from_bytes(&bytes).map_err(|error| error.to_string())
    }

    /// Opens the file with up to `most` damaged bytes of metadata.
    pub(crate) fn damaged(
        &self,
        random: &mut Random,
        most: u64,
        end: u64,
    ) -> Result<Module, String> {
        let mut file = self.bytes.clone();
        for _ in 0..=random.below(most) {
            let at = self.metadata.start + random.below(self.metadata.len() as u64) as usize;
            file[at] = damaged(file[at], random, end);
        }
        self.open_as(file)
    }
}

/// A changed byte: with a flipped bit, incremented, or any value less than `end`.
pub(crate) fn damaged(byte: u8, random: &mut Random, end: u64) -> u8 {
    match random.below(3) {
        0 => byte ^ 1 << random.below(8),
        1 => byte.wrapping_add(1),
        _ => random.below(end) as u8,
    }
}
