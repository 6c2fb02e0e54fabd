//! [`Loaded`]: the shared object in the address space.
//!
//! The file is read and checked first, then given to the dynamic loader, so that debuggers, profilers
//! and unwinders know it. What the loader has mapped is compared with what was checked.
//!
//! The loader tells files apart by name and by inode. A new version that was renamed over an old one
//! which is still loaded has the old one's name: then it is loaded through a descriptor of ours, which
//! stays open so that the name stays unique. So is a module that was never in a file.
//!
//! # Safety
//!
//! Owns the mapping: every slice of a section borrows the [`Loaded`] whose drop unmaps it. The file
//! runs no code when it is loaded, because it has neither constructors nor relocations:
//! [`pirn_format::read`] has checked that.
#![allow(unsafe_code)]

use super::OpenError;
use crate::{locks, sys};
use core::slice;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pirn_format::cpu;
use pirn_format::header::{HASH_BYTES, HEADER_BYTES, HEADER_SYMBOL};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// A file that was read and checked.
pub(super) struct File {
    pub(super) checked: Checked,
    header: [u8; HEADER_BYTES],
    /// Absolute; of a file in memory, what to call it.
    path: PathBuf,
    /// Whether it has a path.
    named: bool,
    file: fs::File,
    inode: (u64, u64),
}

impl File {
    /// Reads and checks a file.
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        let unreadable = |error| OpenError::Read {
            path: path.to_owned(),
            error,
        };
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if about.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        Self::check(&bytes, path, absolute, file).map(|file| Self {
            named: true,
            ..file
        })
    }

    /// Checks bytes, and makes a file in memory of them.
    pub(super) fn copy(bytes: &[u8]) -> Result<Self, OpenError> {
        let path = PathBuf::from("a module in memory");
        let file = sys::memory::code_file(bytes);
        let file = file.map_err(|error| OpenError::Read {
            path: path.clone(),
            error,
        })?;
        Self::check(bytes, &path, path.clone(), file)
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
        // In range: the check found the header there.
        header.copy_from_slice(&bytes[at..at + HEADER_BYTES]);
        let about = file.metadata().map_err(|error| OpenError::Read {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self {
            checked,
            header,
            path: absolute,
            named: false,
            inode: (about.dev(), about.ino()),
            file,
        })
    }

    /// Maps it. `others` are all that are mapped, none of them of the same content.
    pub(super) fn load<'a>(
        &self,
        mut others: impl Iterator<Item = &'a Loaded>,
    ) -> Result<Loaded, OpenError> {
        if others.any(|other| other.inode == self.inode) {
            return Err(self.changed());
        }
        // By its path, so that debuggers find it. The loader answers with whatever has that name
        // already: then by a name that nothing else has.
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

    /// Maps what the loader knows by a name; `None` if that is not what was checked.
    fn load_as(&self, name: &Path, held: Option<fs::File>) -> Result<Option<Loaded>, OpenError> {
        let _loader = locks::take(&LOADER);
        // SAFETY: the file was checked to have no code that runs on loading.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| self.refused(&error))?;
        // SAFETY: the symbol is the header's, whatever type stands for its bytes.
        let symbol = unsafe { library.get::<*const u8>(HEADER_SYMBOL) }
            .map_err(|error| self.refused(&error))?;
        let header = symbol.as_raw_ptr().cast::<u8>().cast_const();
        if header.is_null() {
            return Err(self.refused(&"its header has no address"));
        }
        // SAFETY: the symbol table gives the header that many bytes, in a mapped segment.
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
            memory_bytes: self.checked.header.memory_bytes,
            hash: self.checked.header.hash,
            path: self.path.clone(),
            inode: self.inode,
            library: Some(library),
            _held: held,
        }))
    }

    fn changed(&self) -> OpenError {
        OpenError::Changed {
            path: self.path.clone(),
        }
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> OpenError {
        let message = error.to_string().replace('\n', " ");
        OpenError::Load {
            path: self.path.clone(),
            message,
        }
    }
}

/// The name of an open file, by which others find it too: the loader shows it to debuggers, and of
/// /proc/self they take their own descriptors, gdb a pipe on which it then waits for ever.
///
/// A forked child has its own number, so that its names are not those that it inherits. If a later one has
/// the number again, the descriptors of the inherited names are still open.
fn descriptor(file: &fs::File) -> io::Result<PathBuf> {
    // Our number as that /proc has it, which may be of another namespace than getpid(2).
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

/// Taken to use the dynamic loader: it has a lock of its own, which it does not take for a fork.
static LOADER: Mutex<()> = Mutex::new(());

/// Takes it for one.
pub(super) fn lock() -> MutexGuard<'static, ()> {
    sys::lock(&LOADER)
}

/// A mapped module.
pub(super) struct Loaded {
    /// Address and bytes of each section.
    sections: [(usize, usize); Section::ALL.len()],
    pub(super) memory_bytes: u64,
    pub(super) hash: [u8; HASH_BYTES],
    pub(super) path: PathBuf,
    inode: (u64, u64),
    /// Unmaps the sections when it is dropped. There until then.
    library: Option<Library>,
    /// Keeps the name unique by which it was loaded.
    _held: Option<fs::File>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _loader = locks::take(&LOADER);
        drop(self.library.take());
    }
}

impl Loaded {
    /// The bytes of a section.
    pub(super) fn section(&self, section: Section) -> &[u8] {
        let (start, len) = self.sections[section as usize];
        // SAFETY: the section lies in a segment that the loader mapped readable, which
        // `pirn_format::read` has checked, and is mapped as long as `self` lives.
        unsafe { slice::from_raw_parts(start as *const u8, len) }
    }
}
