//! Standard streams that `aotrun` inherits: terminals, pipes, files, /dev/null, and closed ones.

use crate::common::{aotrun, stderr, stdout};
use pirn_testing::process::alone;
use pirn_testing::retry::with_longer_limits;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// `polled FD TAG` prints one number. If the call fails, it is 1,000 times the errno. Otherwise it
/// is a sum: 100 times the event's errno, 10 times its bytes (at most 9), 5 if the peer hung up,
/// and 1 if a clock fired first.
///
/// `copies` copies input to output, ten bytes at a time. `kind` prints the file type. `unwaiting`
/// prints the errno of a non-blocking read, and `seeks` that of a request for the position.
const GUEST: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $stat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $flags (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $seek (param i32 i64 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "polled") (param $fd i32) (param $tag i32) (result i32) (local $errno i32)
    (i32.store8 (i32.const 104) (local.get $tag)) (i32.store (i32.const 112) (local.get $fd))
    ;; The monotonic clock, in 100 ms. It fires alone if the descriptor is not ready, and after the
    ;; event of a descriptor that is.
    (i64.store (i32.const 144) (i64.const 1))
    (i32.store (i32.const 160) (i32.const 1)) (i64.store (i32.const 168) (i64.const 100000000))
    (if (local.tee $errno (call $poll (i32.const 96) (i32.const 200) (i32.const 2) (i32.const 8)))
      (then (return (i32.mul (local.get $errno) (i32.const 1000)))))
    (if (i64.ne (i64.load (i32.const 200)) (i64.const 0)) (then (return (i32.const 1))))
    (i32.add
      (i32.mul (i32.load16_u (i32.const 208)) (i32.const 100))
      (i32.add
        (i32.mul (i32.load16_u (i32.const 224)) (i32.const 5))
        (i32.mul (i32.const 10)
          (select (i32.const 9) (i32.load (i32.const 216)) (i32.gt_u (i32.load (i32.const 216)) (i32.const 9)))))))
  (func (export "copies") (result i32) (local $errno i32)
    (loop $more
      (i32.store (i32.const 16) (i32.const 1000)) (i32.store (i32.const 20) (i32.const 10))
      (if (local.tee $errno (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8)))
        (then (return (local.get $errno))))
      (if (i32.eqz (i32.load (i32.const 8))) (then (return (i32.const 0))))
      (i32.store (i32.const 20) (i32.load (i32.const 8)))
      (if (local.tee $errno (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8)))
        (then (return (local.get $errno))))
      (br $more))
    unreachable)
  (func (export "kind") (param $fd i32) (result i32)
    (drop (call $stat (local.get $fd) (i32.const 64))) (i32.load8_u (i32.const 64)))
  (func (export "unwaiting") (result i32)
    (if (call $flags (i32.const 0) (i32.const 4)) (then (unreachable)))
    (i32.store (i32.const 16) (i32.const 1000)) (i32.store (i32.const 20) (i32.const 10))
    (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8)))
  (func (export "seeks") (param $fd i32) (result i32)
    (call $seek (local.get $fd) (i64.const 0) (i32.const 1) (i32.const 64)))
  (func (export "fills") (result i32)
    (i32.store (i32.const 16) (i32.const 1000)) (i32.store (i32.const 20) (i32.const 100000))
    (loop $more
      (br_if $more (i32.eqz (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8)))))
    (i32.const 7)))"#;

fn guest(folder: &TempDir, arguments: &[&str]) -> Command {
    guest_for("60m", folder, arguments)
}

fn guest_for(deadline: &str, folder: &TempDir, arguments: &[&str]) -> Command {
    let path = folder.path().join("guest.wat");
    fs::write(&path, GUEST).expect("room for a module");
    let mut command = aotrun();
    command.arg("--deadline").arg(deadline).arg("--invoke");
    command.arg(arguments[0]).arg(path).args(&arguments[1..]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The guest's output about its standard input.
fn polled(folder: &TempDir, input: impl Into<Stdio>) -> String {
    let output = guest(folder, &["polled", "0", "1"]).stdin(input).output();
    said(&output.expect("it runs"))
}

fn said(output: &Output) -> String {
    assert_eq!(stderr(output), "");
    stdout(output).trim().to_owned()
}

/// A pseudo-terminal: the user's side and the program's side.
fn terminal() -> (File, File) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("it is ours");
    unlockpt(&controller).expect("it is ours");
    let name = ptsname(&controller, vec![]).expect("it has a name");
    let name = OsStr::from_bytes(name.as_bytes());
    let program = OpenOptions::new().read(true).write(true).open(name);
    (File::from(controller), program.expect("it is there"))
}

/// Alone in its process, as the test of outputs, because it closes the last writer of a pipe.
#[test]
fn standard_input_of_every_kind_is_polled() {
    alone(inputs_are_polled);
}

fn inputs_are_polled() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(polled(&folder, Stdio::null()), "0");
    let path = folder.path().join("input");
    fs::write(&path, "12345").unwrap();
    assert_eq!(polled(&folder, File::open(&path).unwrap()), "50");
    fs::write(&path, "").unwrap();
    assert_eq!(polled(&folder, File::open(&path).unwrap()), "0");
    let (reader, mut writer) = io::pipe().unwrap();
    assert_eq!(polled(&folder, reader.try_clone().unwrap()), "1");
    writer.write_all(b"123").unwrap();
    assert_eq!(polled(&folder, reader.try_clone().unwrap()), "30");
    drop(writer);
    // The peer has hung up, but its bytes are still readable.
    assert_eq!(polled(&folder, reader), "35");
    let (mut person, program) = terminal();
    assert_eq!(polled(&folder, program.try_clone().unwrap()), "1");
    person.write_all(b"yes\n").unwrap();
    assert_eq!(polled(&folder, program), "40");
}

