//! Calls with paths, and what Linux answers to each: the oracle for every WASI interface and every
//! kind of directory.
//!
//! A suite implements [`Files`] for an interface over a kind of directory. [`compare`] runs each
//! call there and natively, in fresh trees, and compares answers and trees. A suite lists what
//! differs, with the reason ([`Difference`]).

mod calls;
mod differences;
mod errors;
mod linux;
mod tree;

pub use calls::{Access, Call, How, calls};
pub use differences::{Difference, INTENDED};
pub use errors::{of_preview1, of_wasi2};
pub use tree::{MEMORY_FILES_HAVE_NO_MODE, TOUCHED_S, Tree, entry, make, of_directory};

use linux::Linux;
use std::fmt::Write;
use std::path::Path;

/// A call's result as text, such as the kind and size of a file; or the name of the error, such as
/// "ENOENT".
pub type Answer = Result<String, String>;

/// An interface to files, over one kind of directory.
pub trait Files {
    /// Replaces the directory by a fresh tree ([`make`]).
    fn renew(&mut self);
    /// Runs a call in the directory. [`Answers`](Answer) have the form of the native answers:
    /// [`Call`] describes it.
    fn call(&mut self, call: &Call) -> Answer;
    /// What the directory contains.
    fn tree(&mut self) -> Tree;
}

/// Runs each call natively below `folder`, an empty directory, and in `files`.
///
/// # Panics
///
/// If a call differs that no row describes, if a row describes no call that differs, or if a call
/// changed files and returned an error.
pub fn compare(
    folder: &Path,
    files: &mut impl Files,
    calls: impl IntoIterator<Item = Call>,
    differences: &[Difference],
) {
    let mut linux = Linux::new(folder);
    let mut counts = vec![0; differences.len()];
    let mut unknown = String::new();
    linux.renew();
    files.renew();
    let fresh = (linux.tree(), files.tree());
    assert_eq!(tree::without_modes(&fresh.0, &fresh.1), fresh.1);
    for call in calls {
        let (expected, found) = (linux.call(&call), files.call(&call));
        let (native, own) = (linux.tree(), files.tree());
        let trees_differ = tree::without_modes(&native, &own) != own;
        let is_changed = own != fresh.1;
        let differs = expected != found || trees_differ;
        let row = differences
            .iter()
            .position(|row| differs && (row.covers)(&call, &expected, &found));
        match row {
            _ if found.is_err() && is_changed => {
                let _ = writeln!(unknown, "{call:?} fails ({found:?}), and leaves {own:?}");
            }
            Some(row) => counts[row] += 1,
            None if differs => {
                let _ = writeln!(unknown, "{call:?}: Linux {expected:?}, but {found:?}");
                if trees_differ && expected == found {
                    let _ = writeln!(unknown, "  the trees: {native:?}, but {own:?}");
                }
            }
            None => {}
        }
        if native != fresh.0 {
            linux.renew();
        }
        if is_changed {
            files.renew();
        }
    }
    assert!(unknown.is_empty(), "calls differ:\n{unknown}");
    for (row, count) in differences.iter().zip(counts) {
        assert!(
            count > 0 || !calls::is_complete(),
            "no call differs by this reason: {}",
            row.reason
        );
    }
}
