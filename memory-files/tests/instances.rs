//! Instances of a base: identity of files, listings that change, removed directories, limits,
//! threads, and deep trees.

use pirn_memory_files::{
    BaseLimits, DirEntry, FileError, FileKind, Limits, MemoryBase, MemoryDir, MemoryFile, NewTimes,
    OpenOptions,
};
use std::collections::BTreeSet;
use std::panic;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// Time after which a test takes a thread for blocked for ever.
const DEADLOCK_TIME: Duration = Duration::from_secs(300);

const READ: OpenOptions = OpenOptions {
    read: true,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
};
const WRITE: OpenOptions = OpenOptions {
    write: true,
    ..READ
};
const CREATE: OpenOptions = OpenOptions {
    create: true,
    ..WRITE
};

fn empty() -> MemoryDir {
    MemoryDir::new(&MemoryBase::empty(), Limits::default())
}

fn with_base(files: &[(&str, &str)]) -> MemoryBase {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    for (path, contents) in files {
        let bytes = contents.as_bytes();
        builder
            .file(path, bytes.len() as u64, bytes, UNIX_EPOCH)
            .unwrap();
    }
    builder.build()
}

fn file(dir: &MemoryDir, path: &str, how: OpenOptions) -> MemoryFile {
    dir.open(path, &how).unwrap().into_file().unwrap()
}

fn subdir(dir: &MemoryDir, path: &str) -> MemoryDir {
    dir.open(path, &READ).unwrap().into_dir().unwrap()
}

