//! [`read_signed`]: reads a module and its signature, each file once, and checks the signature.

use crate::check::{Candidate, SIGNATURE_BYTES_MAX, Signed};
use crate::error::{KeyError, SignatureError};
use crate::key::{KEY_BYTES_MAX, PublicKey};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a signed module was not read.
#[derive(Debug, Error)]
pub enum ReadSignedError {
    /// The module cannot be read.
    #[error("cannot read it: {0}")]
    Module(io::Error),
    /// The signature is missing or damaged, or none of the keys made it for this module.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

/// The path of a module's signature: the module's whole name with `.minisig` after it, as in
/// `module.so.minisig`.
#[must_use]
pub fn signature_path(module: &Path) -> PathBuf {
    // Not `with_extension`, which would replace `.so`. The name need not be UTF-8.
    let mut name = OsString::from(module);
    name.push(".minisig");
    PathBuf::from(name)
}

/// Maximum size of a signed module. An attacker can replace the file without a key, so the reader
/// bounds the length before it reads. The largest guests of the benches have a hundredth of this
/// size.
pub const SIGNED_BYTES_MAX: u64 = 4 << 30;

/// Reads a module and its signature, and checks that one of the keys signed the module. Returns
/// the bytes that were checked.
///
/// Both files are opened once, and must be regular files; symbolic links are followed. A link
/// decides nothing: the bytes must be signed, wherever they come from.
///
/// # Errors
///
/// [`ReadSignedError`].
pub fn read_signed(
    module: &Path,
    keys: &[PublicKey],
) -> Result<(Vec<u8>, Signed), ReadSignedError> {
    read_within(module, keys, SIGNED_BYTES_MAX)
}

fn read_within(
    module: &Path,
    keys: &[PublicKey],
    bytes_max: u64,
) -> Result<(Vec<u8>, Signed), ReadSignedError> {
    if keys.is_empty() {
        return Err(SignatureError::NoKeys.into());
    }
    let (file, found) = open_regular(module).map_err(ReadSignedError::Module)?;
    let path = signature_path(module);
    let signature = match read_small(&path, SIGNATURE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(SignatureError::Unsigned { signature: path }.into());
        }
        Err(error) => {
            let signature = path;
            return Err(SignatureError::Unreadable { signature, error }.into());
        }
    };
    let candidate = Candidate::new(&signature, keys)?;
    candidate.check_length(found)?;
    let bytes = read(file, found, bytes_max).map_err(ReadSignedError::Module)?;
    let signed = candidate.verify(&bytes)?;
    Ok((bytes, signed))
}

impl PublicKey {
    /// Reads a `.pub` file.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let text = read_small(path.as_ref(), KEY_BYTES_MAX).map_err(KeyError::Unreadable)?;
        Self::parse(&text)
    }
}

/// Reads a regular file that has at most `bytes_max` bytes. Refuses pipes, sockets and devices, and
/// never waits for them.
///
/// # Errors
///
/// The error of the system, or [`ErrorKind::InvalidData`] with the reason.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, found) = open_regular(path)?;
    read(file, found, bytes_max)
}

/// Like [`read_regular`], but for a UTF-8 text file.
fn read_small(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, bytes_max)?)
        .map_err(|_| invalid("it is not text".to_owned()))
}

/// Opens a regular file for reading. Returns its length, too. Refuses pipes, sockets and devices,
/// and never waits for them.
///
/// # Errors
///
/// The error of the system, or [`ErrorKind::InvalidData`] with the reason.
pub fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    // Without O_NONBLOCK the opening of a pipe would wait for a writer, perhaps for ever.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path)?;
    // Queries the open file, because the path may name another file by now.
    let about = file.metadata()?;
    if about.is_dir() {
        let why = "it is a directory; name a regular file";
        return Err(io::Error::new(ErrorKind::IsADirectory, why));
    }
    if !about.is_file() {
        let why = "it is a pipe, a socket or a device; name a regular file";
        return Err(invalid(why.to_owned()));
    }
    Ok((file, about.len()))
}

/// Reads a file that had `found` bytes when it was opened.
fn read(file: File, found: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    // Files of some file systems, such as /proc, have more bytes than their reported length.
    if found <= bytes_max {
        let mut file = file.take(bytes_max.saturating_add(1));
        file.read_to_end(&mut bytes)?;
    }
    if found.max(bytes.len() as u64) > bytes_max {
        let why = format!("it has more than {bytes_max} bytes, the limit; name another file");
        return Err(invalid(why));
    }
    Ok(bytes)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signature that cannot belong to the file is refused before the file is read. The test
    /// shows the order by a file over the limit: reading that file is another error.
    #[test]
    fn the_file_is_not_read_if_its_signature_cannot_hold() {
        use minisign::KeyPair;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("module.so");
        let [trusted, other] =
            [0; 2].map(|_| KeyPair::generate_unencrypted_keypair().expect("a key"));
        let key = trusted.pk.to_box().expect("a key").to_string();
        let keys = [PublicKey::parse(&key).expect("a key")];
        let sign = |pair: &KeyPair| {
            let comment = crate::comment::describe("module.so".as_ref(), b"signed", 7);
            let signed = minisign::sign(None, &pair.sk, &b"signed"[..], Some(&comment), None);
            let text = signed.expect("it is signed").to_string();
            std::fs::write(signature_path(&path), text).expect("room");
        };
        std::fs::write(&path, "longer than the limit").expect("room");
        sign(&other);
        let error = read_within(&path, &keys, 3).expect_err("another key signed it");
        assert!(
            matches!(
                error,
                ReadSignedError::Signature(SignatureError::OtherKey { .. })
            ),
            "{error}"
        );
        sign(&trusted);
        let error = read_within(&path, &keys, 3).expect_err("it has another length");
        assert!(
            matches!(
                error,
                ReadSignedError::Signature(SignatureError::Length { .. })
            ),
            "{error}"
        );
        std::fs::write(&path, "signed").expect("room");
        let error = read_within(&path, &keys, 3).expect_err("it is over the limit");
        assert!(matches!(error, ReadSignedError::Module(_)), "{error}");
        read_within(&path, &keys, 6).expect("it is signed");
    }

    #[test]
    fn a_signed_module_is_read_up_to_its_limit() {
        // A signature of "test" that names no length, from minisign's own tests.
        let key = "untrusted comment: minisign public key E7620F1842B4E81F\n\
                   RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
        let signature = "untrusted comment: signature from minisign secret key\n\
            RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylD\
            OocrCo8KLzZwo=\n\
            trusted comment: timestamp:1556193335\tfile:test\n\
            y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+b\
            HwhEBg==\n";
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("test");
        std::fs::write(&path, "test").expect("room");
        std::fs::write(signature_path(&path), signature).expect("room");
        let keys = [PublicKey::parse(key).expect("a key")];
        let (bytes, _) = read_within(&path, &keys, 4).expect("it is signed, and has 4 bytes");
        assert_eq!(bytes, b"test");
        let error = read_within(&path, &keys, 3).expect_err("it has one byte more");
        assert!(matches!(error, ReadSignedError::Module(_)), "{error}");
        assert!(
            error.to_string().contains("it has more than 3 bytes"),
            "{error}"
        );
        // A file of the length of a disk is not read.
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_len(SIGNED_BYTES_MAX + 1).expect("a sparse file");
        let error = read_signed(&path, &keys).expect_err("it is too long");
        assert!(
            error.to_string().contains("more than 4294967296 bytes"),
            "{error}"
        );
    }
}
