//! The tree of files that each call begins with, and the text that describes a tree.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Each path below a directory, with the text of [`entry`]. The directory itself is ".".
pub type Tree = BTreeMap<String, String>;

/// The time that [`Call::SetTimes`](super::Call::SetTimes) sets, in seconds.
pub const TOUCHED_S: u64 = 1_000_000_000;

/// In place of a mode, for directories without modes.
pub const MEMORY_FILES_HAVE_NO_MODE: &str = "";

/// Bytes of a file that are compared. Some file systems allow sparse files of any size.
const CONTENT_BYTES_MAX: u64 = 1 << 16;

/// Makes the tree in an empty directory.
pub fn make(root: &Path) {
    let make = || {
        fs::write(root.join("file"), "1234")?;
        fs::hard_link(root.join("file"), root.join("hard"))?;
        fs::create_dir(root.join("dir"))?;
        fs::write(root.join("dir/inner"), "inner")?;
        fs::create_dir(root.join("empty"))?;
        for (to, name) in [
            ("file", "to-file"),
            ("dir", "to-dir"),
            ("none", "to-none"),
            ("loop", "loop"),
            ("file/", "to-file-slash"),
            ("dir/", "to-dir-slash"),
            ("none/", "to-none-slash"),
        ] {
            symlink(to, root.join(name))?;
        }
        std::io::Result::Ok(())
    };
    make().expect("room for a tree");
}

/// Describes an entry: its kind, with the content of a file or the target of a link; its mode; and
/// whether its modification time is [`TOUCHED_S`].
pub fn entry(kind: &str, mode: &str, modified_s: u64) -> String {
    let touched = match modified_s {
        TOUCHED_S => " touched",
        _ => "",
    };
    format!("{kind}{touched}|{mode}")
}

/// What a directory of the host contains.
pub fn of_directory(root: &Path) -> Tree {
    fn add(tree: &mut Tree, path: &Path, name: &str) -> std::io::Result<()> {
        let found = path.symlink_metadata()?;
        let mode = format!("{:o}", found.mode() & 0o7777);
        let kind = if found.is_dir() {
            for entry in path.read_dir()? {
                let entry = entry?.file_name();
                let entry = entry.to_str().expect("UTF-8");
                let below = match name {
                    "." => entry.to_owned(),
                    _ => format!("{name}/{entry}"),
                };
                add(tree, &path.join(entry), &below)?;
            }
            "directory".to_owned()
        } else if found.is_symlink() {
            format!("link to {}", fs::read_link(path)?.display())
        } else {
            let mut start = String::new();
            let file = fs::File::open(path)?;
            file.take(CONTENT_BYTES_MAX).read_to_string(&mut start)?;
            match found.len() {
                ..=CONTENT_BYTES_MAX => format!("file {start:?}"),
                size => format!("file of {size} bytes {start:?}"),
            }
        };
        let modified_s = found.mtime().cast_unsigned();
        tree.insert(name.to_owned(), entry(&kind, &mode, modified_s));
        Ok(())
    }
    let mut tree = Tree::new();
    add(&mut tree, root, ".").expect("the tree can be read");
    tree
}

/// A native tree, without modes if the other tree has none.
pub(super) fn without_modes(native: &Tree, other: &Tree) -> Tree {
    let mut native = native.clone();
    if other.values().all(|entry| entry.ends_with('|')) {
        for entry in native.values_mut() {
            let end = entry.rfind('|').expect("a mode");
            entry.truncate(end + 1);
        }
    }
    native
}
