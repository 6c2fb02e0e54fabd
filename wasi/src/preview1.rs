//! The functions of WASI preview 1. Nearly all call wasi-common, those with paths through
//! [`Scratch`] memory.

use crate::errno::{self, INVAL, NAMETOOLONG};
use crate::exit::Exit;
use crate::guest::{ContextOf, split};
use crate::poll::{EVENT_BYTES, Polled};
use crate::scratch::Scratch;
use crate::sleep::{SUBSCRIPTION_BYTES, SUBSCRIPTIONS_MAX, Sleep};
use crate::{pieces, vectors, wait};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use pirn_runtime::{Caller, HostError, HostFuture, LinkError, Linker, Trap};
use std::sync::Arc;
use std::time::Instant;
use wasi_common::WasiCtx;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;

/// The module name that guests import preview 1 from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// Offers preview 1 to guests. `ctx` finds the context in the host's data of an instance.
///
/// Preview 1 has pointers of 32 bits: who imports it and has a 64-bit memory is refused where it is
/// prepared ([`LinkError::Addresses`]). Pointers are offsets in the memory that the calling
/// instance exports as `memory`, as preview 1 says, and in memory 0 if it exports none by that
/// name. A pointer outside that memory ends the call, as it does in Wasmtime. Host calls block
/// their thread until the guest is stopped: `poll_oneoff` sleeps, reading waits for input, and
/// writing for room.
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker has one of the names already.
pub fn link<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
) -> Result<(), LinkError> {
    link_rest(linker, ctx)?;
    let poll = move |mut caller: Caller<'_, T>, subs: u32, events: u32, count: u32, stored: u32| {
        if count > SUBSCRIPTIONS_MAX {
            return Ok(INVAL);
        }
        if let Some(sleep) = sleep_of(&mut caller, ctx, subs, count)? {
            sleep.wait(&caller);
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

/// As [`link`], for guests that are called by [`call_async`](pirn_runtime::Instance::call_async): a guest that
/// sleeps does so in the future that `sleep` gives for a time, which is the executor's, and no thread waits.
/// Files are still read and written where the call is polled.
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

/// What a guest sleeps for that polls.
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

/// What a guest waits for that polls, or an errno.
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

/// Writes events that a guest has waited for, and their number.
fn tell<T>(caller: &mut Caller<'_, T>, told: &[u8], events: u32, stored: u32) -> Result<(), Trap> {
    let number = (told.len() / EVENT_BYTES) as u32;
    let (mut memory, _) = split(caller);
    memory.write(events, told)?;
    memory.write(stored, &number.to_le_bytes())
}

/// Links all but `poll_oneoff`.
fn link_rest<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.addresses_of_32_bits(MODULE);
    link_functions(linker, ctx)?;
    link_path_functions(linker, ctx)?;
    link_sockets(linker, ctx)?;
    vectors::link(linker, ctx)?;
    pieces::link(linker, ctx)?;
    // Not wasi-common's: it knows no codes from 126 on.
    linker.func(MODULE, "proc_exit", |code: u32| -> Result<(), Exit> {
        Err(Exit { code })
    })?;
    Ok(())
}

/// Links the functions of sockets that take no vectors.
fn link_sockets<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    linker.func(
        MODULE,
        "sock_accept",
        move |mut caller: Caller<'_, T>, fd: i32, flags: i32, accepted: i32| {
            wait::patiently(&mut caller, |caller| {
                let (mut memory, data) = split(caller);
                memory.check_answer(accepted.cast_unsigned(), DESCRIPTOR)?;
                let (ctx, here) = (ctx(data), &mut memory.all());
                let answer = wasi::sock_accept(ctx, here, fd, flags, accepted);
                let errno = errno("sock_accept", answer)?;
                Ok(errno::of_socket(ctx, fd, errno))
            })
        },
    )?;
    linker.func(
        MODULE,
        "sock_shutdown",
        move |mut caller: Caller<'_, T>, fd: i32, how: i32| -> Result<i32, HostError> {
            let (mut memory, data) = split(&mut caller);
            let (ctx, here) = (ctx(data), &mut memory.all());
            let answer = wasi::sock_shutdown(ctx, here, fd, how);
            let errno = errno("sock_shutdown", answer)?;
            Ok(errno::of_socket(ctx, fd, errno))
        },
    )?;
    Ok(())
}

