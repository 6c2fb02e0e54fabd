//! The functions of WASI preview 1. Almost all of them call wasi-common. Functions with paths call
//! wasi-common through [`Scratch`] memory.

use crate::abi::{EVENT_BYTES, MODULE, SUBSCRIPTION_BYTES};
use crate::errno::{self, INVAL, NAMETOOLONG};
use crate::exit::Exit;
use crate::guest::{ContextOf, split};
use crate::poll::Polled;
use crate::scratch::Scratch;
use crate::sleep::{SUBSCRIPTIONS_MAX, Sleep};
use crate::virtual_clock::VirtualClock;
use crate::wasi_ctx::WasiCtx;
use crate::{opening, pieces, vectors, wait};
use pirn_runtime::{Caller, HostError, HostFuture, LinkError, Linker, Trap};
use std::sync::Arc;
use std::time::Instant;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;

/// Defines the functions of preview 1 in a linker. `ctx` returns the context in an instance's host
/// data.
///
/// Preview 1 has 32-bit pointers. A module that imports preview 1 and has a 64-bit memory cannot be
/// prepared ([`LinkError::Addresses`]). Pointers are offsets in the memory that the calling
/// instance exports as `memory`, as preview 1 requires. Without such an export, pointers are
/// offsets in memory 0. A pointer outside the memory ends the call, as in Wasmtime.
///
/// Host calls block their thread until they are done or the guest is stopped: `poll_oneoff` sleeps,
/// reads wait for input, and writes wait for room.
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker already defines one of the functions.
pub fn link<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
) -> Result<(), LinkError> {
    link_blocking(linker, ctx, Sleep::wait)
}

/// Defines the functions of preview 1 for guests that see the time of a virtual clock.
///
/// The only difference to [`link`] is `poll_oneoff`: if a guest waits for clocks only, `clock`
/// advances and no thread waits. Build the context by
/// [`with_virtual_clock`](crate::WasiCtxBuilder::with_virtual_clock) with the same clock.
///
/// # Errors
///
/// As [`link`].
pub fn link_virtual<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    clock: VirtualClock,
) -> Result<(), LinkError> {
    link_blocking(linker, ctx, move |sleep, _| clock.advance(sleep.left))
}

/// Links all functions. `wait` returns when the first of several clocks has expired.
fn link_blocking<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    wait: impl Fn(&Sleep, &Caller<'_, T>) + Send + Sync + 'static,
) -> Result<(), LinkError> {
    link_rest(linker, ctx)?;
    let poll = move |mut caller: Caller<'_, T>, subs: u32, events: u32, count: u32, stored: u32| {
        if count > SUBSCRIPTIONS_MAX {
            return Ok(INVAL);
        }
        if let Some(sleep) = sleep_of(&mut caller, ctx, subs, count)? {
            wait(&sleep, &caller);
            tell(&mut caller, &sleep.events().0, events, stored)?;
            return Ok(0);
        }
        let polled = match polled_of(&mut caller, ctx, [subs, events, count, stored])? {
            Ok(polled) => polled,
            Err(errno) => return Ok(errno),
        };
        while !caller.is_stopped() {
            let happened = polled.look(ctx(caller.data_mut()), polled.next_look())?;
            if !happened.is_empty() {
                tell(&mut caller, &happened, events, stored)?;
                break;
            }
        }
        Ok::<i32, HostError>(0)
    };
    linker.func(MODULE, "poll_oneoff", poll)?;
    Ok(())
}

