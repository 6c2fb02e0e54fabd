//! What the functions of paths do, and that no path leads out of the directory.

use crate::filesystem::driver::{Answer, Guest, Place, flags, text};
use pirn_component::{Resource, Value};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn refused<R>(answer: Answer<R>, code: &str) {
    assert_eq!(answer.map(drop), Err(code.to_owned()));
}

/// Calls each function with a path, and returns the error codes.
pub(crate) fn all(
    guest: &mut Guest,
    root: Resource,
    path: &str,
) -> Vec<(&'static str, Answer<()>)> {
    let [no, yes] = [flags(&[]), flags(&["symlink-follow"])];
    let now = Value::Variant("now".to_owned(), None);
    let path = text(path);
    let to = Value::Borrow(root);
    let mut codes = vec![];
    let mut call = |name: &'static str, params: &[Value]| {
        codes.push((name, guest.on(root, name, params).map(drop)));
    };
    for follow in [no.clone(), yes] {
        call("stat-at", &[follow.clone(), path.clone()]);
        call("metadata-hash-at", &[follow.clone(), path.clone()]);
        call(
            "set-times-at",
            &[follow.clone(), path.clone(), now.clone(), now.clone()],
        );
        for how in [
            &[][..],
            &["create"],
            &["create", "exclusive"],
            &["truncate"],
            &["directory"],
        ] {
            for rights in [&[][..], &["read"], &["read", "write"]] {
                let params = [follow.clone(), path.clone(), flags(how), flags(rights)];
                call("open-at", &params);
            }
        }
    }
    call("readlink-at", std::slice::from_ref(&path));
    call(
        "link-at",
        &[no.clone(), path.clone(), to.clone(), text("new")],
    );
    call("link-at", &[no, text("file"), to.clone(), path.clone()]);
    call("rename-at", &[path.clone(), to.clone(), text("new")]);
    call("rename-at", &[text("file"), to, path.clone()]);
    call("symlink-at", &[text("file"), path.clone()]);
    for name in [
        "create-directory-at",
        "unlink-file-at",
        "remove-directory-at",
    ] {
        call(name, std::slice::from_ref(&path));
    }
    codes
}

/// Checks that the host's files beside the directory are as they were.
fn check_outside(place: &Place) {
    let mut names: Vec<_> = std::fs::read_dir(place.host.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["in", "out"]);
    let out = std::fs::read(place.host.path().join("out"));
    assert_eq!(out.expect("a file"), b"secret");
}

#[test]
fn no_path_leads_outside() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("file"), "").expect("a file");
    std::fs::create_dir(place.path("sub")).expect("a directory");
    let host = place.host.path().to_str().expect("UTF-8").to_owned();
    symlink("../out", place.path("up")).expect("a link");
    symlink("..", place.path("parent")).expect("a link");
    symlink(&host, place.path("absolute")).expect("a link");
    symlink("sub/../../out", place.path("through")).expect("a link");
    for path in [
        "../out",
        "../new-file",
        "sub/../../out",
        "./../out",
        "parent/out",
        "parent/new-file",
        "absolute/out",
        "absolute/new-file",
        &format!("{host}/out"),
        &format!("{host}/in/file"),
        "/",
        "/file",
        "..",
        "../in/file",
        "sub/../../in/file",
    ] {
        for (name, answer) in all(&mut guest, root, path) {
            assert!(answer.is_err(), "{name} {path:?}");
            if name == "stat-at" {
                refused(answer, "not-permitted");
            }
        }
        check_outside(&place);
    }
    // The links themselves are in the directory; what they name is not.
    for path in ["up", "through", "parent", "absolute"] {
        for rights in [&["read"][..], &["read", "write"]] {
            for how in [&[][..], &["create"], &["truncate"]] {
                refused(guest.open(root, path, how, rights), "not-permitted");
            }
        }
        refused(
            guest.on(root, "stat-at", &[flags(&["symlink-follow"]), text(path)]),
            "not-permitted",
        );
        let now = Value::Variant("now".to_owned(), None);
        let set = [flags(&["symlink-follow"]), text(path), now.clone(), now];
        refused(guest.on(root, "set-times-at", &set), "not-permitted");
    }
    refused(
        guest.on(root, "readlink-at", &[text("absolute")]),
        "not-permitted",
    );
    refused(
        guest.on(root, "symlink-at", &[text("/etc"), text("new")]),
        "not-permitted",
    );
    // A guest may make links that lead outside, but cannot use them.
    let made = guest.on(root, "symlink-at", &[text("../../out"), text("sub/made")]);
    assert_eq!(made, Ok(None));
    refused(
        guest.open(root, "sub/made", &[], &["read"]),
        "not-permitted",
    );
    let sub = guest
        .open(root, "sub", &["directory"], &["read"])
        .expect("it exists");
    refused(guest.open(sub, "../file", &[], &["read"]), "not-permitted");
    check_outside(&place);
}

