//! [`Output`]: standard output, or a file that is written completely or not at all.

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where a program writes its result.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file with this name.
    File(PathBuf),
}

impl Output {
    /// Refuses to overwrite the input, under any of its names.
    ///
    /// # Errors
    ///
    /// If the output is the input.
    pub fn spares(&self, input: &Path) -> Result<()> {
        match self {
            Self::File(path) if is_same(path, input) => bail!(
                "cannot write {}: it is the input, {}; give another name",
                path.display(),
                input.display()
            ),
            _ => Ok(()),
        }
    }

    /// The file that is replaced or made.
    ///
    /// # Errors
    ///
    /// If the output is standard output, a pipe or a device.
    pub fn replaced(&self) -> Result<&Path> {
        match self {
            Self::Stdout => bail!("it is standard output; name a file with -o"),
            Self::File(path) if path.exists() && !path.is_file() => bail!(
                "{} is a folder, a pipe or a device; name a regular file with -o",
                path.display()
            ),
            Self::File(path) => Ok(path),
        }
    }

    /// Writes a module and its signature. Both files are on the disk under temporary names before
    /// one of them is renamed.
    ///
    /// The signature gets its name first, so that a reader of the new module finds its signature.
    /// Between the two renames, and for good if the second fails, the earlier module lies beside
    /// the signature of the new module, and is refused.
    ///
    /// # Errors
    ///
    /// If a file cannot be written or renamed.
    pub fn write_signed(&self, module: &[u8], beside: &Path, signature: &str) -> Result<()> {
        let path = self.replaced()?;
        let place = |path: &Path| format!("cannot write {}", path.display());
        let folder = folder_of(path).with_context(|| place(path))?;
        let staged_module = staged(folder, module, MODULE_MODE);
        let staged_module = staged_module
            .map_err(other_place)
            .with_context(|| place(path))?;
        let signature = staged(folder, signature.as_bytes(), SIGNATURE_MODE);
        let signature = signature
            .map_err(other_place)
            .with_context(|| place(beside))?;
        for (file, path) in [(signature, beside), (staged_module, path)] {
            let renamed = file.persist(path).map_err(|error| other_place(error.error));
            renamed.with_context(|| place(path))?;
        }
        Ok(())
    }

    /// Writes all bytes. A file is written under a temporary name and renamed. So a reader never
    /// sees a partial file, and a module that a server has mapped does not change.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => to_stdout(bytes),
            Self::File(path) => {
                to_file(path, bytes).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

/// Writes the signature of a module that exists. A reader finds the earlier signature or the new
/// signature, never a part of a signature.
///
/// # Errors
///
/// If the file cannot be written or renamed.
pub fn write_signature(path: &Path, signature: &str) -> Result<()> {
    let written = replace(path, signature.as_bytes(), SIGNATURE_MODE);
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Prints text.
///
/// # Errors
///
/// If standard output cannot be written. A closed pipe is no error.
pub fn print(text: &str) -> Result<()> {
    to_stdout(text.as_bytes())
}

/// Whether two paths refer to the same regular file. A terminal, for example, may be both read and
/// written.
#[must_use]
pub fn is_same(path: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A path that does not exist is not the same file.
    let [Ok(path), Ok(other)] = [path, other].map(std::fs::metadata) else {
        return false;
    };
    path.is_file() && (path.dev(), path.ino()) == (other.dev(), other.ino())
}

/// Opens a file, a pipe or a device to append to it. Makes a file that does not exist. Refuses a
/// pipe that no process reads: opening it would wait for a reader, perhaps for ever.
///
/// # Errors
///
/// The error of the system, or [`ErrorKind::NotConnected`] for a pipe without a reader.
pub fn append_to(path: &Path) -> io::Result<File> {
    // In directories such as /tmp, Linux refuses to open pipes of other users with O_CREAT.
    let file = File::options()
        .append(true)
        .create(!path.exists())
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(|error| match Errno::from_io_error(&error) {
            // Only pipes, sockets and some missing devices give this error.
            Some(Errno::NXIO) => {
                let why = "no process reads it; start the reader of the pipe first, or name a file";
                io::Error::new(ErrorKind::NotConnected, why)
            }
            _ => error,
        })?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn to_stdout(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // The reader closed the pipe because it needs no more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn to_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.is_dir() {
        bail!("it is a folder; name a file in it");
    }
    // A device or a pipe is written directly, not replaced.
    if path.exists() && !path.is_file() {
        return Ok(append_to(path)?.write_all(bytes)?);
    }
    replace(path, bytes, MODULE_MODE)
}

/// Writes a file under a temporary name and renames it.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = folder_of(path)?;
    let renamed = staged(folder, bytes, mode)
        .and_then(|file| file.persist(path).map_err(|error| error.error));
    renamed.map(drop).map_err(other_place)
}

/// The folder of a file.
fn folder_of(path: &Path) -> Result<&Path> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let folder = folder.display();
        bail!("folder {folder} does not exist; create it, or give another");
    }
    Ok(folder)
}

/// An error that does not mention the temporary name.
#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn other_place(error: io::Error) -> anyhow::Error {
    anyhow!("{}; give another place", error.kind())
}

/// A file with a temporary name that has these bytes.
fn staged(folder: &Path, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".aotc-")
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Readable and executable by all, as far as the process's umask allows.
const MODULE_MODE: u32 = 0o777;
/// Readable by all, as far as the process's umask allows.
const SIGNATURE_MODE: u32 = 0o666;
