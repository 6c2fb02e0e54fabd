//! [`ReadPipe`] and [`WritePipe`]: streams of a guest in the memory of the host. All clones of a
//! pipe share its reader or writer.

use std::io::{self, Cursor, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A source of bytes that a guest reads.
///
/// ```
/// use pirn_wasi::WasiCtxBuilder;
/// use pirn_wasi::pipe::ReadPipe;
///
/// let wasi = WasiCtxBuilder::new().stdin(ReadPipe::from("who is there?")).build();
/// # drop(wasi);
/// ```
#[derive(Debug)]
pub struct ReadPipe<R>(Arc<Mutex<R>>);

/// A destination of bytes that a guest writes.
///
/// ```
/// use pirn_wasi::WasiCtxBuilder;
/// use pirn_wasi::pipe::WritePipe;
///
/// let output = WritePipe::new_in_memory();
/// let wasi = WasiCtxBuilder::new().stdout(output.clone()).build();
/// // An instance takes the context, runs, and is dropped.
/// drop(wasi);
/// let output = output.try_into_inner().expect("nobody else has the pipe");
/// assert!(output.into_inner().is_empty());
/// ```
#[derive(Debug)]
pub struct WritePipe<W>(Arc<Mutex<W>>);

fn lock<P>(pipe: &Mutex<P>) -> MutexGuard<'_, P> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The inner value, if nobody else has a clone.
fn into_inner<P>(pipe: Arc<Mutex<P>>) -> Result<P, Arc<Mutex<P>>> {
    Arc::try_unwrap(pipe).map(|pipe| pipe.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl<R> Clone for ReadPipe<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Read> ReadPipe<R> {
    /// A pipe that reads from `reader`.
    pub fn new(reader: R) -> Self {
        Self(Arc::new(Mutex::new(reader)))
    }

    /// The reader.
    ///
    /// # Errors
    ///
    /// The pipe itself, if a clone of it exists.
    pub fn try_into_inner(self) -> Result<R, Self> {
        into_inner(self.0).map_err(Self)
    }
}

impl<R: Read> Read for ReadPipe<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        lock(&self.0).read(into)
    }
}

impl From<Vec<u8>> for ReadPipe<Cursor<Vec<u8>>> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Cursor::new(bytes))
    }
}

impl From<&[u8]> for ReadPipe<Cursor<Vec<u8>>> {
    fn from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }
}

impl From<String> for ReadPipe<Cursor<Vec<u8>>> {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl From<&str> for ReadPipe<Cursor<Vec<u8>>> {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl<W> Clone for WritePipe<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Write> WritePipe<W> {
    /// A pipe that writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Arc::new(Mutex::new(writer)))
    }

    /// The writer.
    ///
    /// # Errors
    ///
    /// The pipe itself, if a clone of it exists, such as the clone in a guest's context.
    pub fn try_into_inner(self) -> Result<W, Self> {
        into_inner(self.0).map_err(Self)
    }
}

impl WritePipe<Cursor<Vec<u8>>> {
    /// A pipe that keeps all bytes. [`Bounded`](crate::Bounded) limits their number.
    #[must_use]
    pub fn new_in_memory() -> Self {
        Self::new(Cursor::new(vec![]))
    }
}

impl<W: Write> Write for WritePipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn write_vectored(&mut self, vectors: &[IoSlice<'_>]) -> io::Result<usize> {
        lock(&self.0).write_vectored(vectors)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush()
    }
}
