//! [`Folder`]: a host directory, preopened or opened by a guest, with full or read-only access.
//!
//! cap-std resolves the paths. No path leads outside the directory, whatever components it has.

use crate::streams::Stream;
use crate::times::{clear_early, since_epoch};
use cap_fs_ext::{
    DirExt, FileTypeExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsMaybeDirExt,
    OpenOptionsSyncExt, OsMetadataExt, SystemTimeSpec as Time,
};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_std::time::SystemTime;
use rustix::fs::{Mode, OFlags as OsFlags};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use wasi_common::dir::{OpenResult, ReaddirCursor, ReaddirEntity, WasiDir};
use wasi_common::file::{FdFlags, FileType, Filestat, OFlags};
use wasi_common::snapshots::preview_1::types::Errno;
use wasi_common::sync::file;
use wasi_common::{Error, SystemTimeSpec, WasiFile as _};

/// The operations that a guest may use on a directory and everything below the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All operations.
    Full,
    /// Only operations that change nothing. Other operations fail with `rofs`, as on a file system
    /// that is mounted read-only.
    ReadOnly,
}

/// A host directory.
pub(crate) struct Folder {
    dir: Dir,
    access: Access,
}

type Entries = Box<dyn Iterator<Item = Result<ReaddirEntity, Error>> + Send>;

impl Folder {
    pub(crate) fn new(dir: Dir, access: Access) -> Self {
        Self { dir, access }
    }

    fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Checks that the directory may be changed.
    fn change(&self) -> Result<(), Error> {
        match self.access {
            Access::Full => Ok(()),
            Access::ReadOnly => Err(Errno::Rofs.into()),
        }
    }

    /// The directory of another descriptor, for an operation on two paths. Checks that both
    /// directories may be changed.
    fn both<'a>(&'a self, other: &'a dyn WasiDir) -> Result<&'a Dir, Error> {
        let other: Option<&Self> = other.as_any().downcast_ref();
        // A directory in memory is another file system.
        let other = other.ok_or(Error::from(Errno::Xdev))?;
        self.change()?;
        other.change()?;
        Ok(&other.dir)
    }

    /// Opens a path without waiting, to set its times. Opens the path to write if the host may not
    /// read it.
    fn open_for_times(&self, path: &Path) -> io::Result<File> {
        let open = |read: bool| {
            let mut options = OpenOptions::new();
            options
                .maybe_dir(true)
                .read(read)
                .write(!read)
                .nonblock(true);
            self.dir.open_with(path, &options)
        };
        open(true).or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => open(false),
            _ => Err(error),
        })
    }

    /// The error for a call that would change or create `path` in a read-only directory.
    fn refusal(&self, path: &Path, follow: bool, makes: bool) -> Error {
        let found = match follow {
            true => self.dir.metadata(path),
            false => self.dir.symlink_metadata(path),
        };
        match found {
            Ok(found) if found.is_dir() => Errno::Isdir.into(),
            Ok(_) => Errno::Rofs.into(),
            Err(error) if error.kind() == ErrorKind::NotFound && makes => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                match parent.map(|parent| self.dir.metadata(parent)) {
                    Some(Err(error)) => error.into(),
                    _ => Errno::Rofs.into(),
                }
            }
            Err(error) => error.into(),
        }
    }
}

/// Options for opening a file.
fn options(follow: bool, how: OFlags, (read, write): (bool, bool), flags: FdFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    let creates = how.contains(OFlags::CREATE);
    let is_new = creates && how.contains(OFlags::EXCLUSIVE);
    options
        .maybe_dir(true)
        .create(creates && !is_new)
        .create_new(is_new)
        .truncate(how.contains(OFlags::TRUNCATE))
        .append(flags.contains(FdFlags::APPEND))
        // The host must open a file to read, to write, or both. If the guest asks for neither, the
        // host opens the file to read, but the guest still may not read it.
        .read(read || !write)
        .write(write || creates)
        .dsync(flags.contains(FdFlags::DSYNC))
        .rsync(flags.contains(FdFlags::RSYNC))
        .sync(flags.contains(FdFlags::SYNC))
        // Without O_NONBLOCK, opening a FIFO waits for its other end.
        .nonblock(true)
        .follow(if follow {
            FollowSymlinks::Yes
        } else {
            FollowSymlinks::No
        });
    options
}

