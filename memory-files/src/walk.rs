//! Resolves paths. No path leads out of the directory that it starts at.

use crate::error::FileError;
use crate::limits::{LINKS_FOLLOWED_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::node::{DirectoryNode, Found, Node};
use crate::stat::FileKind;
use crate::tree::Tree;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Whether the last name of a path is followed if it is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Never. Operations on names use this variant.
    Never,
    /// Only if a slash follows the last name.
    Slash,
    /// Always.
    Always,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory that has the name.
    pub(crate) directory: Arc<DirectoryNode>,
    /// The last name; `None` if the path names the directory itself, by `.`, `..` or a slash.
    pub(crate) name: Option<Box<str>>,
    /// Whether a slash follows the last name, so that it must name a directory.
    pub(crate) is_directory: bool,
}

impl Place {
    /// The last name.
    ///
    /// # Errors
    ///
    /// `error`, if the path names the directory itself.
    pub(crate) fn name(&self, error: FileError) -> Result<&str, FileError> {
        self.name.as_deref().ok_or(error)
    }

    /// The node that the path leads to.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`], and [`FileError::NotDirectory`] if a slash follows the name of a
    /// file.
    pub(crate) fn find(&self, tree: &Tree) -> Result<Found, FileError> {
        let Some(name) = &self.name else {
            return Ok(Found::Node(Node::Directory(Arc::clone(&self.directory))));
        };
        let found = self.directory.find(name).ok_or(FileError::NotFound)?;
        self.check(tree.kind(&found))?;
        Ok(found)
    }

    /// The node of the layer that the path leads to.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and [`FileError::NoSpace`] at the limit of bytes.
    pub(crate) fn node(&self, tree: &Tree) -> Result<Node, FileError> {
        let Some(name) = &self.name else {
            return Ok(Node::Directory(Arc::clone(&self.directory)));
        };
        let node = tree.node(&self.directory, name)?;
        self.check(node.kind())?;
        Ok(node)
    }

    fn check(&self, kind: FileKind) -> Result<(), FileError> {
        match self.is_directory && kind != FileKind::Directory {
            true => Err(FileError::NotDirectory),
            false => Ok(()),
        }
    }
}

/// Resolves a path that starts at a directory.
///
/// # Errors
///
/// [`FileError`] for a path that is empty, too long or absolute, that leads out of the directory,
/// or that has too many symbolic links. Also for a name that is too long, or an inner name that is
/// missing or no directory.
pub(crate) fn walk(
    tree: &Tree,
    start: &Arc<DirectoryNode>,
    path: &str,
    follow: Follow,
) -> Result<Place, FileError> {
    check(path)?;
    // The directories above the current directory, from the start on: `..` returns to the last
    // directory of this list.
    let mut directories: SmallVec<[Arc<DirectoryNode>; 8]> = SmallVec::new();
    let mut directory = Arc::clone(start);
    let (mut text, mut at) = (Cow::Borrowed(path), 0);
    let mut links = 0;
    loop {
        let rest = text[at..].trim_start_matches('/');
        let (name, after) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
        let next_at = text.len() - after.len();
        let is_last = after.trim_start_matches('/').is_empty();
        let is_directory = is_last && !after.is_empty();
        if name.len() > NAME_BYTES_MAX {
            return Err(FileError::NameTooLong);
        }
        if matches!(name, "" | "." | "..") {
            if name == ".." {
                directory = directories.pop().ok_or(FileError::NotPermitted)?;
            }
            if is_last {
                return Ok(Place {
                    directory,
                    name: None,
                    is_directory: true,
                });
            }
            at = next_at;
            continue;
        }
        let follows = match follow {
            _ if !is_last => true,
            Follow::Never => false,
            Follow::Slash => is_directory,
            Follow::Always => true,
        };
        let found = if follows { directory.find(name) } else { None };
        if let Some(target) = found.as_ref().and_then(|found| tree.target(found)) {
            links += 1;
            if links > LINKS_FOLLOWED_MAX {
                return Err(FileError::Loop);
            }
            check(&target)?;
            (text, at) = (format!("{target}{after}").into(), 0);
            continue;
        }
        if is_last {
            return Ok(Place {
                directory,
                name: Some(name.into()),
                is_directory,
            });
        }
        if found.is_some_and(|found| tree.kind(&found) != FileKind::Directory) {
            return Err(FileError::NotDirectory);
        }
        let Node::Directory(next) = tree.node(&directory, name)? else {
            return Err(FileError::NotDirectory);
        };
        directories.push(core::mem::replace(&mut directory, next));
        at = next_at;
    }
}

/// Refuses paths that are invalid in every directory.
fn check(path: &str) -> Result<(), FileError> {
    match path {
        "" => Err(FileError::NotFound),
        path if path.len() >= PATH_BYTES_MAX => Err(FileError::NameTooLong),
        path if path.starts_with('/') => Err(FileError::NotPermitted),
        path if path.contains('\0') => Err(FileError::Invalid),
        _ => Ok(()),
    }
}
