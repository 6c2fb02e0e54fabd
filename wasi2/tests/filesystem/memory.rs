//! Directories in memory: they answer as directories of the host do, and nothing survives.

use crate::filesystem::driver::{Answer, Guest, Place, bytes, flags, text, to_bytes};
use crate::filesystem::paths::all;
use pirn_component::{Resource, Value};
use pirn_wasi2::{BaseLimits, MemoryBase, MemoryLimits, WasiBuilder};
use std::os::unix::fs::symlink;

/// A directory of the host with files of all kinds.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("sub/deep")).expect("a directory");
    std::fs::write(place.path("file"), "12345").expect("a file");
    std::fs::write(place.path("sub/other"), "").expect("a file");
    for (to, of) in [
        ("file", "link"),
        ("sub", "folder-link"),
        ("none", "dangling"),
        ("../out", "up"),
        ("..", "parent"),
        ("sub/../../out", "through"),
        ("loop", "loop"),
    ] {
        symlink(to, place.path(of)).expect("a link");
    }
    place
}

fn base(place: &Place) -> MemoryBase {
    MemoryBase::from_dir(&place.dir(), &BaseLimits::default()).expect("it is small")
}

/// A guest that has files in memory at `/`, and the descriptor of the directory.
fn guest(base: &MemoryBase, limits: MemoryLimits) -> (Guest, Resource) {
    let builder = WasiBuilder::new().memory_dir(base, limits, "/");
    let mut guest = Guest::new(builder.build());
    let (root, _) = guest.directories()[0];
    (guest, root)
}

fn put(guest: &mut Guest, root: Resource, path: &str, text: &[u8]) -> Answer {
    let file = guest.open(root, path, &["create"], &["read", "write"])?;
    let written = guest.on(file, "write", &[bytes(text), Value::U64(0)]);
    guest.drop(file)?;
    written
}

fn get(guest: &mut Guest, root: Resource, path: &str) -> Answer<Vec<u8>> {
    let file = guest.open(root, path, &[], &["read"])?;
    let read = guest.on(file, "read", &[Value::U64(1 << 20), Value::U64(0)]);
    guest.drop(file)?;
    match read? {
        Some(Value::Tuple(parts)) => Ok(to_bytes(&parts[0])),
        other => panic!("{other:?} is no tuple"),
    }
}

/// Functions that make or remove names. cap-std ignores slashes at the ends of their paths. Files
/// in memory answer as the kernel does, which `memory-files/tests/slashes.rs` checks.
const NAMES: [&str; 5] = [
    "link-at",
    "symlink-at",
    "rename-at",
    "unlink-file-at",
    "remove-directory-at",
];

