//! [`Cache`]: the node's folder of compiled modules.
//!
//! ```text
//!   DIR/HASH.so       a compiled module; HASH covers the .wasm file, the compiler and its options
//!   DIR/HASH.lock     locked during a compilation, so that only one process writes HASH.so
//!   DIR/slot.N        locked by one of the concurrent compilations
//!   DIR/*.new         a file that a process still writes
//! ```
//!
//! Containers map these files, so the kernel keeps the code of a module in memory once for all
//! containers. A process that can write to the folder decides which machine code guests run. So the
//! folder belongs to root, and containers never see it.

use crate::owner;
use crate::policy::Policy;
use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of a compiled module in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Hashes all inputs of a compilation. The length of each part is part of the hash, so
    /// different lists of parts have different keys.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut text = String::new();
        for byte in hash.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// An evenly distributed number, derived from the key.
    fn number(&self) -> u32 {
        u32::from_str_radix(&self.0[..8], 16).unwrap_or(0)
    }
}

/// The folder of compiled modules of a node.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    at_once: u32,
}

impl Cache {
    /// Opens the folder, or creates it.
    ///
    /// # Errors
    ///
    /// If another user than root may write to the folder, or a system call fails.
    pub fn open(policy: &Policy) -> Result<Self> {
        let folder = policy.cache.clone();
        let open = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)?;
            let about = fs::symlink_metadata(&folder)?;
            ensure!(about.is_dir(), "it is no folder; name one");
            owner::check(&about)
        };
        open().with_context(|| format!("cache {}", folder.display()))?;
        Ok(Self {
            folder,
            bytes_max: policy.cache_bytes_max,
            at_once: policy.compile.at_once,
        })
    }

    /// Returns the file of a key. If the file is missing, `make` writes it, once for all processes
    /// of the node.
    ///
    /// # Errors
    ///
    /// If `make` fails, if the file is larger than the cache may be, or if a system call fails.
    /// Then the cache does not change.
    pub fn get(&self, key: &Key, make: impl FnOnce(&Scratch) -> Result<()>) -> Result<PathBuf> {
        let path = self.path(key);
        if is_there(&path)? {
            return Ok(path);
        }
        let lock = format!("{}.lock", key.0);
        let _making = Making {
            _lock: self.lock(&lock)?,
            path: self.folder.join(lock),
        };
        // Another process may have written the file while this one waited for the lock.
        if is_there(&path)? {
            return Ok(path);
        }
        let _slot = self.lock(&format!("slot.{}", key.number() % self.at_once))?;
        let scratch = Scratch::new(&self.folder, &key.0)?;
        make(&scratch)?;
        let bytes = scratch.output.metadata()?.len();
        ensure!(
            bytes <= self.bytes_max,
            "the compiled module has {bytes} bytes, and cache_max is {}; raise it",
            self.bytes_max
        );
        self.make_room(bytes)?;
        fs::rename(&scratch.output_path, &path)?;
        Ok(path)
    }

    /// Removes a damaged file.
    pub fn forget(&self, path: &Path) {
        let _ = fs::remove_file(path);
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.so", key.0))
    }

    /// Waits for the lock of a file. Dropping the result releases the lock.
    fn lock(&self, name: &str) -> Result<File> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        loop {
            let file = options.open(&path)?;
            file.lock()
                .with_context(|| format!("cannot lock {}", path.display()))?;
            // The previous holder may have removed the file. Then a lock of the removed file
            // protects nothing.
            match fs::metadata(&path) {
                Ok(now) if now.ino() == file.metadata()?.ino() => return Ok(file),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the least recently used modules until `bytes` more bytes fit. Running containers
    /// keep the files that they have mapped.
    fn make_room(&self, bytes: u64) -> Result<()> {
        let mut all: Vec<(SystemTime, u64, PathBuf)> = vec![];
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "so")
                && let Ok(about) = fs::metadata(&path)
            {
                all.push((about.modified()?, about.len(), path));
            }
        }
        all.sort_unstable();
        let mut used: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, len, path) in all {
            if used.saturating_add(bytes) <= self.bytes_max {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            used -= len;
        }
        Ok(())
    }
}

/// The lock of a key. Dropping it removes the lock file, and then releases the lock.
struct Making {
    path: PathBuf,
    _lock: File,
}

impl Drop for Making {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a module is in the cache. Sets the time of the module's last use to now.
fn is_there(path: &Path) -> Result<bool> {
    match File::open(path) {
        Ok(file) => {
            owner::check(&file.metadata()?).with_context(|| path.display().to_string())?;
            // This fails on a read-only file system.
            let _ = file.set_modified(SystemTime::now());
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Temporary files of a compilation. Dropping this value removes them.
pub struct Scratch {
    input_path: PathBuf,
    output_path: PathBuf,
    output: File,
}

impl Scratch {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        let [input_path, output_path] =
            ["in", "out"].map(|kind| folder.join(format!("{name}.{kind}.new")));
        // A killed shim may have left this file. This process holds the key's lock, so no other
        // process uses the file.
        let _ = fs::remove_file(&output_path);
        let _ = fs::remove_file(&input_path);
        Ok(Self {
            output: create(&output_path, 0o600)?,
            input_path,
            output_path,
        })
    }

    /// The file that becomes the compiled module.
    #[must_use]
    pub fn output(&self) -> &File {
        &self.output
    }

    /// A file with these bytes, open for reading. A process of any user can reopen the file through
    /// an inherited descriptor. Other users cannot open the file by its path.
    pub(crate) fn input(&self, bytes: &[u8]) -> Result<File> {
        use std::io::Write as _;
        create(&self.input_path, 0o444)?.write_all(bytes)?;
        Ok(File::open(&self.input_path)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.input_path);
        // After a successful compilation the file has another name, and this call fails.
        let _ = fs::remove_file(&self.output_path);
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}
