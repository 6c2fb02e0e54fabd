//! The functions of WASI preview 1, and of preview 0, which old guests import.

// In this order each module uses only modules before it.
mod abi;
mod failure;
mod memory;
mod call;
mod process;
mod records;
mod vectors;
mod transfer;
mod files;
mod paths;
mod poll;

pub use abi::MODULE;
pub(crate) use call::ContextOf;

use crate::context::WasiCtx;
use crate::descriptors::Descriptor;
use crate::errno::Errno;
use crate::exit::Exit;
use crate::stream::LOOK;
use crate::virtual_clock::VirtualClock;
use abi::Version;
use call::Call;
use failure::{Done, Failure, number};
use pirn_runtime::{Caller, HostError, HostFuture, LinkError, Linker, MaybeFuture};
use poll::Polled;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// Defines the functions of preview 1 in a linker. `ctx` returns the context in an instance's host
/// data.
///
/// Preview 1 has 32-bit pointers. A module that imports preview 1 and has a 64-bit memory cannot be
/// prepared ([`LinkError::Addresses`]). Pointers are offsets in the memory that the calling
/// instance exports as `memory`, as preview 1 requires. Without such an export, pointers are
/// offsets in memory 0. A pointer outside the memory ends the call, as in Wasmtime.
///
/// Modules that import preview 0 (`wasi_unstable`) run through the same functions. An embedder
/// replaces one function by [`Linker::remove`] and a definition of its own.
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
    link_blocking(linker, ctx, |polled, is_stopped| {
        let until = polled.sleeps_until();
        while let Some(until) = until
            && !is_stopped()
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    })
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
    link_blocking(linker, ctx, move |polled, _| clock.advance(polled.left))
}

/// Links all functions. `sleep` returns when the first of several clocks has expired.
fn link_blocking<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
    sleep: impl Fn(&Polled, &dyn Fn() -> bool) + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let sleep = Arc::new(sleep);
    for version in Version::ALL {
        link_rest(linker, ctx, version)?;
        let read = move |mut caller: Caller<'_, T>, fd: u32, iovs: u32, count: u32, read: u32| {
            loop {
                if let Some(done) = fd_read(&mut caller, ctx, (fd, iovs, count, read)) {
                    return done;
                }
                if caller.stop_flag().is_stopped() {
                    return number(Err(Errno::AGAIN.into()));
                }
                std::thread::sleep(LOOK);
            }
        };
        linker.func(version.module(), "fd_read", read)?;
        let sleep = Arc::clone(&sleep);
        let poll =
            move |mut caller: Caller<'_, T>, subs: u32, events: u32, count: u32, told: u32| {
                let mut call = Call::new(&mut caller, ctx);
                number(poll_oneoff(
                    &mut call,
                    version,
                    [subs, events, count, told],
                    &*sleep,
                ))
            };
        linker.func(version.module(), "poll_oneoff", poll)?;
    }
    Ok(())
}

/// Reads from a descriptor. Returns `None` if the descriptor is a source without available bytes.
fn fd_read<T>(
    caller: &mut Caller<'_, T>,
    ctx: ContextOf<T>,
    (fd, iovs, count, read): (u32, u32, u32, u32),
) -> Option<Result<i32, HostError>> {
    let mut call = Call::new(caller, ctx);
    let done = transfer::fd_read(&mut call, fd, iovs, count, read);
    let (read, _) = call.io;
    if read != 0 {
        caller.count_io(read, 0);
    }
    match done {
        Err(Failure::Later) => None,
        done => Some(number(done)),
    }
}

/// Waits until a read of a descriptor returns bytes, the end or an error.
async fn readable<T>(caller: &mut Caller<'_, T>, ctx: ContextOf<T>, fd: u32) {
    let descriptor = ctx(caller.data_mut()).0.table.get(fd);
    if let Ok(descriptor) = descriptor
        && let Descriptor::Stream(stream) = &*descriptor
    {
        poll_fn(|context| stream.poll_ready(context)).await;
    }
}

