//! Checks of files and folders that only root may change.

use anyhow::{Context as _, Result, ensure};
use pirn_signature::open_regular;
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Mode bits that let the group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// Reads a text file that other users can neither change nor replace.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    let (mut file, _) = open_regular(path)?;
    let about = file.metadata()?;
    check(&about)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    check(&folder.metadata()?).with_context(|| format!("its folder {}", folder.display()))?;
    ensure!(
        about.len() <= bytes_max,
        "it has {} bytes, at most {bytes_max} are read; make it smaller",
        about.len()
    );
    let mut text = String::new();
    (&mut file).take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

/// Checks that a file or folder belongs to root or to the user of this process, and that no other
/// user may write to it.
pub(crate) fn check(about: &Metadata) -> Result<()> {
    let (found, own) = (about.uid(), rustix::process::geteuid().as_raw());
    ensure!(
        found == 0 || found == own,
        "it belongs to user {found}, not to root; chown it"
    );
    // In a folder with the sticky bit, such as /tmp, users cannot replace the files of other users.
    let is_sticky_folder = about.is_dir() && about.mode() & 0o1000 != 0;
    let mode = about.mode() & 0o7777;
    ensure!(
        mode & OTHERS_WRITE == 0 || is_sticky_folder,
        "its mode is {mode:o}, so others than its owner may write to it; chmod go-w it"
    );
    Ok(())
}
