//! Bases made of tar archives, good and hostile.

use pirn_memory_files::{
    BaseError, BaseLimits, FileKind, Limits, MemoryBase, MemoryDir, OpenOptions,
};
use std::io::Write as _;
use tar::{Builder, EntryType, Header};

/// An entry with a name as it is, which [`Builder`] would refuse or change.
fn entry(archive: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, contents: &[u8]) {
    let mut header = header(name, kind, contents.len() as u64);
    if kind == EntryType::Symlink || kind == EntryType::Link {
        let target = &mut header.as_old_mut().linkname;
        target[..contents.len()].copy_from_slice(contents);
        header.set_size(0);
        header.set_cksum();
        archive.append(&header, &b""[..]).unwrap();
        return;
    }
    archive.append(&header, contents).unwrap();
}

fn header(name: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    header
}

/// A name, a kind, and contents or a target.
type NewEntry<'a> = (&'a str, EntryType, &'a [u8]);

/// An archive of entries.
fn archive(entries: &[NewEntry<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(vec![]);
    for (name, kind, contents) in entries {
        entry(&mut archive, name, *kind, contents);
    }
    archive.into_inner().unwrap()
}

fn base(bytes: &[u8]) -> Result<MemoryBase, BaseError> {
    MemoryBase::from_tar(bytes, &BaseLimits::default())
}

/// The message of an archive that is refused.
fn refusal(entries: &[NewEntry<'_>]) -> String {
    let error = base(&archive(entries)).expect_err("an error").to_string();
    assert!(!error.contains('\n'), "{error:?}");
    error
}

use EntryType::{Directory, Link, Regular, Symlink};

#[test]
fn a_good_archive_has_all_of_its_entries() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let mut builder = Builder::new(archive(&[
        ("./", Directory, b""),
        ("./a/", Directory, b""),
        ("./a/file", Regular, b"contents"),
        ("b/c/made-above", Regular, b""),
        ("link", Symlink, b"a/file"),
        ("outside", Symlink, b"/etc/passwd"),
        ("hard", Link, b"./a/file"),
        ("a/", EntryType::XGlobalHeader, b""),
    ]));
    // Names of more than 100 bytes have a form of their own.
    builder.get_mut().truncate(8 * 512 + 512);
    let mut long_header = Header::new_gnu();
    long_header.set_size(4);
    long_header.set_entry_type(Regular);
    builder
        .append_data(&mut long_header, &long, &b"long"[..])
        .unwrap();
    let base = base(&builder.into_inner().unwrap()).unwrap();
    assert_eq!((base.files(), base.bytes()), (10, 12));
    let dir = MemoryDir::new(&base, Limits::default());
    let stat = dir.stat_path("hard", true).unwrap();
    assert_eq!((stat.links, stat.size_bytes), (2, 8));
    assert_eq!(stat.inode, dir.stat_path("link", true).unwrap().inode);
    assert_eq!(
        dir.stat_path("outside", false).unwrap().kind,
        FileKind::Symlink
    );
    assert!(dir.stat_path("outside", true).is_err());
    assert_eq!(dir.stat_path(&long, true).unwrap().size_bytes, 4);
    let how = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = dir.open("link", &how).unwrap().into_file().unwrap();
    let mut bytes = [0; 8];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"contents");
}

#[test]
fn an_empty_archive_is_an_empty_base() {
    for bytes in [&[][..], &[0; 1024]] {
        assert_eq!(base(bytes).unwrap().files(), 1);
    }
}

#[test]
fn hostile_names_are_refused() {
    let cases: [(&str, &str); 5] = [
        ("../up", "contains `..`"),
        ("a/../../up", "contains `..`"),
        ("a/..", "contains `..`"),
        ("/etc/passwd", "is absolute"),
        ("./", "is the root"),
    ];
    for (name, expected) in cases {
        let error = refusal(&[(name.trim_end_matches("/"), Regular, b"x")]);
        assert!(
            error.contains(expected) || error.contains("is the root"),
            "{name}: {error}"
        );
    }
    let latin1 = {
        let mut header = header("name", Regular, 0);
        header.as_old_mut().name[0] = 0xe9;
        header.set_cksum();
        let mut archive = Builder::new(vec![]);
        archive.append(&header, &b""[..]).unwrap();
        archive.into_inner().unwrap()
    };
    let error = base(&latin1).unwrap_err().to_string();
    assert!(error.contains("is not UTF-8"), "{error}");
}

