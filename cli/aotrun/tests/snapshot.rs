//! `aotrun --snapshot`: what it writes, and what it refuses.

use crate::common;

use common::{aotrun, run, stderr, stdout};
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

/// A folder with a guest in the text format. Every run of `aotrun` works in it.
struct Case(TempDir);

impl Case {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("guest.wat"), text).expect("room for a module");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        run(aotrun().current_dir(self.0.path()).args(args), "")
    }

    /// Runs `aotrun`, which must succeed. Returns what it printed.
    fn prints(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{args:?}");
        stdout(&output)
    }

    /// `--snapshot` must fail with one line that has these parts, and write nothing.
    fn refused(&self, args: &[&str], code: i32, parts: &[&str]) {
        let all = [&["--snapshot", "out.so"], args].concat();
        let output = self.run(&all);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("aotrun: "), "{said}");
        // Only a trap has more lines: its backtrace.
        assert!(code == 134 || said.lines().count() == 1, "{said}");
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
        assert!(!self.path("out.so").exists());
        let left = fs::read_dir(self.0.path()).expect("a folder");
        let is_temporary = |name: &str| name.starts_with(".aotc-");
        let names = left.map(|entry| entry.expect("an entry").file_name());
        assert!(
            names
                .into_iter()
                .all(|name| !is_temporary(&name.to_string_lossy()))
        );
    }
}

/// Counts its initialisations and its starts, and says both.
const COUNTS: &str = r#"(module
  (memory (export "memory") 1)
  (global $inits (mut i32) (i32.const 0))
  (global $starts (mut i32) (i32.const 0))
  (global $restored (mut i32) (i32.const 0))
  (table $t 1 10 funcref) (elem declare func $begin)
  (start $begin)
  (func $begin (global.set $starts (i32.add (global.get $starts) (i32.const 1))))
  (func (export "_initialize")
    (global.set $inits (i32.add (global.get $inits) (i32.const 1)))
    (drop (table.grow $t (ref.func $begin) (i32.const 1))))
  (func (export "wizer-initialize")
    ;; _initialize ran before.
    (if (i32.ne (global.get $inits) (i32.const 1)) (then unreachable))
    (global.set $inits (i32.const 10)))
  (func (export "other")
    (global.set $inits (i32.add (global.get $inits) (i32.const 100))))
  (func (export "after_restore")
    (global.set $restored (i32.add (global.get $restored) (i32.const 1))))
  (func (export "answer") (result i32 i32 i32 i32)
    (global.get $inits) (global.get $starts) (global.get $restored) (table.size $t)))"#;

#[test]
fn a_snapshot_starts_where_the_initialisation_ended() {
    let case = Case::new(COUNTS);
    assert_eq!(case.prints(&["--snapshot", "warm.so", "guest.wat"]), "");
    for _ in 0..2 {
        let told = case.prints(&["--invoke", "answer", "warm.so"]);
        assert_eq!(told, "10\n1\n1\n2\n");
    }
    // Both exports are gone, and a second snapshot needs another one.
    let output = case.run(&["--invoke", "wizer-initialize", "warm.so"]);
    let said = stderr(&output);
    assert!(
        said.contains("it has other, after_restore, answer;"),
        "{said}"
    );
    let output = case.run(&["--snapshot", "again.so", "warm.so"]);
    let said = stderr(&output);
    assert!(
        said.contains("neither wizer-initialize nor _initialize"),
        "{said}"
    );
    assert_eq!(
        case.prints(&["--snapshot", "again.so", "--init", "other", "warm.so"]),
        ""
    );
    assert_eq!(
        case.prints(&["--invoke", "answer", "again.so"]),
        "110\n1\n1\n2\n"
    );
    // A snapshot can replace the file that it is made of only under another name.
    let output = case.run(&[
        "--snapshot",
        "again.so",
        "--init",
        "after_restore",
        "again.so",
    ]);
    assert!(
        stderr(&output).contains("it is the input"),
        "{}",
        stderr(&output)
    );
}

