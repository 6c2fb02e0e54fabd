//! Copies a tar archive into a base. The archive may be hostile.

use super::builder::BaseBuilder;
use super::error::BaseError;
use core::cell::Cell;
use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, Read};
use std::time::SystemTime;
use tar::{Archive, Entry, EntryType};

/// Most bytes of an archive for each entry, besides the contents: headers, long names, padding.
const HEADER_BYTES_MAX: u64 = 4096;
/// Most bytes of one entry's headers: its long name, its long target, and its PAX records, in which
/// Linux's extended attributes have 64 KiB each. The reader of archives holds them in memory.
const ENTRY_HEADER_BYTES_MAX: u64 = 1 << 20;

/// Adds the entries of an archive to a builder.
pub(super) fn read(source: impl Read, builder: &mut BaseBuilder) -> Result<(), BaseError> {
    let mut source = BufReader::new(source);
    refuse_compressed(&mut source)?;
    let limits = *builder.limits();
    let headers = limits.files_max.saturating_mul(HEADER_BYTES_MAX);
    let header_left = Cell::new(ENTRY_HEADER_BYTES_MAX);
    let mut archive = Archive::new(Bounded {
        source,
        header_left: &header_left,
        left: limits.bytes_max.saturating_add(headers),
    });
    let failed = |error| BaseError::Io {
        path: "the archive".into(),
        error,
    };
    let mut last = String::new();
    for entry in archive.entries().map_err(failed)? {
        let entry = entry.map_err(|error| BaseError::Io {
            path: match last.as_str() {
                "" => "the archive".into(),
                last => format!("the archive after {last}"),
            },
            error: readable(error),
        })?;
        last = text(&entry.path_bytes())?.to_owned();
        let skipped = add(entry, &last, builder, &header_left)?;
        // The reader skips these bytes before the headers of the next entry, and does not hold them
        // in memory.
        header_left.set(skipped.saturating_add(512 + ENTRY_HEADER_BYTES_MAX));
    }
    Ok(())
}

/// An error of the reader of archives. Its messages quote the bytes of an invalid header.
fn readable(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Other if error.raw_os_error().is_none() => io::Error::new(
            io::ErrorKind::InvalidData,
            "no header of tar; the archive is damaged, or is no tar archive",
        ),
        _ => error,
    }
}

/// Adds one entry. Returns how many bytes of its contents are left unread.
fn add(
    mut entry: Entry<'_, impl Read>,
    path: &str,
    builder: &mut BaseBuilder,
    header_left: &Cell<u64>,
) -> Result<u64, BaseError> {
    let failed = |error| BaseError::Io {
        path: path.to_owned(),
        error,
    };
    let seconds = entry.header().mtime().map_err(failed)?;
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
    let kind = entry.header().entry_type();
    if is_sparse(&mut entry).map_err(failed)? {
        return Err(refused(path, "sparse file"));
    }
    let size = entry.size();
    match kind {
        EntryType::Regular | EntryType::Continuous if !path.ends_with('/') => {
            // The builder reads contents only up to its own limit.
            header_left.set(u64::MAX);
            builder.file(path, size, entry, modified)?;
            return Ok(0);
        }
        // Archives older than ustar mark directories by a slash.
        EntryType::Directory | EntryType::Regular => builder.directory(path, modified)?,
        EntryType::Symlink => builder.symlink(path, text(&target(&entry))?, modified)?,
        EntryType::Link => builder.hard_link(path, text(&target(&entry))?)?,
        EntryType::XGlobalHeader => {}
        EntryType::Char | EntryType::Block => return Err(refused(path, "device")),
        EntryType::Fifo => return Err(refused(path, "FIFO")),
        _ => return Err(refused(path, "thing of an unknown kind")),
    }
    Ok(size)
}

/// The target of a link; empty if there is no target.
fn target(entry: &Entry<'_, impl Read>) -> Vec<u8> {
    let target = entry.link_name_bytes();
    target.unwrap_or_default().into_owned()
}

/// Whether an entry has holes, in the form of GNU or of PAX.
fn is_sparse(entry: &mut Entry<'_, impl Read>) -> io::Result<bool> {
    if entry.header().entry_type() == EntryType::GNUSparse {
        return Ok(true);
    }
    let Some(records) = entry.pax_extensions()? else {
        return Ok(false);
    };
    for record in records {
        if record?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused(path: &str, kind: &'static str) -> BaseError {
    BaseError::Kind {
        path: path.to_owned(),
        kind,
    }
}

fn text(bytes: &[u8]) -> Result<&str, BaseError> {
    str::from_utf8(bytes).map_err(|_| BaseError::Name {
        path: String::from_utf8_lossy(bytes).into_owned(),
    })
}

/// A reader that fails past a number of bytes of the archive, and of the headers of one entry.
struct Bounded<'a, R> {
    source: R,
    left: u64,
    header_left: &'a Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.left.min(self.header_left.get());
        let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 && !bytes.is_empty() {
            let problem = match self.left {
                0 => "the archive is larger than bytes_max and 4,096 bytes for each of files_max",
                _ => "an entry has more than 1 MiB of names and PAX records; remove the records",
            };
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        let read = self.source.read(&mut bytes[..len])?;
        self.left -= read as u64;
        self.header_left.set(self.header_left.get() - read as u64);
        Ok(read)
    }
}

/// Refuses an archive that begins like a compressed file.
fn refuse_compressed(source: &mut BufReader<impl Read>) -> Result<(), BaseError> {
    const FORMATS: [(&[u8], &str); 4] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
        (b"BZh", "bzip2"),
    ];
    let start = source.fill_buf().map_err(|error| BaseError::Io {
        path: "the archive".into(),
        error,
    })?;
    let found = FORMATS.iter().find(|(magic, _)| start.starts_with(magic));
    found.map_or(Ok(()), |(_, by)| Err(BaseError::Compressed { by }))
}
