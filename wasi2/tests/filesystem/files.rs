//! What the functions of files and directories do.

use crate::filesystem::driver::{Answer, Guest, Place, bytes, flags, text, to_bytes};
use pirn_component::{Resource, Value};
use pirn_wasi2::WasiBuilder;

/// What a stream reads, and whether it has ended.
fn stream(guest: &mut Guest, file: Resource, offset: u64) -> Result<Vec<u8>, String> {
    let input = guest.make(file, "read-via-stream", &[Value::U64(offset)])?;
    let read = guest.on(input, "input-read", &[Value::U64(1 << 40)]);
    guest.drop(input)?;
    Ok(to_bytes(&read?.expect("bytes")))
}

fn read(guest: &mut Guest, file: Resource, len: u64, offset: u64) -> Result<Value, String> {
    let read = guest.on(file, "read", &[Value::U64(len), Value::U64(offset)]);
    read.map(|value| value.expect("bytes"))
}

fn write(guest: &mut Guest, output: Resource, text: &str) -> Result<(), String> {
    guest.on(output, "output-check-write", &[])?;
    guest.on(output, "output-write", &[bytes(text.as_bytes())])?;
    Ok(())
}

/// An offset or a size that no file has.
fn too_large(answer: Answer) {
    let code = answer.expect_err("it is too large");
    let codes = ["invalid", "file-too-large"];
    assert!(codes.contains(&code.as_str()), "{code}");
}

#[test]
fn files_are_read_and_written() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let file = guest.open(root, "a", &["create"], &["read", "write"]);
    let file = file.expect("it is made");
    let written = guest.on(file, "write", &[bytes(b"0123456789"), Value::U64(2)]);
    assert_eq!(written, Ok(Some(Value::U64(10))));
    let tuple = |of: &[u8], is_end| Ok(Value::Tuple(vec![bytes(of), Value::Bool(is_end)]));
    assert_eq!(read(&mut guest, file, 4, 0), tuple(b"\0\x0001", false));
    assert_eq!(read(&mut guest, file, 4, 10), tuple(b"89", false));
    assert_eq!(read(&mut guest, file, 4, 12), tuple(b"", true));
    assert_eq!(read(&mut guest, file, 0, 0), tuple(b"", false));
    assert_eq!(read(&mut guest, file, 1, u64::MAX), Err("invalid".into()));
    assert_eq!(read(&mut guest, file, u64::MAX, 1 << 62), tuple(b"", true));
    for offset in [u64::MAX, i64::MAX as u64] {
        let written = guest.on(file, "write", &[bytes(b"x"), Value::U64(offset)]);
        too_large(written);
    }
    assert_eq!(guest.on(file, "set-size", &[Value::U64(4)]), Ok(None));
    assert_eq!(
        std::fs::read(place.path("a")).expect("it exists"),
        b"\0\x0001"
    );
    for size in [u64::MAX, i64::MAX as u64] {
        let set = guest.on(file, "set-size", &[Value::U64(size)]);
        too_large(set);
    }
    for name in ["sync", "sync-data"] {
        assert_eq!(guest.on(file, name, &[]), Ok(None));
        assert_eq!(guest.on(root, name, &[]), Ok(None));
    }
    for advice in [
        "normal",
        "sequential",
        "random",
        "will-need",
        "dont-need",
        "no-reuse",
    ] {
        let params = [Value::U64(0), Value::U64(0), Value::Enum(advice.to_owned())];
        assert_eq!(guest.on(file, "advise", &params), Ok(None));
    }
}