fn poll_oneoff(
    call: &mut Call<'_>,
    version: Version,
    arguments: [u32; 4],
    sleep: &dyn Fn(&Polled, &dyn Fn() -> bool),
) -> Done {
    let polled = Polled::of(call, version, arguments)?;
    let mut events = vec![];
    if polled.sleeps_until().is_some() {
        sleep(&polled, &|| call.is_stopped());
        polled.expire(&mut events);
    } else {
        while events.is_empty() && !call.is_stopped() {
            events = polled.look(polled.next_look())?;
        }
    }
    polled.give(call, &events)
}

/// Defines the functions of preview 1 for guests that run under
/// [`call_async`](pirn_runtime::Instance::call_async).
///
/// Two functions differ from those of [`link`]. In `poll_oneoff`, a guest that sleeps awaits the
/// future that `sleep` returns for a point in time. In `fd_read`, a guest awaits the bytes of a
/// [`Source`](crate::Source). The executor drives both futures, so no thread waits. Files are still
/// read and written on the thread that polls the call.
///
/// # Errors
///
/// As [`link`].
pub fn link_async<T: Send + 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
    sleep: impl Fn(Instant) -> HostFuture<'static, ()> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let until = Arc::new(sleep);
    for version in Version::ALL {
        link_rest(linker, ctx, version)?;
        linker.func_maybe_async(
            version.module(),
            "fd_read",
            move |mut caller: Caller<'_, T>, arguments: (u32, u32, u32, u32)| {
                if let Some(done) = fd_read(&mut caller, ctx, arguments) {
                    return MaybeFuture::Ready(done);
                }
                MaybeFuture::Future(Box::pin(async move {
                    loop {
                        readable(&mut caller, ctx, arguments.0).await;
                        if let Some(done) = fd_read(&mut caller, ctx, arguments) {
                            return done;
                        }
                    }
                }))
            },
        )?;
        let until = Arc::clone(&until);
        linker.func_async(
            version.module(),
            "poll_oneoff",
            move |mut caller: Caller<'_, T>, (subs, events, count, told): (u32, u32, u32, u32)| {
                let until = Arc::clone(&until);
                Box::pin(async move {
                    let arguments = [subs, events, count, told];
                    let polled = Polled::of(&Call::new(&mut caller, ctx), version, arguments);
                    let polled = match polled {
                        Ok(polled) => polled,
                        Err(failure) => return number(Err(failure)),
                    };
                    let mut events = vec![];
                    if let Some(time) = polled.sleeps_until() {
                        until(time).await;
                        polled.expire(&mut events);
                    } else {
                        loop {
                            match polled.look(Instant::now()) {
                                Ok(happened) => events = happened,
                                Err(errno) => return number(Err(errno.into())),
                            }
                            if !events.is_empty() {
                                break;
                            }
                            until(polled.next_look()).await;
                        }
                    }
                    let mut call = Call::new(&mut caller, ctx);
                    number(polled.give(&mut call, &events))
                })
            },
        )?;
    }
    Ok(())
}

/// Defines functions with the types that preview 1 lowers to.
///
/// Pointers, sizes, descriptors and flags are i32. Offsets, rights, cookies and times are i64.
/// Every function returns an error number. A function with the parameter `version` is different in
/// preview 0. The bytes that a function moves count as the use of the instance.
macro_rules! functions {
    ($($file:ident::$name:ident $([$version:ident])? ($($arg:ident: $ty:ty),*);)*) => {
        fn link_functions<T: 'static, Q: 'static, A: 'static>(
            linker: &mut Linker<T, Q, A>,
            ctx: ContextOf<T>,
            version: Version,
        ) -> Result<(), LinkError> {
            $(linker.func(
                version.module(),
                stringify!($name),
                move |mut caller: Caller<'_, T>, $($arg: $ty),*| -> Result<i32, HostError> {
                    $(let $version = version;)?
                    let mut call = Call::new(&mut caller, ctx);
                    let done = $file::$name(&mut call, $($version,)? $($arg),*);
                    let (read, written) = call.io;
                    if (read, written) != (0, 0) {
                        caller.count_io(read, written);
                    }
                    number(done)
                },
            )?;)*
            Ok(())
        }

        #[cfg(test)]
        const FUNCTIONS: &[&str] = &[$(stringify!($name),)*];
    };
}

