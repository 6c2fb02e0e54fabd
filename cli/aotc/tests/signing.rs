//! `aotc keygen`, `aotc --sign`, `aotc sign` and `aotc verify`: files that are written and that are
//! not, and each refusal in one line.

use crate::common::{command, refused, text, works};
use ct_codecs::{Base64, Decoder as _, Encoder as _};
use pirn_compiler::{Options, compile, parse_text};
use pirn_testing::program;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const ONE: &str = "(module (func (export \"f\") (result i32) (i32.const 1)))";
const TWO: &str = "(module (func (export \"f\") (result i32) (i32.const 2)))";

/// A folder in which `aotc` runs, with two modules and a pair of keys.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary directory"));
        folder.write("one.wat", ONE);
        folder.write("two.wat", TWO);
        works(&folder.aotc(["keygen", "-o", "a", "--no-password"]));
        folder
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    fn write(&self, name: impl AsRef<OsStr>, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("room");
    }

    fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        fs::read(self.path(name)).expect("it is there")
    }

    fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = command(args);
        command.current_dir(self.0.path());
        command.env_remove("AOTC_PASSWORD").stdin(Stdio::null());
        command
    }

    fn aotc<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// The names of all files, sorted.
    fn names(&self) -> Vec<OsString> {
        let entries = fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_module_is_signed_and_verified() {
    let folder = Folder::new();
    assert_eq!(works(&folder.aotc(["one.wat", "--sign", "a.key"])), "");
    let said = works(&folder.aotc(["verify", "one.so", "--key", "a.pub"]));
    let bytes = folder.read("one.so").len();
    assert!(
        said.starts_with(&format!("one.so: {bytes} bytes are signed with key ")),
        "{said}"
    );
    assert!(said.contains(" file:one.so hashed "), "{said}");
    // The module is what is compiled without a signature: a signature lies beside it.
    let wasm = parse_text(ONE.as_bytes()).expect("it is well-formed");
    let plain = compile(&wasm, &Options::default()).expect("it is valid");
    assert_eq!(folder.read("one.so"), plain);
    // Any of several keys is enough.
    works(&folder.aotc(["keygen", "-o", "b", "--no-password"]));
    let keys = ["verify", "one.so", "--key", "b.pub", "--key", "a.pub"];
    works(&folder.aotc(keys));
    refused(
        &folder.aotc(["verify", "one.so", "--key", "b.pub"]),
        &[
            "one.so: it is signed with key ",
            "; sign it with a trusted key",
        ],
    );
    let mode = |name| {
        fs::metadata(folder.path(name))
            .expect("it is there")
            .permissions()
            .mode()
    };
    assert_eq!(mode("a.key") & 0o777, 0o600);
    assert_eq!(mode("one.so.minisig") & 0o111, 0);
    assert!(
        folder
            .names()
            .iter()
            .all(|name| !text(name.as_bytes()).starts_with(".aotc"))
    );
}

#[test]
fn a_module_is_signed_after_it_was_compiled() {
    let folder = Folder::new();
    works(&folder.aotc(["one.wat"]));
    let before = folder.read("one.so");
    assert_eq!(
        works(&folder.aotc(["sign", "one.so", "--key", "a.key"])),
        ""
    );
    let said = works(&folder.aotc(["verify", "one.so", "--key", "a.pub"]));
    assert!(said.contains(" file:one.so hashed "), "{said}");
    assert_eq!(folder.read("one.so"), before);
    let about = fs::metadata(folder.path("one.so.minisig")).expect("a signature");
    assert_eq!(about.permissions().mode() & 0o111, 0);
    // Compiled again, and signed with another key: the signature is replaced.
    works(&folder.aotc(["keygen", "-o", "b", "--no-password"]));
    works(&folder.aotc(["two.wat", "-o", "new.so"]));
    fs::rename(folder.path("new.so"), folder.path("one.so")).expect("it is there");
    refused(
        &folder.aotc(["verify", "one.so", "--key", "a.pub"]),
        &["one.so: it has "],
    );
    works(&folder.aotc(["sign", "one.so", "--key", "b.key"]));
    works(&folder.aotc(["verify", "one.so", "--key", "b.pub"]));
    // The key is a program's output.
    let path = folder.path("one.so.minisig");
    fs::remove_file(&path).expect("it is there");
    let mut piped = folder.command(["sign", "one.so", "--key", "/dev/stdin"]);
    let key = fs::File::open(folder.path("a.key")).expect("a key");
    works(&piped.stdin(key).output().expect("the program starts"));
    works(&folder.aotc(["verify", "one.so", "--key", "a.pub"]));
}

#[test]
fn what_cannot_be_signed_afterwards_keeps_its_signature() {
    let folder = Folder::new();
    works(&folder.aotc(["one.wat", "--sign", "a.key"]));
    let signature = folder.read("one.so.minisig");
    fs::create_dir(folder.path("folder")).expect("room");
    let made = Command::new("mkfifo").arg(folder.path("pipe")).status();
    assert!(made.expect("mkfifo(1)").success());
    let module = folder.read("one.so");
    folder.write("cut.so", &module[..module.len() / 2]);
    folder.write("empty.so", "");
    let key = text(&folder.read("a.key"));
    folder.write("short.key", &key[..key.len() / 2]);
    folder.write("secret", "right\n");
    folder.write("wrong", "wrong\n");
    works(&folder.aotc(["keygen", "-o", "locked", "--password-file", "secret"]));
    fs::copy(folder.path("one.so"), folder.path("k")).expect("room");
    fs::copy(folder.path("a.key"), folder.path("k.minisig")).expect("room");
    let names = folder.names();
    for (args, parts) in [
        (
            &["missing.so", "--key", "a.key"][..],
            &["cannot read missing.so"][..],
        ),
        (
            &["folder", "--key", "a.key"],
            &["cannot read folder", "directory"],
        ),
        (
            &["pipe", "--key", "a.key"],
            &["cannot read pipe", "it is a pipe"],
        ),
        (&["/dev/zero", "--key", "a.key"], &["name a regular file"]),
        (&["one.wat", "--key", "a.key"], &["one.wat: "]),
        (&["a.key", "--key", "a.key"], &["a.key: "]),
        (&["cut.so", "--key", "a.key"], &["cut.so: "]),
        (&["empty.so", "--key", "a.key"], &["empty.so: "]),
        (
            &["one.so", "--key", "missing.key"],
            &["cannot read missing.key"],
        ),
        (&["one.so", "--key", "folder"], &["cannot read folder"]),
        (&["one.so", "--key", "a.pub"], &["a.pub is a public key"]),
        (
            &["one.so", "--key", "one.wat"],
            &["one.wat is not a secret key"],
        ),
        (&["one.so", "--key", "short.key"], &["short.key"]),
        (
            &["one.so", "--key", "locked.key", "--password-file", "wrong"],
            &["password does not open locked.key"],
        ),
        (
            &["one.so", "--key", "locked.key", "--password-file", "none"],
            &["cannot read the password file none"],
        ),
        (
            &["k", "--key", "k.minisig"],
            &["k.minisig: it is the secret key"],
        ),
    ] {
        let output = folder.aotc([&["sign"], args].concat());
        refused(&output, parts);
        assert_eq!(folder.names(), names, "{args:?}");
    }
    assert_eq!(folder.read("one.so.minisig"), signature);
    assert_eq!(text(&folder.read("k.minisig")), key);
    works(&folder.aotc([
        "sign",
        "one.so",
        "--key",
        "locked.key",
        "--password-file",
        "secret",
    ]));
    works(&folder.aotc(["verify", "one.so", "--key", "locked.pub"]));
    // The place of the signature is taken by a folder.
    fs::remove_file(folder.path("one.so.minisig")).expect("it is there");
    fs::create_dir(folder.path("one.so.minisig")).expect("room");
    refused(
        &folder.aotc(["sign", "one.so", "--key", "a.key"]),
        &["cannot write one.so.minisig"],
    );
}

#[test]
fn each_way_to_lose_a_signature_is_told() {
    let folder = Folder::new();
    for name in ["one", "two"] {
        works(&folder.aotc([&format!("{name}.wat"), "--sign", "a.key"]));
    }
    let verify = || folder.aotc(["verify", "one.so", "--key", "a.pub"]);
    works(&verify());
    let [one, two] = ["one", "two"].map(|name| folder.read(format!("{name}.so")));
    let signature = folder.read("one.so.minisig");
    // Cut.
    folder.write("one.so", &one[..one.len() - 1]);
    let sizes = format!(
        "it has {} bytes, its signature is of {} bytes",
        one.len() - 1,
        one.len()
    );
    refused(&verify(), &["one.so: ", &sizes, "; copy it again"]);
    // Replaced by another signed module, but not its signature.
    folder.write("one.so", &two);
    refused(
        &verify(),
        &[
            "it has hash ",
            "it was replaced, or compiled again without --sign",
        ],
    );
    // Compiled again without --sign: a warning then, and an error later.
    folder.write("one.wat", TWO);
    let output = folder.aotc(["one.wat"]);
    let said = text(&output.stderr);
    assert!(
        output.status.success() && said.lines().count() == 1,
        "{said}"
    );
    assert!(
        said.contains("one.so.minisig is the signature of an earlier module"),
        "{said}"
    );
    refused(&verify(), &["compiled again without --sign"]);
    // The signature is of another module, cut, empty, missing.
    folder.write("one.so", &one);
    works(&verify());
    folder.write("one.so.minisig", folder.read("two.so.minisig"));
    refused(&verify(), &["it has hash "]);
    folder.write("one.so.minisig", &signature[..signature.len() / 2]);
    refused(
        &verify(),
        &["its signature is damaged: it has 3 lines, a signature has 4"],
    );
    folder.write("one.so.minisig", "");
    refused(&verify(), &["its signature is damaged: it has 0 lines"]);
    fs::remove_file(folder.path("one.so.minisig")).expect("it is there");
    refused(
        &verify(),
        &["it is not signed: one.so.minisig does not exist; sign it"],
    );
    refused(
        &folder.aotc(["verify", "none.so", "--key", "a.pub"]),
        &["none.so: cannot read it: "],
    );
    // Without a key, the code is proven, and no signature is looked for.
    let said = works(&folder.aotc(["verify", "one.so"]));
    assert!(
        said.contains("stay in the sandbox") && !said.contains("signed"),
        "{said}"
    );
}

#[test]
fn files_that_are_no_keys_are_described() {
    let folder = Folder::new();
    for name in ["one.wat", "two.wat"] {
        works(&folder.aotc([name, "--sign", "a.key"]));
    }
    let before = (folder.read("one.so"), folder.read("one.so.minisig"));
    for (key, parts) in [
        (
            "a.key",
            &["a.key: it is a secret key", "; give the .pub file"][..],
        ),
        ("one.so.minisig", &["it is a signature"]),
        ("one.wat", &["it has 1 line, a key has 2"]),
        ("one.so", &["cannot read it: it has more than 4096 bytes"]),
        (".", &["it is a directory; name a regular file"]),
        ("none", &["cannot read it: No such file"]),
    ] {
        refused(&folder.aotc(["verify", "one.so", "--key", key]), parts);
    }
    let key = text(&folder.read("a.key"));
    let damaged = key.trim_end().trim_end_matches('=');
    let damaged = format!("{}AAAA\n", &damaged[..damaged.len() - 4]);
    folder.write("damaged.key", &damaged);
    folder.write("half.key", &damaged[..100]);
    folder.write("long.key", "x".repeat(4097));
    folder.write("full.key", "x".repeat(4096));
    for (key, parts) in [
        (
            "a.pub",
            &["a.pub is a public key", "; give the .key file"][..],
        ),
        ("two.so.minisig", &["is not a secret key"]),
        ("one.wat", &["is not a secret key; give a .key file"]),
        ("two.so", &["cannot read two.so"]),
        ("damaged.key", &["damaged.key is damaged: ", "; restore it"]),
        (
            "half.key",
            &["half.key is damaged: its second line is not a key in base64; restore it"],
        ),
        ("long.key", &["long.key has more than 4096 bytes"]),
        ("full.key", &["full.key is not a secret key"]),
        (".", &["cannot read ."]),
        ("none", &["cannot read none: No such file"]),
    ] {
        refused(&folder.aotc(["one.wat", "--sign", key]), parts);
    }
    assert_eq!(
        before,
        (folder.read("one.so"), folder.read("one.so.minisig"))
    );
}

#[test]
fn what_cannot_be_signed_is_not_compiled() {
    let folder = Folder::new();
    fs::create_dir(folder.path("folder")).expect("room");
    let before = folder.names();
    for (args, parts) in [
        (
            &["-o", "-"][..],
            &["it is standard output; name a file with -o"][..],
        ),
        (
            &["--emit", "asm"],
            &["--sign signs modules", "; remove one"],
        ),
        (&["--emit", "clif"], &["--sign signs modules"]),
        (&["--emit", "obj"], &["--sign signs modules"]),
        (
            &["-o", "/dev/null"],
            &["/dev/null is a folder, a pipe or a device"],
        ),
        (&["-o", "folder"], &["folder is a folder"]),
        (&["-o", "none/x.so"], &["folder none does not exist"]),
        // The key would be overwritten.
        (&["-o", "a.key"], &["a.key: it is the secret key"]),
    ] {
        let common = ["one.wat", "--sign", "a.key"];
        refused(&folder.aotc(common.iter().chain(args)), parts);
    }
    // The place of the signature is the key, or the module to compile.
    fs::copy(folder.path("a.key"), folder.path("x.minisig")).expect("room");
    let args = ["one.wat", "--sign", "x.minisig", "-o", "x"];
    refused(&folder.aotc(args), &["x.minisig: it is the secret key"]);
    fs::remove_file(folder.path("x.minisig")).expect("it is there");
    symlink("one.wat", folder.path("y.minisig")).expect("a link");
    let args = ["one.wat", "--sign", "a.key", "-o", "y"];
    refused(&folder.aotc(args), &["cannot write y.minisig"]);
    fs::remove_file(folder.path("y.minisig")).expect("it is there");
    // A folder has the place of the signature: the module is not written either.
    fs::create_dir(folder.path("z.so.minisig")).expect("room");
    let args = ["one.wat", "--sign", "a.key", "-o", "z.so"];
    refused(&folder.aotc(args), &["cannot write z.so.minisig"]);
    fs::remove_dir(folder.path("z.so.minisig")).expect("it is there");
    refused(
        &folder.aotc(["one.wat", "--password-file", "x"]),
        &["--sign is missing"],
    );
    assert_eq!(folder.names(), before);
}

#[test]
fn names_need_not_be_text() {
    let folder = Folder::new();
    let odd = OsStr::from_bytes(b"\xff\nx\x1b.so");
    let args = ["one.wat", "--sign", "a.key", "-o"].map(OsString::from);
    works(&folder.aotc(args.iter().map(OsString::as_os_str).chain([odd])));
    let mut signature = odd.to_owned();
    signature.push(".minisig");
    assert_eq!(text(&folder.read(signature)).lines().count(), 4);
    let args = [
        OsStr::new("verify"),
        odd,
        OsStr::new("--key"),
        OsStr::new("a.pub"),
    ];
    let said = works(&folder.aotc(args));
    assert_eq!(said.lines().count(), 2, "{said:?}");
    assert!(!said.contains('\x1b'), "{said:?}");
}

#[test]
fn keys_are_never_overwritten() {
    let folder = Folder::new();
    let before = (folder.read("a.key"), folder.read("a.pub"));
    let keygen = |name: &str| folder.aotc(["keygen", "--no-password", "-o", name]);
    refused(
        &keygen("a"),
        &[
            "cannot write a.key: it exists",
            "; give another name with -o",
        ],
    );
    assert_eq!(before, (folder.read("a.key"), folder.read("a.pub")));
    // Only one of the two is there, if only as a link to nothing.
    folder.write("b.pub", "mine");
    symlink("nowhere", folder.path("c.key")).expect("a link");
    let names = folder.names();
    refused(&keygen("b"), &["cannot write b.pub: it exists"]);
    refused(&keygen("c"), &["cannot write c.key: it exists"]);
    refused(
        &keygen("none/d"),
        &["cannot write none/d.key: folder none does not exist; create it"],
    );
    for name in [".", "..", "e/"] {
        refused(&keygen(name), &["names no key; give a name"]);
    }
    assert_eq!(folder.names(), names);
    // The name is not shortened, and there is a default.
    works(&keygen("v1.2"));
    works(&folder.aotc(["keygen", "--no-password"]));
    for name in ["v1.2.key", "v1.2.pub", "pirn.key", "pirn.pub"] {
        folder.read(name);
    }
}

#[test]
fn a_password_protects_the_key() {
    let folder = Folder::new();
    folder.write("password", "correct horse\nand another line\n");
    let with_file =
        |args: &[&str]| folder.aotc(args.iter().chain(&["--password-file", "password"]));
    works(&with_file(&["keygen", "-o", "p"]));
    let sign = ["one.wat", "--sign", "p.key"];
    works(&with_file(&sign));
    works(&folder.aotc(["verify", "one.so", "--key", "p.pub"]));
    let signature = folder.read("one.so.minisig");
    // By the environment.
    let with_variable = |value: &OsStr| {
        let mut command = folder.command(sign);
        command
            .env("AOTC_PASSWORD", value)
            .output()
            .expect("it starts")
    };
    works(&with_variable(OsStr::new("correct horse")));
    assert_ne!(
        folder.read("one.so.minisig"),
        signature,
        "it is signed again"
    );
    let signature = folder.read("one.so.minisig");
    let long = "x".repeat(1025);
    for (password, part) in [
        (
            OsStr::new("wrong"),
            "password does not open p.key; give the one",
        ),
        (OsStr::new(""), "password is empty; give one"),
        (
            OsStr::new(&long),
            "password has more than 1024 bytes; give a shorter one",
        ),
        (
            OsStr::new(&long[1..]),
            "password does not open p.key; give the one",
        ),
        (OsStr::from_bytes(b"\xff"), "AOTC_PASSWORD is not text"),
    ] {
        refused(&with_variable(password), &[part]);
    }
    // The file wins, and a key without a password needs none.
    folder.write("password", "wrong");
    refused(&with_file(&sign), &["password does not open p.key"]);
    let missing = folder.aotc(sign.iter().chain(&["--password-file", "none"]));
    refused(&missing, &["cannot read the password file none"]);
    assert_eq!(folder.read("one.so.minisig"), signature);
    works(&with_file(&["one.wat", "--sign", "a.key"]));
    refused(
        &with_file(&["keygen", "-o", "q", "--no-password"]),
        &["--no-password cannot be used with --password-file"],
    );
    // Without a terminal, nothing can be asked.
    let mut command = Command::new("setsid");
    command
        .arg("--wait")
        .arg(env!("CARGO_BIN_EXE_aotc"))
        .args(sign);
    command
        .current_dir(folder.0.path())
        .env_remove("AOTC_PASSWORD")
        .stdin(Stdio::null());
    if program::has_runner() {
        return;
    }
    let output = command.output().expect("util-linux is installed");
    refused(
        &output,
        &["cannot ask for a password on a terminal", "AOTC_PASSWORD"],
    );
}

/// A key file says how much time and memory its password needs. If that is more than minisign's own
/// keys need, `aotc` refuses the file before it asks for the password.
#[test]
fn a_key_whose_password_takes_too_long_is_refused() {
    let folder = Folder::new();
    folder.write("password", "correct horse\n");
    let with_file =
        |args: &[&str]| folder.aotc(args.iter().chain(&["--password-file", "password"]));
    works(&with_file(&["keygen", "-o", "p"]));
    let key = text(&folder.read("p.key"));
    let (comment, line) = key.trim_end().split_once('\n').expect("two lines");
    let whole = Base64::decode_to_vec(line, None).expect("base64");
    let (operations, bytes) = (38, 46);
    for (at, value, part) in [
        (
            operations,
            (1 << 25) + 1,
            "its password needs 33554433 operations of scrypt, the limit is 33554432",
        ),
        (
            operations,
            u64::MAX,
            "needs 18446744073709551615 operations",
        ),
        (
            bytes,
            (1 << 30) + 1,
            "its password needs 1073741825 bytes of memory of scrypt, the limit is 1073741824",
        ),
        (bytes, u64::MAX, "needs 18446744073709551615 bytes"),
    ] {
        let mut changed = whole.clone();
        changed[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        let line = Base64::encode_to_string(changed).expect("base64");
        folder.write("p.key", format!("{comment}\n{line}\n"));
        refused(
            &with_file(&["one.wat", "--sign", "p.key"]),
            &["p.key: ", part],
        );
        // No password is asked for.
        refused(
            &folder.aotc(["one.wat", "--sign", "p.key"]),
            &["p.key: ", part],
        );
    }
    // Below the limit, the password is tried. It does not open the key, whose cost was changed.
    let mut changed = whole.clone();
    changed[operations..operations + 8].copy_from_slice(&u64::to_le_bytes(1 << 21));
    let line = Base64::encode_to_string(changed).expect("base64");
    folder.write("p.key", format!("{comment}\n{line}\n"));
    refused(
        &with_file(&["one.wat", "--sign", "p.key"]),
        &["password does not open p.key"],
    );
    folder.write("p.key", &key);
    works(&with_file(&["one.wat", "--sign", "p.key"]));
}

/// Whether Debian's `minisign` is installed.
fn has_minisign() -> bool {
    let found = Command::new("minisign").arg("-v").output().is_ok();
    if !found {
        // Written to stderr directly: the test harness hides what a passing test prints.
        let said = writeln!(
            std::io::stderr(),
            "NOT RUN: minisign is missing; install it, as by apt-get install minisign"
        );
        said.expect("stderr is open");
    }
    found
}

fn minisign(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("minisign");
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.output().expect("it is installed")
}

#[test]
fn minisign_verifies_what_aotc_signs_and_signs_what_aotc_verifies() {
    if !has_minisign() {
        return;
    }
    let folder = Folder::new();
    let run = |args: &[&str]| minisign(folder.0.path(), args);
    works(&folder.aotc(["one.wat", "--sign", "a.key"]));
    let output = run(&["-V", "-p", "a.pub", "-m", "one.so"]);
    assert!(output.status.success(), "{output:?}");
    // With the key of aotc.
    fs::remove_file(folder.path("one.so.minisig")).expect("it is there");
    let output = run(&["-S", "-s", "a.key", "-m", "one.so"]);
    assert!(output.status.success(), "{output:?}");
    let verify = |key| folder.aotc(["verify", "one.so", "--key", key]);
    let said = works(&verify("a.pub"));
    assert!(said.contains("file:one.so"), "{said}");
    // Its comment has no hash, so another file is told in other words.
    works(&folder.aotc(["two.wat"]));
    folder.write("one.so", folder.read("two.so"));
    refused(
        &verify("a.pub"),
        &["are not what key ", "the signature says \"timestamp:"],
    );
    // With a pair of keys of minisign.
    let output = run(&["-G", "-W", "-p", "m.pub", "-s", "m.key"]);
    assert!(output.status.success(), "{output:?}");
    works(&folder.aotc(["one.wat", "--sign", "m.key"]));
    works(&verify("m.pub"));
    let output = run(&["-V", "-p", "m.pub", "-m", "one.so"]);
    assert!(output.status.success(), "{output:?}");
    // In its legacy format.
    let output = run(&["-S", "-l", "-s", "m.key", "-m", "one.so"]);
    assert!(output.status.success(), "{output:?}");
    refused(
        &verify("m.pub"),
        &["legacy format (Ed)", "; sign it again without -l"],
    );
}
