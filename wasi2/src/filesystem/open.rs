//! `open-at`.

use super::descriptor::{Descriptor, OpenFile};
use super::error::ErrorCode;
use super::types::{DescriptorFlags, OpenFlags, PathFlags};
use pirn_wasi::files::{Folder, Node, OpenHow, Synchronous};
use std::sync::Arc;

/// Opens a file or a directory.
pub(crate) fn open(
    folder: &Folder,
    path_flags: PathFlags,
    path: &str,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> Result<Descriptor, ErrorCode> {
    if flags.mutate_directory && !folder.is_changeable() {
        return Err(ErrorCode::ReadOnly);
    }
    let how = OpenHow {
        follow: path_flags.symlink_follow,
        create: how.create,
        exclusive: how.exclusive,
        truncate: how.truncate,
        directory: how.directory,
        read: flags.read,
        write: flags.write,
        synchronous: Synchronous {
            file: flags.file_integrity_sync,
            data: flags.data_integrity_sync,
            reads: flags.requested_write_sync,
        },
    };
    match folder.open(path, how)? {
        Node::Folder(folder) => Ok(Descriptor::Folder(Arc::new(folder))),
        Node::File(file) => {
            let flags = DescriptorFlags {
                mutate_directory: false,
                ..flags
            };
            Ok(Descriptor::File(Arc::new(OpenFile { file, flags })))
        }
        Node::Stream(..) => Err(ErrorCode::Unsupported),
    }
}
