//! `open-at`.

use super::descriptor::Descriptor;
use super::error::ErrorCode;
use super::file::File;
use super::folder::{Folder, checked, names_directory};
use super::types::{DescriptorFlags, OpenFlags, PathFlags};
use cap_fs_ext::{
    FollowSymlinks, OpenOptionsFollowExt, OpenOptionsMaybeDirExt, OpenOptionsSyncExt,
};
use cap_std::fs::{Dir, Metadata, OpenOptions};
use std::sync::Arc;

/// Options for opening a file.
fn options(follow: bool, how: OpenFlags, flags: DescriptorFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .maybe_dir(true)
        .create(how.create && !how.exclusive)
        .create_new(how.create && how.exclusive)
        .truncate(how.truncate)
        // The host must open a file to read, to write, or both. If the guest asks for neither, the
        // host opens the file to read, but the guest still may not read it.
        .read(flags.read || !flags.write)
        .write(flags.write || how.create || how.truncate)
        .sync(flags.file_integrity_sync)
        .dsync(flags.data_integrity_sync)
        .rsync(flags.requested_write_sync)
        // Without O_NONBLOCK, opening a FIFO waits for its other end.
        .nonblock(true)
        .follow(match follow {
            true => FollowSymlinks::Yes,
            false => FollowSymlinks::No,
        });
    options
}

/// Checks that a file is a regular file or a directory. Reads and writes of other files can block
/// forever, and to open some devices already has an effect.
fn check_kind(found: &Metadata, how: OpenFlags) -> Result<(), ErrorCode> {
    match found.is_dir() {
        true => Ok(()),
        false if how.directory => Err(ErrorCode::NotDirectory),
        false if found.is_file() => Ok(()),
        false => Err(ErrorCode::Unsupported),
    }
}

/// Opens a file or a directory.
pub(crate) fn open(
    folder: &Folder,
    path_flags: PathFlags,
    path: &str,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> Result<Descriptor, ErrorCode> {
    let path = checked(path)?;
    if how.directory && (how.create || how.exclusive || how.truncate) {
        return Err(ErrorCode::Invalid);
    }
    if flags.write || flags.mutate_directory || how.create || how.truncate {
        folder.check_change()?;
    }
    let held = folder.quota.hold();
    let held = held.map_err(|_| ErrorCode::InsufficientMemory)?;
    let follow = path_flags.symlink_follow;
    let opened = match folder.find(path, follow && !how.exclusive) {
        Ok(found) => {
            if how.create && how.exclusive {
                return Err(ErrorCode::Exist);
            }
            if how.create && found.is_dir() {
                return Err(ErrorCode::IsDirectory);
            }
            // If the path is a symbolic link that must not be followed, cap-std reports the error.
            if !found.is_symlink() {
                check_kind(&found, how)?;
            }
            // The file exists, so open without `create`. Otherwise, if the file has been renamed
            // meanwhile, the open would make a new file without a charge.
            let create = false;
            let options = options(follow, OpenFlags { create, ..how }, flags);
            folder.dir.open_with(path, &options)?
        }
        // A new file must not have a path that only a directory may have.
        Err(ErrorCode::NoEntry) if how.create && names_directory(path) => {
            return Err(ErrorCode::IsDirectory);
        }
        Err(ErrorCode::NoEntry) if how.create => {
            let open = || folder.dir.open_with(path, &options(follow, how, flags));
            folder.quota.entry(open)??
        }
        Err(code) => return Err(code),
    };
    // Another guest may have replaced the file since the check.
    let found = opened.metadata()?;
    check_kind(&found, how)?;
    if found.is_dir() {
        return Ok(Descriptor::Folder(Arc::new(Folder {
            dir: Arc::new(Dir::from_std_file(opened.into_std())),
            access: folder.access,
            quota: Arc::clone(&folder.quota),
            _held: Some(held),
        })));
    }
    Ok(Descriptor::File(Arc::new(File {
        file: opened,
        flags: DescriptorFlags {
            mutate_directory: false,
            ..flags
        },
        access: folder.access,
        quota: Arc::clone(&folder.quota),
        _held: held,
    })))
}