/// Defines the functions of preview 1 for guests that run under
/// [`call_async`](pirn_runtime::Instance::call_async).
///
/// The only difference to [`link`] is `poll_oneoff`. A guest that sleeps awaits the future that
/// `sleep` returns for a point in time. The executor drives that future, so no thread waits. Files
/// are still read and written on the thread that polls the call.
///
/// # Errors
///
/// As [`link`].
pub fn link_async<T: Send + 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    sleep: impl Fn(Instant) -> HostFuture<'static, ()> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    link_rest(linker, ctx)?;
    let until = Arc::new(sleep);
    linker.func_async(
        MODULE,
        "poll_oneoff",
        move |mut caller: Caller<'_, T>, (subs, events, count, stored): (u32, u32, u32, u32)| {
            let until = Arc::clone(&until);
            Box::pin(async move {
                if count > SUBSCRIPTIONS_MAX {
                    return Ok(INVAL);
                }
                if let Some(sleep) = sleep_of(&mut caller, ctx, subs, count)? {
                    until(sleep.until).await;
                    tell(&mut caller, &sleep.events().0, events, stored)?;
                    return Ok(0);
                }
                let polled = match polled_of(&mut caller, ctx, [subs, events, count, stored])? {
                    Ok(polled) => polled,
                    Err(errno) => return Ok(errno),
                };
                loop {
                    let happened = polled.look(ctx(caller.data_mut()), Instant::now())?;
                    if !happened.is_empty() {
                        tell(&mut caller, &happened, events, stored)?;
                        return Ok::<i32, HostError>(0);
                    }
                    until(polled.next_look()).await;
                }
            })
        },
    )?;
    Ok(())
}

/// The clocks that a guest waits for, if its subscriptions are clocks only.
fn sleep_of<T>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    subscriptions: u32,
    count: u32,
) -> Result<Option<Sleep>, Trap> {
    let len = count * SUBSCRIPTION_BYTES as u32;
    let (memory, data) = split(caller);
    let mut scratch = Scratch::take();
    let at = scratch.reserve(len as usize);
    let bytes = scratch.range(at, len as usize);
    memory.read(subscriptions, bytes)?;
    Ok(Sleep::of(ctx(data), bytes))
}

/// The parsed subscriptions of a `poll_oneoff`, or an errno.
fn polled_of<T>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    [subscriptions, events, count, stored]: [u32; 4],
) -> Result<Result<Polled, i32>, HostError> {
    if count == 0 {
        return Ok(Err(INVAL));
    }
    let (memory, data) = split(caller);
    let bytes = count as usize * SUBSCRIPTION_BYTES;
    memory.check(stored, 4, 1)?;
    memory.check(events, u64::from(count) * EVENT_BYTES as u64, 1)?;
    let mut scratch = Scratch::take();
    let at = scratch.reserve(bytes);
    memory.read(subscriptions, scratch.range(at, bytes))?;
    Ok(Polled::of(ctx(data), scratch.range(at, bytes)))
}

/// Writes events and their number to the guest.
fn tell<T>(caller: &mut Caller<'_, T>, told: &[u8], events: u32, stored: u32) -> Result<(), Trap> {
    let number = (told.len() / EVENT_BYTES) as u32;
    let (mut memory, _) = split(caller);
    memory.write(events, told)?;
    memory.write(stored, &number.to_le_bytes())
}

/// Links all functions except `poll_oneoff`.
fn link_rest<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.require_32_bit_addresses(MODULE);
    link_functions(linker, ctx)?;
    link_path_functions(linker, ctx)?;
    link_sockets(linker, ctx)?;
    vectors::link(linker, ctx)?;
    pieces::link(linker, ctx)?;
    opening::link(linker, ctx)?;
    // wasi-common's `proc_exit` rejects exit codes from 126 on.
    linker.func(MODULE, "proc_exit", |code: u32| -> Result<(), Exit> {
        Err(Exit { code })
    })?;
    Ok(())
}