#[test]
fn a_closed_standard_input_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [(&["polled", "0", "1"][..], "0"), (&["copies"], "0")] {
        let run = guest(&folder, arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" <&-", "sh"]);
        shell.arg(run.get_program()).args(run.get_args());
        let output = shell.output().expect("a shell");
        assert_eq!(said(&output), expected);
    }
}

/// Alone in its process: a child that another test starts has all descriptors until its execve(2),
/// so that the pipe would have a reader for longer.
#[test]
fn standard_output_of_every_kind_is_polled() {
    alone(outputs_are_polled);
}

fn outputs_are_polled() {
    let folder = tempfile::tempdir().unwrap();
    let run = |output: Stdio, reads: Option<&str>| {
        // The result goes to standard output, because standard error is the tested stream.
        let mut command = guest(&folder, &["polled", "2", "2"]);
        command.stdin(Stdio::null()).stderr(output);
        let child = command.spawn().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(stdout(&output).trim(), reads.unwrap_or("0"));
    };
    run(Stdio::null(), None);
    run(
        File::create(folder.path().join("output")).unwrap().into(),
        None,
    );
    let (reader, writer) = io::pipe().unwrap();
    run(writer.try_clone().unwrap().into(), None);
    // The reader is closed: `pipe`.
    drop(reader);
    run(writer.into(), Some("6400"));
    let (_person, program) = terminal();
    run(program.into(), None);
}

#[test]
fn input_of_every_kind_is_copied_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = "a line that is longer than what is read at once\nand another\n";
    let path = folder.path().join("input");
    fs::write(&path, text).unwrap();
    let copied = |input: Stdio| {
        let output = guest(&folder, &["copies"]).stdin(input).output().unwrap();
        said(&output)
    };
    let expected = format!("{text}0");
    assert_eq!(copied(File::open(&path).unwrap().into()), expected);
    assert_eq!(copied(Stdio::null()), "0");
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    assert_eq!(copied(reader.into()), expected);
}

#[test]
fn a_deadline_ends_endless_reads_polls_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    // The deadline must pass in the guest, whose function the message then names.
    let late = |limit: Duration, arguments: &[&str], input: Stdio, output: Stdio| {
        let deadline = format!("{}ms", limit.as_millis());
        let mut command = guest_for(&deadline, &folder, arguments);
        command.stdin(input).stdout(output);
        let output = command.stderr(Stdio::piped()).output().expect("it runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{said}");
        let late = format!("guest ran past its deadline of {limit:?}");
        assert!(said.contains(&late), "{said}");
        said.contains(&format!("{late} in ")).then_some(())
    };
    let (reader, _writer) = io::pipe().unwrap();
    let (_person, program) = terminal();
    with_longer_limits(Duration::from_millis(50), |limit| {
        let reader = reader.try_clone().unwrap();
        late(limit, &["copies"], reader.into(), Stdio::null())
    });
    with_longer_limits(Duration::from_millis(50), |limit| {
        let program = program.try_clone().unwrap();
        late(limit, &["copies"], program.into(), Stdio::null())
    });
    // The deadline must pass after the pipe is full.
    with_longer_limits(Duration::from_millis(50), |limit| {
        let (mut full, writer) = io::pipe().unwrap();
        let ended = late(limit, &["fills"], Stdio::null(), writer.into());
        let mut all = vec![];
        full.read_to_end(&mut all).unwrap();
        ended.filter(|()| all.len() == 65_536)
    });
}

#[test]
fn inherited_streams_allow_only_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, "12345").unwrap();
    let told = |arguments: &[&str], input: Stdio| {
        let output = guest(&folder, arguments).stdin(input).output().unwrap();
        said(&output)
    };
    let (_person, program) = terminal();
    let (reader, _writer) = io::pipe().unwrap();
    // Only a terminal is reported as a character device (2).
    let kind = ["kind", "0"];
    assert_eq!(told(&kind, program.into()), "2");
    assert_eq!(told(&kind, Stdio::null()), "0");
    assert_eq!(told(&kind, reader.try_clone().unwrap().into()), "0");
    assert_eq!(told(&kind, File::open(&path).unwrap().into()), "0");
    // No stream has a position (`spipe`), not even a file.
    assert_eq!(
        told(&["seeks", "0"], File::open(&path).unwrap().into()),
        "70"
    );
    assert_eq!(told(&["seeks", "1"], Stdio::null()), "70");
    // The read returns `again`, and the shared pipe itself stays blocking.
    assert_eq!(
        told(&["unwaiting"], reader.try_clone().unwrap().into()),
        "6"
    );
    let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
}
