//! [`Loaded`]: the shared object in the address space.
//!
//! The file is read and checked first, and then given to the dynamic loader, so that debuggers,
//! profilers and unwinders know the module. The mapping is then compared with the checked file.
//!
//! The loader identifies files by name and by inode. Suppose a new version is renamed over an old
//! version that is still loaded. Both versions then have the same name, so the new version is
//! loaded through a descriptor of ours. The descriptor stays open, so that the descriptor's name
//! stays unique. A module that was never in a file is loaded through a descriptor as well. So is a
//! signed module. Its path may name another file after the check, and a process that may write to
//! the file could change the mapping.
//!
//! # Safety
//!
//! Owns the mapping: every slice of a section borrows the [`Loaded`] whose drop unmaps it. Loading
//! the file runs none of its code: [`pirn_format::read`] has checked that the file has neither
//! constructors nor relocations.
#![allow(unsafe_code)]

use super::error::OpenError;
use crate::sys;
use crate::sys::fork_lock::{ForkLock, Rank};
use core::slice;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use once_cell::race::OnceBox;
use pirn_format::cpu;
use pirn_format::header::{HASH_BYTES, HEADER_BYTES, HEADER_SYMBOL, content_hash};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::text::one_line;
use pirn_signature::{PublicKey, ReadSignedError, open_regular, read_signed};
#[cfg(feature = "verify")]
use pirn_signature::{SIGNED_BYTES_MAX, read_regular};
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file that was read and checked.
pub(super) struct File {
    pub(super) checked: Checked,
    header: [u8; HEADER_BYTES],
    /// Absolute path; for a file in memory, a description.
    path: PathBuf,
    /// Whether the file has a path.
    named: bool,
    file: fs::File,
    /// Whether the file is in memory and sealed.
    sealed: bool,
    /// Whether only a sealed file with the same content may replace this file, because its bytes
    /// were signed or proven.
    only_sealed: bool,
    inode: (u64, u64),
}

