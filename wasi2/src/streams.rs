//! `wasi:io/streams` and `wasi:io/error`.

use crate::io::{Input, IoError, Output, StreamFailure, read_max, split};
use crate::limits::{BLOCKING_WRITE_MAX, READ_MAX, WRITE_MAX};
use crate::methods::{itself, methods, pollable, resource, with_wasi};
use crate::poll::ready;
use crate::table::{Resource, Table, resource_type};
use crate::wasi::{View, Wasi};
use bytes::Bytes;
use pirn_component::{Borrow, LinkError, Linker, Own, State, Typed};
use pirn_runtime::HostError;
use std::task::{Context, Poll};

const STREAMS: &str = "wasi:io/streams@0.2.12";

/// An `input-stream`.
pub(crate) struct InputStream {
    input: Box<dyn Input>,
    is_closed: bool,
}

/// An `output-stream`.
pub(crate) struct OutputStream {
    output: Box<dyn Output>,
    is_closed: bool,
    /// Number of bytes that the guest may write before its next `check-write`.
    permitted: usize,
}

impl InputStream {
    pub(crate) fn new(input: Box<dyn Input>) -> Self {
        Self {
            input,
            is_closed: false,
        }
    }

    fn read(&mut self, len: u64) -> Result<Bytes, StreamFailure> {
        if self.is_closed {
            return Err(StreamFailure::Closed);
        }
        let max = read_max(len);
        if max == 0 {
            return Ok(Bytes::new());
        }
        let read = self.input.read(max);
        self.is_closed = read.is_err();
        read
    }
}

/// Reads available bytes. Fails if the host may keep no more memory for the bytes.
fn read(wasi: &mut Wasi, stream: u32, len: u64) -> Result<Result<Bytes, StreamFailure>, HostError> {
    wasi.host_bytes.check(read_max(len))?;
    Ok(wasi.table.get::<InputStream>(stream)?.read(len))
}

resource_type!(InputStream, STREAMS, "input-stream");

impl Resource for InputStream {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.is_closed {
            true => Poll::Ready(()),
            false => self.input.poll_ready(context),
        }
    }
}

impl OutputStream {
    pub(crate) fn new(output: Box<dyn Output>) -> Self {
        Self {
            output,
            is_closed: false,
            permitted: 0,
        }
    }

    /// Uses the sink. The stream is closed after an error.
    fn with<R>(
        &mut self,
        use_it: impl FnOnce(&mut dyn Output) -> Result<R, StreamFailure>,
    ) -> Result<R, StreamFailure> {
        if self.is_closed {
            return Err(StreamFailure::Closed);
        }
        let result = use_it(&mut *self.output);
        self.is_closed = result.is_err();
        result
    }

    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        let permitted = self.with(<dyn Output>::check_write)?;
        self.permitted = permitted.min(WRITE_MAX);
        Ok(self.permitted)
    }

    /// Writes bytes. The caller has checked that the guest may write this number of bytes.
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        self.permitted = self.permitted.saturating_sub(bytes.len());
        match bytes.is_empty() {
            true => self.with(|_| Ok(())),
            false => self.with(|output| output.write(bytes)),
        }
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        self.permitted = 0;
        self.with(<dyn Output>::flush)
    }

    /// Ends the guest if it writes more bytes than permitted. Some guests write without
    /// `check-write`, so this function calls `check_write` for them.
    fn check_permitted(&mut self, bytes: u64) -> Result<(), HostError> {
        if bytes > self.permitted as u64 {
            // If the stream is closed, the write reports the error.
            let _ = self.check_write();
        }
        let permitted = self.permitted;
        match bytes <= permitted as u64 || self.is_closed {
            true => Ok(()),
            false => Err(HostError::message(format!(
                "a write of {bytes} bytes to a stream that permits {permitted}; call check-write"
            ))),
        }
    }
}

resource_type!(OutputStream, STREAMS, "output-stream");

impl Resource for OutputStream {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.is_closed {
            true => Poll::Ready(()),
            false => self.output.poll_ready(context),
        }
    }
}

