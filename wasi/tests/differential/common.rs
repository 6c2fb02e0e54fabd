//! wasi-common, called directly: a context, a memory, and each function by its name.

use super::machine::{Ended, Machine};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wasi_common::sync::{Dir, WasiCtxBuilder, ambient_authority};
use wasi_common::{I32Exit, WasiCtx};
use wiggle::GuestMemory;

/// A guest of wasi-common.
pub(super) struct Common {
    ctx: WasiCtx,
    memory: Vec<u8>,
}

impl Common {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).expect("it is there");
        let mut builder = WasiCtxBuilder::new();
        builder.preopened_dir(dir, name).expect("a descriptor");
        Self {
            ctx: builder.build(),
            memory: vec![0; 4 << 16],
        }
    }
}

/// The value of a future of wasi-common, which waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a synchronous context waits"),
    }
}

/// Calls one of the functions by its name. The types are those that preview 1 lowers to.
macro_rules! call {
    ($ctx:ident, $memory:ident, $name:ident, $arguments:ident;
        $($function:ident($($argument:ident: $ty:ty),*);)*) => {
        match $name {
            $(stringify!($function) => {
                let [$($argument),*] = $arguments[..] else {
                    panic!("{} arguments of {}", $arguments.len(), $name)
                };
                ready(wasi::$function($ctx, $memory, $($argument as $ty),*))
            })*
            _ => panic!("{} is unknown", $name),
        }
    };
}

impl Machine for Common {
    fn put(&mut self, at: i64, bytes: &[u8]) {
        self.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&self, at: i64, len: usize) -> Vec<u8> {
        self.memory[at as usize..][..len].to_vec()
    }

    fn call(&mut self, name: &str, arguments: &[i64]) -> Result<i32, Ended> {
        let (ctx, memory) = (&mut self.ctx, &mut GuestMemory::Unshared(&mut self.memory));
        if name == "proc_exit" {
            let ended = ready(wasi::proc_exit(ctx, memory, arguments[0] as i32));
            return Err(
                match ended.expect_err("it exits").downcast_ref::<I32Exit>() {
                    Some(exit) => Ended::Exited(exit.0.cast_unsigned()),
                    None => Ended::Trapped,
                },
            );
        }
        let called = catch_unwind(AssertUnwindSafe(|| {
            call! { ctx, memory, name, arguments;
                clock_res_get(clock: i32, out: i32);
                clock_time_get(clock: i32, precision: i64, out: i32);
                fd_advise(fd: i32, offset: i64, len: i64, advice: i32);
                fd_allocate(fd: i32, offset: i64, len: i64);
                fd_close(fd: i32);
                fd_datasync(fd: i32);
                fd_fdstat_get(fd: i32, out: i32);
                fd_fdstat_set_flags(fd: i32, flags: i32);
                fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64);
                fd_filestat_get(fd: i32, out: i32);
                fd_filestat_set_size(fd: i32, size: i64);
                fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32);
                fd_pread(fd: i32, vectors: i32, count: i32, offset: i64, out: i32);
                fd_prestat_get(fd: i32, out: i32);
                fd_prestat_dir_name(fd: i32, path: i32, len: i32);
                fd_pwrite(fd: i32, vectors: i32, count: i32, offset: i64, out: i32);
                fd_read(fd: i32, vectors: i32, count: i32, out: i32);
                fd_readdir(fd: i32, buffer: i32, len: i32, cookie: i64, out: i32);
                fd_renumber(from: i32, to: i32);
                fd_seek(fd: i32, offset: i64, whence: i32, out: i32);
                fd_sync(fd: i32);
                fd_tell(fd: i32, out: i32);
                fd_write(fd: i32, vectors: i32, count: i32, out: i32);
                path_create_directory(fd: i32, path: i32, len: i32);
                path_filestat_get(fd: i32, flags: i32, path: i32, len: i32, out: i32);
                path_filestat_set_times(fd: i32, flags: i32, path: i32, len: i32,
                    accessed: i64, modified: i64, times: i32);
                path_link(fd: i32, flags: i32, path: i32, len: i32, new_fd: i32, new: i32,
                    new_len: i32);
                path_open(fd: i32, lookup: i32, path: i32, len: i32, how: i32, base: i64,
                    inheriting: i64, flags: i32, out: i32);
                path_readlink(fd: i32, path: i32, len: i32, buffer: i32, buffer_len: i32,
                    out: i32);
                path_remove_directory(fd: i32, path: i32, len: i32);
                path_rename(fd: i32, path: i32, len: i32, new_fd: i32, new: i32, new_len: i32);
                path_symlink(path: i32, len: i32, fd: i32, new: i32, new_len: i32);
                path_unlink_file(fd: i32, path: i32, len: i32);
                poll_oneoff(subscriptions: i32, events: i32, count: i32, out: i32);
                proc_raise(signal: i32);
                random_get(buffer: i32, len: i32);
                sched_yield();
                sock_accept(fd: i32, flags: i32, out: i32);
                sock_recv(fd: i32, vectors: i32, count: i32, flags: i32, out: i32,
                    out_flags: i32);
                sock_send(fd: i32, vectors: i32, count: i32, flags: i32, out: i32);
                sock_shutdown(fd: i32, how: i32);
            }
        }));
        match called {
            Ok(Ok(errno)) => Ok(errno),
            Ok(Err(_)) => Err(Ended::Trapped),
            Err(_) => Err(Ended::Panicked),
        }
    }
}