/// Links the socket functions without vectors.
fn link_sockets<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.func(
        MODULE,
        "sock_accept",
        move |mut caller: Caller<'_, T>, fd: i32, flags: i32, accepted: i32| {
            wait::retry_until_ready(&mut caller, |caller| {
                let (mut memory, data) = split(caller);
                memory.check_answer(accepted.cast_unsigned(), DESCRIPTOR)?;
                let (ctx, here) = (ctx(data).common(), &mut memory.all());
                let answer = wasi::sock_accept(ctx, here, fd, flags, accepted);
                let errno = errno::of_call("sock_accept", answer)?;
                Ok(errno::of_socket(ctx, fd, errno))
            })
        },
    )?;
    linker.func(
        MODULE,
        "sock_shutdown",
        move |mut caller: Caller<'_, T>, fd: i32, how: i32| -> Result<i32, HostError> {
            let (mut memory, data) = split(&mut caller);
            let (ctx, here) = (ctx(data).common(), &mut memory.all());
            let answer = wasi::sock_shutdown(ctx, here, fd, how);
            let errno = errno::of_call("sock_shutdown", answer)?;
            Ok(errno::of_socket(ctx, fd, errno))
        },
    )?;
    Ok(())
}

/// Defines functions with the types that preview 1 lowers to.
///
/// Pointers, sizes, descriptors and flags are i32. Offsets, rights, cookies and times are i64.
/// Every function returns an errno.
///
/// `answer` names a pointer to a result, with its length and alignment. wasi-common writes the
/// result to the guest's memory, and allocates nothing for it.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) $(answer($answer:ident, $layout:expr))*;)*) => {
        $(
        /// Not inlined: the closure that calls this function is then small enough for the compiler
        /// to inline the closure into the runtime's code for host calls (bench `cycle`, hello).
        #[inline(never)]
        fn $name<T>(
            caller: &mut Caller<'_, T>,
            ctx: ContextOf<T>,
            $($arg: $ty),*
        ) -> Result<i32, HostError> {
            let (mut memory, data) = split(caller);
            $(memory.check_answer($answer.cast_unsigned(), $layout)?;)*
            let here = &mut memory.all();
            errno::of_call(stringify!($name), wasi::$name(ctx(data).common(), here, $($arg),*))
        })*

        fn link_functions<T: 'static, Q: 'static, A: 'static>(
            linker: &mut Linker<T, Q, A>,
            ctx: ContextOf<T>,
        ) -> Result<(), LinkError> {
            $(linker.func(
                MODULE,
                stringify!($name),
                move |mut caller: Caller<'_, T>, $($arg: $ty),*| {
                    $name(&mut caller, ctx, $($arg),*)
                },
            )?;)*
            Ok(())
        }

        #[cfg(test)]
        const FUNCTIONS: &[&str] = &[$(stringify!($name),)*];
    };
}

/// Defines functions that take paths, in the form of `functions!`. Paths are copied to the scratch
/// memory, and results are copied from it.
macro_rules! path_functions {
    ($($name:ident($($arg:ident: $ty:ty),*)
        $(path($path:ident, $len:ident))* $(answer($answer:ident, $layout:expr))*;)*) => {
        fn link_path_functions<T: 'static, Q: 'static, A: 'static>(
            linker: &mut Linker<T, Q, A>,
            ctx: ContextOf<T>,
        ) -> Result<(), LinkError> {
            $(linker.func(
                MODULE,
                stringify!($name),
                move |mut caller: Caller<'_, T>, $($arg: $ty),*| -> Result<i32, HostError> {
                    let (mut memory, data) = split(&mut caller);
                    let mut scratch = Scratch::take();
                    $(let Some(($path, $len)) = scratch.path(&memory, $path, $len)? else {
                        return Ok(NAMETOOLONG);
                    };)*
                    $(let $answer = scratch.answer(&memory, $answer, $layout)?;)*
                    let here = &mut scratch.memory();
                    let answer = wasi::$name(ctx(data).common(), here, $($arg),*);
                    let errno = errno::of_call(stringify!($name), answer)?;
                    if errno == 0 {
                        scratch.give(&mut memory)?;
                    }
                    Ok(errno)
                },
            )?;)*
            Ok(())
        }

        #[cfg(test)]
        const PATH_FUNCTIONS: &[&str] = &[$(stringify!($name),)*];
    };
}

