//! [`World`]: the host resources of a guest, with every kind of descriptor, and files that it must
//! not reach.

use crate::folder::{Folder, made};
use pirn_wasi::{Bounded, Dir, WasiCtx, WasiCtxBuilder, ambient_authority};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::unix::net::{UnixListener, UnixStream};

/// The descriptor of the guest's directory.
pub(super) const FOLDER: u32 = 3;
/// Descriptors of a context and its world before the guest opens any: pipes, sockets, a directory.
pub(super) const GIVEN: usize = 24;

/// A directory with all kinds of files, sockets and pipes.
#[derive(Debug)]
pub(super) struct World {
    folder: Folder,
    /// A pipe that receives no data, and a full pipe that is never read.
    silent: (PipeReader, PipeWriter),
    full: (PipeReader, PipeWriter),
    listener: UnixListener,
}

impl World {
    pub(super) fn new() -> Result<Self, String> {
        let links = [
            ("link", "file"),
            ("loop", "loop"),
            ("dangling", "nowhere"),
            ("absolute", "/etc"),
            ("up", ".."),
        ];
        let folder = Folder::new(10_000, &links)?;
        let inside = folder.inside();
        made(fs::write(inside.join("append"), "so far"))?;
        let mode = Mode::from_raw_mode(0o600);
        made(mknodat(CWD, inside.join("fifo"), FileType::Fifo, mode, 0))?;
        let full = made(io::pipe())?;
        made(rustix::io::ioctl_fionbio(&full.1, true))?;
        // The pipe is full when a write fails.
        let mut into = &full.1;
        while into.write(&[0; 4096]).is_ok() {}
        made(rustix::io::ioctl_fionbio(&full.1, false))?;
        let listener = made(UnixListener::bind(folder.path().join("socket")))?;
        Ok(Self {
            folder,
            silent: made(io::pipe())?,
            full,
            listener,
        })
    }

    /// A WASI context. Standard input receives no data, standard output accepts none, and standard
    /// error is bounded. The directory is descriptor 3. A silent socket, a shut-down socket and a
    /// listening socket follow.
    pub(super) fn context(&self) -> Result<WasiCtx, String> {
        let inside = self.folder.inside();
        let inside = made(Dir::open_ambient_dir(inside, ambient_authority()))?;
        let (silent, peer) = made(UnixStream::pair())?;
        let (ended, _) = made(UnixStream::pair())?;
        // The silent socket's peer stays in the queue of the listening socket, and lives as long as
        // that socket.
        drop(made(UnixStream::connect(self.folder.path().join("socket"))));
        let listener = made(self.listener.try_clone())?;
        let wasi = WasiCtxBuilder::new()
            .args(["guest", "argument"])
            .and_then(|wasi| wasi.env("NAME", "value"));
        let wasi = made(wasi)?
            .stdin_fd(made(self.silent.0.try_clone())?)
            .stdout_fd(made(self.full.1.try_clone())?)
            .stderr(Bounded::new(vec![], 4096));
        Ok(made(wasi.preopened_dir(inside, "/inside"))?
            .preopened_socket(4, silent)
            .preopened_socket(5, ended)
            .preopened_socket(6, peer)
            .preopened_socket(7, listener)
            .build())
    }

    /// Checks that no file beside the guest's directory has changed.
    pub(super) fn untouched(&self) -> Result<(), String> {
        self.folder.untouched(&["socket"])
    }
}
