//! [`Entry`]: the program of a container. The shim finds it in the image before the container
//! exists.
//!
//! The shim reads the program on the host, compiles it with the host's compiler, and stores the
//! result for all containers. The shim does not trust the image. So it resolves each path below the
//! root file system of the container, even if the image has links that lead elsewhere.

use anyhow::{Context as _, Result, bail, ensure};
use oci_spec::runtime::Spec;
use pirn_signature::{SIGNATURE_BYTES_MAX, signature_path};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// First bytes of a WebAssembly module or component.
const WASM: &[u8] = b"\0asm";

/// First bytes of an ELF file. Compiled modules and most Linux programs are ELF files.
const ELF: &[u8] = b"\x7fELF";

/// First bytes of a script.
const SCRIPT: &[u8] = b"#!";

/// The kind of a container's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A WebAssembly module or component.
    Wasm(Signable),
    /// A compiled module.
    So(Signable),
    /// A Linux program.
    Native,
}

/// The bytes of a program, and the signature beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signable {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The text of the signature, if the image or the artifact has one.
    pub signature: Option<String>,
}

/// The program of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path in the image, for messages.
    pub path: PathBuf,
    /// The kind of the program, with its bytes.
    pub program: Program,
}

/// The root file system of a container, on the host.
pub struct Image {
    root: OwnedFd,
}

impl Image {
    /// Opens the root file system.
    ///
    /// # Errors
    ///
    /// If the system refuses to open the root file system.
    pub fn open(root: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(root, flags, Mode::empty());
        let root = opened.with_context(|| format!("cannot open the image {}", root.display()))?;
        Ok(Self { root })
    }

    /// Finds the program that the first argument of a container's process names, and reads it.
    ///
    /// # Errors
    ///
    /// If the image has no such file, or the file is too large or of an unknown kind.
    pub fn entry(&self, spec: &Spec, bytes_max: u64) -> Result<Entry> {
        let process = spec.process().as_ref().context("the spec has no process")?;
        let args = process.args().as_deref().unwrap_or_default();
        let first = args.first().context(
            "the container has no arguments, and the first one names its program; give the image \
             an entry point",
        )?;
        let env = process.env().as_deref().unwrap_or_default();
        for path in candidates(Path::new(first), process.cwd(), env) {
            if let Some(file) = self.file(&path)? {
                let program = self.program(&path, file, bytes_max);
                let program = program.with_context(|| format!("{}", path.display()))?;
                self.check_working_directory(spec, process.cwd())?;
                return Ok(Entry { path, program });
            }
        }
        bail!(
            "the image has no file {first:?}, which is the program of the container; name one of \
             the image, a volume cannot hold it"
        );
    }

    fn program(&self, path: &Path, mut file: File, bytes_max: u64) -> Result<Program> {
        let mut start = vec![];
        (&mut file).take(4).read_to_end(&mut start)?;
        let is_so = path.extension().is_some_and(|extension| extension == "so");
        match start.as_slice() {
            WASM => Ok(Program::Wasm(self.signable(path, start, file, bytes_max)?)),
            ELF if is_so => Ok(Program::So(self.signable(path, start, file, bytes_max)?)),
            ELF => Ok(Program::Native),
            start if start.starts_with(SCRIPT) => Ok(Program::Native),
            _ => bail!(
                "it is neither a WebAssembly file, nor a compiled module whose name ends in .so, \
                 nor a Linux program; check what the image has there"
            ),
        }
    }

    /// Reads the rest of a file, and the signature beside it.
    fn signable(
        &self,
        path: &Path,
        start: Vec<u8>,
        file: File,
        bytes_max: u64,
    ) -> Result<Signable> {
        let bytes = read(file, start, bytes_max)?;
        let beside = signature_path(path);
        let signature = match self.file(&beside)? {
            None => None,
            Some(file) => {
                let text = read(file, vec![], SIGNATURE_BYTES_MAX).and_then(|bytes| {
                    String::from_utf8(bytes).context("it is no text, so it is no signature")
                });
                Some(text.with_context(|| format!("{}", beside.display()))?)
            }
        };
        Ok(Signable { bytes, signature })
    }

    /// Refuses a working directory that neither the image nor a volume has. libcontainer's error
    /// would not name the directory.
    fn check_working_directory(&self, spec: &Spec, cwd: &Path) -> Result<()> {
        let mut mounts = spec.mounts().iter().flatten();
        if mounts.any(|mount| cwd.starts_with(mount.destination())) {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.root, cwd, flags, Mode::empty(), below) {
            Ok(_) => Ok(()),
            Err(error) => bail!(
                "the image has no folder {cwd:?}, which is the working directory of the \
                 container: {error}; add it to the image, or mount a volume there"
            ),
        }
    }

    /// Opens a regular file of the image. `None` if there is no such file.
    fn file(&self, path: &Path) -> Result<Option<File>> {
        // Without NONBLOCK, opening a named pipe of the image would block the shim.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let below = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let file = match openat2(&self.root, path, flags, Mode::empty(), below) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot open {}", path.display()));
            }
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }
}

/// The possible paths of a program: a path as given or below the working directory, or a plain name
/// in a folder of `PATH`.
fn candidates(first: &Path, cwd: &Path, env: &[String]) -> Vec<PathBuf> {
    let mut all = vec![Path::new("/").join(cwd).join(first)];
    let is_name = first.components().count() == 1 && first.is_relative();
    let path = env.iter().rev().find_map(|text| text.strip_prefix("PATH="));
    if let (true, Some(path)) = (is_name, path) {
        all.extend(path.split(':').map(|folder| Path::new(folder).join(first)));
    }
    all
}

/// Reads the rest of a file.
fn read(mut file: File, start: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>> {
    let found = file.metadata()?.len();
    ensure!(
        found <= bytes_max,
        "it has {found} bytes, the policy of the node allows {bytes_max}; raise module_max"
    );
    let mut bytes = start;
    // Reads one byte more than allowed, to notice a file that grew in the meantime.
    (&mut file).take(bytes_max).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= bytes_max,
        "it grew while it was read; leave it as it is"
    );
    Ok(bytes)
}
