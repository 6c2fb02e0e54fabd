//! [`Header`]: the fixed part of a compiled module, checked before the file is mapped.
//!
//! The header is the descriptor of an ELF note, so every ELF reader can find it through a program
//! header:
//!
//! ```text
//! PT_NOTE ─▶ namesz = 5 │ descsz = 232 │ type = NOTE_TYPE │ "pirn\0" + 3 │ descriptor
//!
//! descriptor, little-endian:
//!   0  u32      format version          16  [u8; 32]  content hash
//!   4  u32      architecture            48  u64       bytes of the whole file
//!   8  u64      cpu feature bits        56  u64       memory 0: initial bytes
//!                                       64  u64       reserved, zero
//!                                       72  10 x (u64 vaddr, u64 len) sections
//! ```
//!
//! The content hash is the BLAKE3 hash of the whole file, with the 32 bytes of the hash set to
//! zero.

use crate::FORMAT_VERSION;
use crate::cpu::{Arch, CpuFeatures};
use crate::error::FormatError;
use crate::sections::{Range, Section};

/// Owner name of the ELF note, without its terminating zero.
pub const NOTE_NAME: &str = "pirn";
/// Type of the ELF note: "PIRN" in ASCII.
pub const NOTE_TYPE: u32 = 0x4e52_4950;
/// Exported symbol at the start of the descriptor in memory.
pub const HEADER_SYMBOL: &str = "pirn_module";
/// Bytes of the encoded header.
pub const HEADER_BYTES: usize = 72 + Section::ALL.len() * 16;
/// Offset of the content hash in the encoded header.
pub const HASH_OFFSET: usize = 16;
/// Bytes of the content hash.
pub const HASH_BYTES: usize = 32;

/// The fixed part of a compiled module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// CPU features that the code uses, and the architecture they belong to.
    pub cpu: CpuFeatures,
    /// Content hash; zero while the hash is being computed.
    pub hash: [u8; HASH_BYTES],
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Accessible bytes of the first memory that the module defines, at instantiation. A multiple
    /// of 64 KiB; 0 if the module defines no memory.
    pub memory_bytes: u64,
    /// Position of each section, indexed by [`Section`] number.
    pub sections: [Range; Section::ALL.len()],
}

impl Header {
    /// Position of a section.
    #[must_use]
    pub fn section(&self, section: Section) -> Range {
        self.sections[section as usize]
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &FORMAT_VERSION.to_le_bytes());
        put(4, &self.cpu.arch().number().to_le_bytes());
        put(8, &self.cpu.bits().to_le_bytes());
        put(HASH_OFFSET, &self.hash);
        put(48, &self.file_bytes.to_le_bytes());
        put(56, &self.memory_bytes.to_le_bytes());
        for (i, range) in self.sections.iter().enumerate() {
            put(72 + 16 * i, &range.vaddr.to_le_bytes());
            put(80 + 16 * i, &range.len.to_le_bytes());
        }
        bytes
    }

    /// Decodes the descriptor of the note.
    ///
    /// # Errors
    ///
    /// [`FormatError::Version`] for another format version. [`FormatError::Damaged`] for a wrong
    /// length, an unknown architecture or unknown feature bits.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let found = read_u32(bytes, 0).ok_or_else(|| damaged("its header is truncated"))?;
        if found != FORMAT_VERSION {
            return Err(FormatError::Version {
                found,
                expected: FORMAT_VERSION,
            });
        }
        if bytes.len() != HEADER_BYTES {
            let found = bytes.len();
            return Err(damaged(&format!(
                "its header has {found} bytes, not {HEADER_BYTES}"
            )));
        }
        // All offsets are in range: the length was checked just now.
        let u64_at = |at| u64::from_le_bytes(array(bytes, at));
        let number = u32::from_le_bytes(array(bytes, 4));
        let arch = Arch::from_number(number)
            .ok_or_else(|| damaged(&format!("architecture {number} does not exist")))?;
        let cpu = CpuFeatures::from_bits(arch, u64_at(8))
            .ok_or_else(|| damaged(&format!("cpu features {:#x} do not exist", u64_at(8))))?;
        let mut sections = [Range::default(); Section::ALL.len()];
        for (i, range) in sections.iter_mut().enumerate() {
            *range = Range {
                vaddr: u64_at(72 + 16 * i),
                len: u64_at(80 + 16 * i),
            };
        }
        Ok(Self {
            cpu,
            hash: array(bytes, HASH_OFFSET),
            file_bytes: u64_at(48),
            memory_bytes: u64_at(56),
            sections,
        })
    }
}

