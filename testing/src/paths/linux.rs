//! Linux as the oracle: each call made natively, relative to a directory descriptor.

use super::errors::of_linux;
use super::tree::{TOUCHED_S, Tree, make, of_directory};
use super::{Access, Answer, Call, How};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fstat, linkat, mkdirat, open,
    openat, readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pread, write};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of the host, and its descriptor.
pub(super) struct Linux {
    folder: PathBuf,
    dir: Option<OwnedFd>,
}

impl Linux {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.join("linux"),
            dir: None,
        }
    }

    pub(super) fn renew(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir(&self.folder).expect("room for a directory");
        make(&self.folder);
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.dir = Some(open(&self.folder, flags, Mode::empty()).expect("a directory"));
    }

    pub(super) fn tree(&self) -> Tree {
        of_directory(&self.folder)
    }

    pub(super) fn call(&self, call: &Call) -> Answer {
        self.answer(call).map_err(of_linux)
    }

    fn answer(&self, call: &Call) -> Result<String, Errno> {
        let dir = self.dir.as_ref().expect("there is a tree");
        let done = || Ok(String::new());
        let last = |follow: bool| match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        match call {
            Call::Open { how, path } => opened(dir, *how, path),
            Call::CreateDirectory(path) => mkdirat(dir, path, 0o777.into()).and_then(|()| done()),
            Call::RemoveDirectory(path) => {
                unlinkat(dir, path, AtFlags::REMOVEDIR).and_then(|()| done())
            }
            Call::Unlink(path) => unlinkat(dir, path, AtFlags::empty()).and_then(|()| done()),
            Call::Rename(from, to) => renameat(dir, from, dir, to).and_then(|()| done()),
            Call::Link { follow, from, to } => {
                let follow = match follow {
                    true => AtFlags::SYMLINK_FOLLOW,
                    false => AtFlags::empty(),
                };
                linkat(dir, from, dir, to, follow)?;
                Ok(stat(&statat(dir, to, AtFlags::SYMLINK_NOFOLLOW)?))
            }
            Call::Symlink { target, path } => symlinkat(target, dir, path).and_then(|()| done()),
            Call::ReadLink(path) => {
                let target = readlinkat(dir, path, Vec::new())?;
                Ok(target.into_string().expect("UTF-8"))
            }
            Call::Stat { follow, path } => Ok(stat(&statat(dir, path, last(*follow))?)),
            Call::SetTimes { follow, path } => {
                let time = Timespec {
                    tv_sec: TOUCHED_S.cast_signed(),
                    tv_nsec: 0,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                utimensat(dir, path, &times, last(*follow)).and_then(|()| done())
            }
        }
    }
}

fn stat(found: &Stat) -> String {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => "directory".to_owned(),
        FileType::Symlink => format!("link of {} bytes", found.st_size),
        _ => format!("file of {} bytes, {} links", found.st_size, found.st_nlink),
    }
}

fn opened(dir: &OwnedFd, how: How, path: &str) -> Result<String, Errno> {
    let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
    flags |= match how.access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::Both => OFlags::RDWR,
    };
    for (is_set, flag) in [
        (how.creates, OFlags::CREATE),
        (how.is_exclusive, OFlags::EXCL),
        (how.truncates, OFlags::TRUNC),
        (how.is_directory, OFlags::DIRECTORY),
        (how.appends, OFlags::APPEND),
        (!how.follows, OFlags::NOFOLLOW),
    ] {
        flags.set(flag, is_set);
    }
    let file = openat(dir, path, flags, 0o666.into())?;
    let mut found = stat(&fstat(&file)?);
    if found.starts_with("file") {
        if how.access.reads() {
            let mut bytes = [0; 16];
            let len = pread(&file, &mut bytes, 0)?;
            found += &String::from_utf8_lossy(&bytes[..len]);
        }
        if how.access.writes() {
            write(&file, b"+")?;
        }
    }
    Ok(found)
}
