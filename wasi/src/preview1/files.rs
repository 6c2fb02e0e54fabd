//! Functions of open descriptors that move no bytes.

use super::abi::{FDSTAT, FILE_SIZE, NUMBER, PRESTAT, Version};
use super::call::Call;
use super::failure::Done;
use super::records::{fdflags, fdstat, filestat, filestat_layout, new_times, rights};
use crate::descriptors::{Descriptor, OpenFile};
use crate::errno::Errno;
use crate::files::Advice;
use rustix::fs::SeekFrom;
use rustix::net::Shutdown;

pub(super) fn fd_advise(call: &mut Call<'_>, fd: u32, offset: u64, len: u64, advice: u32) -> Done {
    let advice = match advice {
        0 => Advice::Normal,
        1 => Advice::Sequential,
        2 => Advice::Random,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return Err(Errno::INVAL.into()),
    };
    match &*call.descriptor(fd)? {
        Descriptor::File(open) => open.file.advise(offset, len, advice)?,
        Descriptor::Stream(stream) => stream.advise(offset, len, advice)?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    }
    Ok(())
}

/// Not every file system can allocate space, and WASI 0.2 does not have the function.
pub(super) fn fd_allocate(call: &mut Call<'_>, fd: u32, _offset: u64, _len: u64) -> Done {
    match &*call.descriptor(fd)? {
        Descriptor::Folder(_) => Err(Errno::BADF.into()),
        _ => Err(Errno::NOTSUP.into()),
    }
}

pub(super) fn fd_close(call: &mut Call<'_>, fd: u32) -> Done {
    Ok(call.state.table.close(fd)?)
}

pub(super) fn fd_renumber(call: &mut Call<'_>, from: u32, to: u32) -> Done {
    Ok(call.state.table.renumber(from, to)?)
}

pub(super) fn fd_datasync(call: &mut Call<'_>, fd: u32) -> Done {
    sync(call, fd, true)
}

pub(super) fn fd_sync(call: &mut Call<'_>, fd: u32) -> Done {
    sync(call, fd, false)
}

fn sync(call: &mut Call<'_>, fd: u32, only_data: bool) -> Done {
    match &*call.descriptor(fd)? {
        Descriptor::File(open) => open.file.sync(only_data)?,
        Descriptor::Stream(stream) => stream.sync(only_data)?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    }
    Ok(())
}

pub(super) fn fd_fdstat_get(call: &mut Call<'_>, fd: u32, stat: u32) -> Done {
    call.memory.check_result(stat, FDSTAT)?;
    let status = call.descriptor(fd)?.status()?;
    call.memory.write(stat, &fdstat(status))?;
    Ok(())
}

pub(super) fn fd_fdstat_set_flags(call: &mut Call<'_>, fd: u32, flags: u32) -> Done {
    let flags = fdflags(flags)?;
    match &*call.descriptor(fd)? {
        Descriptor::File(open) => open.set_flags(flags)?,
        Descriptor::Stream(stream) => stream.set_flags(flags)?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    }
    Ok(())
}

/// The rights of a descriptor cannot be reduced later.
pub(super) fn fd_fdstat_set_rights(
    call: &mut Call<'_>,
    fd: u32,
    base: u64,
    inheriting: u64,
) -> Done {
    rights(base, inheriting)?;
    call.descriptor(fd)?;
    Err(Errno::NOTSUP.into())
}

pub(super) fn fd_filestat_get(call: &mut Call<'_>, version: Version, fd: u32, stat: u32) -> Done {
    call.memory.check_result(stat, filestat_layout(version))?;
    let mut found = call.descriptor(fd)?.metadata()?;
    if call.state.quota.hides_times {
        found = found.without_times();
    }
    let (bytes, len) = filestat(version, &found);
    call.memory.write(stat, &bytes[..len])?;
    Ok(())
}

pub(super) fn fd_filestat_set_size(call: &mut Call<'_>, fd: u32, size: u64) -> Done {
    match &*call.descriptor(fd)? {
        Descriptor::File(open) => open.file.set_size(size)?,
        Descriptor::Stream(stream) => stream.set_size(size)?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    }
    Ok(())
}

pub(super) fn fd_filestat_set_times(
    call: &mut Call<'_>,
    fd: u32,
    accessed: u64,
    modified: u64,
    flags: u32,
) -> Done {
    let times = new_times(accessed, modified, flags)?;
    match &*call.descriptor(fd)? {
        Descriptor::File(open) => open.file.set_times(times)?,
        Descriptor::Folder(open) => open.folder.set_times(times)?,
        Descriptor::Stream(stream) => stream.set_times(times)?,
    }
    Ok(())
}

