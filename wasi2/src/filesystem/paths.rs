//! Functions of a `descriptor` that take paths in a directory.

use super::calls::{This, add, table, with_both, with_folder};
use super::error::ErrorCode;
use super::metadata::{DescriptorStat, MetadataHash};
use super::open::open;
use super::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags, TYPES, new_times};
use crate::wasi::View;
use pirn_component::{LinkError, Linker};

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    let name = "[method]descriptor.open-at";
    type Open = (This, PathFlags, String, OpenFlags, DescriptorFlags);
    linker.func(
        TYPES,
        name,
        |state, (this, follow, path, how, flags): Open| {
            let made = with_folder(state, &this, |folder| {
                open(folder, follow, &path, how, flags)
            })?;
            add(made, |opened| table(state).own(opened))
        },
    )?;
    let name = "[method]descriptor.readlink-at";
    linker.func(TYPES, name, |state, (this, path): (This, String)| {
        with_folder(state, &this, |folder| Ok(folder.read_link(&path)?))
    })?;
    link_metadata(linker)?;
    link_changes(linker)
}

fn link_metadata<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type At = (This, PathFlags, String);
    let name = "[method]descriptor.stat-at";
    linker.func(TYPES, name, |state, (this, flags, path): At| {
        with_folder(state, &this, |folder| {
            let found = folder.find(&path, flags.symlink_follow)?;
            Ok(DescriptorStat::from(&found))
        })
    })?;
    let name = "[method]descriptor.metadata-hash-at";
    linker.func(TYPES, name, |state, (this, flags, path): At| {
        with_folder(state, &this, |folder| {
            let found = folder.find(&path, flags.symlink_follow)?;
            Ok(MetadataHash::from(&found))
        })
    })?;
    let name = "[method]descriptor.set-times-at";
    type SetTimes = (This, PathFlags, String, NewTimestamp, NewTimestamp);
    linker.func(
        TYPES,
        name,
        |state, (this, flags, path, accessed, modified): SetTimes| {
            with_folder(state, &this, |folder| {
                let times = new_times(accessed, modified)?;
                Ok(folder.set_times_at(&path, flags.symlink_follow, times)?)
            })
        },
    )?;
    Ok(())
}

fn link_changes<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    let name = "[method]descriptor.create-directory-at";
    linker.func(TYPES, name, |state, (this, path): (This, String)| {
        with_folder(state, &this, |folder| Ok(folder.create_directory(&path)?))
    })?;
    let name = "[method]descriptor.remove-directory-at";
    linker.func(TYPES, name, |state, (this, path): (This, String)| {
        with_folder(state, &this, |folder| Ok(folder.remove_directory(&path)?))
    })?;
    let name = "[method]descriptor.unlink-file-at";
    linker.func(TYPES, name, |state, (this, path): (This, String)| {
        with_folder(state, &this, |folder| Ok(folder.unlink_file(&path)?))
    })?;
    let name = "[method]descriptor.symlink-at";
    linker.func(
        TYPES,
        name,
        |state, (this, to, path): (This, String, String)| {
            with_folder(state, &this, |folder| Ok(folder.symlink(&to, &path)?))
        },
    )?;
    let name = "[method]descriptor.link-at";
    type Link = (This, PathFlags, String, This, String);
    linker.func(TYPES, name, |state, (this, flags, old, to, new): Link| {
        with_both(state, &this, &to, |this, to| {
            let (this, to) = (this.folder()?, to.folder()?);
            match flags.symlink_follow {
                true => Err(ErrorCode::Invalid),
                false => Ok(this.link(&old, to, &new)?),
            }
        })
    })?;
    let name = "[method]descriptor.rename-at";
    type Rename = (This, String, This, String);
    linker.func(TYPES, name, |state, (this, old, to, new): Rename| {
        with_both(state, &this, &to, |this, to| {
            let (this, to) = (this.folder()?, to.folder()?);
            Ok::<_, ErrorCode>(this.rename(&old, to, &new)?)
        })
    })?;
    Ok(())
}
