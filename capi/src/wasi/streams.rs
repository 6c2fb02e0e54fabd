//! The standard streams of a guest, and [`pirn_capture_t`].
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles and descriptors of its callers, by the rules of
//! `entry.rs`.
#![allow(unsafe_code)]

use super::{change, pirn_wasi_t};
use crate::bytes::pirn_bytes_t;
use crate::entry::{self, Out, guard, list, out, shared};
use crate::error::{Fallible, argument, pirn_error_t};
use pirn_wasi::pipe::{Pipe, ReadPipe};
use pirn_wasi::{Bounded, WasiCtxBuilder};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

/// Standard input, of pirn_wasi_stdio_fd.
pub const PIRN_STDIN: u32 = 0;
/// Standard output.
pub const PIRN_STDOUT: u32 = 1;
/// Standard error.
pub const PIRN_STDERR: u32 = 2;

/// The output of a guest in memory. Any threads may read it at the same time, also while the guest
/// runs.
pub struct pirn_capture_t {
    output: Output,
}

/// The output of a guest, of WASI of either version.
type Output = Pipe<Bounded<Written>>;

/// Sets a standard stream of a guest.
type SetStream<B> = fn(B, Output) -> B;

/// Keeps the output to a stream. `stdout` and `stderr` set these streams.
///
/// # Safety
///
/// The pointer of `to` must be writable.
pub(crate) unsafe fn keep<B>(
    builder: B,
    (stdout, stderr): (SetStream<B>, SetStream<B>),
    stream: u32,
    bytes_max: usize,
    to: Out<*mut pirn_capture_t>,
) -> Fallible<B> {
    let output = Pipe::new(Bounded::new(Written(vec![]), bytes_max));
    let builder = match stream {
        PIRN_STDOUT => stdout(builder, output.clone()),
        PIRN_STDERR => stderr(builder, output.clone()),
        other => {
            return Err(argument(format!(
                "stream is {other}, which is no output; capture {PIRN_STDOUT} or {PIRN_STDERR}"
            )));
        }
    };
    // SAFETY: the caller ensures that the place is writable.
    unsafe { to.give(pirn_capture_t { output }) };
    Ok(builder)
}

/// Bytes that a guest has written.
pub(crate) struct Written(Vec<u8>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The guest decides the size, so out of memory must fail the guest's write, not abort the
        // process.
        let room = self.0.try_reserve(bytes.len());
        room.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives the guest the three standard streams of this process.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_inherit_stdio(wasi: *mut pirn_wasi_t) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.inherit_stdio())) }
}

/// Gives the guest a copy of these bytes as its standard input.
///
/// # Safety
///
/// `wasi` is a live handle, `bytes` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_stdin_bytes(
    wasi: *mut pirn_wasi_t,
    bytes: *const u8,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and `len` bytes at
    // `bytes`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let bytes = list(bytes, len, "bytes")?.to_vec();
            Ok(builder.stdin(ReadPipe::from(bytes)))
        })
    }
}

/// Gives the guest a descriptor of this process as a standard stream: a file, a pipe or a socket.
/// The descriptor is duplicated, so the caller still owns `fd`. The duplicate and `fd` share one
/// open file: a guest can truncate a writable file and write anywhere in the file. Give each guest
/// an open file of its own, or a pipe.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_stdio_fd(
    wasi: *mut pirn_wasi_t,
    stream: u32,
    fd: i32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            if fd < 0 {
                return Err(argument(format!(
                    "`fd` is {fd}, the smallest descriptor is 0; pass an open descriptor"
                )));
            }
            // SAFETY: the number is not -1. If it names no open descriptor, fcntl(2) says so.
            let own = BorrowedFd::borrow_raw(fd).try_clone_to_owned()?;
            Ok(match stream {
                PIRN_STDIN => builder.stdin_fd(own),
                PIRN_STDOUT => builder.stdout_fd(own),
                PIRN_STDERR => builder.stderr_fd(own),
                other => {
                    return Err(argument(format!(
                        "stream is {other}, the largest is {PIRN_STDERR}; pass one of \
                         `PIRN_STDIN` to `PIRN_STDERR`"
                    )));
                }
            })
        })
    }
}

/// Keeps the guest's output to stream PIRN_STDOUT or PIRN_STDERR in memory, at most `bytes_max`
/// bytes. Writes past the limit fail in the guest as on a full disk. The caller owns the capture,
/// which may outlive the instance.
///
/// # Safety
///
/// `wasi` is a live handle, `capture` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_capture(
    wasi: *mut pirn_wasi_t,
    stream: u32,
    bytes_max: usize,
    capture: *mut *mut pirn_capture_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and a writable `capture`,
    // valid during this call.
    unsafe {
        change(wasi, |builder| {
            let to = out(capture, "capture")?;
            let set = (WasiCtxBuilder::stdout as _, WasiCtxBuilder::stderr as _);
            keep(builder, set, stream, bytes_max, to)
        })
    }
}

/// A copy of the bytes that the guest has written so far. The caller owns the bytes.
///
/// # Safety
///
/// `capture` is a live handle, `bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_capture_bytes(
    capture: *const pirn_capture_t,
    bytes: *mut *mut pirn_bytes_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `capture` and a writable
    // `bytes`, valid during this call.
    guard(|| unsafe {
        let to = out(bytes, "bytes")?;
        let output = &shared(capture, "capture")?.output;
        let written = output.with(|output| output.get_ref().0.clone());
        to.give(pirn_bytes_t::new(written));
        Ok(())
    })
}

/// Frees a capture. The guest may still write: its output lives until the instance ends.
///
/// # Safety
///
/// `capture` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_capture_delete(capture: *mut pirn_capture_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `capture`, and does not
    // use it again.
    unsafe { entry::delete(capture) };
}