/// Stores all that it can learn in its memory.
const CURIOUS: &str = r#"(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize")
    (drop (call $random (i32.const 0) (i32.const 64)))
    (drop (call $time (i32.const 0) (i64.const 0) (i32.const 64)))
    (drop (call $time (i32.const 1) (i64.const 0) (i32.const 72)))
    ;; Sleeps for an hour by the monotonic clock (1), and for two hours until a time (0, absolute).
    (i32.store (i32.const 1016) (i32.const 1))
    (i64.store (i32.const 1024) (i64.const 3600000000000))
    (drop (call $poll (i32.const 1000) (i32.const 2000) (i32.const 1) (i32.const 80)))
    (drop (call $time (i32.const 1) (i64.const 0) (i32.const 88)))
    (i32.store (i32.const 1016) (i32.const 0))
    (i64.store (i32.const 1024) (i64.const 10800000000000))
    (i32.store16 (i32.const 1040) (i32.const 1))
    (drop (call $poll (i32.const 1000) (i32.const 2000) (i32.const 1) (i32.const 80)))
    (drop (call $time (i32.const 0) (i64.const 0) (i32.const 96)))
    (drop (call $environ (i32.const 3000) (i32.const 3100)))
    (drop (call $args (i32.const 4000) (i32.const 4100))))
  (func (export "events") (result i32) (i32.load (i32.const 80)))
  (func (export "start hours") (result i64)
    (i64.div_u (i64.load (i32.const 64)) (i64.const 3600000000000)))
  (func (export "hours") (result i64 i64)
    (i64.div_u (i64.load (i32.const 88)) (i64.const 3600000000000))
    (i64.div_u (i64.load (i32.const 96)) (i64.const 3600000000000)))
  (func (export "variable") (result i32) (i32.load (i32.const 3100)))
  (func (export "argument") (result i32) (i32.load (i32.const 4110)))
  (func (export "random") (result i64)
    (i64.xor (i64.load (i32.const 0)) (i64.load (i32.const 8)))))"#;

#[test]
fn the_same_program_and_environment_give_the_same_file() {
    let case = Case::new(CURIOUS);
    let options = ["--env", "A=bc", "guest.wat", "--", "-word"];
    for name in ["one.so", "two.so"] {
        case.prints(&[&["--snapshot", name], &options[..]].concat());
    }
    let [one, two] = ["one.so", "two.so"].map(|name| fs::read(case.path(name)).expect("a file"));
    assert!(one == two);
    let ask = |name: &str| case.prints(&["--invoke", name, "one.so"]);
    assert_eq!(ask("events"), "1\n");
    assert_eq!(ask("start hours"), "0\n");
    // The waits took no time, but the guest's clocks went on.
    assert_eq!(ask("hours"), "1\n3\n");
    assert_eq!(
        ask("variable"),
        format!("{}\n", i32::from_le_bytes(*b"A=bc"))
    );
    assert_eq!(
        ask("argument"),
        format!("{}\n", i32::from_le_bytes(*b"-wor"))
    );
    assert_ne!(ask("random"), "0\n");
    // Another environment gives another file.
    case.prints(&[
        "--snapshot",
        "two.so",
        "--env",
        "A=bd",
        "guest.wat",
        "--",
        "-word",
    ]);
    assert!(one != fs::read(case.path("two.so")).expect("a file"));
}

const FILES: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get"
    (func $stat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $path_stat (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_renumber"
    (func $renumber (param i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 100) "note.txt")
  (func $opened (result i32)
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 8) (i32.const 0)
          (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 200)) (then unreachable))
    (i32.load (i32.const 200)))
  (func (export "reads") (local $fd i32)
    (local.set $fd (call $opened))
    (i32.store (i32.const 300) (i32.const 400))
    (i32.store (i32.const 304) (i32.const 4))
    (drop (call $read (local.get $fd) (i32.const 300) (i32.const 1) (i32.const 308)))
    (drop (call $close (local.get $fd))))
  (func (export "asks for times") (local $fd i32)
    (local.set $fd (call $opened))
    (i32.store (i32.const 300) (i32.const 400))
    (i32.store (i32.const 304) (i32.const 4))
    (drop (call $read (local.get $fd) (i32.const 300) (i32.const 1) (i32.const 308)))
    (if (call $stat (local.get $fd) (i32.const 512)) (then unreachable))
    (drop (call $close (local.get $fd)))
    (if (call $path_stat (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 8)
          (i32.const 576)) (then unreachable)))
  (func (export "times") (result i64)
    (i64.or (i64.or (i64.load (i32.const 552)) (i64.load (i32.const 560)))
      (i64.or (i64.load (i32.const 616)) (i64.load (i32.const 624)))))
  (func (export "leaves open") (drop (call $opened)))
  (func (export "closes") (drop (call $close (i32.const 3))))
  (func (export "closes output") (drop (call $close (i32.const 1))))
  (func (export "replaces a directory")
    (drop (call $renumber (call $opened) (i32.const 3))))
  (func (export "replaces output")
    (drop (call $renumber (call $opened) (i32.const 1))))
  (func (export "answer") (result i32) (i32.load (i32.const 400))))"#;

