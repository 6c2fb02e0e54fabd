//! Descriptors, bytes on disk, and resources at their limits and past them.

use crate::filesystem::driver::{Guest, Place, bytes, flags, text, to_bytes};
use pirn_component::{Resource, Value};
use pirn_wasi2::WasiBuilder;

/// Number of open descriptors but those of `/proc`, which other threads of the process open now and
/// then.
fn host_descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("procfs");
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| !link.starts_with("/proc")).count()
}

#[test]
fn descriptors_are_bounded() {
    let place = Place::new();
    let builder = WasiBuilder::new().preopened_dir(place.dir(), "/");
    let (mut guest, root) = place.guest_with(builder.descriptors_max(3));
    let full = || Err::<Resource, _>("insufficient-memory".to_owned());
    let open = |guest: &mut Guest| guest.open(root, "a", &["create"], &["read", "write"]);
    let first = open(&mut guest).expect("it fits");
    let input = guest
        .make(first, "read-via-stream", &[Value::U64(0)])
        .expect("a stream");
    let entries = guest.make(root, "read-directory", &[]).expect("it fits");
    let third = guest
        .open(root, ".", &["directory"], &["read"])
        .expect("it fits");
    assert_eq!(open(&mut guest), full());
    assert_eq!(guest.make(root, "read-directory", &[]), full());
    assert_eq!(guest.open(root, "new", &["create"], &["write"]), full());
    assert!(!place.path("new").exists());
    // The stream still has the file.
    guest.drop(first).expect("streams are no children");
    assert_eq!(open(&mut guest), full());
    guest.drop(input).expect("a stream");
    let again = open(&mut guest).expect("it fits");
    assert_eq!(open(&mut guest), full());
    for one in [entries, third, again, root] {
        guest.drop(one).expect("it has no children");
    }
    // Directories that the guest is given do not count, and come back.
    let (root, _) = guest.directories()[0];
    for _ in 0..3 {
        guest.open(root, ".", &[], &["read"]).expect("it fits");
    }
}

#[test]
fn failed_opens_hold_no_descriptor() {
    let place = Place::new();
    let builder = WasiBuilder::new().preopened_dir(place.dir(), "/");
    let (mut guest, root) = place.guest_with(builder.descriptors_max(1));
    for _ in 0..10 {
        for (path, how) in [("none", "directory"), ("..", "create"), (".", "truncate")] {
            guest
                .open(root, path, &[how], &["read"])
                .expect_err("it cannot be opened");
        }
    }
    guest
        .open(root, "a", &["create"], &["write"])
        .expect("it fits");
}

#[test]
fn written_bytes_are_bounded() {
    let place = Place::new();
    let builder = WasiBuilder::new().preopened_dir(place.dir(), "/");
    let (mut guest, root) = place.guest_with(builder.disk_bytes_max(2 * 4096 + 10));
    let quota = || Err("quota".to_owned());
    let file = guest
        .open(root, "a", &["create"], &["read", "write"])
        .expect("it fits");
    // A name that exists already costs nothing, and neither does a failure.
    guest
        .open(root, "a", &["create"], &["read"])
        .expect("it exists");
    assert_eq!(
        guest.on(root, "create-directory-at", &[text("a")]),
        Err("exist".to_owned())
    );
    guest
        .open(root, "none/a", &["create"], &["write"])
        .expect_err("no directory");
    let mut at = |text: &str| guest.on(file, "write", &[bytes(text.as_bytes()), Value::U64(0)]);
    assert_eq!(at("1234"), Ok(Some(Value::U64(4))));
    assert_eq!(at("1234"), Ok(Some(Value::U64(4))));
    assert_eq!(
        guest.on(root, "create-directory-at", &[text("d")]),
        Ok(None)
    );
    for (name, params) in [
        ("create-directory-at", vec![text("e")]),
        ("symlink-at", vec![text("a"), text("e")]),
        (
            "link-at",
            vec![flags(&[]), text("a"), Value::Borrow(root), text("e")],
        ),
    ] {
        assert_eq!(guest.on(root, name, &params), quota(), "{name}");
    }
    let opened = guest.open(root, "e", &["create"], &["write"]);
    assert_eq!(opened.map(drop), Err("quota".to_owned()));
    assert!(!place.path("e").exists());
    assert_eq!(guest.on(file, "set-size", &[Value::U64(7)]), quota());
    assert_eq!(guest.on(file, "set-size", &[Value::U64(5)]), Ok(None));
    // One byte is left.
    let output = guest
        .make(file, "append-via-stream", &[])
        .expect("a stream");
    guest
        .on(output, "output-check-write", &[])
        .expect("it is open");
    let written = guest.on(output, "output-write", &[bytes(b"xy")]);
    assert!(written.is_err_and(|error| error.contains("last-operation-failed")));
    assert_eq!(
        std::fs::read(place.path("a")).expect("it exists"),
        b"1234\0x"
    );
    let written = guest.on(file, "write", &[bytes(b"x"), Value::U64(0)]);
    assert_eq!(written, quota());
    let written = guest.on(file, "write", &[bytes(b""), Value::U64(0)]);
    assert_eq!(written, Ok(Some(Value::U64(0))));
    // Removing gives nothing back.
    assert_eq!(guest.on(root, "unlink-file-at", &[text("a")]), Ok(None));
    assert_eq!(guest.on(root, "create-directory-at", &[text("e")]), quota());
}

#[test]
fn one_call_moves_a_bounded_number_of_bytes() {
    let place = Place::new();
    let (mut guest, root) = place.guest();
    let file = guest
        .open(root, "a", &["create"], &["read", "write"])
        .expect("it is made");
    let many = bytes(&vec![1; (1 << 20) + 1]);
    let written = guest.on(file, "write", &[many, Value::U64(0)]);
    assert_eq!(written, Ok(Some(Value::U64(1 << 20))));
    let read = guest.on(file, "read", &[Value::U64(u64::MAX), Value::U64(0)]);
    let Ok(Some(Value::Tuple(parts))) = read else {
        panic!("{read:?} is no tuple")
    };
    assert_eq!(to_bytes(&parts[0]).len(), 64 << 10);
}

#[test]
fn resources_are_bounded_and_end_with_the_guest() {
    pirn_testing::process::alone(resources);
}

fn resources() {
    let place = Place::new();
    // The first guest makes what the process keeps.
    drop(place.guest());
    let before = host_descriptors();
    let (mut guest, root) = place.guest();
    for _ in 0..60 {
        guest.open(root, ".", &[], &["read"]).expect("it fits");
    }
    let file = guest
        .open(root, "a", &["create"], &["read"])
        .expect("it fits");
    for _ in 0..10_000 {
        let params = [Value::Borrow(file), Value::U64(0)];
        if let Err(error) = guest.call("read-via-stream", &params) {
            assert!(error.to_string().contains("4096 resources"), "{error}");
            drop(guest);
            assert_eq!(host_descriptors(), before);
            return;
        }
    }
    panic!("a guest has 10,000 streams");
}
