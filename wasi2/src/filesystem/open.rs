//! `open-at`.

use super::backend::{OpenHow, Opened};
use super::descriptor::Descriptor;
use super::error::ErrorCode;
use super::file::File;
use super::folder::Folder;
use super::metadata::Metadata;
use super::path_checks::{checked, names_directory};
use super::types::{DescriptorFlags, FileKind, OpenFlags, PathFlags};
use std::sync::Arc;

/// Checks that a file is a regular file or a directory. Reads and writes of other files can block
/// forever, and opening some devices already has an effect.
fn check_kind(found: &Metadata, how: OpenFlags) -> Result<(), ErrorCode> {
    match found.kind {
        FileKind::Directory => Ok(()),
        _ if how.directory => Err(ErrorCode::NotDirectory),
        FileKind::RegularFile => Ok(()),
        _ => Err(ErrorCode::Unsupported),
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
    let all = OpenHow {
        follow: path_flags.symlink_follow,
        open: how,
        flags,
    };
    let opened = match folder.find(path, all.follow && !how.exclusive) {
        Ok(found) => {
            if how.create && how.exclusive {
                return Err(ErrorCode::Exist);
            }
            if how.create && found.kind == FileKind::Directory {
                return Err(ErrorCode::IsDirectory);
            }
            // A symbolic link that must not be followed is an error of the file system.
            if found.kind != FileKind::SymbolicLink {
                check_kind(&found, how)?;
            }
            // The file exists, so open without `create`. With `create`, if another guest has just
            // renamed the file, the open would make a new file without a charge.
            folder.directory.open(path, all)?
        }
        // A new file must not have a path that only a directory may have.
        Err(ErrorCode::NoEntry) if how.create && names_directory(path) => {
            return Err(ErrorCode::IsDirectory);
        }
        Err(ErrorCode::NoEntry) if how.create => {
            folder.entry(|| folder.directory.create(path, all))?
        }
        Err(code) => return Err(code),
    };
    // Another guest may have replaced the file since the check.
    match opened {
        Opened::Directory(directory) => Ok(Descriptor::Folder(Arc::new(Folder {
            directory,
            access: folder.access,
            quota: Arc::clone(&folder.quota),
            _held: Some(held),
        }))),
        Opened::File(file) => {
            check_kind(&file.metadata()?, how)?;
            Ok(Descriptor::File(Arc::new(File {
                file,
                flags: DescriptorFlags {
                    mutate_directory: false,
                    ..flags
                },
                access: folder.access,
                quota: Arc::clone(&folder.quota),
                _held: held,
            })))
        }
    }
}