/// The name of a preopened directory.
///
/// # Errors
///
/// `not_folder` if the descriptor is no directory, `notsup` if it is not preopened.
fn preopened(descriptor: &Descriptor, not_folder: Errno) -> Result<&str, Errno> {
    let open = descriptor.folder().map_err(|_| not_folder)?;
    open.name.as_deref().ok_or(Errno::NOTSUP)
}

pub(super) fn fd_prestat_get(call: &mut Call<'_>, fd: u32, stat: u32) -> Done {
    call.memory.check_result(stat, PRESTAT)?;
    let descriptor = call.descriptor(fd)?;
    let name = preopened(&descriptor, Errno::BADF)?;
    // The tag 0 means a directory.
    call.memory.write_u32(stat, 0)?;
    call.memory.write_u32(stat + 4, name.len() as u32)?;
    Ok(())
}

pub(super) fn fd_prestat_dir_name(call: &mut Call<'_>, fd: u32, path: u32, len: u32) -> Done {
    let descriptor = call.descriptor(fd).map_err(|_| Errno::NOTDIR)?;
    let name = preopened(&descriptor, Errno::NOTDIR)?;
    if name.len() > len as usize {
        return Err(Errno::NAMETOOLONG.into());
    }
    call.memory.write(path, name.as_bytes())?;
    Ok(())
}

pub(super) fn fd_seek(
    call: &mut Call<'_>,
    version: Version,
    fd: u32,
    offset: u64,
    whence: u32,
    position: u32,
) -> Done {
    call.memory.check_result(position, FILE_SIZE)?;
    let distance = offset.cast_signed();
    let to = match (version, whence) {
        (Version::Preview1, 0) | (Version::Preview0, 2) => {
            SeekFrom::Start(u64::try_from(distance).map_err(|_| Errno::INVAL)?)
        }
        (Version::Preview1, 1) | (Version::Preview0, 0) => SeekFrom::Current(distance),
        (Version::Preview1, 2) | (Version::Preview0, 1) => SeekFrom::End(distance),
        _ => return Err(Errno::INVAL.into()),
    };
    seek(call, fd, to, position)
}

pub(super) fn fd_tell(call: &mut Call<'_>, fd: u32, position: u32) -> Done {
    call.memory.check_result(position, FILE_SIZE)?;
    seek(call, fd, SeekFrom::Current(0), position)
}

fn seek(call: &mut Call<'_>, fd: u32, to: SeekFrom, position: u32) -> Done {
    let at = match &*call.descriptor(fd)? {
        Descriptor::File(open) => moved(open, to)?,
        Descriptor::Stream(stream) => stream.seek(to)?,
        Descriptor::Folder(_) => return Err(Errno::BADF.into()),
    };
    call.memory.write_u64(position, at)?;
    Ok(())
}

/// Moves the position of a file as lseek(2), and returns the new position.
fn moved(open: &OpenFile, to: SeekFrom) -> Result<u64, Errno> {
    let mut position = open.position();
    let at = match to {
        SeekFrom::Start(at) => Some(at),
        SeekFrom::Current(distance) => position.checked_add_signed(distance),
        SeekFrom::End(distance) => open.file.size()?.checked_add_signed(distance),
        _ => None,
    };
    let at = at.ok_or(Errno::INVAL)?;
    open.file.check_position(at)?;
    *position = at;
    Ok(at)
}

pub(super) fn sock_accept(call: &mut Call<'_>, fd: u32, flags: u32, accepted: u32) -> Done {
    call.memory.check_result(accepted, NUMBER)?;
    let flags = fdflags(flags)?;
    let descriptor = call.descriptor(fd)?;
    let socket = descriptor.socket()?;
    let stream = call.when_ready(|| socket.accept(flags, &call.state.quota))?;
    let number = call.state.table.add(Descriptor::Stream(stream))?;
    call.memory.write_u32(accepted, number)?;
    Ok(())
}

pub(super) fn sock_shutdown(call: &mut Call<'_>, fd: u32, how: u32) -> Done {
    let how = match how {
        0..=3 => how,
        _ => return Err(Errno::INVAL.into()),
    };
    let descriptor = call.descriptor(fd)?;
    let socket = descriptor.socket()?;
    Ok(socket.shutdown(match how {
        1 => Shutdown::Read,
        2 => Shutdown::Write,
        3 => Shutdown::Both,
        _ => return Err(Errno::INVAL.into()),
    })?)
}
