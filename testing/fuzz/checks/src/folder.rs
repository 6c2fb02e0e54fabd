//! [`Folder`]: a guest's directory on disk, and a file beside it that the guest must not reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Contents of the file beside the guest's directory.
pub(crate) const SECRET: &str = "nobody's business";

/// The guest's directory has the file `file`, the directory `folder` with 30 empty files, and
/// symbolic links.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

/// The result of making a part of a guest's surroundings, with an error that says so.
pub(crate) fn made<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("the world is not made: {error}"))
}

impl Folder {
    /// Makes the directory whose `file` has `file_bytes` bytes. `links` are the names and the
    /// targets of its symbolic links.
    pub(crate) fn new(file_bytes: usize, links: &[(&str, &str)]) -> Result<Self, String> {
        let folder = Self(made(tempfile::tempdir())?);
        made(fs::write(folder.path().join("secret"), SECRET))?;
        let inside = folder.inside();
        made(fs::create_dir_all(inside.join("folder")))?;
        made(fs::write(inside.join("file"), vec![7; file_bytes]))?;
        for number in 0..30 {
            let path = inside.join("folder").join(number.to_string());
            made(fs::write(path, ""))?;
        }
        for (name, to) in links {
            made(symlink(to, inside.join(name)))?;
        }
        Ok(folder)
    }

    /// The directory that contains the guest's directory.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The guest's directory.
    pub(crate) fn inside(&self) -> PathBuf {
        self.path().join("inside")
    }

    /// Checks that nothing is beside the guest's directory but `others`, in the order of their
    /// names, and that the secret has not changed.
    pub(crate) fn untouched(&self, others: &[&str]) -> Result<(), String> {
        let mut names: Vec<_> = made(fs::read_dir(self.path()))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let secret = made(fs::read_to_string(self.path().join("secret")))?;
        if names != [&["inside", "secret"], others].concat() || secret != SECRET {
            return Err(format!(
                "beside the guest's directory are {names:?}, and the secret is {secret:?}"
            ));
        }
        Ok(())
    }
}