#[test]
fn strange_paths_have_errors() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("file"), "").expect("a file");
    symlink("loop", place.path("loop")).expect("a link");
    let long = "a/".repeat(2047) + "ab";
    let longer = "x".repeat(1 << 20);
    let part = "y".repeat(300);
    for path in [
        "", "a\0b", "file\0", "file/", "file/.", "file/x", &long, &longer, &part,
    ] {
        for (name, answer) in all(&mut guest, root, path) {
            let shown = &path[..path.len().min(20)];
            assert!(answer.is_err(), "{name} {shown:?}");
            if path.len() > 4095 {
                refused(answer, "name-too-long");
            }
        }
    }
    refused(guest.open(root, "loop", &[], &["read"]), "loop");
    refused(guest.open(root, "loop/x", &[], &["read"]), "loop");
    for n in 0..45 {
        let (to, of) = (format!("link{}", n + 1), format!("link{n}"));
        symlink(to, place.path(&of)).expect("a link");
    }
    refused(guest.open(root, "link0", &[], &["read"]), "loop");
    let answer = guest.on(root, "symlink-at", &[text(&longer), text("new")]);
    refused(answer, "name-too-long");
}

#[test]
fn entries_are_made_renamed_and_removed() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let mut ok = |name: &str, params: &[Value]| assert_eq!(guest.on(root, name, params), Ok(None));
    let to = Value::Borrow(root);
    ok("create-directory-at", &[text("a")]);
    ok("create-directory-at", &[text("a/b/")]);
    std::fs::write(place.path("a/file"), "1").expect("a file");
    ok(
        "link-at",
        &[flags(&[]), text("a/file"), to.clone(), text("same")],
    );
    ok("symlink-at", &[text("a/file"), text("link")]);
    ok("rename-at", &[text("same"), to.clone(), text("a/other")]);
    ok("rename-at", &[text("a/b"), to.clone(), text("b")]);
    ok("remove-directory-at", &[text("b/")]);
    ok("unlink-file-at", &[text("a/other")]);
    let target = guest.on(root, "readlink-at", &[text("link")]);
    assert_eq!(target, Ok(Some(text("a/file"))));
    let no = || flags(&[]);
    for (name, params, code) in [
        ("create-directory-at", vec![text("a")], "exist"),
        ("create-directory-at", vec![text("none/a")], "no-entry"),
        ("remove-directory-at", vec![text("a")], "not-empty"),
        ("remove-directory-at", vec![text("a/file")], "not-directory"),
        ("unlink-file-at", vec![text("a")], "is-directory"),
        ("unlink-file-at", vec![text("none")], "no-entry"),
        ("readlink-at", vec![text("a/file")], "invalid"),
        ("symlink-at", vec![text("x"), text("link")], "exist"),
        (
            "link-at",
            vec![no(), text("a"), to.clone(), text("new")],
            "not-permitted",
        ),
        (
            "link-at",
            vec![no(), text("none"), to.clone(), text("new")],
            "no-entry",
        ),
        (
            "link-at",
            vec![no(), text("a/file"), to.clone(), text("link")],
            "exist",
        ),
        (
            "link-at",
            vec![
                flags(&["symlink-follow"]),
                text("link"),
                to.clone(),
                text("new"),
            ],
            "invalid",
        ),
        (
            "rename-at",
            vec![text("none"), to.clone(), text("new")],
            "no-entry",
        ),
        (
            "rename-at",
            vec![text("a"), to.clone(), text("a/b")],
            "invalid",
        ),
    ] {
        refused(guest.on(root, name, &params), code);
    }
    ok_unlink(&mut guest, root, "link");
    assert!(place.path("a/file").exists());
}

fn ok_unlink(guest: &mut Guest, root: Resource, path: &str) {
    assert_eq!(guest.on(root, "unlink-file-at", &[text(path)]), Ok(None));
}