/// Names and types as preview 1 lowers them: pointers, sizes, descriptors and flags are i32, offsets,
/// rights, cookies and times i64, and every function answers an errno.
///
/// wasi-common writes the answers, whose bytes and alignment are given, to the guest's memory. It
/// allocates nothing for them.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) $(answer($answer:ident, $layout:expr))*;)*) => {
        $(/// Not inlined: the closure that calls it is then small enough for the compiler to inline it
        /// into the runtime's code for host calls (bench `cycle`, hello).
        #[inline(never)]
        fn $name<T>(
            caller: &mut Caller<'_, T>,
            ctx: ContextOf<T>,
            $($arg: $ty),*
        ) -> Result<i32, HostError> {
            let (mut memory, data) = split(caller);
            $(memory.check_answer($answer.cast_unsigned(), $layout)?;)*
            let here = &mut memory.all();
            errno(stringify!($name), wasi::$name(ctx(data), here, $($arg),*))
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

/// The same for functions that take paths. Paths are copied to the scratch memory, and answers from
/// there.
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
                    let errno = errno(stringify!($name), wasi::$name(ctx(data), here, $($arg),*))?;
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

/// Bytes and alignment of an answer.
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
    fd_close(fd: i32);
    fd_datasync(fd: i32);
    fd_fdstat_get(fd: i32, stat: i32) answer(stat, FDSTAT);
    fd_fdstat_set_flags(fd: i32, flags: i32);
    fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64);
    fd_filestat_get(fd: i32, stat: i32) answer(stat, FILESTAT);
    fd_filestat_set_size(fd: i32, size: i64);
    fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32);
    fd_prestat_get(fd: i32, stat: i32) answer(stat, PRESTAT);
    fd_renumber(fd: i32, to: i32);
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
    path_open(fd: i32, flags: i32, path: i32, path_len: i32, how: i32, base: i64, inheriting: i64,
              fd_flags: i32, opened: i32) path(path, path_len) answer(opened, DESCRIPTOR);
    path_remove_directory(fd: i32, path: i32, path_len: i32) path(path, path_len);
    path_rename(fd: i32, old: i32, old_len: i32, new_fd: i32, new: i32, new_len: i32)
        path(old, old_len) path(new, new_len);
    path_symlink(old: i32, old_len: i32, fd: i32, new: i32, new_len: i32)
        path(old, old_len) path(new, new_len);
    path_unlink_file(fd: i32, path: i32, path_len: i32) path(path, path_len);
}

/// The errno that a function of wasi-common answers with.
pub(crate) fn errno(
    name: &str,
    answer: impl Future<Output = Result<i32, wiggle::error::Error>>,
) -> Result<i32, HostError> {
    ready(answer)?.or_else(|error| errno::of(name, &error))
}

/// The value of a future that is ready at once, as all of a synchronous context's are.
fn ready<F: Future>(future: F) -> Result<F::Output, HostError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(HostError::message(
            "the WASI context is asynchronous; make it with WasiCtxBuilder",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that take or give more than a piece, or strings of the host's, and those that end or
    /// wait.
    const OTHERS: [&str; 18] = [
        "args_get",
        "args_sizes_get",
        "environ_get",
        "environ_sizes_get",
        "fd_pread",
        "fd_prestat_dir_name",
        "fd_pwrite",
        "fd_read",
        "fd_readdir",
        "fd_write",
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
    fn a_future_that_waits_is_refused() {
        let error = ready(core::future::pending::<()>()).unwrap_err();
        assert!(error.to_string().contains("asynchronous"));
    }

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
