//! Renames.

use crate::error::FileError;
use crate::node::{DirectoryNode, Found, Node, lock_all};
use crate::tree::Tree;
use crate::walk::Place;
use smallvec::SmallVec;
use std::sync::Arc;

/// Renames the entry `from` to `to`. Fails with [`FileError::Busy`] if one of the places has no
/// name.
///
/// The function looks up both names, then locks all directories that it changes, then checks that
/// the names still lead to the same nodes. If a name leads to another node, the function starts
/// again.
pub(crate) fn rename(tree: &Tree, from: &Place, to: &Place) -> Result<(), FileError> {
    let (old, new) = (from.name(FileError::Busy)?, to.name(FileError::Busy)?);
    let is_within = Arc::ptr_eq(&from.directory, &to.directory);
    loop {
        let node = from.node(tree)?;
        let target = match tree.node(&to.directory, new) {
            Ok(target) => Some(target),
            Err(FileError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let directory = directory(&node);
        // Only this lock keeps two threads from moving two directories into each other.
        let moves = (directory.is_some() && !is_within).then(|| tree.lock_moves());
        if let Some(moved) = directory {
            check_cycle(moved, &to.directory)?;
        }
        check_kinds(&node, target.as_ref(), to)?;
        let mut changed: SmallVec<[&DirectoryNode; 3]> = SmallVec::new();
        changed.extend([&*from.directory, &*to.directory]);
        changed.extend(
            target
                .as_ref()
                .and_then(self::directory)
                .map(|target| &**target),
        );
        let mut locked = lock_all(&changed);
        drop(changed);
        let is = |found: Option<Found>, node: Option<&Node>| match (found, node) {
            (Some(Found::Node(found)), Some(node)) => found.is(node),
            (None, None) => true,
            _ => false,
        };
        if !is(locked.of(&from.directory).find(old), Some(&node))
            || !is(locked.of(&to.directory).find(new), target.as_ref())
        {
            drop(locked);
            drop(moves);
            continue;
        }
        if locked.of(&to.directory).is_removed {
            return Err(FileError::NotFound);
        }
        if target.as_ref().is_some_and(|target| target.is(&node)) {
            // Both are names of one file: rename(2) then leaves both names.
            return Ok(());
        }
        if let Some(target) = target.as_ref().and_then(self::directory)
            && !locked.of(target).is_empty()
        {
            return Err(FileError::NotEmpty);
        }
        let replaced = locked.of(&to.directory).insert(new, node.clone())?;
        // The removal cannot fail: the name leads to a node of the layer, so removing it charges no
        // bytes.
        let removed = locked.of(&from.directory).remove(old)?;
        if let Some(moved) = directory {
            moved.set_parent(Arc::downgrade(&to.directory));
        }
        if let Some(target) = target.as_ref().and_then(self::directory) {
            locked.of(target).is_removed = true;
        }
        drop(locked);
        drop(moves);
        if let Some(replaced) = &replaced {
            tree.unlink(replaced);
        }
        // The nodes are freed here, where no lock is held.
        drop((replaced, removed, target));
        return Ok(());
    }
}

fn directory(node: &Node) -> Option<&Arc<DirectoryNode>> {
    match node {
        Node::Directory(directory) => Some(directory),
        _ => None,
    }
}

/// Checks that `to` is neither the moved directory nor below it.
fn check_cycle(moved: &Arc<DirectoryNode>, to: &Arc<DirectoryNode>) -> Result<(), FileError> {
    let mut above = Some(Arc::clone(to));
    while let Some(directory) = above {
        if Arc::ptr_eq(&directory, moved) {
            return Err(FileError::Invalid);
        }
        above = directory.parent();
    }
    Ok(())
}

/// Checks that a directory replaces only a directory, and that a file or symbolic link replaces no
/// directory.
fn check_kinds(node: &Node, target: Option<&Node>, to: &Place) -> Result<(), FileError> {
    let is_directory = directory(node).is_some();
    match target.map(|target| directory(target).is_some()) {
        _ if to.is_directory && !is_directory => Err(FileError::NotDirectory),
        Some(false) if is_directory => Err(FileError::NotDirectory),
        Some(true) if !is_directory => Err(FileError::IsDirectory),
        _ => Ok(()),
    }
}