/// `stream-error`
#[derive(Debug, Typed)]
pub(crate) enum StreamError {
    LastOperationFailed(Own<IoError>),
    Closed,
}

/// The result of an operation. The inner result goes to the guest; the outer error ends the guest.
pub(crate) type Streamed<R> = Result<Result<R, StreamError>, HostError>;

/// Converts the result of an operation. An error becomes a resource.
pub(crate) fn streamed<R>(table: &mut Table, result: Result<R, StreamFailure>) -> Streamed<R> {
    Ok(match result {
        Ok(result) => Ok(result),
        Err(StreamFailure::Closed) => Err(StreamError::Closed),
        Err(StreamFailure::Failed(error)) => {
            Err(StreamError::LastOperationFailed(table.own(error)?))
        }
    })
}

/// Reads at least one byte, unless `len` is 0.
async fn blocking_read(wasi: &mut Wasi, stream: u32, len: u64) -> Streamed<Bytes> {
    loop {
        let read = read(wasi, stream, len)?;
        if len > 0 && matches!(&read, Ok(bytes) if bytes.is_empty()) {
            ready(wasi, stream).await?;
            continue;
        }
        return streamed(&mut wasi.table, read);
    }
}

/// Writes all bytes.
async fn write_all(wasi: &mut Wasi, stream: u32, mut bytes: Bytes) -> Streamed<()> {
    while !bytes.is_empty() {
        ready(wasi, stream).await?;
        let output = wasi.table.get::<OutputStream>(stream)?;
        let written = output.check_write().and_then(|permitted| {
            let piece = bytes.split_to(permitted.min(bytes.len()));
            output.write(piece)
        });
        if written.is_err() {
            return streamed(&mut wasi.table, written);
        }
    }
    Ok(Ok(()))
}

/// Flushes the written bytes, and waits for the end of the flush.
async fn flush(wasi: &mut Wasi, stream: u32) -> Streamed<()> {
    let flushed = wasi.table.get::<OutputStream>(stream)?.flush();
    if flushed.is_err() {
        return streamed(&mut wasi.table, flushed);
    }
    ready(wasi, stream).await?;
    let checked = wasi.table.get::<OutputStream>(stream)?.check_write();
    // A sink that is closed after the flush has written all bytes.
    match checked {
        Err(StreamFailure::Closed) => Ok(Ok(())),
        checked => streamed(&mut wasi.table, checked.map(drop)),
    }
}

async fn write_and_flush(wasi: &mut Wasi, stream: u32, bytes: Bytes) -> Streamed<()> {
    if bytes.len() > BLOCKING_WRITE_MAX {
        let found = bytes.len();
        return Err(HostError::message(format!(
            "blocking-write-and-flush of {found} bytes, at most {BLOCKING_WRITE_MAX} are allowed"
        )));
    }
    match write_all(wasi, stream, bytes).await? {
        Ok(()) => flush(wasi, stream).await,
        error => Ok(error),
    }
}

/// Moves available bytes from a source to a sink, at most the number that the sink takes.
fn splice(wasi: &mut Wasi, to: u32, from: u32, len: u64) -> Streamed<u64> {
    let permitted = wasi.table.get::<OutputStream>(to)?.check_write();
    let permitted = match permitted {
        Ok(permitted) => permitted as u64,
        Err(error) => return streamed(&mut wasi.table, Err(error)),
    };
    let bytes = match read(wasi, from, len.min(permitted))? {
        // The sink keeps the bytes that it takes. The bytes of any source may be a part of a large
        // buffer.
        Ok(mut bytes) => split(&mut bytes, READ_MAX),
        Err(error) => return streamed(&mut wasi.table, Err(error)),
    };
    let moved = bytes.len() as u64;
    let written = wasi.table.get::<OutputStream>(to)?.write(bytes);
    streamed(&mut wasi.table, written.map(|()| moved))
}