#[test]
fn messages_show_hostile_names_on_one_short_line() {
    let name = "a\n\u{1b}[2J";
    let shown = "a\\n\\u{1b}[2J";
    let cases: [(&[NewEntry<'_>], String); 4] = [
        (
            &[(name, Regular, b"x"), (name, Regular, b"x")],
            format!("{shown} occurs twice; remove one of the two"),
        ),
        (
            &[(name, EntryType::Fifo, b"")],
            format!("{shown} is a FIFO; a base holds files, directories and symbolic links"),
        ),
        (
            &[("h", Link, name.as_bytes())],
            format!("h: {shown} is no earlier file of this tree"),
        ),
        (
            &[("/a\n", Regular, b"")],
            "/a\\n is absolute; a base has paths below its root".to_owned(),
        ),
    ];
    for (entries, expected) in cases {
        assert_eq!(refusal(entries), expected);
    }
    let mut long = Builder::new(vec![]);
    let path = "d/".repeat(300_000);
    entry(&mut long, "name", EntryType::GNULongName, path.as_bytes());
    entry(&mut long, "d", Directory, b"");
    let error = base(&long.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("more than 128 directories deep at d/d"));
    assert!(error.len() < 700, "{} bytes", error.len());
}

#[test]
fn a_file_that_is_refused_leaves_no_bytes() {
    let mut builder = MemoryBase::builder(&BaseLimits::default());
    let time = std::time::UNIX_EPOCH;
    builder.file("cut", 9, &b"12345"[..], time).unwrap_err();
    builder.file("whole", 3, &b"123"[..], time).unwrap();
    assert_eq!(builder.build().bytes(), 3);
}

#[test]
fn entries_that_contradict_each_other_are_refused() {
    let file = ("a", Regular, &b"x"[..]);
    let cases: [(&[NewEntry<'_>], &str); 9] = [
        (&[file, file], "a occurs twice"),
        (&[file, ("a/", Directory, b"")], "a/ occurs twice"),
        (
            &[("a", Directory, b""), ("./a", Directory, b"")],
            "./a occurs twice",
        ),
        (&[file, ("a/b", Regular, b"")], "a/b: a is no directory"),
        (
            &[("l", Symlink, b"."), ("l/b", Regular, b"")],
            "l/b: l is no directory",
        ),
        (&[("h", Link, b"a"), file], "h: a is no earlier file"),
        (
            &[("d", Directory, b""), ("h", Link, b"d")],
            "h: d is no earlier file",
        ),
        (&[("h", Link, b"/etc/passwd")], "/etc/passwd is absolute"),
        (&[("l", Symlink, b"")], "whose target is empty"),
    ];
    for (entries, expected) in cases {
        let error = refusal(entries);
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

#[test]
fn kinds_that_no_guest_may_have_are_refused() {
    let kinds = [
        (EntryType::Char, "device"),
        (EntryType::Block, "device"),
        (EntryType::Fifo, "FIFO"),
        (EntryType::new(b'Q'), "unknown kind"),
    ];
    for (kind, expected) in kinds {
        let error = refusal(&[("thing", kind, b"")]);
        assert!(
            error.contains(&format!("thing is a {expected}")) || error.contains(expected),
            "{error}"
        );
    }
    // PAX's form of a sparse file.
    let mut archive = Builder::new(vec![]);
    let records = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", &b"0"[..]),
    ];
    archive.append_pax_extensions(records).unwrap();
    entry(&mut archive, "holes", Regular, b"");
    let error = base(&archive.into_inner().unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("holes is a sparse file"), "{error}");
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_a_base() {
    let whole = archive(&[
        ("a/", Directory, b""),
        ("a/file", Regular, b"contents"),
        ("link", Symlink, b"a/file"),
    ]);
    for len in 0..whole.len() {
        match base(&whole[..len]) {
            // The archive may end between two entries, and anywhere in the zeros after them.
            Ok(base) => assert!(len % 512 == 0 && base.files() <= 4 || len > 2048, "{len}"),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    for at in 0..whole.len() {
        for value in [0, 0xff, whole[at] ^ 1, b'9', b'/'] {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Err(error) = base(&changed) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn lying_sizes_are_refused() {
    let mut lying = vec![];
    lying.extend(header("file", Regular, 1 << 29).as_bytes());
    lying.extend([0; 1024]);
    let error = base(&lying).unwrap_err().to_string();
    assert!(
        error.starts_with("file has 1024 bytes, 536870912 were announced"),
        "{error}"
    );
    // A long name that is as long as the archive may be.
    let mut long = vec![];
    long.extend(header("././@LongLink", EntryType::GNULongName, 1 << 40).as_bytes());
    long.extend([b'x'; 100_000]);
    let limits = BaseLimits {
        bytes_max: 1000,
        files_max: 10,
        depth_max: 3,
    };
    let error = MemoryBase::from_tar(&long[..], &limits)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the archive is larger than bytes_max"),
        "{error}"
    );
}

/// The reader of archives holds names and PAX records in memory.
#[test]
fn an_entry_has_at_most_1_mib_of_headers() {
    let with = |kind, header_bytes: usize| {
        let mut archive = Builder::new(vec![]);
        entry(&mut archive, "headers", kind, &vec![0; header_bytes]);
        entry(&mut archive, "file", Regular, b"contents");
        base(&archive.into_inner().unwrap()).map_err(|error| error.to_string())
    };
    let kinds = [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ];
    for kind in kinds {
        let error = with(kind, 1 << 20).unwrap_err();
        assert!(error.contains("an entry has more than 1 MiB"), "{error}");
        if let Err(error) = with(kind, 1 << 19) {
            assert!(!error.contains("1 MiB"), "{error}");
        }
    }
    // The contents of the entry before allow no longer headers.
    let mut after = Builder::new(archive(&[("a", Regular, &[1; 3 << 20])]));
    after.get_mut().truncate(512 + (3 << 20));
    entry(&mut after, "headers", EntryType::XHeader, &vec![0; 2 << 20]);
    entry(&mut after, "b", Regular, b"");
    let error = base(&after.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.contains("an entry has more than 1 MiB"), "{error}");
    // Contents are no headers, nor are those that are skipped.
    let contents = vec![1; 3 << 20];
    let whole = archive(&[
        ("a", Regular, &contents),
        ("d/", Directory, &contents),
        ("b", Regular, &contents),
    ]);
    let base = base(&whole).unwrap();
    assert_eq!((base.files(), base.bytes()), (4, 6 << 20));
}

#[test]
fn limits_of_a_base_hold_at_the_limit_and_one_past_it() {
    let limits = BaseLimits {
        bytes_max: 6,
        files_max: 4,
        depth_max: 2,
    };
    let with = |entries: &[NewEntry<'_>]| {
        let made = MemoryBase::from_tar(&archive(entries)[..], &limits);
        made.map(|base| base.files())
            .map_err(|error| error.to_string())
    };
    let (a, b) = (("a", Regular, &b"123"[..]), ("b", Regular, &b"456"[..]));
    assert_eq!(with(&[a, b, ("d/", Directory, b"")]), Ok(4));
    let more = with(&[a, b, ("c", Regular, b"7")]).unwrap_err();
    assert_eq!(more, "more than 6 bytes at c; raise bytes_max");
    let more = with(&[a, b, ("d/", Directory, b""), ("e", Regular, b"")]).unwrap_err();
    assert_eq!(more, "more than 4 files at e; raise files_max");
    let more = with(&[a, ("link", Symlink, b"1234")]).unwrap_err();
    assert_eq!(more, "more than 6 bytes at link; raise bytes_max");
    let link = ("link", Symlink, &b"12"[..]);
    let more = with(&[a, link, ("c", Regular, b"34")]).unwrap_err();
    assert_eq!(more, "more than 6 bytes at c; raise bytes_max");
    assert_eq!(with(&[a, link, ("c", Regular, b"3")]), Ok(4));
    let (one, two) = (("one", Link, &b"a"[..]), ("two", Link, &b"a"[..]));
    assert_eq!(with(&[a, one, two]), Ok(2));
    let more = with(&[a, one, two, ("three", Link, b"a")]).unwrap_err();
    assert_eq!(more, "more than 4 files at three; raise files_max");
    assert_eq!(with(&[("d/e", Regular, b"")]), Ok(3));
    let deep = with(&[("d/e/f", Regular, b"")]).unwrap_err();
    assert_eq!(
        deep,
        "more than 2 directories deep at d/e/f; raise depth_max"
    );
}

#[test]
fn compressed_archives_and_other_files_are_refused() {
    let mut gzip = vec![0x1f, 0x8b, 8];
    gzip.write_all(&[0; 600]).unwrap();
    let error = base(&gzip).unwrap_err().to_string();
    assert_eq!(error, "the archive is compressed by gzip; decompress it");
    let error = base(&[b'#'; 2000]).unwrap_err().to_string();
    assert!(error.starts_with("the archive: "), "{error}");
}

#[test]
fn a_path_of_the_host_is_a_directory_or_an_archive() {
    let host = tempfile::tempdir().expect("a directory");
    let open = |name: &str| MemoryBase::open(&host.path().join(name), &BaseLimits::default());
    std::fs::create_dir(host.path().join("folder")).expect("a directory");
    std::fs::write(host.path().join("folder/a"), "1").expect("a file");
    let all = archive(&[("a", Regular, b"1"), ("b", Regular, b"2")]);
    std::fs::write(host.path().join("all.tar"), all).expect("a file");
    std::fs::write(host.path().join("text"), "no archive\n".repeat(50)).expect("a file");
    let made = std::process::Command::new("mkfifo")
        .arg(host.path().join("fifo"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    assert_eq!(open("folder").expect("a base").bytes(), 1);
    assert_eq!(open("all.tar").expect("a base").bytes(), 2);
    for (name, why) in [
        ("none", "none: No such file"),
        ("fifo", "fifo: it is neither a directory nor a tar archive"),
        (
            "text",
            "the archive: no header of tar; the archive is damaged",
        ),
    ] {
        let error = open(name).expect_err("an error").to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{error:?}");
    }
}
