//! Secret keys: `aotc keygen`, and the key that `--sign` names, with its password.

use anyhow::{Context, Result, anyhow, bail};
use ct_codecs::{Base64, Decoder as _};
use minisign::{ErrorKind, KeyPair, SecretKey, SecretKeyBox};
use pirn_signature::{KEY_BYTES_MAX, KeyKind};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The environment variable with the password, if `--password-file` is not given.
const PASSWORD_VARIABLE: &str = "AOTC_PASSWORD";
/// Most bytes of a password: minisign's limit.
const PASSWORD_BYTES_MAX: usize = 1024;
/// Most operations that scrypt may take for a key: the limit of minisign's own keys, which take
/// seconds.
const SCRYPT_OPERATIONS_MAX: u64 = 1 << 25;
/// Most bytes of memory that scrypt may take for a key: the limit of minisign's own keys.
const SCRYPT_BYTES_MAX: u64 = 1 << 30;

/// Makes a pair of keys and writes `NAME.key` and `NAME.pub`. Returns the message for the user.
pub(crate) fn generate(name: &Path, has_password: bool, file: Option<&Path>) -> Result<String> {
    if name.file_name().is_none() || name.to_string_lossy().ends_with('/') {
        bail!(
            "{} names no key; give a name, as in release",
            name.display()
        );
    }
    let [secret_path, public_path] = ["key", "pub"].map(|ending| with_ending(name, ending));
    for path in [&secret_path, &public_path] {
        // Fails before the password prompt; `create` makes the final check.
        if fs::symlink_metadata(path).is_ok() {
            return Err(exists(path));
        }
        check_folder(path)?;
    }
    let pair = match has_password {
        true => {
            let password = match given_password(file)? {
                Some(password) => password,
                None => new_password()?,
            };
            KeyPair::generate_encrypted_keypair(Some(password))
        }
        false => KeyPair::generate_unencrypted_keypair(),
    };
    let pair = pair.map_err(|error| anyhow!("cannot make a key: {error}"))?;
    let public = pair.pk.to_box().map_err(|error| anyhow!("{error}"))?;
    let public = public.to_string();
    let id = pirn_signature::PublicKey::parse(&public)?.id();
    let comment = match has_password {
        true => format!("encrypted secret key {id} of aotc"),
        false => format!("secret key {id} of aotc, not encrypted"),
    };
    let secret = pair.sk.to_box(Some(&comment));
    let secret = secret.map_err(|error| anyhow!("{error}"))?.to_string();
    create(&secret_path, 0o600, &secret)?;
    if let Err(error) = create(&public_path, 0o644, &public) {
        // A secret key without its public key is of no use, and would block the next attempt.
        let _ = fs::remove_file(&secret_path);
        return Err(error);
    }
    let (secret, public) = (secret_path.display(), public_path.display());
    Ok(format!(
        "key {id}: keep {secret} secret, and give {public} to those who verify\n"
    ))
}

/// Reads the secret key of a file. Asks for the password of an encrypted key.
pub(crate) fn open(path: &Path, password_file: Option<&Path>) -> Result<SecretKey> {
    let shown = || path.display().to_string();
    let mut text = String::new();
    // A pipe is allowed: a shell can pass a program's output as a pipe.
    let file = File::open(path).and_then(|file| {
        let mut file = file.take(KEY_BYTES_MAX + 1);
        file.read_to_string(&mut text)
    });
    if file.with_context(|| format!("cannot read {}", shown()))? as u64 > KEY_BYTES_MAX {
        bail!(
            "{} has more than {KEY_BYTES_MAX} bytes, so it is no key; give a .key file",
            shown()
        );
    }
    let kind = KeyKind::of(&text);
    let boxed = SecretKeyBox::from(text.clone());
    let opened = match kind {
        KeyKind::SecretPlain => boxed.into_unencrypted_secret_key().or_else(|error| {
            // `minisign -G -W` writes no checksum.
            without_checksum(&text).ok_or(error)
        }),
        KeyKind::SecretEncrypted => {
            check_cost(&text).with_context(shown)?;
            let password = match given_password(password_file)? {
                Some(password) => password,
                None => ask(&format!("Password of {}: ", shown()))?,
            };
            boxed.into_secret_key(Some(password))
        }
        KeyKind::Public => bail!(
            "{} is a public key, a secret key is needed to sign; give the .key file",
            shown()
        ),
        _ => bail!(
            "{} is not a secret key; give a .key file, as `aotc keygen` writes it",
            shown()
        ),
    };
    opened.map_err(|error| match (error.kind(), kind) {
        (ErrorKind::Verify, KeyKind::SecretEncrypted) => anyhow!(
            "password does not open {}; give the one that the key was made with",
            shown()
        ),
        (ErrorKind::Encoding, _) => anyhow!(
            "{} is damaged: its second line is not a key in base64; restore it",
            shown()
        ),
        _ => anyhow!("{} is damaged: {error}; restore it", shown()),
    })
}