#[test]
fn files_are_read_but_not_kept_open() {
    let case = Case::new(FILES);
    fs::create_dir(case.path("data")).expect("a folder");
    fs::write(case.path("data/note.txt"), "word").expect("a file");
    let with = |init| ["--init", init, "--dir", "data", "guest.wat"];
    let open = "descriptor 4 is open after the initialisation";
    case.refused(&with("leaves open"), 1, &[open, "close it"]);
    case.refused(
        &with("closes"),
        1,
        &["descriptor 3 was closed by the initialisation"],
    );
    case.refused(&with("closes output"), 1, &["descriptor 1 was closed"]);
    // No number is missing, but one names another file: instances would have the given one.
    for name in ["replaces a directory", "replaces output"] {
        case.refused(
            &with(name),
            1,
            &["given was replaced by the initialisation"],
        );
    }
    // The first run changes when the file was last read. The guest sees no times.
    for name in ["one.so", "two.so"] {
        case.prints(&[&["--snapshot", name], &with("asks for times")[..]].concat());
    }
    let [one, two] = ["one.so", "two.so"].map(|name| fs::read(case.path(name)).expect("a file"));
    assert!(one == two);
    assert_eq!(case.prints(&["--invoke", "times", "one.so"]), "0\n");
    case.prints(&[&["--snapshot", "warm.so"], &with("reads")[..]].concat());
    fs::remove_dir_all(case.path("data")).expect("it is removed");
    let told = case.prints(&["--invoke", "answer", "warm.so"]);
    assert_eq!(told, format!("{}\n", i32::from_le_bytes(*b"word")));
}

const BAD: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (tag $e) (global $kept (mut exnref) (ref.null exn))
  (func (export "traps") unreachable)
  (func (export "loops") (loop (br 0)))
  (func (export "exits") (call $exit (i32.const 0)))
  (func (export "exits with 3") (call $exit (i32.const 3)))
  (func (export "throws") (throw $e))
  (func (export "keeps an exception")
    (block (result exnref)
      (try_table (catch_all_ref 0) (throw $e)) (unreachable))
    (global.set $kept))
  (func (export "grows") (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))))
  (func (export "takes") (param i32))
  (func (export "gives") (result i32) (i32.const 1)))"#;

#[test]
fn an_initialisation_that_fails_gives_no_file() {
    let case = Case::new(BAD);
    let init = |name, code, parts: &[&str]| {
        case.refused(&["--init", name, "guest.wat"], code, parts);
    };
    init("traps", 134, &["unreachable"]);
    // This deadline must pass. No other initialisation has one.
    case.refused(
        &["--init", "loops", "--deadline", "200ms", "guest.wat"],
        124,
        &["raise --deadline"],
    );
    init(
        "exits",
        1,
        &["the guest exited with code 0 in \"exits\"", "that returns"],
    );
    init("exits with 3", 1, &["exited with code 3"]);
    init("throws", 134, &[]);
    init(
        "keeps an exception",
        1,
        &["global 0 refers to an exception", "clear"],
    );
    init(
        "takes",
        1,
        &["guest.wat: --init: its function \"takes\" has the type (i32) -> ()"],
    );
    init("gives", 1, &["without parameters and results"]);
    init("absent", 1, &["it exports no function \"absent\""]);
    case.refused(
        &["guest.wat"],
        1,
        &["--init: it exports neither wizer-initialize nor _initialize"],
    );
    case.refused(&["absent.wat"], 1, &["cannot read absent.wat"]);
    case.refused(
        &["--fuel", "1000", "--init", "loops", "guest.wat"],
        124,
        &["raise --fuel"],
    );
    let output = case.run(&[
        "--snapshot",
        "no/out.so",
        "--memory-max",
        "1MiB",
        "--init",
        "grows",
        "guest.wat",
    ]);
    assert!(
        stderr(&output).contains("folder no does not exist"),
        "{}",
        stderr(&output)
    );
    let output = case.run(&["--init", "grows", "guest.wat"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--snapshot"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_guest_that_fills_its_memory_needs_as_much_later() {
    let case = Case::new(BAD);
    let all = [
        "--snapshot",
        "warm.so",
        "--memory-max",
        "1MiB",
        "--init",
        "grows",
        "guest.wat",
    ];
    case.prints(&all);
    let gives = |max| case.run(&["--memory-max", max, "--invoke", "gives", "warm.so"]);
    assert_eq!(stdout(&gives("1MiB")), "1\n");
    let output = gives("960KiB");
    let said = stderr(&output);
    assert!(
        said.contains("it needs 1024 KiB of memory, --memory-max is 960 KiB"),
        "{said}"
    );
}

#[test]
fn a_shared_memory_is_refused() {
    let case = Case::new(
        r#"(module (import "env" "memory" (memory 1 1 shared)) (func (export "_initialize")))"#,
    );
    case.refused(
        &["guest.wat"],
        1,
        &["shared memory of the host", "without threads"],
    );
}

#[test]
fn a_cut_or_changed_snapshot_is_refused() {
    let case = Case::new(COUNTS);
    case.prints(&["--snapshot", "warm.so", "guest.wat"]);
    let bytes = fs::read(case.path("warm.so")).expect("a file");
    let refused = |bytes: &[u8], part: &str| {
        fs::write(case.path("bad.so"), bytes).expect("room for a module");
        let output = case.run(&["--invoke", "answer", "bad.so"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    };
    for len in [0, 100, bytes.len() / 2, bytes.len() - 1] {
        refused(&bytes[..len], "bad.so: ");
    }
    for part in 1..8 {
        let mut changed = bytes.clone();
        changed[bytes.len() * part / 8] ^= 4;
        refused(&changed, "bad.so: ");
    }
}