fn text(file: &MemoryFile) -> String {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn all_openings_of_a_base_file_share_its_contents() {
    let base = with_base(&[("a/file", "one")]);
    let dir = MemoryDir::new(&base, Limits::default());
    let before = dir.stat_path("a/file", true).unwrap();
    let (one, two) = (file(&dir, "a/file", WRITE), file(&dir, "a/../a/file", READ));
    assert!(one.is(&two));
    one.write_at(1, b"X").unwrap();
    assert_eq!(text(&two), "oXe");
    dir.rename("a/file", &dir, "moved").unwrap();
    assert!(file(&dir, "moved", READ).is(&one));
    let after = dir.stat_path("moved", true).unwrap();
    assert_eq!(after.inode, before.inode);
    assert!(after.modified > before.modified);
    dir.unlink("moved").unwrap();
    one.append(b"more").unwrap();
    assert_eq!(text(&two), "oXemore");
    assert_eq!(one.stat().links, 0);
    assert_eq!(
        text(&file(
            &MemoryDir::new(&base, Limits::default()),
            "a/file",
            READ
        )),
        "one"
    );
}

#[test]
fn names_of_one_base_file_stay_one_file() {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    builder.file("one", 5, &b"bytes"[..], UNIX_EPOCH).unwrap();
    builder.hard_link("d/two", "one").unwrap();
    let dir = MemoryDir::new(&builder.build(), Limits::default());
    file(&dir, "one", WRITE).write_at(0, b"B").unwrap();
    dir.unlink("one").unwrap();
    // No name that was opened is left, and nobody has the file open.
    assert_eq!(dir.stat_path("d/two", true).unwrap().links, 1);
    assert_eq!(text(&file(&dir, "d/two", READ)), "Bytes");
}

#[test]
fn positions_of_a_listing_stay_valid() {
    let names: Vec<_> = (0..50).map(|n| format!("base{n:02}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let dir = MemoryDir::new(&with_base(&files), Limits::default());
    for n in 0..50 {
        file(&dir, &format!("own{n:02}"), CREATE);
    }
    let (mut seen, mut cookie) = (vec![], 0);
    while let Some(entry) = dir.read_dir(cookie, 1).pop() {
        let DirEntry {
            name, cookie: next, ..
        } = entry;
        // Each odd file is removed once it was listed, and new ones appear.
        if name.ends_with(['1', '3', '5', '7', '9']) && !name.starts_with("new") {
            dir.unlink(&name).unwrap();
            if seen.len() < 150 {
                file(&dir, &format!("new-of-{name}"), CREATE);
            }
        }
        seen.push(name);
        cookie = next;
    }
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    for n in 0..50 {
        for name in [format!("base{n:02}"), format!("own{n:02}")] {
            assert!(distinct.contains(&name), "{name}");
        }
    }
    assert!(dir.read_dir(u64::MAX, 9).is_empty());
}

#[test]
fn a_listing_ends_while_its_entries_are_renamed() {
    let dir = MemoryDir::new(&with_base(&[("base", "")]), Limits::default());
    for name in ["a", "b"] {
        file(&dir, name, CREATE);
    }
    let (mut seen, mut cookie, end) = (0, 0, dir.end_cookie());
    while let Some(entry) = dir.read_dir_before(cookie, end, 1).pop() {
        if !matches!(&*entry.name, "." | "..") {
            dir.rename(&entry.name, &dir, &format!("new{seen}"))
                .unwrap();
        }
        (seen, cookie) = (seen + 1, entry.cookie);
    }
    assert_eq!(seen, 5, "two dots and three files");
    let names = |end| {
        let all = dir.read_dir_before(2, end, 9).into_iter();
        all.map(|entry| entry.name).collect::<Vec<_>>()
    };
    assert!(names(end).is_empty());
    assert_eq!(names(dir.end_cookie()), ["new2", "new3", "new4"]);
    assert_eq!(names(u64::MAX).len(), 3);
}

#[test]
fn a_removed_directory_that_is_open_takes_nothing_new() {
    let dir = empty();
    dir.create_dir("d").unwrap();
    let open = subdir(&dir, "d");
    dir.remove_dir("d").unwrap();
    let gone = Err(FileError::NotFound);
    assert_eq!(open.open("f", &CREATE).map(drop), gone);
    assert_eq!(open.create_dir("e"), gone);
    assert_eq!(open.create_symlink("x", "y"), gone);
    file(&dir, "f", CREATE);
    assert_eq!(dir.rename("f", &open, "f"), gone);
    assert_eq!(dir.link("f", &open, "f"), gone);
    assert!(open.read_dir(0, 10).is_empty());
    assert_eq!(open.stat().links, 0);
    // One that was replaced by a rename, too.
    dir.create_dir("a").unwrap();
    dir.create_dir("b").unwrap();
    let open = subdir(&dir, "b");
    dir.rename("a", &dir, "b").unwrap();
    assert_eq!(open.create_dir("e"), gone);
}

#[test]
fn directories_do_not_move_into_themselves() {
    let dir = empty();
    dir.create_dir("a").unwrap();
    dir.create_dir("a/b").unwrap();
    let inner = subdir(&dir, "a/b");
    for to in ["a/x", "a/b/x"] {
        assert_eq!(dir.rename("a", &dir, to), Err(FileError::Invalid), "{to}");
    }
    assert_eq!(dir.rename("a", &inner, "x"), Err(FileError::Invalid));
    assert_eq!(dir.rename("a/b", &dir, "a"), Err(FileError::NotEmpty));
    // A directory that moved is below its new parent.
    dir.create_dir("other").unwrap();
    dir.rename("a/b", &dir, "other/b").unwrap();
    dir.rename("a", &inner, "a").unwrap();
    assert_eq!(dir.rename("other", &inner, "x"), Err(FileError::Invalid));
}

#[test]
fn trees_of_two_instances_do_not_mix() {
    let (one, two) = (empty(), empty());
    file(&one, "f", CREATE);
    assert_eq!(one.rename("f", &two, "f"), Err(FileError::CrossDevice));
    assert_eq!(one.link("f", &two, "f"), Err(FileError::CrossDevice));
}

#[test]
fn a_read_only_directory_refuses_each_change() {
    let base = with_base(&[("d/f", "text")]);
    let full = MemoryDir::new(&base, Limits::default());
    let dir = full.clone().read_only();
    let refused = Err(FileError::ReadOnly);
    let how = NewTimes::default();
    assert_eq!(dir.open("d/f", &WRITE).map(drop), refused);
    assert_eq!(dir.open("new", &CREATE).map(drop), refused);
    assert_eq!(dir.create_dir("new"), refused);
    assert_eq!(dir.create_symlink("x", "new"), refused);
    assert_eq!(dir.unlink("d/f"), refused);
    assert_eq!(dir.remove_dir("d"), refused);
    assert_eq!(dir.rename("d/f", &dir, "x"), refused);
    assert_eq!(dir.rename("d/f", &full, "x"), refused);
    assert_eq!(full.rename("d/f", &dir, "x"), refused);
    assert_eq!(dir.link("d/f", &full, "x"), refused);
    assert_eq!(dir.set_path_times("d/f", true, how), refused);
    assert_eq!(subdir(&dir, "d").set_times(how), refused);
    assert_eq!(subdir(&dir, "d").unlink("f"), refused);
    let open = file(&dir, "d/f", READ);
    assert_eq!(open.set_times(how), refused);
    assert_eq!(open.set_size(0), refused);
    assert_eq!(
        file(&full, "d/f", READ).set_size(0),
        Err(FileError::Invalid)
    );
    assert_eq!(open.write_at(0, b"x"), Err(FileError::BadDescriptor));
    assert_eq!(text(&open), "text");
}

#[test]
fn no_path_leads_out() {
    let dir = empty();
    dir.create_dir("d").unwrap();
    let inner = subdir(&dir, "d");
    dir.create_symlink("..", "d/up").unwrap();
    for path in ["..", "../d", "up", "up/d", "./../d", "/", "/d", "up/../d"] {
        assert_eq!(
            inner.stat_path(path, true),
            Err(FileError::NotPermitted),
            "{path}"
        );
    }
    assert_eq!(
        dir.stat_path("d/up/d", true).unwrap().kind,
        FileKind::Directory
    );
    assert_eq!(
        dir.create_symlink("/etc", "x"),
        Err(FileError::NotPermitted)
    );
    assert_eq!(dir.stat_path("a\0b", true), Err(FileError::Invalid));
    let name = "n".repeat(255);
    file(&dir, &name, CREATE);
    let long = Err(FileError::NameTooLong);
    assert_eq!(dir.open(&format!("{name}n"), &CREATE).map(drop), long);
    assert_eq!(dir.stat_path(&"d/".repeat(2048), true).map(drop), long);
}

#[test]
fn a_chain_of_40_links_is_followed_and_one_of_41_is_not() {
    let dir = empty();
    file(&dir, "0", CREATE);
    for n in 1..=41 {
        dir.create_symlink(&(n - 1).to_string(), &n.to_string())
            .unwrap();
    }
    assert!(dir.stat_path("40", true).is_ok());
    assert_eq!(dir.stat_path("41", true), Err(FileError::Loop));
}

#[test]
fn times_are_set_and_touched() {
    let dir = empty();
    let open = file(&dir, "f", CREATE);
    let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
    open.set_times(NewTimes {
        accessed: at(5),
        modified: None,
    })
    .unwrap();
    dir.set_path_times(
        "f",
        true,
        NewTimes {
            accessed: None,
            modified: at(7),
        },
    )
    .unwrap();
    let stat = open.stat();
    assert_eq!((Some(stat.accessed), Some(stat.modified)), (at(5), at(7)));
    open.write_at(0, b"").unwrap();
    assert_eq!(
        Some(open.stat().modified),
        at(7),
        "an empty write changes nothing"
    );
    open.write_at(0, b"x").unwrap();
    assert!(open.stat().modified > UNIX_EPOCH + Duration::from_secs(1_000_000));
}

#[test]
fn limits_hold_at_the_limit_and_one_past_it() {
    let limits = Limits {
        bytes_max: 1 << 20,
        files_max: 3,
    };
    let dir = MemoryDir::new(&MemoryBase::empty(), limits);
    file(&dir, "a", CREATE);
    dir.create_dir("b").unwrap();
    dir.create_symlink("a", "c").unwrap();
    let full = Err(FileError::NoSpace);
    assert_eq!(dir.open("d", &CREATE).map(drop), full);
    assert_eq!(
        (dir.create_dir("d"), dir.create_symlink("a", "d")),
        (full, full)
    );
    dir.unlink("c").unwrap();
    file(&dir, "d", CREATE);
    assert_eq!(dir.used_files(), 3);
    // A removed file counts until it is closed.
    let open = file(&dir, "d", WRITE);
    dir.unlink("d").unwrap();
    assert_eq!(dir.create_dir("e"), full);
    drop(open);
    dir.create_dir("e").unwrap();
    // Bytes: all that is left, and not one more extent.
    let open = file(&dir, "a", WRITE);
    let mut at = 0;
    while let Ok(written) = open.write_at(at, &[1; 65_536]) {
        at += written as u64;
    }
    let left = limits.bytes_max - dir.used_bytes();
    assert!(left < 65_536 + 96, "{left}");
    assert_eq!(open.write_at(0, b"old bytes change").unwrap(), 16);
    open.set_size(0).unwrap();
    for name in ["a", "b", "e"] {
        dir.unlink(name).or_else(|_| dir.remove_dir(name)).unwrap();
    }
    drop(open);
    assert_eq!((dir.used_bytes(), dir.used_files()), (0, 0));
}

#[test]
fn a_hundred_thousand_nested_directories_are_freed_on_a_small_stack() {
    let limits = Limits {
        bytes_max: 1 << 30,
        files_max: 1 << 20,
    };
    let run = move || {
        let root = MemoryDir::new(&MemoryBase::empty(), limits);
        let mut dir = root.clone();
        for _ in 0..100_000 {
            dir.create_dir("d").unwrap();
            dir = subdir(&dir, "d");
        }
        // The check for cycles goes all the way up.
        root.create_dir("other").unwrap();
        root.rename("other", &dir, "other").unwrap();
        assert_eq!(root.rename("d", &dir, "x"), Err(FileError::Invalid));
        drop(root);
        drop(dir);
    };
    thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn a_closure_that_panics_leaves_nothing_behind_the_end() {
    let dir = empty();
    let open = file(&dir, "f", CREATE);
    open.write_at(0, b"x").unwrap();
    let write = || {
        open.write_pieces(Some(1), 100, |room| -> Result<(), FileError> {
            room.fill(9);
            panic!("on purpose");
        })
    };
    panic::catch_unwind(panic::AssertUnwindSafe(write)).unwrap_err();
    assert_eq!(open.size(), 1);
    open.set_size(100).unwrap();
    let mut bytes = [1; 100];
    assert_eq!(open.read_at(0, &mut bytes), Ok(100));
    assert!(bytes[1..].iter().all(|byte| *byte == 0));
}

#[test]
fn debug_output_shows_no_contents_and_does_not_recurse() {
    let run = || {
        let root = empty();
        let mut dir = root.clone();
        for _ in 0..5000 {
            dir.create_dir("d").unwrap();
            dir = subdir(&dir, "d");
        }
        let open = file(&root, "f", CREATE);
        open.write_at(0, &[b'!'; 5000]).unwrap();
        let shown = format!("{root:?} {open:?} {:?}", root.open("d", &READ));
        assert!(shown.len() < 1000, "{} bytes", shown.len());
    };
    thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

/// A closure that has a file locked may use directories while another thread removes the file.
#[test]
fn a_removed_file_that_is_locked_does_not_block_its_directory() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let dir = empty();
        let open = file(&dir, "f", CREATE);
        open.write_at(0, b"x").unwrap();
        file(&dir, "new", CREATE);
        type Change = fn(&MemoryDir) -> Result<(), FileError>;
        let changes: [(Change, &str, bool); 3] = [
            (|dir| dir.link("f", dir, "g"), "g", true),
            (|dir| dir.rename("new", dir, "g"), "new", false),
            (|dir| dir.unlink("f"), "f", false),
        ];
        for (change, name, has_name) in changes {
            let mut changing = None;
            let sink = |_: &[u8]| {
                let dir = dir.clone();
                let lists = dir.clone();
                changing = Some(thread::spawn(move || change(&dir)));
                let is_name = |entry: &DirEntry| entry.name == name;
                while lists.read_dir(0, 9).iter().any(is_name) != has_name {
                    thread::yield_now();
                }
                Ok::<(), FileError>(())
            };
            open.read_pieces_at(0, 1, sink).unwrap();
            changing.unwrap().join().unwrap().unwrap();
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(DEADLOCK_TIME).expect("no deadlock");
}

#[test]
fn threads_rename_in_all_directions_without_a_deadlock() {
    const ROUNDS: u32 = 20_000;
    let dir = empty();
    for name in ["a", "a/b", "c"] {
        dir.create_dir(name).unwrap();
    }
    let (a, b) = (subdir(&dir, "a"), subdir(&dir, "a/b"));
    thread::scope(|scope| {
        for number in 0..4_u32 {
            let (dir, a, b) = (&dir, &a, &b);
            scope.spawn(move || {
                let mut random = number;
                let name = |n: u32| ["x", "y", "z"][n as usize % 3];
                for _ in 0..ROUNDS {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let dirs = [dir, a, b];
                    let (from, to) = (
                        dirs[(random >> 8) as usize % 3],
                        dirs[(random >> 12) as usize % 3],
                    );
                    let (old, new) = (name(random >> 16), name(random >> 20));
                    match random >> 28 {
                        0..4 => drop(from.create_dir(old)),
                        4..7 => drop(from.open(old, &CREATE)),
                        7 => drop(from.remove_dir(old)),
                        8 => drop(from.unlink(old)),
                        9 => drop(from.link(old, to, new)),
                        10 => drop(
                            dir.rename("a/b", dir, "c/b")
                                .or_else(|_| dir.rename("c/b", dir, "a/b")),
                        ),
                        11 => drop(from.read_dir(0, 10)),
                        _ => drop(from.rename(old, to, new)),
                    }
                }
            });
        }
    });
    remove_all(&dir);
    drop((a, b));
    assert_eq!((dir.used_bytes(), dir.used_files()), (0, 0));
}

/// Removes everything below a directory, which checks that all of it can be reached.
fn remove_all(dir: &MemoryDir) {
    for entry in dir.read_dir(0, usize::MAX).split_off(2) {
        if entry.kind == FileKind::Directory {
            remove_all(&subdir(dir, &entry.name));
            dir.remove_dir(&entry.name).unwrap();
        } else {
            dir.unlink(&entry.name).unwrap();
        }
    }
}

#[test]
fn appends_of_several_threads_do_not_overlap() {
    let dir = empty();
    thread::scope(|scope| {
        for byte in 1..=4_u8 {
            let open = file(&dir, "log", CREATE);
            scope.spawn(move || {
                for _ in 0..1000 {
                    assert_eq!(open.append(&[byte; 7]).unwrap().1, 7);
                }
            });
        }
    });
    let log = file(&dir, "log", READ);
    let mut bytes = vec![0; 28_000];
    assert_eq!(log.read_at(0, &mut bytes), Ok(28_000));
    assert!(
        bytes
            .chunks(7)
            .all(|record| record.iter().all(|byte| *byte == record[0]))
    );
    for byte in 1..=4 {
        assert_eq!(bytes.iter().filter(|found| **found == byte).count(), 7000);
    }
}

/// A reader of a file of the base that nobody has changed holds no lock: another thread can write
/// meanwhile. The reader gets the bytes of the base, and the next one those of the writer.
#[test]
fn reading_an_unchanged_file_of_the_base_takes_no_lock() {
    let dir = MemoryDir::new(&with_base(&[("a", "base")]), Limits::default());
    let (reader, writer) = (file(&dir, "a", READ), file(&dir, "a", WRITE));
    let (sender, written) = mpsc::channel();
    let read = reader.read_pieces_at(1, 100, |bytes| {
        let (writer, sender) = (writer.clone(), sender.clone());
        thread::spawn(move || sender.send(writer.write_at(1, b"AS")));
        let written = written.recv_timeout(DEADLOCK_TIME);
        assert_eq!(written, Ok(Ok(2)));
        assert_eq!(bytes, b"ase");
        Ok::<_, FileError>(())
    });
    assert_eq!(read, Ok(3));
    assert_eq!(text(&reader), "bASe");
    for (offset, len) in [(4, 1), (u64::MAX, 1), (0, 0), (3, usize::MAX)] {
        let fresh = MemoryDir::new(&with_base(&[("a", "base")]), Limits::default());
        let mut lens = vec![];
        let read = file(&fresh, "a", READ).read_pieces_at(offset, len, |bytes| {
            lens.push(bytes.len());
            Ok::<_, FileError>(())
        });
        let expected = if offset == 3 { 1 } else { 0 };
        assert_eq!(read, Ok(expected));
        assert_eq!(lens.len(), expected);
    }
}