#[test]
fn streams_keep_the_file_and_a_position() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let file = guest.open(root, "a", &["create"], &["read", "write"]);
    let file = file.expect("it is made");
    let one = guest
        .make(file, "write-via-stream", &[Value::U64(1)])
        .expect("a stream");
    let two = guest
        .make(file, "append-via-stream", &[])
        .expect("a stream");
    let input = guest
        .make(file, "read-via-stream", &[Value::U64(2)])
        .expect("a stream");
    guest.drop(file).expect("streams are no children");
    for text in ["ab", "cd"] {
        write(&mut guest, one, text).expect("it is written");
    }
    write(&mut guest, two, "end").expect("it is written");
    write(&mut guest, one, "EF").expect("it is written");
    assert_eq!(
        std::fs::read(place.path("a")).expect("it exists"),
        b"\0abcdEFd"
    );
    let mut part = |len| guest.on(input, "input-read", &[Value::U64(len)]);
    assert_eq!(part(3), Ok(Some(bytes(b"bcd"))));
    assert_eq!(part(0), Ok(Some(bytes(b""))));
    assert_eq!(part(9), Ok(Some(bytes(b"EFd"))));
    assert_eq!(part(9), Err("closed".into()));
    assert_eq!(part(9), Err("closed".into()));
}

#[test]
fn errors_of_streams_have_codes() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let file = guest.open(root, "a", &["create"], &["read", "write"]);
    let file = file.expect("it is made");
    let far = Value::U64(u64::MAX);
    let input = guest
        .make(file, "read-via-stream", &[far])
        .expect("a stream");
    let params = [Value::Borrow(input), Value::U64(1)];
    let failed = guest.call("input-read", &params).expect("it ends well");
    let Value::Result(Err(Some(error))) = failed else {
        panic!("{failed:?} is no error")
    };
    let Value::Variant(_, Some(error)) = *error else {
        panic!("{error:?} has no error")
    };
    let Value::Own(error) = *error else {
        panic!("{error:?} is no handle")
    };
    let code = guest.call("filesystem-error-code", &[Value::Borrow(error)]);
    let invalid = Value::Enum("invalid".to_owned());
    assert_eq!(
        code.expect("it ends well"),
        Value::Option(Some(Box::new(invalid)))
    );
}

#[test]
fn directories_list_what_they_hold() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    for n in 0..300 {
        std::fs::write(place.path(&format!("file-{n}")), "").expect("a file");
    }
    let entries = guest.make(root, "read-directory", &[]).expect("a stream");
    let mut names = vec![];
    while let Some(Value::Option(Some(entry))) = guest
        .on(entries, "read-directory-entry", &[])
        .expect("an entry")
    {
        let Value::Record(fields) = *entry else {
            panic!("{entry:?} is no record")
        };
        assert_eq!(fields[0].1, Value::Enum("regular-file".to_owned()));
        let Value::String(name) = &fields[1].1 else {
            panic!("{fields:?}")
        };
        // A directory may change while it is read.
        let _ = std::fs::remove_file(place.path(name));
        names.push(name.clone());
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 300);
    assert_eq!(
        guest.on(entries, "read-directory-entry", &[]),
        Ok(Some(Value::Option(None)))
    );
    let file = guest
        .open(root, "a", &["create"], &["read"])
        .expect("it is made");
    assert_eq!(
        guest.make(file, "read-directory", &[]),
        Err("not-directory".into())
    );
}

