//! [`Bounded`]: a writer with a limit on its bytes.

use std::io::{self, IoSlice, Write};

/// ENOSPC, "no space left on device", in Linux's numbering. Guests see it as `nospc`.
const NO_SPACE: i32 = 28;

/// A writer with a limit on its bytes.
///
/// Wrap a guest's standard output in a `Bounded`, so that the guest cannot fill the host's memory.
///
/// The writer behaves like a disk that fills up. A write that fits only in part is cut short. If
/// not a single byte fits, the write fails with ENOSPC, which a guest sees as `nospc` (51). The
/// guest keeps running, and may report the error elsewhere.
///
/// ```
/// use pirn_wasi::pipe::WritePipe;
/// use pirn_wasi::{Bounded, WasiCtxBuilder};
///
/// let output = WritePipe::new(Bounded::new(vec![], 1 << 20));
/// let wasi = WasiCtxBuilder::new().stdout(output.clone()).build();
/// // An instance takes the context, runs, and is dropped.
/// drop(wasi);
/// let output = output.try_into_inner().expect("nobody else has the pipe");
/// assert!(!output.is_refusing() && output.into_inner().is_empty());
/// ```
#[derive(Debug)]
pub struct Bounded<W> {
    writer: W,
    left: usize,
    refusing: bool,
}

impl<W: Write> Bounded<W> {
    /// A writer that forwards at most `bytes_max` bytes to `writer`.
    pub fn new(writer: W, bytes_max: usize) -> Self {
        Self {
            writer,
            left: bytes_max,
            refusing: false,
        }
    }

    /// Whether the writer has refused a byte, so that its output is incomplete.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// The inner writer, with the bytes that were written.
    #[must_use]
    pub fn get_ref(&self) -> &W {
        &self.writer
    }

    /// The inner writer.
    #[must_use]
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// The part of `bytes` that fits. Sets `refusing` if a byte does not fit.
    fn fitting<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.refusing |= bytes.len() > self.left;
        &bytes[..bytes.len().min(self.left)]
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.left = self.left.saturating_sub(written);
        Ok(written)
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = self.fitting(bytes);
        if some.is_empty() && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(NO_SPACE));
        }
        self.pass_on(some)
    }

    fn write_vectored(&mut self, vectors: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sum = 0;
        for bytes in vectors.iter().filter(|bytes| !bytes.is_empty()) {
            let some = self.fitting(bytes);
            if some.is_empty() {
                break;
            }
            // Report the bytes that were written already. The next call returns the error.
            let written = match self.pass_on(some) {
                Ok(written) => written,
                Err(_) if sum > 0 => break,
                Err(error) => return Err(error),
            };
            sum += written;
            if written < bytes.len() {
                break;
            }
        }
        if sum == 0 && vectors.iter().any(|bytes| !bytes.is_empty()) && self.left == 0 {
            return Err(io::Error::from_raw_os_error(NO_SPACE));
        }
        Ok(sum)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
