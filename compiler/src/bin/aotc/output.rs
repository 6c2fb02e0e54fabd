//! [`Output`]: standard output, or a file that is written completely or not at all.

use anyhow::{Context, Result, anyhow, bail};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) enum Output {
    Stdout,
    File(PathBuf),
}

impl Output {
    /// Refuses to overwrite the input, under any of its names.
    pub(crate) fn spares(&self, input: &Path) -> Result<()> {
        match self {
            Self::File(path) if is_same(path, input) => bail!(
                "cannot write {}: it is the input, {}; give another name",
                path.display(),
                input.display()
            ),
            _ => Ok(()),
        }
    }

    /// Writes all bytes. A file is written under a temporary name and renamed. So a reader never
    /// sees a partial file, and a module that a server has mapped does not change.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => to_stdout(bytes),
            Self::File(path) => {
                to_file(path, bytes).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

/// Prints text.
pub(crate) fn print(text: &str) -> Result<()> {
    to_stdout(text.as_bytes())
}

/// Whether two paths refer to the same regular file. A terminal, for example, may be both read and
/// written.
fn is_same(path: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A path that does not exist is not the same file.
    let [Ok(path), Ok(other)] = [path, other].map(std::fs::metadata) else {
        return false;
    };
    path.is_file() && (path.dev(), path.ino()) == (other.dev(), other.ino())
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
        return Ok(std::fs::OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(bytes)?);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let folder = folder.display();
        bail!("folder {folder} does not exist; create it, or give another");
    }
    replace(path, folder, bytes).map_err(|error| {
        // The message does not mention the temporary name.
        let kind = error.kind();
        anyhow!("{kind}; give another place")
    })
}

fn replace(path: &Path, folder: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".aotc-")
        .permissions(mode())
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Readable and executable by all, as far as the process's umask allows.
fn mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o777)
}