/// Refuses an encrypted key for which scrypt would take more time or memory than minisign's own
/// keys need. Without this check, a damaged or hostile file could keep the process busy for days.
fn check_cost(text: &str) -> Result<()> {
    // Three algorithms of 2 bytes and a salt of 32 bytes come first.
    const OPERATIONS_AT: usize = 38;
    const BYTES_AT: usize = OPERATIONS_AT + 8;
    let Some(bytes) = decoded(text) else {
        // The library reports the defect of such a text.
        return Ok(());
    };
    for (at, unit, limit) in [
        (OPERATIONS_AT, "operations", SCRYPT_OPERATIONS_MAX),
        (BYTES_AT, "bytes of memory", SCRYPT_BYTES_MAX),
    ] {
        let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let wanted = word.map_or(0, u64::from_le_bytes);
        if wanted > limit {
            bail!(
                "its password needs {wanted} {unit} of scrypt, the limit is {limit}; restore the \
                 key, or make a new one"
            );
        }
    }
    Ok(())
}

/// The secret key of a text that has zeros in place of the checksum. The check of the first
/// signature then shows whether the key is whole.
fn without_checksum(text: &str) -> Option<SecretKey> {
    const BYTES: usize = 158;
    const CHECKSUM_BYTES: usize = 32;
    let bytes = decoded(text)?;
    let checksum = bytes.get(BYTES - CHECKSUM_BYTES..BYTES)?;
    let has_none = bytes.len() == BYTES && checksum.iter().all(|byte| *byte == 0);
    SecretKey::from_bytes(has_none.then_some(&bytes)?).ok()
}

/// The bytes of a key, which are base64 in the second line of a key file.
fn decoded(text: &str) -> Option<Vec<u8>> {
    Base64::decode_to_vec(text.lines().nth(1)?, None).ok()
}

/// The password from a file or the environment. `None` if neither source is given.
fn given_password(file: Option<&Path>) -> Result<Option<String>> {
    let password = match file {
        Some(path) => first_line(path)
            .with_context(|| format!("cannot read the password file {}", path.display()))?,
        None => match std::env::var(PASSWORD_VARIABLE) {
            Ok(password) => password,
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(_) => bail!("{PASSWORD_VARIABLE} is not text; give a password in UTF-8"),
        },
    };
    checked(password).map(Some)
}

/// The first line of a file, which may be a pipe.
fn first_line(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(2 * PASSWORD_BYTES_MAX as u64);
    file.read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Asks for the password of a new key, twice.
fn new_password() -> Result<String> {
    let password = checked(ask("Password of the new key: ")?)?;
    if ask("The same password again: ")? != password {
        bail!("the two passwords differ; type the same one twice");
    }
    Ok(password)
}

/// Asks on the terminal, without echo.
fn ask(question: &str) -> Result<String> {
    rpassword::prompt_password(question).map_err(|error| {
        anyhow!(
            "cannot ask for a password on a terminal: {error}; give --password-file or \
             {PASSWORD_VARIABLE}, or make a key by `aotc keygen --no-password`"
        )
    })
}

fn checked(password: String) -> Result<String> {
    match password.len() {
        0 => bail!("password is empty; give one, or make a key by `aotc keygen --no-password`"),
        1..=PASSWORD_BYTES_MAX => Ok(password),
        // A long file is not read to its end, so the length is unknown.
        _ => bail!("password has more than {PASSWORD_BYTES_MAX} bytes; give a shorter one"),
    }
}

fn with_ending(name: &Path, ending: &str) -> PathBuf {
    let mut path = OsString::from(name);
    path.push(".");
    path.push(ending);
    path.into()
}

/// Writes a new file whole. Never overwrites a file, nor follows a link.
fn create(path: &Path, mode: u32, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(mode).open(path);
    let written = made.and_then(|mut file| {
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
        written
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => anyhow!(
            "cannot write {}: {error}; give another place with -o",
            path.display()
        ),
    })
}

/// Refuses a file whose folder does not exist.
fn check_folder(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => bail!(
            "cannot write {}: folder {} does not exist; create it, or give another name with -o",
            path.display(),
            folder.display()
        ),
        _ => Ok(()),
    }
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!(
        "cannot write {}: it exists, and keys are never overwritten; give another name with -o",
        path.display()
    )
}
