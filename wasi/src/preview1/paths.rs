//! Functions that take paths, and listings of directories.

use super::abi::{NUMBER, Version};
use super::call::Call;
use super::failure::Done;
use super::records::{dirent, fdflags, filestat, filestat_layout, follows, new_times, rights};
use crate::descriptors::{Descriptor, OpenFile, OpenFolder};
use crate::errno::Errno;
use crate::fdflags::FdFlags;
use crate::files::{Node, OpenHow, Synchronous};
use crate::stream::Stream;

pub(super) fn path_create_directory(call: &mut Call<'_>, fd: u32, path: u32, len: u32) -> Done {
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    Ok(folder.create_directory(&call.memory.path(path, len)?)?)
}

pub(super) fn path_remove_directory(call: &mut Call<'_>, fd: u32, path: u32, len: u32) -> Done {
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    Ok(folder.remove_directory(&call.memory.path(path, len)?)?)
}

pub(super) fn path_unlink_file(call: &mut Call<'_>, fd: u32, path: u32, len: u32) -> Done {
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    Ok(folder.unlink_file(&call.memory.path(path, len)?)?)
}

pub(super) fn path_filestat_get(
    call: &mut Call<'_>,
    version: Version,
    fd: u32,
    lookup: u32,
    path: u32,
    len: u32,
    stat: u32,
) -> Done {
    call.memory.check_result(stat, filestat_layout(version))?;
    let follow = follows(lookup)?;
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    let found = folder.find(&call.memory.path(path, len)?, follow)?;
    let (bytes, len) = filestat(version, &found);
    call.memory.write(stat, &bytes[..len])?;
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "preview 1 defines the function")]
pub(super) fn path_filestat_set_times(
    call: &mut Call<'_>,
    fd: u32,
    lookup: u32,
    path: u32,
    len: u32,
    accessed: u64,
    modified: u64,
    flags: u32,
) -> Done {
    let follow = follows(lookup)?;
    let times = new_times(accessed, modified, flags)?;
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    Ok(folder.set_times_at(&call.memory.path(path, len)?, follow, times)?)
}

#[allow(clippy::too_many_arguments, reason = "preview 1 defines the function")]
pub(super) fn path_link(
    call: &mut Call<'_>,
    old_fd: u32,
    lookup: u32,
    old: u32,
    old_len: u32,
    new_fd: u32,
    new: u32,
    new_len: u32,
) -> Done {
    let follow = follows(lookup)?;
    let (from, to) = (call.descriptor(old_fd)?, call.descriptor(new_fd)?);
    let (from, to) = (&from.folder()?.folder, &to.folder()?.folder);
    if follow {
        return Err(Errno::INVAL.into());
    }
    let old = call.memory.path(old, old_len)?;
    let new = call.memory.path(new, new_len)?;
    Ok(from.link(&old, to, &new)?)
}

#[allow(clippy::too_many_arguments, reason = "preview 1 defines the function")]
pub(super) fn path_rename(
    call: &mut Call<'_>,
    old_fd: u32,
    old: u32,
    old_len: u32,
    new_fd: u32,
    new: u32,
    new_len: u32,
) -> Done {
    let (from, to) = (call.descriptor(old_fd)?, call.descriptor(new_fd)?);
    let (from, to) = (&from.folder()?.folder, &to.folder()?.folder);
    let old = call.memory.path(old, old_len)?;
    let new = call.memory.path(new, new_len)?;
    Ok(from.rename(&old, to, &new)?)
}

pub(super) fn path_symlink(
    call: &mut Call<'_>,
    target: u32,
    target_len: u32,
    fd: u32,
    path: u32,
    len: u32,
) -> Done {
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    let target = call.memory.path(target, target_len)?;
    Ok(folder.symlink(&target, &call.memory.path(path, len)?)?)
}

/// The target of a symbolic link, cut to the guest's buffer.
pub(super) fn path_readlink(
    call: &mut Call<'_>,
    fd: u32,
    path: u32,
    path_len: u32,
    buffer: u32,
    len: u32,
    used: u32,
) -> Done {
    call.memory.check_result(used, NUMBER)?;
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    let target = folder.read_link(&call.memory.path(path, path_len)?)?;
    let some = target.len().min(len as usize);
    call.memory.write(buffer, &target.as_bytes()[..some])?;
    call.memory.write_u32(used, some as u32)?;
    Ok(())
}

/// `oflags`
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

#[allow(clippy::too_many_arguments, reason = "preview 1 defines the function")]
pub(super) fn path_open(
    call: &mut Call<'_>,
    fd: u32,
    lookup: u32,
    path: u32,
    len: u32,
    how: u32,
    base: u64,
    inheriting: u64,
    flags: u32,
    opened: u32,
) -> Done {
    call.memory.check_result(opened, NUMBER)?;
    let (follow, flags) = (follows(lookup)?, fdflags(flags)?);
    let (read, write) = rights(base, inheriting)?;
    if how & !(CREATE | DIRECTORY | EXCLUSIVE | TRUNCATE) != 0 {
        return Err(Errno::INVAL.into());
    }
    let how = OpenHow {
        follow,
        create: how & CREATE != 0,
        exclusive: how & EXCLUSIVE != 0,
        truncate: how & TRUNCATE != 0,
        directory: how & DIRECTORY != 0,
        read,
        write,
        synchronous: Synchronous {
            file: flags.contains(FdFlags::SYNC),
            data: flags.contains(FdFlags::DSYNC),
            reads: flags.contains(FdFlags::RSYNC),
        },
    };
    let descriptor = call.descriptor(fd)?;
    let Descriptor::Folder(open) = &*descriptor else {
        return Err(Errno::NOTDIR.into());
    };
    let path = call.memory.path(path, len)?;
    let new = match open.folder.open_any(&path, how)? {
        Node::File(file) => Descriptor::File(Box::new(OpenFile::new(file, flags))),
        Node::Folder(folder) => Descriptor::Folder(OpenFolder { folder, name: None }),
        Node::Stream(fd, access, held) => {
            Descriptor::Stream(Stream::opened(fd, flags, (read, write), (access, held)))
        }
    };
    let number = call.state.table.add(new)?;
    call.memory.write_u32(opened, number)?;
    Ok(())
}

/// The entries of a directory after a cookie, until the guest's buffer is full. The last entry may
/// be cut. Between two entries the host checks whether the guest was stopped.
pub(super) fn fd_readdir(
    call: &mut Call<'_>,
    fd: u32,
    buffer: u32,
    len: u32,
    cookie: u64,
    used: u32,
) -> Done {
    call.memory.check(buffer, len.into(), 1)?;
    call.memory.check_result(used, NUMBER)?;
    let descriptor = call.descriptor(fd)?;
    let folder = &descriptor.folder()?.folder;
    let cookies = &call.state.cookies;
    let mut entries = folder.entries(cookies.position(cookie)?)?;
    let mut done = 0;
    while done < len && !call.is_stopped() {
        let Some(entry) = entries.next()? else {
            break;
        };
        let record = dirent(&entry, cookies.cookie(entry.next));
        for bytes in [&record[..], entry.name.as_bytes()] {
            let some = bytes.len().min((len - done) as usize);
            if some == 0 {
                break;
            }
            call.memory.write(buffer + done, &bytes[..some])?;
            done += some as u32;
        }
    }
    call.memory.write_u32(used, done)?;
    Ok(())
}
