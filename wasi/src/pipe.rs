//! [`Pipe`]: a stream of a guest that other owners share, such as a stream in the memory of the
//! host.

use std::io::{self, Cursor, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A source or a destination of a guest's bytes. All clones share the source or destination.
///
/// ```
/// use pirn_wasi::WasiCtxBuilder;
/// use pirn_wasi::pipe::{ReadPipe, WritePipe};
///
/// let output = WritePipe::new_in_memory();
/// let input = ReadPipe::from("a line of input");
/// let wasi = WasiCtxBuilder::new().stdin(input).stdout(output.clone()).build();
/// // An instance takes the context, runs, and is dropped.
/// drop(wasi);
/// let output = output.try_into_inner().expect("nobody else has the pipe");
/// assert!(output.into_inner().is_empty());
/// ```
#[derive(Debug)]
pub struct Pipe<P: ?Sized>(Arc<Mutex<P>>);

/// A source of bytes that a guest reads.
pub type ReadPipe<R> = Pipe<R>;

/// A destination of bytes that a guest writes.
pub type WritePipe<W> = Pipe<W>;

impl<P: ?Sized> Clone for Pipe<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: ?Sized> From<Arc<Mutex<P>>> for Pipe<P> {
    fn from(shared: Arc<Mutex<P>>) -> Self {
        Self(shared)
    }
}

impl<P: ?Sized> Pipe<P> {
    /// Gives access to the source or destination.
    pub fn with<R>(&self, use_it: impl FnOnce(&mut P) -> R) -> R {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<P> Pipe<P> {
    /// Shares a source or a destination.
    pub fn new(pipe: P) -> Self {
        Self(Arc::new(Mutex::new(pipe)))
    }

    /// The source or destination.
    ///
    /// # Errors
    ///
    /// The pipe itself, if a clone of it exists, such as the clone in a guest's context.
    pub fn try_into_inner(self) -> Result<P, Self> {
        let inner = Arc::try_unwrap(self.0).map_err(Self)?;
        Ok(inner.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<R: Read + ?Sized> Read for Pipe<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.with(|reader| reader.read(into))
    }
}

impl From<Vec<u8>> for Pipe<Cursor<Vec<u8>>> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Cursor::new(bytes))
    }
}

impl From<&[u8]> for Pipe<Cursor<Vec<u8>>> {
    fn from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }
}

impl From<String> for Pipe<Cursor<Vec<u8>>> {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl From<&str> for Pipe<Cursor<Vec<u8>>> {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl Pipe<Cursor<Vec<u8>>> {
    /// A pipe that keeps all bytes. [`Bounded`](crate::Bounded) limits their number.
    #[must_use]
    pub fn new_in_memory() -> Self {
        Self::new(Cursor::new(vec![]))
    }
}

impl<W: Write + ?Sized> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|writer| writer.write(bytes))
    }

    fn write_vectored(&mut self, vectors: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with(|writer| writer.write_vectored(vectors))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(W::flush)
    }
}