/// Length and alignment of a result, in bytes.
type Layout = (usize, u32);
const DESCRIPTOR: Layout = (4, 4);
const TIME: Layout = (8, 8);
const FILE_SIZE: Layout = (8, 8);
const FDSTAT: Layout = (24, 8);
const FILESTAT: Layout = (64, 8);
const PRESTAT: Layout = (8, 4);

functions! {
    clock_res_get(id: i32, resolution: i32) answer(resolution, TIME);
    clock_time_get(id: i32, precision: i64, time: i32) answer(time, TIME);
    fd_advise(fd: i32, offset: i64, len: i64, advice: i32);
    fd_allocate(fd: i32, offset: i64, len: i64);
    fd_datasync(fd: i32);
    fd_fdstat_get(fd: i32, stat: i32) answer(stat, FDSTAT);
    fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64);
    fd_filestat_get(fd: i32, stat: i32) answer(stat, FILESTAT);
    fd_filestat_set_size(fd: i32, size: i64);
    fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32);
    fd_prestat_get(fd: i32, stat: i32) answer(stat, PRESTAT);
    fd_seek(fd: i32, offset: i64, whence: i32, position: i32) answer(position, FILE_SIZE);
    fd_sync(fd: i32);
    fd_tell(fd: i32, position: i32) answer(position, FILE_SIZE);
    proc_raise(signal: i32);
    sched_yield();
}

path_functions! {
    path_create_directory(fd: i32, path: i32, path_len: i32) path(path, path_len);
    path_filestat_get(fd: i32, flags: i32, path: i32, path_len: i32, stat: i32)
        path(path, path_len) answer(stat, FILESTAT);
    path_filestat_set_times(fd: i32, flags: i32, path: i32, path_len: i32, accessed: i64,
                            modified: i64, times: i32) path(path, path_len);
    path_link(old_fd: i32, flags: i32, old: i32, old_len: i32, new_fd: i32, new: i32, new_len: i32)
        path(old, old_len) path(new, new_len);
    path_remove_directory(fd: i32, path: i32, path_len: i32) path(path, path_len);
    path_rename(fd: i32, old: i32, old_len: i32, new_fd: i32, new: i32, new_len: i32)
        path(old, old_len) path(new, new_len);
    path_symlink(old: i32, old_len: i32, fd: i32, new: i32, new_len: i32)
        path(old, old_len) path(new, new_len);
    path_unlink_file(fd: i32, path: i32, path_len: i32) path(path, path_len);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of [`pieces`], [`vectors`] and [`opening`], socket functions, `poll_oneoff` and
    /// `proc_exit`.
    const OTHERS: [&str; 22] = [
        "args_get",
        "args_sizes_get",
        "environ_get",
        "environ_sizes_get",
        "fd_close",
        "fd_fdstat_set_flags",
        "fd_pread",
        "fd_prestat_dir_name",
        "fd_pwrite",
        "fd_read",
        "fd_readdir",
        "fd_renumber",
        "fd_write",
        "path_open",
        "path_readlink",
        "poll_oneoff",
        "proc_exit",
        "random_get",
        "sock_accept",
        "sock_recv",
        "sock_send",
        "sock_shutdown",
    ];

    #[test]
    fn all_of_preview_1_is_there() {
        let names = || FUNCTIONS.iter().chain(PATH_FUNCTIONS).chain(&OTHERS);
        assert_eq!(names().count(), 46);
        for name in names() {
            let mut linker = Linker::<WasiCtx>::new();
            link(&mut linker, |wasi| wasi).unwrap();
            let twice = linker.func(MODULE, name, || ()).map(drop).unwrap_err();
            assert!(twice.to_string().contains("is defined twice"), "{twice}");
        }
        let mut linker = Linker::<WasiCtx>::new();
        link(&mut linker, |wasi| wasi).unwrap();
        let twice = link(&mut linker, |wasi| wasi).unwrap_err().to_string();
        assert!(twice.contains("is defined twice"), "{twice}");
    }
}