functions! {
    process::args_get(addresses: u32, bytes: u32);
    process::args_sizes_get(count: u32, bytes: u32);
    process::environ_get(addresses: u32, bytes: u32);
    process::environ_sizes_get(count: u32, bytes: u32);
    process::clock_res_get(id: u32, resolution: u32);
    process::clock_time_get(id: u32, precision: u64, time: u32);
    process::random_get(start: u32, len: u32);
    process::proc_raise(signal: u32);
    process::sched_yield();
    files::fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
    files::fd_allocate(fd: u32, offset: u64, len: u64);
    files::fd_close(fd: u32);
    files::fd_datasync(fd: u32);
    files::fd_fdstat_get(fd: u32, stat: u32);
    files::fd_fdstat_set_flags(fd: u32, flags: u32);
    files::fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
    files::fd_filestat_get [version] (fd: u32, stat: u32);
    files::fd_filestat_set_size(fd: u32, size: u64);
    files::fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, flags: u32);
    files::fd_prestat_get(fd: u32, stat: u32);
    files::fd_prestat_dir_name(fd: u32, path: u32, len: u32);
    files::fd_renumber(from: u32, to: u32);
    files::fd_seek [version] (fd: u32, offset: u64, whence: u32, position: u32);
    files::fd_sync(fd: u32);
    files::fd_tell(fd: u32, position: u32);
    files::sock_shutdown(fd: u32, how: u32);
    paths::fd_readdir(fd: u32, buffer: u32, len: u32, cookie: u64, used: u32);
    paths::path_create_directory(fd: u32, path: u32, len: u32);
    paths::path_filestat_get [version] (fd: u32, lookup: u32, path: u32, len: u32, stat: u32);
    paths::path_filestat_set_times(fd: u32, lookup: u32, path: u32, len: u32, accessed: u64,
                                   modified: u64, flags: u32);
    paths::path_link(old_fd: u32, lookup: u32, old: u32, old_len: u32, new_fd: u32, new: u32,
                     new_len: u32);
    paths::path_open(fd: u32, lookup: u32, path: u32, len: u32, how: u32, base: u64,
                     inheriting: u64, flags: u32, opened: u32);
    paths::path_readlink(fd: u32, path: u32, path_len: u32, buffer: u32, len: u32, used: u32);
    paths::path_remove_directory(fd: u32, path: u32, len: u32);
    paths::path_rename(old_fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
    paths::path_symlink(target: u32, target_len: u32, fd: u32, path: u32, len: u32);
    paths::path_unlink_file(fd: u32, path: u32, len: u32);
    transfer::fd_pread(fd: u32, iovs: u32, count: u32, offset: u64, read: u32);
    transfer::fd_pwrite(fd: u32, iovs: u32, count: u32, offset: u64, written: u32);
    transfer::fd_write(fd: u32, iovs: u32, count: u32, written: u32);
    transfer::sock_recv(fd: u32, iovs: u32, count: u32, how: u32, received: u32, flags: u32);
    transfer::sock_send(fd: u32, iovs: u32, count: u32, how: u32, sent: u32);
}

/// Links all functions of a version except `fd_read` and `poll_oneoff`, which may wait.
fn link_rest<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
    version: Version,
) -> Result<(), LinkError> {
    linker.require_32_bit_addresses(version.module());
    link_functions(linker, ctx, version)?;
    linker.func(
        version.module(),
        "proc_exit",
        |code: u32| -> Result<(), Exit> { Err(Exit { code }) },
    )?;
    if version == Version::Preview1 {
        linker.func(
            version.module(),
            "sock_accept",
            move |mut caller: Caller<'_, T>, fd: u32, flags: u32, accepted: u32| {
                let mut call = Call::new(&mut caller, ctx);
                number(files::sock_accept(&mut call, fd, flags, accepted))
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that the list does not have.
    const OTHERS: [&str; 4] = ["fd_read", "poll_oneoff", "proc_exit", "sock_accept"];

    #[test]
    fn all_of_preview_1_is_there() {
        let names = || FUNCTIONS.iter().chain(&OTHERS);
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