#[test]
fn metadata_is_told() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("a"), "12345").expect("a file");
    std::os::unix::fs::symlink("a", place.path("link")).expect("a link");
    let [no, yes] = [flags(&[]), flags(&["symlink-follow"])];
    let mut stat = |follow: &Value, path: &str| {
        let found = guest.on(root, "stat-at", &[follow.clone(), text(path)])?;
        match found {
            Some(Value::Record(fields)) => Ok((fields[0].1.clone(), fields[2].1.clone())),
            other => panic!("{other:?} is no record"),
        }
    };
    let kind = |kind: &str, size| Ok::<_, String>((Value::Enum(kind.to_owned()), Value::U64(size)));
    assert_eq!(stat(&yes, "link"), kind("regular-file", 5));
    assert_eq!(stat(&no, "link"), kind("symbolic-link", 1));
    assert_eq!(stat(&no, "none"), Err("no-entry".into()));
    assert_eq!(stat(&no, "a/"), Err("not-directory".into()));
    let a = guest
        .open(root, "a", &[], &["read", "write"])
        .expect("it exists");
    let also = guest.open(root, "link", &[], &["read"]).expect("it exists");
    let params = [Value::Borrow(a), Value::Borrow(also)];
    assert_eq!(
        guest.call("is-same-object", &params).ok(),
        Some(Value::Bool(true))
    );
    let params = [Value::Borrow(a), Value::Borrow(root)];
    assert_eq!(
        guest.call("is-same-object", &params).ok(),
        Some(Value::Bool(false))
    );
    let hash = guest.on(a, "metadata-hash", &[]).expect("a hash");
    let of = guest.on(root, "metadata-hash-at", &[yes.clone(), text("link")]);
    assert_eq!(of, Ok(hash.clone()));
    guest
        .on(a, "write", &[bytes(b"678"), Value::U64(5)])
        .expect("it is written");
    let changed = guest.on(a, "metadata-hash", &[]).expect("a hash");
    let half = |hash: &Option<Value>, n: usize| match hash {
        Some(Value::Record(fields)) => fields[n].1.clone(),
        other => panic!("{other:?} is no record"),
    };
    assert_eq!(half(&hash, 0), half(&changed, 0));
    assert_ne!(half(&hash, 1), half(&changed, 1));
    let kind = |guest: &mut Guest, of| guest.on(of, "get-type", &[]);
    assert_eq!(
        kind(&mut guest, a),
        Ok(Some(Value::Enum("regular-file".into())))
    );
    assert_eq!(
        kind(&mut guest, root),
        Ok(Some(Value::Enum("directory".into())))
    );
    assert_eq!(guest.on(also, "get-flags", &[]), Ok(Some(flags(&["read"]))));
    let all = flags(&["read", "mutate-directory"]);
    assert_eq!(guest.on(root, "get-flags", &[]), Ok(Some(all)));
}

/// `new-timestamp`
fn at(seconds: u64, nanoseconds: u32) -> Value {
    let time = Value::Record(vec![
        ("seconds".to_owned(), Value::U64(seconds)),
        ("nanoseconds".to_owned(), Value::U32(nanoseconds)),
    ]);
    Value::Variant("timestamp".to_owned(), Some(Box::new(time)))
}

#[test]
fn times_are_set() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("a"), "").expect("a file");
    std::os::unix::fs::symlink("a", place.path("link")).expect("a link");
    let a = guest.open(root, "a", &[], &["read"]).expect("it exists");
    let same = Value::Variant("no-change".to_owned(), None);
    let now = Value::Variant("now".to_owned(), None);
    let modified = |path: &str| {
        let found = std::fs::symlink_metadata(place.path(path)).expect("it exists");
        let since = found
            .modified()
            .expect("a time")
            .duration_since(std::time::UNIX_EPOCH);
        since.expect("after 1970").as_secs()
    };
    guest
        .on(a, "set-times", &[same.clone(), at(7, 999_999_999)])
        .expect("it is set");
    assert_eq!(modified("a"), 7);
    guest
        .on(root, "set-times", &[now.clone(), at(8, 0)])
        .expect("it is set");
    assert_eq!(modified(""), 8);
    for (follow, path, seconds) in [(true, "link", 9), (false, "link", 10), (true, "a", 11)] {
        let follow = flags(if follow { &["symlink-follow"] } else { &[] });
        let params = [follow, text(path), same.clone(), at(seconds, 0)];
        guest.on(root, "set-times-at", &params).expect("it is set");
    }
    assert_eq!([modified("a"), modified("link")], [11, 10]);
    for (time, code) in [
        (at(1, 1_000_000_000), "invalid"),
        (at(u64::MAX, 0), "overflow"),
    ] {
        let set = guest.on(a, "set-times", &[same.clone(), time.clone()]);
        assert_eq!(set, Err(code.to_owned()));
        let params = [flags(&[]), text("a"), same.clone(), time];
        assert_eq!(
            guest.on(root, "set-times-at", &params),
            Err(code.to_owned())
        );
    }
    assert_eq!(modified("a"), 11);
}

