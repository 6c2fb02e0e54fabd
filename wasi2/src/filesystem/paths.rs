//! Functions of a `descriptor` that take paths in a directory.

use super::calls::{This, add, table, with_both, with_folder, with_state};
use super::descriptor::Descriptor;
use super::error::ErrorCode;
use super::metadata::{DescriptorStat, MetadataHash};
use super::open::open;
use super::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags, new_times};
use crate::methods::methods;
use crate::wasi::View;
use pirn_component::{LinkError, Linker};
use pirn_wasi::files::Folder;

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, Descriptor, with_folder;
        "readlink-at"(path: String) => |folder| Ok(folder.read_link(&path)?);
        "stat-at"(flags: PathFlags, path: String) => |folder| {
            let found = folder.find(&path, flags.symlink_follow)?;
            Ok(DescriptorStat::from(&found))
        };
        "metadata-hash-at"(flags: PathFlags, path: String) => |folder| {
            let found = folder.find(&path, flags.symlink_follow)?;
            Ok(MetadataHash::from(&found))
        };
        "set-times-at"(
            flags: PathFlags, path: String, accessed: NewTimestamp, modified: NewTimestamp
        ) => |folder| {
            let times = new_times(accessed, modified)?;
            Ok(folder.set_times_at(&path, flags.symlink_follow, times)?)
        };
        "create-directory-at"(path: String) => |folder| Ok(folder.create_directory(&path)?);
        "remove-directory-at"(path: String) => |folder| Ok(folder.remove_directory(&path)?);
        "unlink-file-at"(path: String) => |folder| Ok(folder.unlink_file(&path)?);
        "symlink-at"(to: String, path: String) => |folder| Ok(folder.symlink(&to, &path)?);
    }
    methods! { linker, Descriptor, with_state;
        "open-at"(
            follow: PathFlags, path: String, how: OpenFlags, flags: DescriptorFlags
        ) => |state, this| {
            let open = |folder: &Folder| open(folder, follow, &path, how, flags);
            let made = with_folder(state, this, open)?;
            add(made, |opened| table(state).own(opened))
        };
        "link-at"(flags: PathFlags, old: String, to: This, new: String) => |state, this| {
            with_both(state, this, &to, |this, to| {
                let (this, to) = (this.folder()?, to.folder()?);
                match flags.symlink_follow {
                    true => Err(ErrorCode::Invalid),
                    false => Ok(this.link(&old, to, &new)?),
                }
            })
        };
        "rename-at"(old: String, to: This, new: String) => |state, this| {
            with_both(state, this, &to, |this, to| {
                let (this, to) = (this.folder()?, to.folder()?);
                Ok::<_, ErrorCode>(this.rename(&old, to, &new)?)
            })
        };
    }
    Ok(())
}