/// Sets or clears O_NONBLOCK of an opened file, as the guest asked.
fn set_waiting(file: &File, flags: FdFlags) -> io::Result<()> {
    let set = rustix::fs::fcntl_getfl(file)?;
    let mut wanted = set;
    wanted.set(OsFlags::NONBLOCK, flags.contains(FdFlags::NONBLOCK));
    if wanted != set {
        rustix::fs::fcntl_setfl(file, wanted)?;
    }
    Ok(())
}

fn filetype(ty: &cap_std::fs::FileType) -> FileType {
    if ty.is_dir() {
        FileType::Directory
    } else if ty.is_file() {
        FileType::RegularFile
    } else if ty.is_symlink() {
        FileType::SymbolicLink
    } else if ty.is_block_device() {
        FileType::BlockDevice
    } else if ty.is_char_device() {
        FileType::CharacterDevice
    } else if ty.is_socket() {
        FileType::SocketStream
    } else {
        FileType::Unknown
    }
}

fn filestat(found: &Metadata) -> Filestat {
    let changed = (
        OsMetadataExt::ctime(found),
        OsMetadataExt::ctime_nsec(found),
    );
    let mut stat = Filestat {
        device_id: found.dev(),
        inode: found.ino(),
        filetype: filetype(&found.file_type()),
        nlink: found.nlink(),
        size: found.len(),
        atim: found.accessed().ok().map(SystemTime::into_std),
        mtim: found.modified().ok().map(SystemTime::into_std),
        ctim: since_epoch(changed.0, changed.1),
    };
    clear_early(&mut stat);
    stat
}

fn time(time: Option<SystemTimeSpec>) -> Option<Time> {
    time.map(|time| match time {
        SystemTimeSpec::Absolute(time) => Time::Absolute(time),
        SystemTimeSpec::SymbolicNow => Time::SymbolicNow,
    })
}

#[async_trait::async_trait]
impl WasiDir for Folder {
    fn as_any(&self) -> &dyn Any {
        self
    }

    async fn open_file(
        &self,
        follow: bool,
        path: &str,
        how: OFlags,
        read: bool,
        write: bool,
        flags: FdFlags,
    ) -> Result<OpenResult, Error> {
        let path = Path::new(path);
        let makes = OFlags::CREATE | OFlags::EXCLUSIVE | OFlags::TRUNCATE;
        if how.contains(OFlags::DIRECTORY) && how.intersects(makes) {
            return Err(Errno::Inval.into());
        }
        let mut how = how;
        if self.is_read_only() {
            let creates = how.contains(OFlags::CREATE);
            if write || how.contains(OFlags::TRUNCATE) {
                return Err(self.refusal(path, follow, creates));
            }
            if creates {
                let is_there = match how.contains(OFlags::EXCLUSIVE) {
                    true => self.dir.symlink_metadata(path).is_ok(),
                    false => self.dir.metadata(path).is_ok(),
                };
                match (is_there, how.contains(OFlags::EXCLUSIVE)) {
                    (true, true) => return Err(Errno::Exist.into()),
                    (true, false) => how.remove(OFlags::CREATE),
                    (false, _) => return Err(self.refusal(path, follow, true)),
                }
            }
        }
        let opened = self
            .dir
            .open_with(path, &options(follow, how, (read, write), flags))?;
        let found = opened.metadata()?;
        if found.is_dir() {
            let dir = Dir::from_std_file(opened.into_std());
            return Ok(OpenResult::Dir(Box::new(Self::new(dir, self.access))));
        }
        if how.contains(OFlags::DIRECTORY) {
            return Err(Errno::Notdir.into());
        }
        set_waiting(&opened, flags)?;
        let file = Box::new(file::File::from_cap_std(opened));
        let file = Stream::boxed(file, flags, self.is_read_only());
        Ok(OpenResult::File(file))
    }

