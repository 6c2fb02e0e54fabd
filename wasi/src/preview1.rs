//! The functions of WASI preview 1, each a call of wasi-common's with the guest's memory.

use crate::buffers::{self, Places};
use crate::exit::Exit;
use crate::sleep::{SUBSCRIPTION_BYTES, SUBSCRIPTIONS_MAX, Sleep};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use pirn_runtime::{Caller, HostError, HostFuture, LinkError, Linker, MemoryMut, Trap, TrapCode};
use std::sync::Arc;
use std::time::Instant;
use wasi_common::WasiCtx;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

/// The module name that guests import preview 1 from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// Offers preview 1 to guests. `ctx` finds the context in the host's data of an instance.
///
/// Preview 1 has pointers of 32 bits: who imports it and has a 64-bit memory is refused where it is prepared
/// ([`LinkError::Addresses`]). A pointer outside the guest's memory ends the call, as it does in Wasmtime. Host calls block:
/// `poll_oneoff` sleeps, until the guest is stopped, and reading waits for input.
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
        let Some(sleep) = sleep_of(&mut caller, ctx, subs, count)? else {
            return poll(&mut caller, ctx, [subs, events, count, stored]);
        };
        sleep.wait(&caller);
        tell(&mut caller, &sleep, events, stored)?;
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
                let Some(sleep) = sleep_of(&mut caller, ctx, subs, count)? else {
                    return poll(&mut caller, ctx, [subs, events, count, stored]);
                };
                until(sleep.until).await;
                tell(&mut caller, &sleep, events, stored)?;
                Ok::<i32, HostError>(0)
            })
        },
    )?;
    Ok(())
}

/// The errno of an argument that cannot be (preview 1, `inval`).
const INVAL: i32 = 28;

/// What a guest sleeps for that polls.
fn sleep_of<T>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    subscriptions: u32,
    count: u32,
) -> Result<Option<Sleep>, Trap> {
    let len = count * SUBSCRIPTION_BYTES as u32;
    if let Some(shared) = caller.shared_memory().cloned() {
        let mut bytes = vec![0; len as usize];
        shared.read(subscriptions.into(), &mut bytes)?;
        return Ok(Sleep::of(ctx(caller.data_mut()), &bytes));
    }
    let (memory, data) = caller.split();
    Ok(Sleep::of(ctx(data), memory.slice(subscriptions, len)?))
}

/// Writes what a guest is told that has slept.
fn tell<T>(
    caller: &mut Caller<'_, T>,
    sleep: &Sleep,
    events: u32,
    stored: u32,
) -> Result<(), Trap> {
    let (told, number) = sleep.events();
    if let Some(shared) = caller.shared_memory() {
        shared.write(events.into(), &told)?;
        return shared.write(stored.into(), &number.to_le_bytes());
    }
    let mut memory = caller.memory_mut();
    memory.write(events, &told)?;
    memory.write_u32(stored, number)
}

/// Calls a function of wasi-common's with the guest's memory and context. What the kernel gets to see of a memory in a slot is
/// touched first.
fn with_memory<T, R>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    touch: impl FnOnce(&mut MemoryMut<'_>),
    call: impl FnOnce(&mut WasiCtx, &mut GuestMemory<'_>) -> R,
) -> R {
    if let Some(shared) = caller.shared_memory().cloned() {
        let mut memory = GuestMemory::Shared(shared.cells());
        return call(ctx(caller.data_mut()), &mut memory);
    }
    let (mut memory, data) = caller.split();
    touch(&mut memory);
    let mut memory = GuestMemory::Unshared(memory.as_mut_slice());
    call(ctx(data), &mut memory)
}

/// Calls a function of wasi-common's that receives into a buffer of the guest's.
fn receive<T>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    places: Places,
    call: impl FnOnce(&mut WasiCtx, &mut GuestMemory<'_>, Places) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    if let Some(shared) = caller.shared_memory().cloned() {
        let mut memory = GuestMemory::Shared(shared.cells());
        return call(ctx(caller.data_mut()), &mut memory, places);
    }
    let (mut memory, data) = caller.split();
    buffers::receive(&mut memory, places, |memory, at| {
        call(ctx(data), memory, at)
    })
}

/// Polls descriptors.
fn poll<T>(
    caller: &mut Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    arguments: [u32; 4],
) -> Result<i32, HostError> {
    let [subscriptions, events, count, stored] = arguments.map(u32::cast_signed);
    with_memory(
        caller,
        ctx,
        |_| (),
        |ctx, memory| {
            let polled = wasi::poll_oneoff(ctx, memory, subscriptions, events, count, stored);
            errno("poll_oneoff", polled)
        },
    )
}

