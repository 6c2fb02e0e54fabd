//! A guest cannot use more host memory than its limit: the bytes that the allocator counts never
//! exceed those that the instance is charged.

use pirn_memory_files::{BaseLimits, FileError, Limits, MemoryBase, MemoryDir, OpenOptions};
use pirn_testing::allocator::heap_bytes;
use std::time::UNIX_EPOCH;

/// Bytes that each instance may use besides: its counters, and its root's first names.
const INSTANCE_BYTES_MAX: i64 = 4096;

const WRITE: OpenOptions = OpenOptions {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
};

/// A base with 600 files in three directories.
fn base() -> MemoryBase {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    for n in 0..600 {
        let path = format!("d{}/file{n}", n % 3);
        builder.file(&path, 3, &b"abc"[..], UNIX_EPOCH).unwrap();
    }
    builder.build()
}

/// Runs steps until the instance refuses one, and compares after each. Then drops the instance.
fn fill(
    what: &str,
    base: &MemoryBase,
    steps: usize,
    mut step: impl FnMut(&MemoryDir, usize) -> bool,
) {
    let before = heap_bytes() as i64;
    let limits = Limits {
        bytes_max: 4 << 20,
        files_max: 1 << 20,
    };
    let dir = MemoryDir::new(base, limits);
    assert!(
        heap_bytes() as i64 - before < INSTANCE_BYTES_MAX,
        "{}",
        heap_bytes() as i64 - before
    );
    let mut done = 0;
    while done < steps && step(&dir, done) {
        done += 1;
        let (live, charged) = (heap_bytes() as i64 - before, dir.used_bytes() as i64);
        assert!(
            live <= charged + INSTANCE_BYTES_MAX,
            "{what} {done}: {live} of {charged} bytes"
        );
    }
    assert!(done > 10, "{what}: {done} steps");
    assert!(dir.used_bytes() <= limits.bytes_max);
    drop(dir);
    assert_eq!(heap_bytes() as i64, before, "{what}: all is freed");
}

#[test]
fn what_a_guest_uses_is_charged() {
    let base = base();
    let all = usize::MAX;
    // Names of one byte cost the most for their length.
    let name = |n: usize| char::from_u32(0x4e00 + n as u32).unwrap().to_string();
    fill("files", &base, all, |dir, n| {
        dir.open(&name(n), &WRITE).is_ok()
    });
    fill("directories", &base, all, |dir, n| {
        dir.create_dir(&name(n)).is_ok()
    });
    fill("links", &base, all, |dir, n| {
        dir.create_symlink("x", &name(n)).is_ok()
    });
    let long = "x".repeat(4000);
    fill("long links", &base, all, |dir, n| {
        dir.create_symlink(&long, &name(n)).is_ok()
    });
    let long = "x".repeat(250);
    fill("long names", &base, all, |dir, n| {
        dir.create_dir(&format!("{long}{n}")).is_ok()
    });
    fill("names", &base, all, |dir, n| {
        dir.open("f", &WRITE).is_ok() && dir.link("f", dir, &name(n)).is_ok()
    });
    fill("nested", &base, 300, |dir, n| {
        let mut at = dir.clone();
        for _ in 0..n {
            at = at
                .open(
                    "d",
                    &OpenOptions {
                        read: true,
                        ..OpenOptions::default()
                    },
                )
                .unwrap()
                .into_dir()
                .unwrap();
        }
        at.create_dir("d").is_ok()
    });
    // Three directories are read by name, and each of 600 files is opened.
    let read = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let path = |n: usize| format!("d{}/file{n}", n % 3);
    fill("opened", &base, 600, |dir, n| {
        dir.open(&path(n), &read).is_ok()
    });
    fill("removed", &base, 600, |dir, n| dir.unlink(&path(n)).is_ok());
    fill("changed", &base, 600, |dir, n| {
        dir.open(&path(n), &WRITE)
            .unwrap()
            .into_file()
            .unwrap()
            .append(b"x")
            .is_ok()
    });
    fill("extents", &base, all, |dir, n| {
        let file = dir.open("f", &WRITE).unwrap().into_file().unwrap();
        file.write_at(n as u64 * 65_536, b"x").is_ok()
    });
    fill("appends", &base, all, |dir, _| {
        let file = dir.open("f", &WRITE).unwrap().into_file().unwrap();
        file.append(&[1; 1000])
            .is_ok_and(|(_, written)| written == 1000)
    });
    fill("sizes", &base, 2000, |dir, n| {
        let file = dir.open("f", &WRITE).unwrap().into_file().unwrap();
        file.append(&[1; 7000]).unwrap();
        file.set_size(n as u64 * 37 % 5000).is_ok()
    });
}

#[test]
fn removed_directories_that_are_open_are_charged() {
    const READ: OpenOptions = OpenOptions {
        write: false,
        create: false,
        ..WRITE
    };
    let base = base();
    let mut open = Vec::with_capacity(500);
    let before = heap_bytes() as i64;
    let dir = MemoryDir::new(&base, Limits::default());
    for n in 0..500 {
        dir.create_dir("above").unwrap();
        dir.create_dir("above/below").unwrap();
        let below = dir.open("above/below", &READ).unwrap().into_dir().unwrap();
        // The directory keeps the room of a name.
        below.create_dir("name").unwrap();
        below.remove_dir("name").unwrap();
        match n % 2 {
            0 => dir.remove_dir("above/below").unwrap(),
            _ => {
                dir.create_dir("above/other").unwrap();
                dir.rename("above/other", &dir, "above/below").unwrap();
                dir.remove_dir("above/below").unwrap();
            }
        }
        dir.remove_dir("above").unwrap();
        open.push(below);
        let (live, charged) = (heap_bytes() as i64 - before, dir.used_bytes() as i64);
        assert!(
            live <= charged + INSTANCE_BYTES_MAX,
            "{n}: {live} of {charged} bytes"
        );
    }
    open.clear();
    drop(dir);
    assert_eq!(heap_bytes() as i64, before);
}

/// Nodes of maps that are as empty as they can be, and hard links of the base.
#[test]
fn what_stays_after_names_are_removed_is_charged() {
    let name = |n: usize| char::from_u32(0x4e00 + n as u32).unwrap().to_string();
    let base = base();
    fill("thinned", &base, 6000, |dir, n| match n {
        0..3000 => dir.open(&name(n), &WRITE).is_ok(),
        // All but each seventh, in an order that spreads over all nodes.
        _ => {
            let at = (n * 7919) % 3000;
            at % 7 == 0 || matches!(dir.unlink(&name(at)), Ok(()) | Err(FileError::NotFound))
        }
    });
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    for n in 0..600 {
        let path = format!("one/{n}");
        builder.file(&path, 3, &b"abc"[..], UNIX_EPOCH).unwrap();
        builder.hard_link(&format!("two/{n}"), &path).unwrap();
    }
    let linked = builder.build();
    fill("linked", &linked, 1800, |dir, n| match n {
        0..600 => dir
            .open(&format!("one/{n}"), &WRITE)
            .is_ok_and(|file| file.into_file().unwrap().append(b"x").is_ok()),
        600..1200 => dir.unlink(&format!("one/{}", n - 600)).is_ok(),
        _ => dir.unlink(&format!("two/{}", n - 1200)).is_ok(),
    });
}