/// BLAKE3 hash of a whole file, with the bytes of the hash in the header at `header_at` set to
/// zero.
///
/// # Errors
///
/// [`FormatError::Damaged`] if the file ends before the end of the hash.
pub fn content_hash(file: &[u8], header_at: usize) -> Result<[u8; HASH_BYTES], FormatError> {
    let start = header_at.saturating_add(HASH_OFFSET);
    let end = start.saturating_add(HASH_BYTES);
    let (Some(before), Some(after)) = (file.get(..start), file.get(end..)) else {
        return Err(damaged("its header is truncated"));
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(&[0; HASH_BYTES]).update(after);
    Ok(*hasher.finalize().as_bytes())
}

/// The first 8 bytes of a hash in hexadecimal, for messages.
#[must_use]
pub fn short_hash(hash: &[u8; HASH_BYTES]) -> String {
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn damaged(why: &str) -> FormatError {
    FormatError::Damaged(why.to_owned())
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `N` bytes at `at`. Panics if `bytes` is too short; callers check the length first.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let mut sections = [Range::default(); Section::ALL.len()];
        for (i, range) in sections.iter_mut().enumerate() {
            *range = Range {
                vaddr: 4096 * i as u64,
                len: 100 + i as u64,
            };
        }
        let cpu = CpuFeatures::level(Arch::X86_64, "baseline").unwrap();
        Header {
            cpu,
            hash: [7; 32],
            file_bytes: 12345,
            memory_bytes: 65536,
            sections,
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        assert_eq!(
            header().section(Section::Data),
            Range {
                vaddr: 4096 * 6,
                len: 106
            }
        );
    }

    #[test]
    fn the_descriptor_is_laid_out_as_drawn() {
        let bytes = header().encode();
        assert_eq!(bytes.len(), 232);
        assert_eq!(bytes[..4], FORMAT_VERSION.to_le_bytes());
        assert_eq!(bytes[HASH_OFFSET..HASH_OFFSET + HASH_BYTES], [7; 32]);
        assert_eq!(bytes[48..56], 12345_u64.to_le_bytes());
    }

    #[test]
    fn another_version_architecture_or_length_is_refused() {
        let mut bytes = header().encode();
        for len in 0..bytes.len() {
            assert!(Header::decode(&bytes[..len]).is_err());
        }
        bytes[0] ^= 0x80;
        let found = FORMAT_VERSION ^ 0x80;
        let expected = FORMAT_VERSION;
        assert_eq!(
            Header::decode(&bytes),
            Err(FormatError::Version { found, expected })
        );
        bytes[0] ^= 0x80;
        bytes[4] = 9;
        assert!(
            Header::decode(&bytes)
                .unwrap_err()
                .to_string()
                .contains("architecture 9")
        );
        bytes[4] = 1;
        bytes[15] = 0xff;
        assert!(
            Header::decode(&bytes)
                .unwrap_err()
                .to_string()
                .contains("cpu features")
        );
    }

    #[test]
    fn the_hash_covers_every_byte_but_its_own() {
        let mut file = vec![1_u8; 300];
        let at = 40;
        let hash = content_hash(&file, at).unwrap();
        for i in 0..file.len() {
            file[i] ^= 1;
            let own = (at + HASH_OFFSET..at + HASH_OFFSET + HASH_BYTES).contains(&i);
            assert_eq!(content_hash(&file, at).unwrap() == hash, own, "byte {i}");
            file[i] ^= 1;
        }
        assert!(content_hash(&file, 290).is_err());
        assert!(content_hash(&file, usize::MAX).is_err());
    }
}