/// Links all but `poll_oneoff`.
fn link_rest<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
) -> Result<(), LinkError> {
    linker.addresses_of_32_bits(MODULE);
    link_functions(linker, ctx)?;
    linker.func(
        MODULE,
        "random_get",
        move |caller: Caller<'_, T>, start: u32, len: u32| random(caller, ctx, (start, len)),
    )?;
    // Not wasi-common's: it knows no codes from 126 on.
    linker.func(MODULE, "proc_exit", |code: u32| -> Result<(), Exit> {
        Err(Exit { code })
    })?;
    Ok(())
}

/// Names and types as preview 1 lowers them: pointers, sizes, descriptors and flags are i32, offsets,
/// rights, cookies and times i64, and every function answers an errno.
///
/// What the kernel gets to see of the guest's memory, or may write to, is touched first: by what stands in
/// brackets behind a function, for the memory that is named there. Errors of that are wasi-common's to give.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) $([$memory:ident: $touch:expr])?;)*) => {
        fn link_functions<T: 'static, Q: 'static, A: 'static>(
            linker: &mut Linker<T, Q, A>,
            ctx: fn(&mut T) -> &mut WasiCtx,
        ) -> Result<(), LinkError> {
            $(linker.func(
                MODULE,
                stringify!($name),
                move |mut caller: Caller<'_, T>, $($arg: $ty),*| -> Result<i32, HostError> {
                    let touch = |_memory: &mut MemoryMut<'_>| {
                        $(
                            let $memory = _memory;
                            $touch;
                        )?
                    };
                    with_memory(&mut caller, ctx, touch, |ctx, memory| {
                        errno(stringify!($name), wasi::$name(ctx, memory, $($arg),*))
                    })
                },
            )?;)*
            link_receivers(linker, ctx)
        }

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name),)* "fd_read", "fd_pread", "sock_recv", "poll_oneoff", "random_get"];
    };
}