/// Each function of paths gives the same answer for files in memory as for those of the host.
#[test]
fn paths_have_the_answers_of_a_host_directory() {
    let long = "a/".repeat(2047) + "ab";
    let part = "y".repeat(300);
    let mut checked = 0;
    for path in [
        "file",
        "file/",
        "file/x",
        "new",
        "new/",
        "sub",
        "sub/",
        "sub/.",
        "sub/..",
        "sub/deep",
        "sub/other",
        "sub/new",
        "none/new",
        "link",
        "link/",
        "folder-link",
        "folder-link/",
        "folder-link/other",
        "dangling",
        "dangling/",
        "up",
        "parent/out",
        "through",
        "loop",
        "loop/x",
        "",
        ".",
        "./",
        "..",
        "../out",
        "../in/file",
        "sub/../../out",
        "/",
        "/file",
        "a\0b",
        "./file",
        "sub//other",
        &long,
        &part,
    ] {
        let host = place();
        let (mut on_host, host_root) = host.guest();
        let (mut in_memory, memory_root) = guest(&base(&host), MemoryLimits::default());
        let expected = all(&mut on_host, host_root, path);
        let found = all(&mut in_memory, memory_root, path);
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.iter().zip(&found) {
            let is_name = NAMES.contains(&expected.0);
            if is_name && path.ends_with(['/', '.']) {
                continue;
            }
            assert_eq!(expected, found, "{path:?}, the host's answer first");
            checked += 1;
        }
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn changes_are_seen_by_their_instance_only() {
    let base = base(&place());
    let limits = MemoryLimits::default();
    for _ in 0..3 {
        let (mut one, root) = guest(&base, limits);
        let (mut other, other_root) = guest(&base, limits);
        put(&mut one, root, "file", b"changed").expect("it is written");
        put(&mut one, root, "new", b"secret").expect("it is written");
        let gone = one.on(root, "unlink-file-at", &[text("sub/other")]);
        assert_eq!(gone, Ok(None));
        // The same directory again: the changes are there.
        let (again, _) = one.directories()[0];
        assert_eq!(get(&mut one, again, "file"), Ok(b"changed".to_vec()));
        let params = [Value::Borrow(root), Value::Borrow(again)];
        let is_same = one.call("is-same-object", &params);
        assert_eq!(is_same.ok(), Some(Value::Bool(true)));
        assert_eq!(get(&mut other, other_root, "file"), Ok(b"12345".to_vec()));
        assert_eq!(get(&mut other, other_root, "new"), Err("no-entry".into()));
        assert_eq!(get(&mut other, other_root, "sub/other"), Ok(vec![]));
    }
}

#[test]
fn a_stream_reads_and_writes_files_in_memory() {
    let (mut guest, root) = guest(&base(&place()), MemoryLimits::default());
    let rights = &["read", "write"];
    let file = guest.open(root, "file", &[], rights).expect("it exists");
    let append = guest.make(file, "append-via-stream", &[]);
    let write = guest.make(file, "write-via-stream", &[Value::U64(1)]);
    for (output, part) in [(append, "67"), (write, "ab")] {
        let output = output.expect("a stream");
        guest
            .on(output, "output-check-write", &[])
            .expect("it takes bytes");
        let written = guest.on(output, "output-write", &[bytes(part.as_bytes())]);
        assert_eq!(written, Ok(None));
    }
    let input = guest.make(file, "read-via-stream", &[Value::U64(0)]);
    let input = input.expect("a stream");
    let mut read = |max| guest.on(input, "input-read", &[Value::U64(max)]);
    assert_eq!(read(1 << 40), Ok(Some(bytes(b"1ab4567"))));
    assert_eq!(read(1), Err("closed".into()));
    for name in ["sync", "sync-data"] {
        assert_eq!(guest.on(file, name, &[]), Ok(None));
        assert_eq!(guest.on(root, name, &[]), Ok(None));
    }
    let far = [Value::U64(1), Value::U64(u64::MAX)];
    assert_eq!(guest.on(file, "read", &far), Err("invalid".into()));
    let size = guest.on(file, "set-size", &[Value::U64(u64::MAX)]);
    assert_eq!(size, Err("file-too-large".into()));
}

#[test]
fn memory_is_bounded() {
    let limits = MemoryLimits {
        bytes_max: 100_000,
        files_max: 3,
    };
    let (mut guest, root) = guest(&base(&place()), limits);
    let full = || Err("insufficient-space".to_owned());
    let file = guest.open(root, "a", &["create"], &["write"]);
    let file = file.expect("it fits");
    let mut written = 0;
    let last = loop {
        match guest.on(file, "write", &[bytes(&[1; 4096]), Value::U64(written)]) {
            Ok(Some(Value::U64(count))) => written += count,
            other => break other,
        }
    };
    assert_eq!(last, full());
    assert!((65_536..=100_000).contains(&written), "{written}");
    assert_eq!(guest.on(file, "set-size", &[Value::U64(0)]), Ok(None));
    for path in ["b", "c"] {
        put(&mut guest, root, path, b"").expect("it fits");
    }
    assert_eq!(put(&mut guest, root, "d", b"").map(drop), full().map(drop));
    let made = guest.on(root, "create-directory-at", &[text("d")]);
    assert_eq!(made, full());
    let gone = guest.on(root, "unlink-file-at", &[text("b")]);
    assert_eq!(gone, Ok(None));
    put(&mut guest, root, "d", b"").expect("it fits");
}

/// Files in memory and on the host: names do not cross, and only the host's count as bytes on disk.
#[test]
fn both_kinds_of_directories_have_their_own_limits() {
    let host = place();
    let base = base(&host);
    let limits = MemoryLimits::default();
    let builder = WasiBuilder::new()
        .preopened_dir(host.dir(), "/host")
        .memory_dir(&base, limits, "/one")
        .memory_dir(&base, limits, "/two")
        .disk_bytes_max(4096 + 10)
        .descriptors_max(2);
    let mut guest = Guest::new(builder.build());
    let found = guest.directories();
    let paths: Vec<_> = found.iter().map(|(_, path)| &**path).collect();
    assert_eq!(paths, ["/host", "/one", "/two"]);
    let dirs: Vec<_> = found.iter().map(|(dir, _)| *dir).collect();
    for (from, to) in [(0, 1), (1, 0), (1, 2)] {
        let to = Value::Borrow(dirs[to]);
        let rename = [text("file"), to.clone(), text("new")];
        let crossed = || Err("cross-device".to_owned());
        assert_eq!(guest.on(dirs[from], "rename-at", &rename), crossed());
        let link = [flags(&[]), text("file"), to, text("new")];
        assert_eq!(guest.on(dirs[from], "link-at", &link), crossed());
    }
    let same = guest.open(dirs[1], "file", &[], &["read"]);
    let other = guest.open(dirs[2], "file", &[], &["read"]);
    let (same, other) = (same.expect("it exists"), other.expect("it exists"));
    let params = [Value::Borrow(same), Value::Borrow(other)];
    let is_same = guest.call("is-same-object", &params);
    assert_eq!(is_same.ok(), Some(Value::Bool(false)));
    // Descriptors count together.
    let full = guest.open(dirs[1], "file", &[], &["read"]).map(drop);
    assert_eq!(full, Err("insufficient-memory".into()));
    for file in [same, other] {
        guest.drop(file).expect("it has no children");
    }
    for _ in 0..3 {
        put(&mut guest, dirs[1], "big", &[1; 8192]).expect("it is not on the disk");
        let made = guest.on(dirs[2], "create-directory-at", &[text("new")]);
        assert_eq!(made, Ok(None));
        let gone = guest.on(dirs[2], "remove-directory-at", &[text("new")]);
        assert_eq!(gone, Ok(None));
    }
    put(&mut guest, dirs[0], "big", &[1; 10]).expect("it fits");
    let full = put(&mut guest, dirs[0], "bigger", b"1").map(drop);
    assert_eq!(full, Err("quota".into()));
}

/// The name of the next entry of a stream.
fn next_name(guest: &mut Guest, entries: Resource) -> Option<String> {
    let entry = guest.on(entries, "read-directory-entry", &[]);
    let Some(Value::Option(Some(entry))) = entry.expect("an entry") else {
        return None;
    };
    let Value::Record(fields) = *entry else {
        panic!("{entry:?} is no record")
    };
    match &fields[1].1 {
        Value::String(name) => Some(name.to_string()),
        other => panic!("{other:?} is no name"),
    }
}

/// A guest, its directory `sub/deep` with 200 files, and the stream of their names.
fn listing_of_200() -> (Guest, Resource, Resource) {
    let (mut guest, root) = guest(&base(&place()), MemoryLimits::default());
    for n in 0..200 {
        put(&mut guest, root, &format!("sub/deep/{n}"), b"").expect("it fits");
    }
    let deep = guest.open(root, "sub/deep", &["directory"], &["read"]);
    let deep = deep.expect("it exists");
    let entries = guest.make(deep, "read-directory", &[]).expect("a stream");
    (guest, deep, entries)
}

/// A guest may rename each entry that it sees, so that it has another place in the directory.
#[test]
fn a_listing_ends_while_its_entries_are_renamed() {
    let (mut guest, deep, entries) = listing_of_200();
    let mut seen = 0;
    while let Some(name) = next_name(&mut guest, entries) {
        let new = text(&format!("new{seen}"));
        let arguments = [text(&name), Value::Borrow(deep), new];
        assert_eq!(guest.on(deep, "rename-at", &arguments), Ok(None));
        seen += 1;
        assert!(seen < 1000, "{name}");
    }
    assert_eq!(seen, 200);
}

#[test]
fn entries_are_listed_while_they_are_removed() {
    let (mut guest, deep, entries) = listing_of_200();
    let mut names = vec![];
    while let Some(name) = next_name(&mut guest, entries) {
        let gone = guest.on(deep, "unlink-file-at", &[text(&name)]);
        assert_eq!(gone, Ok(None));
        names.push(name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 200);
}
