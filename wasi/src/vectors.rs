//! The functions of preview 1 with I/O vectors, see [`buffers`].

use crate::abi::MODULE;
use crate::buffers::{self, Places};
use crate::errno;
use crate::guest::ContextOf;
use crate::transfer;
use pirn_runtime::{Caller, HostError, LinkError, Linker};
use wasi_common::WasiCtx;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

/// `filetype` of a regular file: reading it never waits for more bytes.
const REGULAR_FILE: u8 = 4;

/// Links the functions of this file.
///
/// # Errors
///
/// If the linker already defines one of the functions.
pub(crate) fn link<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    link_senders(linker, ctx)?;
    link_receivers(linker, ctx)
}

fn link_senders<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.func(
        MODULE,
        "fd_write",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              iovs: i32,
              len: i32,
              written: i32|
              -> Result<i32, HostError> {
            let places = places(iovs, len, written);
            if let Some(errno) = transfer::write(&mut caller, ctx, (fd, None), places)? {
                return Ok(errno);
            }
            buffers::send(&mut caller, ctx, places, |ctx, memory, at, _| {
                let sent = wasi::fd_write(ctx, memory, fd, at.vectors, at.count, at.moved);
                errno::of_call("fd_write", sent)
            })
        },
    )?;
    linker.func(
        MODULE,
        "fd_pwrite",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              iovs: i32,
              len: i32,
              offset: i64,
              written: i32|
              -> Result<i32, HostError> {
            let places = places(iovs, len, written);
            if let Some(errno) = transfer::write(&mut caller, ctx, (fd, Some(offset)), places)? {
                return Ok(errno);
            }
            buffers::send(&mut caller, ctx, places, |ctx, memory, at, done| {
                let (iovs, len, written) = (at.vectors, at.count, at.moved);
                let offset = offset.wrapping_add(done.into());
                let sent = wasi::fd_pwrite(ctx, memory, fd, iovs, len, offset, written);
                errno::of_call("fd_pwrite", sent)
            })
        },
    )?;
    linker.func(
        MODULE,
        "sock_send",
        move |mut caller: Caller<'_, T>, fd: i32, iovs: i32, len: i32, how: i32, written: i32| {
            let places = places(iovs, len, written);
            buffers::send(&mut caller, ctx, places, |ctx, memory, at, _| {
                let (iovs, len, written) = (at.vectors, at.count, at.moved);
                let sent = wasi::sock_send(ctx, memory, fd, iovs, len, how, written);
                let errno = errno::of_call("sock_send", sent)?;
                Ok(errno::of_socket(ctx, fd, errno))
            })
        },
    )?;
    Ok(())
}

fn link_receivers<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.func(
        MODULE,
        "fd_read",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              iovs: i32,
              len: i32,
              read: i32|
              -> Result<i32, HostError> {
            let (places, continues) = (places(iovs, len, read), |ctx: &mut _| is_regular(ctx, fd));
            if let Some(errno) = transfer::read(&mut caller, ctx, (fd, None), places)? {
                return Ok(errno);
            }
            buffers::receive(&mut caller, ctx, places, continues, |ctx, memory, at, _| {
                let read = wasi::fd_read(ctx, memory, fd, at.vectors, at.count, at.moved);
                errno::of_call("fd_read", read)
            })
        },
    )?;
    linker.func(
        MODULE,
        "fd_pread",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              iovs: i32,
              len: i32,
              offset: i64,
              read: i32|
              -> Result<i32, HostError> {
            let (places, continues) = (places(iovs, len, read), |ctx: &mut _| is_regular(ctx, fd));
            if let Some(errno) = transfer::read(&mut caller, ctx, (fd, Some(offset)), places)? {
                return Ok(errno);
            }
            buffers::receive(
                &mut caller,
                ctx,
                places,
                continues,
                |ctx, memory, at, done| {
                    let (iovs, len, read) = (at.vectors, at.count, at.moved);
                    let offset = offset.wrapping_add(done.into());
                    let read = wasi::fd_pread(ctx, memory, fd, iovs, len, offset, read);
                    errno::of_call("fd_pread", read)
                },
            )
        },
    )?;
    linker.func(
        MODULE,
        "sock_recv",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              iovs: i32,
              len: i32,
              how: i32,
              received: i32,
              flags: i32| {
            let mut places = places(iovs, len, received);
            places.flags = Some(flags);
            let continues = |_: &mut _| Ok(false);
            buffers::receive(&mut caller, ctx, places, continues, |ctx, memory, at, _| {
                let (iovs, len, received) = (at.vectors, at.count, at.moved);
                let flags = at.flags.unwrap_or(flags);
                let got = wasi::sock_recv(ctx, memory, fd, iovs, len, how, received, flags);
                let errno = errno::of_call("sock_recv", got)?;
                Ok(errno::of_socket(ctx, fd, errno))
            })
        },
    )?;
    Ok(())
}

/// The pointers of a call without flags.
fn places(vectors: i32, count: i32, moved: i32) -> Places {
    Places {
        vectors,
        count,
        moved,
        flags: None,
    }
}

/// Whether a descriptor is a regular file.
fn is_regular(ctx: &mut WasiCtx, fd: i32) -> Result<bool, HostError> {
    /// An `fdstat`. Its first byte is the file type.
    #[repr(align(8))]
    struct Stat([u8; 24]);
    let mut stat = Stat([0; 24]);
    let mut memory = GuestMemory::Unshared(&mut stat.0);
    let got = errno::of_call(
        "fd_fdstat_get",
        wasi::fd_fdstat_get(ctx, &mut memory, fd, 0),
    )?;
    Ok(got == 0 && stat.0[0] == REGULAR_FILE)
}