impl File {
    /// Reads and checks a file.
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        let unreadable = |error| unreadable(path, error);
        let (mut file, _) = open_regular(path).map_err(unreadable)?;
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        Self::check(&bytes, path, absolute, file).map(|file| Self {
            named: true,
            ..file
        })
    }

    /// Checks bytes, and copies them to a file in memory.
    pub(super) fn copy(bytes: &[u8]) -> Result<Self, OpenError> {
        Self::sealed(bytes, Path::new("a module in memory"))
    }

    /// Reads a file and its signature, each once, checks the signature, and copies the checked
    /// bytes to a file in memory. The path is not used after the read, because it may name another
    /// file by then.
    pub(super) fn signed(path: &Path, keys: &[PublicKey]) -> Result<Self, OpenError> {
        let (bytes, _) = read_signed(path, keys).map_err(|error| match error {
            ReadSignedError::Module(error) => unreadable(path, error),
            ReadSignedError::Signature(error) => OpenError::Signature {
                path: path.to_owned(),
                error,
            },
        })?;
        Self::sealed(&bytes, path).map(Self::approved)
    }

    /// Reads a file once, proves its code, and copies the proven bytes to a file in memory. The
    /// path is not used after the read.
    #[cfg(feature = "verify")]
    pub(super) fn verified(path: &Path) -> Result<Self, OpenError> {
        let bytes = read_regular(path, SIGNED_BYTES_MAX);
        let bytes = bytes.map_err(|error| unreadable(path, error))?;
        pirn_verify::verify(&bytes).map_err(|error| OpenError::Unproven {
            path: path.to_owned(),
            error,
        })?;
        Self::sealed(&bytes, path).map(Self::approved)
    }

    /// Checks bytes that messages name by a path, and copies them to a sealed file in memory.
    fn sealed(bytes: &[u8], path: &Path) -> Result<Self, OpenError> {
        let file = sys::memory::code_file(bytes).map_err(|error| unreadable(path, error))?;
        Self::check(bytes, path, path.to_owned(), file).map(|file| Self {
            sealed: true,
            ..file
        })
    }

    /// Marks a file with signed or proven bytes.
    fn approved(self) -> Self {
        Self {
            only_sealed: true,
            ..self
        }
    }

    /// Whether a mapped module with the content of this file may be used instead of this file. The
    /// mapping of a file that has a path changes if that file is written to. So such a mapping
    /// cannot replace a signed or proven file.
    pub(super) fn is(&self, loaded: &Loaded) -> bool {
        loaded.hash == self.checked.header.hash && (loaded.sealed || !self.only_sealed)
    }

    fn check(
        bytes: &[u8],
        path: &Path,
        absolute: PathBuf,
        file: fs::File,
    ) -> Result<Self, OpenError> {
        let format = |error| OpenError::Format {
            path: path.to_owned(),
            error,
        };
        let checked = Checked::new(bytes).map_err(format)?;
        checked.runs_on(cpu::detect()).map_err(format)?;
        let at = checked.header_at as usize;
        let mut header = [0; HEADER_BYTES];
        // In range: the check found the header at `at`.
        header.copy_from_slice(&bytes[at..at + HEADER_BYTES]);
        let about = file.metadata().map_err(|error| unreadable(path, error))?;
        Ok(Self {
            checked,
            header,
            path: absolute,
            named: false,
            sealed: false,
            only_sealed: false,
            inode: (about.dev(), about.ino()),
            file,
        })
    }

    /// Maps the file. `others` are all mapped modules. No mapped module can be used instead of the
    /// file.
    pub(super) fn load<'a>(
        &self,
        mut others: impl Iterator<Item = &'a Loaded>,
    ) -> Result<Loaded, OpenError> {
        if others.any(|other| other.inode == self.inode) {
            return Err(self.changed());
        }
        // Load the file by its path first, so that debuggers find the file. If the loader already
        // knows that path, it returns the old file. Then load the file by a unique name.
        if self.named
            && let Some(loaded) = self.load_as(&self.path, None)?
        {
            return Ok(loaded);
        }
        let file = self.file.try_clone();
        let file = file.map_err(|error| self.refused(&error))?;
        let name = descriptor(&file).map_err(|error| self.refused(&error))?;
        self.load_as(&name, Some(file))?
            .ok_or_else(|| self.changed())
    }

    /// Maps the file that the loader knows by a name. Returns `None` if the loader's file is not
    /// the checked file.
    fn load_as(&self, name: &Path, held: Option<fs::File>) -> Result<Option<Loaded>, OpenError> {
        let _loader = LOADER.take();
        // SAFETY: the check found no code in the file that runs on loading.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| self.refused(&error))?;
        // SAFETY: the symbol is the header, and a pointer to bytes fits any type.
        let symbol = unsafe { library.get::<*const u8>(HEADER_SYMBOL) }
            .map_err(|error| self.refused(&error))?;
        let header = symbol.as_raw_ptr().cast::<u8>().cast_const();
        if header.is_null() {
            return Err(self.refused(&"its header has no address"));
        }
        // SAFETY: the symbol table gives the header this size, in a mapped segment.
        if unsafe { slice::from_raw_parts(header, HEADER_BYTES) } != self.header {
            return Ok(None);
        }
        let base = header.wrapping_sub(self.checked.header_at as usize);
        let sections = Section::ALL.map(|section| {
            let range = self.checked.header.section(section);
            (
                base.wrapping_add(range.vaddr as usize) as usize,
                range.len as usize,
            )
        });
        Ok(Some(Loaded {
            sections,
            hash: self.checked.header.hash,
            header_at: self.checked.header_at as usize,
            file_bytes: self.checked.header.file_bytes as usize,
            path: self.path.clone(),
            sealed: self.sealed,
            inode: self.inode,
            library: Some(library),
            held: held.map_or_else(OnceBox::new, |file| OnceBox::with_value(Box::new(file))),
        }))
    }

    fn changed(&self) -> OpenError {
        OpenError::Changed {
            path: self.path.clone(),
        }
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> OpenError {
        let message = one_line(error);
        OpenError::Load {
            path: self.path.clone(),
            message,
        }
    }
}

