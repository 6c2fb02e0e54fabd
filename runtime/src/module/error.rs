//! [`OpenError`]: why a file is no module.

use pirn_format::FormatError;
use pirn_signature::SignatureError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a file cannot be opened as a module.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file was not written by `aotc`, or is not for this machine.
    #[error("{path}: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The defect.
        error: FormatError,
    },
    /// The file is not signed with a trusted key, or was changed after it was signed.
    #[error("{path}: {error}")]
    Signature {
        /// The file.
        path: PathBuf,
        /// How the file and the signature disagree.
        error: SignatureError,
    },
    /// The machine code could not be proven to stay in its sandbox.
    #[cfg(feature = "verify")]
    #[error("{path}: {error}")]
    Unproven {
        /// The file.
        path: PathBuf,
        /// The property that could not be proven, and the place in the code.
        error: pirn_verify::VerifyError,
    },
    /// The dynamic loader refused the file.
    #[error("cannot load {path}: {message}")]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        message: String,
    },
    /// Another file has the path of the module now.
    #[error(
        "{path} was replaced since the module was opened, and its code is read again to save a \
         snapshot; keep the file until then"
    )]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// The file changed while it was opened, or another file was written over it while it was in
    /// use.
    #[error(
        "{path} was changed in place while it was in use; write a new file and rename it, as \
         `aotc` does"
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
}