#[test]
fn files_are_opened_as_asked() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::write(place.path("a"), "12345").expect("a file");
    symlink("a", place.path("link")).expect("a link");
    symlink("dangling-target", place.path("dangling")).expect("a link");
    let write = &["read", "write"];
    refused(
        guest.open(root, "a", &["create", "exclusive"], write),
        "exist",
    );
    refused(
        guest.open(root, "dangling", &["create", "exclusive"], write),
        "exist",
    );
    refused(guest.open(root, "none", &[], write), "no-entry");
    refused(
        guest.open(root, "a", &["directory"], &["read"]),
        "not-directory",
    );
    refused(guest.open(root, ".", &[], write), "is-directory");
    refused(
        guest.open(root, ".", &["create"], &["read"]),
        "is-directory",
    );
    refused(
        guest.open(root, "new", &["directory", "create"], &["read"]),
        "invalid",
    );
    refused(guest.open(root, "new/", &["create"], write), "is-directory");
    let params = [flags(&[]), text("link"), flags(&[]), flags(&["read"])];
    refused(guest.make(root, "open-at", &params), "loop");
    assert_eq!(std::fs::read(place.path("a")).expect("a file"), b"12345");
    guest
        .open(root, "link", &["truncate"], write)
        .expect("it exists");
    assert_eq!(std::fs::read(place.path("a")).expect("a file"), b"");
    guest
        .open(root, "dangling", &["create"], write)
        .expect("it is made");
    assert!(place.path("dangling-target").exists());
    for sync in [
        "file-integrity-sync",
        "data-integrity-sync",
        "requested-write-sync",
    ] {
        let file = guest
            .open(root, "a", &[], &["write", sync])
            .expect("it exists");
        let found = guest.on(file, "get-flags", &[]);
        assert_eq!(found, Ok(Some(flags(&["write", sync]))));
    }
}

#[test]
fn special_files_are_not_opened() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let made = Command::new("mkfifo").arg(place.path("fifo")).status();
    assert!(made.expect("mkfifo runs").success());
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).expect("a socket");
    symlink("fifo", place.path("link")).expect("a link");
    for path in ["fifo", "socket", "link"] {
        for rights in [&["read"][..], &["write"], &["read", "write"]] {
            for how in [&[][..], &["create"], &["truncate"]] {
                refused(guest.open(root, path, how, rights), "unsupported");
            }
        }
    }
    let now = Value::Variant("now".to_owned(), None);
    for (follow, path, answer) in [
        (&[][..], "fifo", Ok(None)),
        (&["symlink-follow"], "fifo", Ok(None)),
        (&["symlink-follow"], "link", Ok(None)),
        (&["symlink-follow"], "socket", Err("unsupported".to_owned())),
    ] {
        let params = [flags(follow), text(path), now.clone(), now.clone()];
        assert_eq!(guest.on(root, "set-times-at", &params), answer);
    }
}

#[test]
fn renames_of_another_process_open_no_way_out() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    std::fs::create_dir_all(place.path("a/b")).expect("a directory");
    std::fs::create_dir(place.host.path().join("in/real")).expect("a directory");
    std::fs::write(place.path("real/out"), "inside").expect("a file");
    let (of, to) = (place.path("swap"), place.path("other"));
    symlink("real", &of).expect("a link");
    symlink("..", &to).expect("a link");
    let is_done = AtomicBool::new(false);
    /// Ends the other thread if this one panics, because a scope waits for its threads.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let ends_other = Ends(&is_done);
        scope.spawn(|| {
            let third = place.path("third");
            while !is_done.load(Ordering::Relaxed) {
                for (a, b) in [(&of, &third), (&to, &of), (&third, &to)] {
                    let _ = std::fs::rename(a, b);
                }
                // Leaves each link in place for several opens.
                std::thread::sleep(Duration::from_micros(10));
            }
        });
        // Until paths of both kinds were opened.
        let mut opens = [0; 2];
        while opens[0] + opens[1] < 2000 || opens.contains(&0) {
            let opened = guest.open(root, "swap/out", &[], &["read"]);
            opens[usize::from(opened.is_ok())] += 1;
            let Ok(file) = opened else {
                continue;
            };
            let read = guest.on(file, "read", &[Value::U64(9), Value::U64(0)]);
            let read = format!("{read:?}");
            assert!(
                read.starts_with("Ok(Some(Tuple([List([U8(105), U8(110)"),
                "{read}"
            );
            guest.drop(file).expect("it has no children");
        }
        drop(ends_other);
    });
}