    async fn create_dir(&self, path: &str) -> Result<(), Error> {
        self.change()?;
        Ok(self.dir.create_dir(path)?)
    }

    async fn readdir(&self, cursor: ReaddirCursor) -> Result<Entries, Error> {
        let own = self.dir.dir_metadata()?.ino();
        let os = |error: rustix::io::Errno| Error::from(io::Error::from(error));
        // `self.dir` may be opened with O_PATH, which cannot be read. Open the directory again.
        let flags = OsFlags::RDONLY | OsFlags::DIRECTORY | OsFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.dir, ".", flags, Mode::empty()).map_err(os)?;
        let mut entries = rustix::fs::Dir::new(opened).map_err(os)?;
        // The cookie is the kernel's directory position. Removing entries between two calls does
        // not shift this position.
        let cursor = i64::try_from(u64::from(cursor)).map_err(|_| Errno::Inval)?;
        if cursor != 0 {
            entries.seek(cursor).map_err(os)?;
        }
        Ok(Box::new(entries.map(move |entry| {
            let entry = entry.map_err(os)?;
            let name = entry.file_name().to_str().map_err(|_| Errno::Ilseq)?;
            Ok(ReaddirEntity {
                next: entry.offset().cast_unsigned().into(),
                // Hides the inode of the parent of the guest's directory.
                inode: if name == ".." { own } else { entry.ino() },
                name: name.to_owned(),
                filetype: entry_type(entry.file_type()),
            })
        })))
    }

    async fn symlink(&self, to: &str, path: &str) -> Result<(), Error> {
        self.change()?;
        Ok(self.dir.symlink(to, path)?)
    }

    async fn remove_dir(&self, path: &str) -> Result<(), Error> {
        self.change()?;
        Ok(self.dir.remove_dir(path)?)
    }

    async fn unlink_file(&self, path: &str) -> Result<(), Error> {
        self.change()?;
        Ok(self.dir.remove_file_or_symlink(path)?)
    }

    async fn read_link(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.dir.read_link(path)?)
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        Ok(filestat(&self.dir.dir_metadata()?))
    }

    async fn get_path_filestat(&self, path: &str, follow: bool) -> Result<Filestat, Error> {
        let found = match follow {
            true => self.dir.metadata(path)?,
            false => self.dir.symlink_metadata(path)?,
        };
        Ok(filestat(&found))
    }

    async fn rename(&self, path: &str, to: &dyn WasiDir, new: &str) -> Result<(), Error> {
        Ok(self.dir.rename(path, self.both(to)?, new)?)
    }

    async fn hard_link(&self, path: &str, to: &dyn WasiDir, new: &str) -> Result<(), Error> {
        Ok(self.dir.hard_link(path, self.both(to)?, new)?)
    }

    async fn set_times(
        &self,
        path: &str,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
        follow: bool,
    ) -> Result<(), Error> {
        self.change()?;
        if follow {
            // cap-std's function opens a FIFO to write, and waits for a reader.
            let opened = self.open_for_times(Path::new(path))?;
            let file = file::File::from_cap_std(opened);
            return file.set_times(accessed, modified).await;
        }
        let (accessed, modified) = (time(accessed), time(modified));
        Ok(self.dir.set_symlink_times(path, accessed, modified)?)
    }
}

/// The file type of a directory entry, as far as the directory records it.
fn entry_type(ty: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Os;
    match ty {
        Os::RegularFile => FileType::RegularFile,
        Os::Directory => FileType::Directory,
        Os::Symlink => FileType::SymbolicLink,
        Os::Socket => FileType::SocketStream,
        Os::CharacterDevice => FileType::CharacterDevice,
        Os::BlockDevice => FileType::BlockDevice,
        Os::Fifo | Os::Unknown => FileType::Unknown,
    }
}