/// The functions that receive into a buffer of the guest's, see [`buffers::receive`].
fn link_receivers<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
) -> Result<(), LinkError> {
    type Answer = Result<i32, HostError>;
    let places = |vectors, count, received, flags| Places {
        vectors,
        count,
        received,
        flags,
    };
    linker.func(
        MODULE,
        "fd_read",
        move |mut caller: Caller<'_, T>, fd: i32, iovs: i32, len: i32, read: i32| -> Answer {
            let places = places(iovs, len, read, None);
            receive(&mut caller, ctx, places, |ctx, memory, at| {
                let read = wasi::fd_read(ctx, memory, fd, at.vectors, at.count, at.received);
                errno("fd_read", read)
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
              -> Answer {
            let places = places(iovs, len, read, None);
            receive(&mut caller, ctx, places, |ctx, memory, at| {
                let (iovs, len, read) = (at.vectors, at.count, at.received);
                let read = wasi::fd_pread(ctx, memory, fd, iovs, len, offset, read);
                errno("fd_pread", read)
            })
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
              flags: i32|
              -> Answer {
            let places = places(iovs, len, received, Some(flags));
            receive(&mut caller, ctx, places, |ctx, memory, at| {
                let (iovs, len, received) = (at.vectors, at.count, at.received);
                let flags = at.flags.unwrap_or(flags);
                let got = wasi::sock_recv(ctx, memory, fd, iovs, len, how, received, flags);
                errno("sock_recv", got)
            })
        },
    )?;
    Ok(())
}

/// The errno that a function of wasi-common answers with.
fn errno<E: core::fmt::Display>(
    name: &str,
    answer: impl Future<Output = Result<i32, E>>,
) -> Result<i32, HostError> {
    ready(answer)?.map_err(|error| HostError::message(format!("{name}: {error:#}")))
}

functions! {
    args_get(argv: i32, argv_buf: i32);
    args_sizes_get(count: i32, bytes: i32);
    environ_get(environ: i32, environ_buf: i32);
    environ_sizes_get(count: i32, bytes: i32);
    clock_res_get(id: i32, resolution: i32);
    clock_time_get(id: i32, precision: i64, time: i32);
    fd_advise(fd: i32, offset: i64, len: i64, advice: i32);
    fd_allocate(fd: i32, offset: i64, len: i64);
    fd_close(fd: i32);
    fd_datasync(fd: i32);
    fd_fdstat_get(fd: i32, stat: i32);
    fd_fdstat_set_flags(fd: i32, flags: i32);
    fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64);
    fd_filestat_get(fd: i32, stat: i32);
    fd_filestat_set_size(fd: i32, size: i64);
    fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32);
    fd_prestat_get(fd: i32, stat: i32);
    fd_prestat_dir_name(fd: i32, path: i32, path_len: i32);
    fd_readdir(fd: i32, buf: i32, buf_len: i32, cookie: i64, used: i32);
    fd_renumber(fd: i32, to: i32);
    fd_seek(fd: i32, offset: i64, whence: i32, position: i32);
    fd_sync(fd: i32);
    fd_tell(fd: i32, position: i32);
    path_create_directory(fd: i32, path: i32, path_len: i32);
    path_filestat_get(fd: i32, flags: i32, path: i32, path_len: i32, stat: i32);
    path_filestat_set_times(fd: i32, flags: i32, path: i32, path_len: i32, accessed: i64,
                            modified: i64, times: i32);
    path_link(old_fd: i32, flags: i32, old: i32, old_len: i32, new_fd: i32, new: i32, new_len: i32);
    path_open(fd: i32, flags: i32, path: i32, path_len: i32, how: i32, base: i64, inheriting: i64,
              fd_flags: i32, opened: i32);
    path_readlink(fd: i32, path: i32, path_len: i32, buf: i32, buf_len: i32, used: i32);
    path_remove_directory(fd: i32, path: i32, path_len: i32);
    path_rename(fd: i32, old: i32, old_len: i32, new_fd: i32, new: i32, new_len: i32);
    path_symlink(old: i32, old_len: i32, fd: i32, new: i32, new_len: i32);
    path_unlink_file(fd: i32, path: i32, path_len: i32);
    proc_raise(signal: i32);
    sched_yield();
    sock_accept(fd: i32, flags: i32, accepted: i32);
    sock_shutdown(fd: i32, how: i32);
    fd_write(fd: i32, iovs: i32, iovs_len: i32, written: i32)
        [memory: buffers::touch(memory, iovs, iovs_len)];
    fd_pwrite(fd: i32, iovs: i32, iovs_len: i32, offset: i64, written: i32)
        [memory: buffers::touch(memory, iovs, iovs_len)];
    sock_send(fd: i32, iovs: i32, iovs_len: i32, flags: i32, sent: i32)
        [memory: buffers::touch(memory, iovs, iovs_len)];
}

/// Most random bytes between two looks at whether the guest was stopped: some milliseconds of the kernel's.
const RANDOM_MAX: u32 = 1 << 20;

/// `random_get`, which ends when the guest is stopped: a guest may ask for as much as its memory holds.
fn random<T>(
    mut caller: Caller<'_, T>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    (start, len): (u32, u32),
) -> Result<i32, HostError> {
    let bytes = match caller.shared_memory() {
        Some(shared) => shared.len(),
        None => caller.memory().len(),
    };
    if u64::from(start) + u64::from(len) > bytes as u64 {
        return Err(Trap::new(TrapCode::MemoryOutOfBounds).into());
    }
    let mut done = 0;
    while done < len && !caller.is_stopped() {
        let some = (len - done).min(RANDOM_MAX);
        let at = start + done;
        let touch = |memory: &mut MemoryMut<'_>| drop(memory.slice_mut(at, some));
        let got = with_memory(&mut caller, ctx, touch, |ctx, memory| {
            let got = wasi::random_get(ctx, memory, at.cast_signed(), some.cast_signed());
            errno("random_get", got)
        });
        match got? {
            0 => done += some,
            errno => return Ok(errno),
        }
    }
    Ok(0)
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

    #[test]
    fn a_future_that_waits_is_refused() {
        let error = ready(core::future::pending::<()>()).unwrap_err();
        assert!(error.to_string().contains("asynchronous"));
    }

    #[test]
    fn all_of_preview_1_is_there() {
        // 45 functions of the interface, and proc_exit.
        assert_eq!(NAMES.len(), 45);
        let mut linker = Linker::<WasiCtx>::new();
        link(&mut linker, |wasi| wasi).unwrap();
        let twice = link(&mut linker, |wasi| wasi).unwrap_err().to_string();
        assert!(
            twice.contains("wasi_snapshot_preview1.args_get is defined twice"),
            "{twice}"
        );
    }
}
