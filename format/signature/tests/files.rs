//! Modules and signatures as files: missing, large, of other kinds, and under odd names.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pirn_signature::{
    KEY_BYTES_MAX, PublicKey, ReadSignedError, SIGNATURE_BYTES_MAX, SignatureError, read_signed,
    signature_path,
};
use pirn_testing::signing::{Pair, is_one_line, public_text};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MODULE: &[u8] = b"the bytes of a module";

/// A folder with a signed module of this name.
fn signed(name: &OsStr, key: &Pair) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join(name);
    fs::write(&path, MODULE).expect("room");
    fs::write(signature_path(&path), key.sign(MODULE)).expect("room");
    (folder, path)
}

fn refusal(path: &Path, key: &Pair) -> ReadSignedError {
    read_signed(path, std::slice::from_ref(&key.public)).expect_err("it is refused")
}

#[test]
fn the_path_of_a_signature_has_the_whole_name() {
    for (module, signature) in [
        ("x.so", "x.so.minisig"),
        ("a.b/x", "a.b/x.minisig"),
        ("x.", "x..minisig"),
        (".so", ".so.minisig"),
    ] {
        assert_eq!(signature_path(Path::new(module)), Path::new(signature));
    }
    let odd = OsStr::from_bytes(b"\xff\n.so");
    let path = signature_path(Path::new(odd));
    assert_eq!(path.as_os_str().as_bytes(), b"\xff\n.so.minisig");
}

#[test]
fn a_module_of_any_name_is_read_once_with_its_signature() {
    let key = Pair::new();
    for name in [&b"module.so"[..], b"module", b"\xff\xfe.so", b"a b\n.so"] {
        let (_folder, path) = signed(OsStr::from_bytes(name), &key);
        let (bytes, signed) =
            read_signed(&path, std::slice::from_ref(&key.public)).expect("it is signed");
        assert_eq!((&bytes[..], signed.key), (MODULE, key.public.id()));
    }
}

#[test]
fn a_missing_signature_is_named() {
    let key = Pair::new();
    let (_folder, path) = signed(OsStr::new("x.so"), &key);
    let signature = signature_path(&path);
    // The name that `with_extension` would make does not help.
    fs::rename(&signature, path.with_extension("minisig")).expect("the same folder");
    let error = refusal(&path, &key);
    let is_unsigned = matches!(
        &error,
        ReadSignedError::Signature(SignatureError::Unsigned { signature: found })
            if *found == signature
    );
    assert!(is_unsigned, "{error}");
    is_one_line(
        &error,
        &[
            "it is not signed",
            "x.so.minisig does not exist",
            "; sign it",
        ],
    );
    // A link to nothing is no signature either.
    symlink("nowhere", &signature).expect("a link");
    is_one_line(&refusal(&path, &key), &["does not exist"]);
}

#[test]
fn without_a_key_nothing_is_read() {
    let error = read_signed(Path::new("/nowhere"), &[]).expect_err("it is refused");
    is_one_line(&error, &["no key is trusted"]);
}

#[test]
fn other_kinds_of_files_are_refused_at_once() {
    let key = Pair::new();
    let (folder, path) = signed(OsStr::new("x.so"), &key);
    let signature = signature_path(&path);
    let pipe = folder.path().join("pipe");
    // The pipe has no writer: a plain open for reading would wait for ever.
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let null = PathBuf::from("/dev/null");
    for (other, part) in [
        (folder.path(), "is a directory"),
        (&pipe, "it is a pipe"),
        (&null, "a device; name a regular file"),
    ] {
        fs::remove_file(&signature).expect("it is there");
        symlink(other, &signature).expect("a link");
        is_one_line(&refusal(&path, &key), &["cannot read its signature", part]);
        let error = PublicKey::read(other).expect_err("it is no key");
        is_one_line(&error, &["cannot read it: ", part]);
        let error = refusal(other, &key);
        assert!(matches!(error, ReadSignedError::Module(_)), "{error}");
        is_one_line(&error, &[part]);
    }
}

#[test]
fn links_are_followed_because_only_bytes_decide() {
    let key = Pair::new();
    let (folder, path) = signed(OsStr::new("x.so"), &key);
    let (module, signature) = (
        folder.path().join("y.so"),
        folder.path().join("y.so.minisig"),
    );
    symlink(&path, &module).expect("a link");
    // The signature belongs to the name that was asked for, not to that of the link's target.
    is_one_line(&refusal(&module, &key), &["y.so.minisig does not exist"]);
    symlink(signature_path(&path), &signature).expect("a link");
    assert!(read_signed(&module, std::slice::from_ref(&key.public)).is_ok());
}

#[test]
fn large_files_are_not_read_whole() {
    let key = Pair::new();
    let (_folder, path) = signed(OsStr::new("x.so"), &key);
    let signature = signature_path(&path);
    // A file of a TiB, without blocks on the disk.
    for bytes in [SIGNATURE_BYTES_MAX + 1, 1 << 40] {
        let file = fs::File::create(&signature).expect("it may be replaced");
        file.set_len(bytes).expect("a sparse file");
        is_one_line(&refusal(&path, &key), &["it has more than 16384 bytes"]);
        let error = PublicKey::read(&signature).expect_err("it is no key");
        is_one_line(&error, &["it has more than 4096 bytes"]);
    }
    // Nor is a module that does not have the length that its signature names.
    fs::write(&signature, key.sign(MODULE)).expect("room");
    let file = fs::File::options().write(true).open(&path);
    file.expect("a file")
        .set_len(1 << 40)
        .expect("a sparse file");
    is_one_line(
        &refusal(&path, &key),
        &["it has 1099511627776 bytes, its signature is of 21"],
    );
    // At the limit, what is wrong is another thing.
    fs::write(&signature, vec![b'x'; SIGNATURE_BYTES_MAX as usize]).expect("room");
    is_one_line(&refusal(&path, &key), &["it has 1 line, a signature has 4"]);
    fs::write(&signature, vec![b'x'; KEY_BYTES_MAX as usize]).expect("room");
    let error = PublicKey::read(&signature).expect_err("it is no key");
    is_one_line(&error, &["it has 1 line, a key has 2"]);
    // Bytes that are no text.
    fs::write(&signature, b"\xff").expect("room");
    is_one_line(&refusal(&path, &key), &["it is not text"]);
}

#[test]
fn a_key_is_read_from_its_file() {
    let key = Pair::new();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("x.pub");
    fs::write(&path, public_text(&key.pair)).expect("room");
    assert_eq!(PublicKey::read(&path).expect("a key"), key.public);
    let error = PublicKey::read(folder.path().join("none")).expect_err("there is none");
    is_one_line(&error, &["cannot read it: ", "o such file"]);
}
