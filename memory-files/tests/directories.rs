//! Bases made of directories of the host: limits hold before the names are held in memory.

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use pirn_memory_files::{BaseLimits, MemoryBase};
use std::fs;

fn base(path: &std::path::Path, files_max: u64) -> Result<usize, String> {
    let dir = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    let limits = BaseLimits {
        files_max,
        ..BaseLimits::default()
    };
    let base = MemoryBase::from_dir(&dir, &limits);
    base.map(|base| base.files())
        .map_err(|error| error.to_string())
}

/// Names wait in each directory from the root to the one that is read, and all count.
#[test]
fn names_that_wait_count_against_the_limit_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut at = folder.path().to_owned();
    for _ in 0..4 {
        for name in ["x", "y", "z"] {
            fs::write(at.join(name), "").unwrap();
        }
        at.push("deeper");
        fs::create_dir(&at).unwrap();
    }
    assert_eq!(base(folder.path(), 17), Ok(17));
    let more = base(folder.path(), 16).unwrap_err();
    // The directory that has one name too many, before any of its names is added.
    let path = "deeper/deeper/deeper";
    assert_eq!(
        more,
        format!("more than 16 files at {path}; raise files_max")
    );
}

#[test]
fn hard_links_count_as_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "").unwrap();
    for name in ["b", "c"] {
        fs::hard_link(folder.path().join("a"), folder.path().join(name)).unwrap();
    }
    assert_eq!(base(folder.path(), 4), Ok(2));
    assert!(
        base(folder.path(), 3)
            .unwrap_err()
            .contains("more than 3 files")
    );
}
