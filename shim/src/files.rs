//! [`View`]: the directories that a guest gets: the image as `/`, and each volume at its place.
//!
//! # Safety of the host
//!
//! A guest that could open `/proc/self/mem` could overwrite its own machine code, and leave its
//! sandbox. So the guest's `/` is a mount of the image alone: the mount does not contain /proc,
//! /sys and /dev, which the container mounts over the image. The shim refuses a volume that
//! contains such a file system. The mount belongs to no namespace and has no parent, so `..` cannot
//! leave it.

use anyhow::{Context as _, Result, bail};
use oci_spec::runtime::{Root, Spec};
use pirn_wasi::{Dir, ambient_authority};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// File systems that show the kernel or processes. A guest gets none of these file systems.
const REFUSED: [&str; 22] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Folders of the container that no guest gets, independent of the file systems in them.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The directories of a container that does not exist yet.
pub(crate) struct View {
    image: OwnedFd,
    is_read_only: bool,
    /// Paths of volumes, as the container sees them.
    volumes: Vec<PathBuf>,
}

/// A directory that a guest gets.
pub(crate) struct Preopen {
    pub(crate) dir: Dir,
    /// The guest's path for the directory.
    pub(crate) path: String,
    pub(crate) is_read_only: bool,
}

impl View {
    /// Opens the image of a container, whose root file system is mounted at `root`.
    pub(crate) fn new(root: &Path, spec: &Spec) -> Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let image = open_tree(CWD, root, flags);
        let image = image.with_context(|| format!("cannot clone the mount {}", root.display()))?;
        let is_read_only = spec.root().as_ref().and_then(Root::readonly);
        let mounts = spec.mounts().iter().flatten();
        let volumes = mounts.map(|mount| Path::new("/").join(mount.destination()));
        Ok(Self {
            image,
            is_read_only: is_read_only.unwrap_or(false),
            volumes: volumes.filter(|path| !is_of_kernel(path)).collect(),
        })
    }

    /// The descriptor that must stay open until [`open`](Self::open).
    pub(crate) fn descriptor(&self) -> RawFd {
        self.image.as_raw_fd()
    }

    /// Opens the directories. The caller is in the container.
    pub(crate) fn open(&self) -> Result<Vec<Preopen>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&self.image, ".", flags, Mode::empty());
        let root = root.context("cannot open the image")?;
        let mut all = vec![Preopen {
            dir: Dir::from_std_file(root.into()),
            path: "/".to_owned(),
            is_read_only: self.is_read_only,
        }];
        if self.volumes.is_empty() {
            return Ok(all);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .context("cannot read the mounts of the container, which has volumes")?;
        for volume in &self.volumes {
            // A volume may be a single file, such as /etc/hosts, but preopens are directories. A
            // link of the image may redirect the volume's path, so this code checks the link's
            // target.
            let Some(place) = volume.canonicalize().ok().filter(|place| place.is_dir()) else {
                continue;
            };
            if is_of_kernel(&place) || !check(&place, &mounts)? {
                continue;
            }
            let dir = Dir::open_ambient_dir(&place, ambient_authority());
            let dir =
                dir.with_context(|| format!("cannot open the volume {}", volume.display()))?;
            all.push(Preopen {
                dir,
                path: volume.to_string_lossy().into_owned(),
                is_read_only: false,
            });
        }
        Ok(all)
    }
}

/// Whether a path is in a folder that no guest gets.
fn is_of_kernel(path: &Path) -> bool {
    path == Path::new("/") || KERNEL.iter().any(|kernel| path.starts_with(kernel))
}

/// Refuses a directory below which a file system of the kernel is mounted. Returns whether the
/// guest gets the directory: false if the directory itself is in such a file system.
fn check(directory: &Path, mountinfo: &str) -> Result<bool> {
    let mut around: Option<(PathBuf, &str)> = None;
    for line in mountinfo.lines() {
        let Some((point, kind)) = parse(line) else {
            bail!("cannot parse the mount {line:?} of the container");
        };
        if directory.starts_with(&point) {
            // If a mount point has several mounts, the last mount hides the others.
            let is_nearer = around
                .as_ref()
                .is_none_or(|(other, _)| point.starts_with(other));
            if is_nearer {
                around = Some((point, kind));
            }
        } else if point.starts_with(directory) && REFUSED.contains(&kind) {
            bail!(
                "volume {} has {kind} at {}, which would let the guest leave its sandbox; mount a \
                 folder without it",
                directory.display(),
                point.display()
            );
        }
    }
    Ok(around.is_some_and(|(_, kind)| !REFUSED.contains(&kind)))
}

/// The mount point and the file system type in a line of mountinfo (proc_pid_mountinfo(5)).
fn parse(line: &str) -> Option<(PathBuf, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    let point = mount.split(' ').nth(4)?;
    let kind = kind.split(' ').next()?;
    // A type may have a subtype, as in fuse.sshfs.
    let kind = kind.split('.').next()?;
    Some((PathBuf::from(unescaped(point)?), kind))
}

/// Replaces the escapes of mountinfo, such as `\040` for a space.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 8).ok()?);
        rest = &rest[3..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "36 35 98:0 / / rw,noatime master:1 - overlay overlay rw\n\
                         37 36 98:0 /v /data\\040a rw - ext4 /dev/root rw\n\
                         38 36 0:5 / /proc rw - proc proc rw";

    #[test]
    fn volumes_with_files_of_the_kernel_are_refused() {
        let below = format!("{PLAIN}\n39 37 0:5 / /data\\040a/host/proc rw - proc proc rw");
        let error = check(Path::new("/data a"), &below).unwrap_err().to_string();
        assert!(error.contains("has proc at /data a/host/proc"), "{error}");
        for kind in ["sysfs", "cgroup2", "devtmpfs", "debugfs"] {
            let below = format!("{PLAIN}\n39 37 0:5 / /data\\040a/x rw - {kind} none rw");
            assert!(check(Path::new("/data a"), &below).is_err(), "{kind}");
        }
    }

    #[test]
    fn a_directory_in_a_file_system_of_the_kernel_is_left_out() {
        for path in ["/proc", "/proc/1/task"] {
            assert!(!check(Path::new(path), PLAIN).unwrap(), "{path}");
        }
        // The last mount at a mount point hides the others.
        let hidden = format!("{PLAIN}\n39 37 0:5 / /proc rw - tmpfs tmpfs rw");
        assert!(check(Path::new("/proc/1"), &hidden).unwrap());
        let shown = format!("{PLAIN}\n39 37 0:5 / /data\\040a rw - proc proc rw");
        assert!(!check(Path::new("/data a/b"), &shown).unwrap());
        assert!(
            !check(Path::new("/data"), "").unwrap(),
            "nothing is known of it"
        );
    }

    #[test]
    fn other_volumes_are_not() {
        assert!(check(Path::new("/data a"), PLAIN).unwrap());
        // A path that only has the volume's path as a prefix names another folder.
        let other = format!("{PLAIN}\n39 37 0:5 / /data\\040abc rw - proc proc rw");
        assert!(check(Path::new("/data a"), &other).unwrap());
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        for line in [
            "",
            "36 35 98:0 / /",
            "36 35 98:0 / /a\\04 rw - proc proc rw",
        ] {
            assert!(
                check(Path::new("/a"), &format!("{line}\n")).is_err(),
                "{line:?}"
            );
        }
    }
}
