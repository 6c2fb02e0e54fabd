//! Streams of files: a file and a position in it.

use super::descriptor::OpenFile;
use crate::io::{Input, Output, StreamFailure, exact};
use crate::limits::WRITE_MAX;
use bytes::Bytes;
use pirn_wasi::files::Place;
use std::io;
use std::sync::Arc;

/// The stream of `read-via-stream`.
pub(crate) struct FileInput {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) position: u64,
}

impl Input for FileInput {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        let read = self.file.file.read(max, self.position);
        let bytes = exact(read.map_err(io::Error::from)?);
        match bytes.len() {
            0 => Err(StreamFailure::Closed),
            read => {
                self.position = self.position.saturating_add(read as u64);
                Ok(bytes)
            }
        }
    }
}

/// The stream of `write-via-stream` and of `append-via-stream`.
pub(crate) struct FileOutput {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) place: Place,
}

impl Output for FileOutput {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        Ok(WRITE_MAX)
    }

    /// Writes the bytes that fit into the disk quota. Fails if not all bytes fit.
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = match self.file.write(rest, self.place) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                written => written.map_err(io::Error::from)?,
            };
            rest = &rest[written..];
            if let Place::At(offset) = &mut self.place {
                *offset = offset.saturating_add(written as u64);
            }
        }
        Ok(())
    }
}
