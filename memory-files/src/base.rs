//! [`MemoryBase`]: a tree of files that all instances share and none can change.

mod archive;
mod builder;
mod directory;
mod error;
mod tree;

pub use builder::BaseBuilder;
pub use error::BaseError;
pub use tree::MemoryBase;
pub(crate) use tree::{Content, ROOT, inode};

use crate::limits::BaseLimits;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::OnceLock;

impl MemoryBase {
    /// A base with an empty root directory. All callers share one allocation.
    #[must_use]
    pub fn empty() -> Self {
        static EMPTY: OnceLock<MemoryBase> = OnceLock::new();
        let new = || BaseBuilder::new(&BaseLimits::default()).build();
        EMPTY.get_or_init(new).clone()
    }

    /// An empty builder.
    #[must_use]
    pub fn builder(limits: &BaseLimits) -> BaseBuilder {
        BaseBuilder::new(limits)
    }

    /// Copies the directory or the tar archive at a path of the host into memory, as
    /// [`from_dir`](Self::from_dir) or [`from_tar`](Self::from_tar).
    ///
    /// # Errors
    ///
    /// As these two functions, and for a path that is neither a directory nor a regular file.
    pub fn open(path: &Path, limits: &BaseLimits) -> Result<Self, BaseError> {
        let failed = |error| BaseError::Io {
            path: path.display().to_string(),
            error,
        };
        let kind = std::fs::metadata(path).map_err(failed)?.file_type();
        if kind.is_dir() {
            let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
            return Self::from_dir(&dir, limits);
        }
        // To open a FIFO would wait for its other end.
        if !kind.is_file() {
            let wanted = "it is neither a directory nor a tar archive";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, wanted)));
        }
        let archive = File::open(path).map_err(failed)?;
        Self::from_tar(BufReader::new(archive), limits)
    }

    /// Copies a directory of the host into memory. Later changes of the directory do not show.
    ///
    /// Symbolic links are copied and not followed. A file with several names keeps all of them.
    ///
    /// # Errors
    ///
    /// [`BaseError`] if an entry cannot be read, exceeds a limit, changes during the copy, or is
    /// not a file, directory or symbolic link.
    pub fn from_dir(dir: &cap_std::fs::Dir, limits: &BaseLimits) -> Result<Self, BaseError> {
        let mut builder = BaseBuilder::new(limits);
        directory::read(dir, &mut builder)?;
        Ok(builder.build())
    }

    /// Copies a tar archive into memory. The formats are ustar, GNU and PAX.
    ///
    /// Directories that the archive does not list are made. `./` at the start of a name is
    /// ignored. Owners, permissions and extended attributes are ignored.
    ///
    /// # Errors
    ///
    /// [`BaseError`] for an archive that is broken, cut or compressed, exceeds a limit, or has an
    /// entry that is refused: a device or FIFO, a sparse file, a name twice, an absolute name, a
    /// name with `..`, a name below a file or a symbolic link, a hard link to no earlier file.
    pub fn from_tar(archive: impl Read, limits: &BaseLimits) -> Result<Self, BaseError> {
        let mut builder = BaseBuilder::new(limits);
        archive::read(archive, &mut builder)?;
        Ok(builder.build())
    }
}
