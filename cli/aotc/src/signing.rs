//! `aotc --sign`, `aotc sign` and `aotc verify`: signatures of modules, in minisign's format.

use crate::args::{Args, Kind};
use crate::key;
use anyhow::{Context, Result, anyhow, bail};
use minisign::SecretKey;
use pirn_cli::output::{Output, is_same, write_signature};
use pirn_format::read::Checked;
use pirn_signature::{PublicKey, describe, printable, read_signed, signature_path};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A secret key that is ready to sign.
pub(crate) struct Signer {
    secret: SecretKey,
    minisign: minisign::PublicKey,
    public: PublicKey,
}

impl Signer {
    /// Opens a secret key. May ask for its password.
    fn open(path: &Path, password_file: Option<&Path>) -> Result<Self> {
        let secret = key::open(path, password_file)?;
        let minisign = minisign::PublicKey::from_secret_key(&secret);
        let minisign = minisign.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let text = minisign.to_box().map_err(|error| anyhow!("{error}"))?;
        let public =
            PublicKey::parse(&text.to_string()).with_context(|| path.display().to_string())?;
        Ok(Self {
            secret,
            minisign,
            public,
        })
    }

    /// The text of the signature of a module that will have this name.
    pub(crate) fn sign(&self, name: &OsStr, module: &[u8]) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = now.context("the clock is before 1970; set it")?.as_secs();
        let trusted = describe(name, module, seconds);
        let untrusted = format!("signature of aotc, key {}", self.public.id());
        let signature = minisign::sign(
            Some(&self.minisign),
            &self.secret,
            module,
            Some(&trusted),
            Some(&untrusted),
        );
        let text = signature.map_err(|error| anyhow!("cannot sign: {error}"))?;
        let text = text.to_string();
        // Checks the signature with the code that will verify it, to find a damaged key or a fault
        // of the machine.
        pirn_signature::check(module, &text, std::slice::from_ref(&self.public))
            .context("cannot sign: the new signature does not hold")?;
        Ok(text)
    }
}

/// Opens the secret key that the command line names, if any.
///
/// Fails before the compilation and before the password prompt if the output cannot be signed.
pub(crate) fn signer(args: &Args, input: &Path, output: &Output) -> Result<Option<Signer>> {
    let Some(key) = &args.sign else {
        return Ok(None);
    };
    if !matches!(args.emit, Kind::So) {
        bail!("--sign signs modules, and --emit asks for another output; remove one");
    }
    let module = output.replaced().context("cannot sign the output")?;
    let signature = signature_path(module);
    for file in [module, &signature] {
        if is_same(file, key) {
            let file = file.display();
            bail!("cannot write {file}: it is the secret key; give another name with -o");
        }
    }
    Output::File(signature).spares(input)?;
    Signer::open(key, args.password_file.as_deref()).map(Some)
}

/// Signs an existing file: a snapshot, or a module that was compiled earlier. `bytes` is the
/// content of the file.
///
/// Fails before the password prompt if the file is no compiled module, or cannot be signed.
pub(crate) fn sign(
    module: &Path,
    bytes: &[u8],
    key: &Path,
    password_file: Option<&Path>,
) -> Result<()> {
    Checked::new(bytes).with_context(|| module.display().to_string())?;
    let signature = signature_path(module);
    for (other, what) in [(key, "the secret key"), (module, "the module")] {
        if is_same(&signature, other) {
            bail!(
                "cannot write {}: it is {what}, {}; rename one of them",
                signature.display(),
                other.display()
            );
        }
    }
    let signer = Signer::open(key, password_file)?;
    let text = signer.sign(module.file_name().unwrap_or_default(), bytes)?;
    write_signature(&signature, &text)
}

/// Warns if the new module is beside the signature of an earlier module.
pub(crate) fn outdated(args: &Args, output: &Output) -> Option<String> {
    let is_module = matches!(args.emit, Kind::So);
    let module = output.replaced().ok().filter(|_| is_module)?;
    let signature = signature_path(module);
    signature.symlink_metadata().is_ok().then(|| {
        format!(
            "{} is the signature of an earlier module; sign this one with `aotc sign`, or \
             remove it",
            signature.display()
        )
    })
}

/// Checks that one of the keys signed a module. Returns the message for the user.
pub(crate) fn verify(module: &Path, keys: &[PathBuf]) -> Result<String> {
    let keys = keys
        .iter()
        .map(|path| PublicKey::read(path).with_context(|| path.display().to_string()));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let (bytes, signed) =
        read_signed(module, &keys).with_context(|| module.display().to_string())?;
    Ok(format!(
        "{}: {} bytes are signed with key {}\ntrusted comment: {}\n",
        printable(&module.display().to_string()),
        bytes.len(),
        signed.key,
        signed.comment
    ))
}
