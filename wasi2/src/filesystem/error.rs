//! `error-code`: the reason for which an operation on a file failed.

use pirn_component::Typed;
use pirn_wasi::{Errno, of_io};
use std::io;

/// `error-code`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) enum ErrorCode {
    Access,
    WouldBlock,
    Already,
    BadDescriptor,
    Busy,
    Deadlock,
    Quota,
    Exist,
    FileTooLarge,
    IllegalByteSequence,
    InProgress,
    Interrupted,
    Invalid,
    Io,
    IsDirectory,
    Loop,
    TooManyLinks,
    MessageSize,
    NameTooLong,
    NoDevice,
    NoEntry,
    NoLock,
    InsufficientMemory,
    InsufficientSpace,
    NotDirectory,
    NotEmpty,
    NotRecoverable,
    Unsupported,
    NoTty,
    NoSuchDevice,
    Overflow,
    NotPermitted,
    Pipe,
    ReadOnly,
    InvalidSeek,
    TextFileBusy,
    CrossDevice,
}

impl From<&io::Error> for ErrorCode {
    fn from(error: &io::Error) -> Self {
        Self::from(of_io(error))
    }
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ACCESS => Self::Access,
            Errno::AGAIN => Self::WouldBlock,
            Errno::ALREADY => Self::Already,
            Errno::BADF => Self::BadDescriptor,
            Errno::BUSY => Self::Busy,
            Errno::DEADLK => Self::Deadlock,
            Errno::DQUOT => Self::Quota,
            Errno::EXIST => Self::Exist,
            Errno::FBIG => Self::FileTooLarge,
            Errno::ILSEQ => Self::IllegalByteSequence,
            Errno::INPROGRESS => Self::InProgress,
            Errno::INTR => Self::Interrupted,
            Errno::INVAL => Self::Invalid,
            Errno::ISDIR => Self::IsDirectory,
            Errno::LOOP => Self::Loop,
            Errno::MLINK => Self::TooManyLinks,
            Errno::MSGSIZE => Self::MessageSize,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NODEV => Self::NoDevice,
            Errno::NOENT => Self::NoEntry,
            Errno::NOLCK => Self::NoLock,
            // `error-code` has no case for too many descriptors.
            Errno::NOMEM | Errno::MFILE | Errno::NFILE => Self::InsufficientMemory,
            Errno::NOSPC => Self::InsufficientSpace,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::NOTRECOVERABLE => Self::NotRecoverable,
            Errno::NOTSUP | Errno::NOSYS => Self::Unsupported,
            Errno::NOTTY => Self::NoTty,
            Errno::NXIO => Self::NoSuchDevice,
            Errno::OVERFLOW => Self::Overflow,
            Errno::PERM => Self::NotPermitted,
            Errno::PIPE => Self::Pipe,
            Errno::ROFS => Self::ReadOnly,
            Errno::SPIPE => Self::InvalidSeek,
            Errno::TXTBSY => Self::TextFileBusy,
            Errno::XDEV => Self::CrossDevice,
            _ => Self::Io,
        }
    }
}
