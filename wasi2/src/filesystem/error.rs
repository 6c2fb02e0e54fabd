//! `error-code`: the reason for which an operation on a file failed.

use crate::codes::error_codes;
use pirn_wasi::of_io;
use std::io;

error_codes! {
    pub(crate) ErrorCode, else Io;
    Access = ACCESS;
    WouldBlock = AGAIN;
    Already = ALREADY;
    BadDescriptor = BADF;
    Busy = BUSY;
    Deadlock = DEADLK;
    Quota = DQUOT;
    Exist = EXIST;
    FileTooLarge = FBIG;
    IllegalByteSequence = ILSEQ;
    InProgress = INPROGRESS;
    Interrupted = INTR;
    Invalid = INVAL;
    Io;
    IsDirectory = ISDIR;
    Loop = LOOP;
    TooManyLinks = MLINK;
    MessageSize = MSGSIZE;
    NameTooLong = NAMETOOLONG;
    NoDevice = NODEV;
    NoEntry = NOENT;
    NoLock = NOLCK;
    // `error-code` has no case for too many descriptors.
    InsufficientMemory = NOMEM | MFILE | NFILE;
    InsufficientSpace = NOSPC;
    NotDirectory = NOTDIR;
    NotEmpty = NOTEMPTY;
    NotRecoverable = NOTRECOVERABLE;
    Unsupported = NOTSUP | NOSYS;
    NoTty = NOTTY;
    NoSuchDevice = NXIO;
    Overflow = OVERFLOW;
    NotPermitted = PERM;
    Pipe = PIPE;
    ReadOnly = ROFS;
    InvalidSeek = SPIPE;
    TextFileBusy = TXTBSY;
    CrossDevice = XDEV;
}

impl From<&io::Error> for ErrorCode {
    fn from(error: &io::Error) -> Self {
        Self::from(of_io(error))
    }
}
