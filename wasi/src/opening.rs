//! The functions of preview 1 that open, close or renumber descriptors, or set their flags. They
//! keep the [`OpenFiles`](crate::open_files::OpenFiles) of a context up to date.

use crate::abi::MODULE;
use crate::errno::{self, INVAL, NAMETOOLONG};
use crate::guest::{ContextOf, split};
use crate::memory_dir::take_opened;
use crate::scratch::Scratch;
use crate::wasi_ctx::WasiCtx;
use pirn_runtime::{Caller, HostError, LinkError, Linker};
use std::sync::Arc;
use wasi_common::file::FdFlags;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

/// Length and alignment of a descriptor, in bytes.
const DESCRIPTOR: (usize, u32) = (4, 4);

/// Links the functions of this file.
///
/// # Errors
///
/// If the linker already defines one of the functions.
pub(crate) fn link<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.func(
        MODULE,
        "path_open",
        move |mut caller: Caller<'_, T>,
              fd: i32,
              lookup: i32,
              path: i32,
              path_len: i32,
              how: i32,
              base: i64,
              inheriting: i64,
              flags: i32,
              opened: i32|
              -> Result<i32, HostError> {
            let (mut memory, data) = split(&mut caller);
            let mut scratch = Scratch::take();
            let Some((path, path_len)) = scratch.path(&memory, path, path_len)? else {
                return Ok(NAMETOOLONG);
            };
            let opened = scratch.answer(&memory, opened, DESCRIPTOR)?;
            let ctx = ctx(data);
            let here = &mut scratch.memory();
            let (common, rights) = (ctx.common(), (base, inheriting));
            let answer = wasi::path_open(
                common, here, fd, lookup, path, path_len, how, rights.0, rights.1, flags, opened,
            );
            let result = errno::of_call("path_open", answer);
            // Taken also after an error: this thread must not keep a guest's file.
            let file = take_opened();
            let errno = result?;
            if errno == 0 {
                if let (Some(files), Some(file)) = (ctx.files(), file) {
                    let number = scratch.number(opened as usize);
                    files.add(number, file, || ctx.table().contains_key(number));
                }
                scratch.give(&mut memory)?;
            }
            Ok(errno)
        },
    )?;
    linker.func(
        MODULE,
        "fd_close",
        move |mut caller: Caller<'_, T>, fd: i32| -> Result<i32, HostError> {
            let ctx = ctx(caller.data_mut());
            match ctx.files().map(Arc::clone) {
                Some(files) => files.close(fd.cast_unsigned(), || close(ctx, fd)),
                None => close(ctx, fd),
            }
        },
    )?;
    linker.func(
        MODULE,
        "fd_renumber",
        move |mut caller: Caller<'_, T>, from: i32, to: i32| -> Result<i32, HostError> {
            let ctx = ctx(caller.data_mut());
            let Some(files) = ctx.files().map(Arc::clone) else {
                return renumber(ctx, from, to);
            };
            let numbers = (from.cast_unsigned(), to.cast_unsigned());
            let is_done = |result: &Result<i32, HostError>| matches!(result, Ok(0));
            files.renumber(numbers, || renumber(ctx, from, to), is_done)
        },
    )?;
    linker.func(
        MODULE,
        "fd_fdstat_set_flags",
        move |mut caller: Caller<'_, T>, fd: i32, flags: i32| -> Result<i32, HostError> {
            set_flags(ctx(caller.data_mut()), fd, flags)
        },
    )?;
    Ok(())
}

/// An empty memory, for functions that do not access the guest's memory: all functions of this file
/// but `path_open`.
fn no_memory() -> GuestMemory<'static> {
    GuestMemory::Unshared(&mut [])
}

fn close(ctx: &mut WasiCtx, fd: i32) -> Result<i32, HostError> {
    let mut memory = no_memory();
    let closed = wasi::fd_close(ctx.common(), &mut memory, fd);
    errno::of_call("fd_close", closed)
}

fn renumber(ctx: &mut WasiCtx, from: i32, to: i32) -> Result<i32, HostError> {
    let mut memory = no_memory();
    let moved = wasi::fd_renumber(ctx.common(), &mut memory, from, to);
    errno::of_call("fd_renumber", moved)
}

/// Sets the flags of a descriptor. wasi-common can set flags only for guests with one thread. For
/// files in memory there is no such limit.
fn set_flags(ctx: &mut WasiCtx, fd: i32, flags: i32) -> Result<i32, HostError> {
    let open = ctx.files().and_then(|files| files.get(fd.cast_unsigned()));
    let Some(open) = open else {
        let mut memory = no_memory();
        let set = wasi::fd_fdstat_set_flags(ctx.common(), &mut memory, fd, flags);
        return errno::of_call("fd_fdstat_set_flags", set);
    };
    // Preview 1 has the same bits as wasi-common.
    let known = FdFlags::from_bits(flags.cast_unsigned());
    match known.filter(|flags| (FdFlags::APPEND | FdFlags::NONBLOCK).contains(*flags)) {
        Some(flags) => {
            open.set_flags(flags);
            Ok(0)
        }
        None => Ok(INVAL),
    }
}