/// Returns `len` zeros, at most `WRITE_MAX`.
fn zeros(len: u64) -> Bytes {
    const ZEROS: &[u8] = &[0; WRITE_MAX];
    let len = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
    Bytes::from_static(&ZEROS[..len])
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, IoError>(linker)?;
    methods! { linker, IoError, itself;
        "to-debug-string"() => |error| Ok(error.text().to_owned());
    }
    link_input(linker)?;
    link_output(linker)
}

/// Calls a method of a stream that does not wait.
fn streaming<T: View, R: Resource, O>(
    state: &mut State<T>,
    this: &Borrow<R>,
    call: impl FnOnce(&mut R) -> Result<Result<O, StreamFailure>, HostError>,
) -> Streamed<O> {
    let table = &mut state.data_mut().wasi().table;
    let result = call(table.get(this.rep())?)?;
    streamed(table, result)
}

fn link_input<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<InputStream>;
    resource::<T, InputStream>(linker)?;
    methods! { linker, InputStream, with_wasi;
        "read"(len: u64) => |wasi, this| {
            let read = read(wasi, this, len)?;
            streamed(&mut wasi.table, read)
        };
    }
    methods! { linker, InputStream, streaming;
        "skip"(len: u64) => |input| Ok(input.read(len).map(|bytes| bytes.len() as u64));
    }
    let name = "[method]input-stream.blocking-read";
    linker.func_async(STREAMS, name, |state, (this, len): (This, u64)| {
        Box::pin(blocking_read(state.data_mut().wasi(), this.rep(), len))
    })?;
    let name = "[method]input-stream.blocking-skip";
    linker.func_async(STREAMS, name, |state, (this, len): (This, u64)| {
        Box::pin(async move {
            let read = blocking_read(state.data_mut().wasi(), this.rep(), len).await?;
            Ok(read.map(|bytes| bytes.len() as u64))
        })
    })?;
    pollable::<T, InputStream>(linker)
}

fn link_output<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<OutputStream>;
    resource::<T, OutputStream>(linker)?;
    methods! { linker, OutputStream, streaming;
        "check-write"() => |output| Ok(output.check_write().map(|permitted| permitted as u64));
        "write"(bytes: Bytes) => |output| {
            output.check_permitted(bytes.len() as u64)?;
            Ok(output.write(bytes))
        };
        "write-zeroes"(len: u64) => |output| {
            output.check_permitted(len)?;
            Ok(output.write(zeros(len)))
        };
        "flush"() => |output| Ok(output.flush());
    }
    methods! { linker, OutputStream, with_wasi;
        "splice"(from: Borrow<InputStream>, len: u64) => |wasi, this| {
            splice(wasi, this, from.rep(), len)
        };
    }
    let name = "[method]output-stream.blocking-write-and-flush";
    linker.func_async(STREAMS, name, |state, (this, bytes): (This, Bytes)| {
        Box::pin(write_and_flush(state.data_mut().wasi(), this.rep(), bytes))
    })?;
    let name = "[method]output-stream.blocking-write-zeroes-and-flush";
    linker.func_async(STREAMS, name, |state, (this, len): (This, u64)| {
        Box::pin(write_and_flush(
            state.data_mut().wasi(),
            this.rep(),
            zeros(len),
        ))
    })?;
    let name = "[method]output-stream.blocking-flush";
    linker.func_async(STREAMS, name, |state, (this,): (This,)| {
        Box::pin(flush(state.data_mut().wasi(), this.rep()))
    })?;
    pollable::<T, OutputStream>(linker)?;
    type Splice = (Borrow<OutputStream>, Borrow<InputStream>, u64);
    let name = "[method]output-stream.blocking-splice";
    linker.func_async(STREAMS, name, |state, (this, from, len): Splice| {
        Box::pin(async move {
            let wasi = state.data_mut().wasi();
            ready(wasi, this.rep()).await?;
            ready(wasi, from.rep()).await?;
            splice(wasi, this.rep(), from.rep(), len)
        })
    })?;
    Ok(())
}