/// Returns a name of an open file that other processes can use too, because the loader shows it to
/// debuggers. Through /proc/self another process would open a descriptor of its own: gdb opens a
/// pipe and then waits for ever.
///
/// A forked child has its own process number, so its names differ from the names that it inherits.
/// If a later child gets the same number again, the descriptors of the inherited names are still
/// open.
fn descriptor(file: &fs::File) -> io::Result<PathBuf> {
    // The process number in this /proc, whose namespace may differ from the namespace of getpid(2).
    let process = fs::read_link("/proc/self")?;
    let fd = file.as_raw_fd().to_string();
    Ok([
        "/proc".as_ref(),
        process.as_path(),
        "fd".as_ref(),
        fd.as_ref(),
    ]
    .iter()
    .collect())
}

/// Held while the dynamic loader is used. The loader does not hold its own lock across a fork.
static LOADER: ForkLock<()> = ForkLock::new(Rank::new(2), ());

/// A mapped module.
pub(super) struct Loaded {
    /// Address and bytes of each section.
    sections: [(usize, usize); Section::ALL.len()],
    pub(super) hash: [u8; HASH_BYTES],
    /// Offset of the header in the file.
    header_at: usize,
    /// Bytes of the file.
    file_bytes: usize,
    pub(super) path: PathBuf,
    /// Whether a sealed file in memory is mapped, so that nothing changes the mapping.
    sealed: bool,
    inode: (u64, u64),
    /// Unmaps the sections when it is dropped. `Some` until the drop.
    library: Option<Library>,
    /// The file, if it was loaded by a descriptor. An open descriptor keeps its name unique. Also
    /// set when an equal module in memory is opened later: its bytes may be in no other file by
    /// then.
    held: OnceBox<fs::File>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _loader = LOADER.take();
        drop(self.library.take());
    }
}

impl Loaded {
    /// Keeps a file with the same content, unless it has a path of its own.
    pub(super) fn keep(&self, file: File) {
        if !file.named {
            // An earlier file has the same content, so keep that file.
            let _ = self.held.set(Box::new(file.file));
        }
    }

    /// Reads the whole file again: the parts that are not mapped, too.
    ///
    /// # Errors
    ///
    /// [`OpenError::Read`], or [`OpenError::Replaced`] if the path now has another content.
    pub(super) fn read(&self) -> Result<Vec<u8>, OpenError> {
        let path = || self.path.clone();
        let bytes = match self.held.get() {
            // A file in memory ends with padding. The offset is not moved, because forks share it.
            Some(file) => {
                let mut bytes = vec![0; self.file_bytes];
                file.read_exact_at(&mut bytes, 0).map(|()| bytes)
            }
            None => fs::read(&self.path),
        };
        let bytes = bytes.map_err(|error| unreadable(&self.path, error))?;
        match content_hash(&bytes, self.header_at) {
            Ok(hash) if hash == self.hash => Ok(bytes),
            _ => Err(OpenError::Replaced { path: path() }),
        }
    }

    /// The bytes of a section.
    pub(super) fn section(&self, section: Section) -> &[u8] {
        let (start, len) = self.sections[section as usize];
        // SAFETY: the section is in a segment that the loader mapped readable, which
        // `pirn_format::read` has checked. The segment stays mapped as long as `self` lives.
        unsafe { slice::from_raw_parts(start as *const u8, len) }
    }
}

/// The error for a file that the system does not let us read or make.
fn unreadable(path: &Path, error: io::Error) -> OpenError {
    OpenError::Read {
        path: path.to_owned(),
        error,
    }
}