#[test]
fn rights_that_were_not_asked_for_are_missing() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("a"), "12345").expect("a file");
    let bad = || Err("bad-descriptor".to_owned());
    for rights in [&[][..], &["read"]] {
        let file = guest
            .open(root, "a", &["create"], rights)
            .expect("it exists");
        assert_eq!(
            guest.on(file, "write", &[bytes(b"x"), Value::U64(0)]),
            bad()
        );
        assert_eq!(guest.on(file, "set-size", &[Value::U64(0)]), bad());
        let made = guest.make(file, "write-via-stream", &[Value::U64(0)]);
        assert_eq!(made, Err("bad-descriptor".to_owned()));
        let made = guest.make(file, "append-via-stream", &[]);
        assert_eq!(made, Err("bad-descriptor".to_owned()));
    }
    let file = guest.open(root, "a", &[], &["write"]).expect("it exists");
    assert_eq!(read(&mut guest, file, 1, 0), Err("bad-descriptor".into()));
    assert_eq!(stream(&mut guest, file, 0), Err("bad-descriptor".into()));
    assert_eq!(read(&mut guest, root, 1, 0), Err("is-directory".into()));
    assert_eq!(stream(&mut guest, root, 0), Err("is-directory".into()));
    assert_eq!(std::fs::read(place.path("a")).expect("it exists"), b"12345");
}

#[test]
fn a_read_only_directory_does_not_change() {
    let place = Place::new();
    std::fs::create_dir(place.path("sub")).expect("a directory");
    std::fs::write(place.path("sub/a"), "12345").expect("a file");
    let builder = WasiBuilder::new().preopened_dir_read_only(place.dir(), "/ro");
    let (mut guest, root) = place.guest_with(builder.preopened_dir(place.dir(), "/rw"));
    let (other, name) = guest.directories().pop().expect("two");
    assert_eq!(name, "/rw");
    let sub = guest
        .open(root, "sub", &["directory"], &["read"])
        .expect("it exists");
    let refused = || Err::<Option<Value>, _>("read-only".to_owned());
    let same = Value::Variant("now".to_owned(), None);
    for (dir, path) in [(root, "sub/a"), (sub, "a")] {
        for (path, how) in [(path, "truncate"), ("new", "create")] {
            let opened = guest.open(dir, path, &[how], &["read"]);
            assert_eq!(opened.map(drop), Err("read-only".to_owned()));
        }
        // As on a file system that is mounted read-only: nothing is made.
        let opened = guest.open(dir, path, &["create"], &["read"]);
        assert_eq!(opened.map(drop), Ok(()));
        for right in ["write", "mutate-directory"] {
            let opened = guest.open(dir, path, &[], &[right]);
            assert_eq!(opened.map(drop), Err("read-only".to_owned()));
        }
        for name in [
            "create-directory-at",
            "remove-directory-at",
            "unlink-file-at",
        ] {
            assert_eq!(guest.on(dir, name, &[text(path)]), refused());
        }
        assert_eq!(
            guest.on(dir, "symlink-at", &[text("a"), text("new")]),
            refused()
        );
        let params = [flags(&[]), text(path), same.clone(), same.clone()];
        assert_eq!(guest.on(dir, "set-times-at", &params), refused());
        assert_eq!(
            guest.on(dir, "set-times", &[same.clone(), same.clone()]),
            refused()
        );
        for (from, to) in [(dir, other), (other, dir)] {
            let to = Value::Borrow(to);
            let rename = [text(path), to.clone(), text("new")];
            assert_eq!(guest.on(from, "rename-at", &rename), refused());
            let link = [flags(&[]), text(path), to, text("new")];
            assert_eq!(guest.on(from, "link-at", &link), refused());
        }
        let file = guest.open(dir, path, &[], &["read"]).expect("it exists");
        assert_eq!(
            guest.on(file, "set-times", &[same.clone(), same.clone()]),
            refused()
        );
        assert_eq!(guest.on(dir, "get-flags", &[]), Ok(Some(flags(&["read"]))));
        assert_eq!(stream(&mut guest, file, 1), Ok(b"2345".to_vec()));
    }
    assert_eq!(
        std::fs::read(place.path("sub/a")).expect("it exists"),
        b"12345"
    );
}
