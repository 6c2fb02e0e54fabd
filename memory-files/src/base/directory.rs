//! Copies a directory of the host into a base.

use super::builder::BaseBuilder;
use super::error::BaseError;
use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_fs_ext::{DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, Metadata, OpenOptions};
use std::collections::HashMap;
use std::io;
use std::time::SystemTime;

/// A directory that is being read.
struct Level {
    dir: Dir,
    path: String,
    /// Names that are not read yet, in descending order.
    names: Vec<String>,
}

/// Adds everything below `dir` to a builder. The function reads directories in the order of their
/// names, so that equal trees get equal inode numbers.
pub(super) fn read(dir: &Dir, builder: &mut BaseBuilder) -> Result<(), BaseError> {
    let failed = |path: &str| {
        let path = if path.is_empty() { "." } else { path }.to_owned();
        move |error: io::Error| BaseError::Io { path, error }
    };
    let root = dir.try_clone().map_err(failed(""))?;
    builder.directory(".", modified(&root.dir_metadata().map_err(failed(""))?))?;
    let names = names(&root, "", builder, 0)?;
    // Names that are not read yet, in all levels. Each name becomes a node or a further name of a
    // node, so it counts against the limit.
    let mut names_left = names.len() as u64;
    let mut levels = vec![Level {
        dir: root,
        path: String::new(),
        names,
    }];
    // The first path of each file that has several names, by device and inode.
    let mut linked: HashMap<(u64, u64), String> = HashMap::new();
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        names_left -= 1;
        let path = match level.path.as_str() {
            "" => name.clone(),
            above => format!("{above}/{name}"),
        };
        let found = level.dir.symlink_metadata(&name).map_err(failed(&path))?;
        let id = (found.dev(), found.ino());
        let has_names = found.nlink() > 1 && !found.is_dir();
        if let Some(first) = linked.get(&id).filter(|_| has_names) {
            builder.hard_link(&path, first)?;
            continue;
        }
        if has_names {
            linked.insert(id, path.clone());
        }
        if found.is_symlink() {
            let target = level.dir.read_link_contents(&name).map_err(failed(&path))?;
            let target = target.to_str().ok_or_else(|| BaseError::Name {
                path: format!("the target of {path}"),
            })?;
            builder.symlink(&path, target, modified(&found))?;
        } else if found.is_dir() {
            builder.directory(&path, modified(&found))?;
            let dir = level.dir.open_dir_nofollow(&name).map_err(failed(&path))?;
            let names = self::names(&dir, &path, builder, names_left)?;
            names_left += names.len() as u64;
            levels.push(Level { dir, path, names });
        } else if found.is_file() {
            file(&level.dir, &name, &path, builder)?;
        } else {
            return Err(special(path));
        }
    }
    Ok(())
}

/// Adds a file. Someone may exchange it at any time, so its kind is checked once it is open.
fn file(dir: &Dir, name: &str, path: &str, builder: &mut BaseBuilder) -> Result<(), BaseError> {
    let failed = |error| BaseError::Io {
        path: path.to_owned(),
        error,
    };
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let opened = dir.open_with(name, &options).map_err(failed)?;
    let found = opened.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(special(path.to_owned()));
    }
    builder.file(path, found.len(), opened, modified(&found))
}

fn special(path: String) -> BaseError {
    BaseError::Kind {
        path,
        kind: "device, FIFO or socket",
    }
}

/// The names in a directory, in descending order. `names_left` names wait in directories above.
fn names(
    dir: &Dir,
    path: &str,
    builder: &BaseBuilder,
    names_left: u64,
) -> Result<Vec<String>, BaseError> {
    let files_max = builder.limits().files_max;
    let names_max = builder.files_left().saturating_sub(names_left);
    let failed = |error| BaseError::Io {
        path: path.to_owned(),
        error,
    };
    let mut names = vec![];
    for entry in dir.entries().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.into_string().map_err(|name| BaseError::Name {
            path: format!("{path}/{}", name.to_string_lossy()),
        })?;
        names.push(name);
        if names.len() as u64 > names_max {
            return Err(BaseError::Limit {
                path: path.to_owned(),
                what: "files",
                max: files_max,
                limit: "files_max",
            });
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

fn modified(found: &Metadata) -> SystemTime {
    let modified = found.modified();
    modified.map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std)
}
