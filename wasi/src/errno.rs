//! [`Errno`]: the error of an operation, and its number in preview 1.

use std::io::{self, ErrorKind};

pub use rustix::io::Errno;

/// The error number of an error of the standard library or of cap-std.
#[must_use]
pub fn of_io(error: &io::Error) -> Errno {
    if let Some(errno) = Errno::from_io_error(error) {
        return errno;
    }
    match error.kind() {
        // cap-std's error for a path that leads outside of the directory.
        ErrorKind::PermissionDenied => Errno::PERM,
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::InvalidData => Errno::ILSEQ,
        ErrorKind::Interrupted => Errno::INTR,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::Unsupported => Errno::NOTSUP,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::BrokenPipe => Errno::PIPE,
        ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::IO,
    }
}

/// The error numbers of Linux that preview 1 has, too, with their numbers there.
///
/// Source: `errno` of `wasi_snapshot_preview1.witx`.
const NUMBERS: [(Errno, u8); 73] = [
    (Errno::TOOBIG, 1),
    (Errno::ACCESS, 2),
    (Errno::ADDRINUSE, 3),
    (Errno::ADDRNOTAVAIL, 4),
    (Errno::AFNOSUPPORT, 5),
    (Errno::AGAIN, 6),
    (Errno::ALREADY, 7),
    (Errno::BADF, 8),
    (Errno::BADMSG, 9),
    (Errno::BUSY, 10),
    (Errno::CANCELED, 11),
    (Errno::CHILD, 12),
    (Errno::CONNABORTED, 13),
    (Errno::CONNREFUSED, 14),
    (Errno::CONNRESET, 15),
    (Errno::DEADLK, 16),
    (Errno::DESTADDRREQ, 17),
    (Errno::DOM, 18),
    (Errno::DQUOT, 19),
    (Errno::EXIST, 20),
    (Errno::FAULT, 21),
    (Errno::FBIG, 22),
    (Errno::HOSTUNREACH, 23),
    (Errno::IDRM, 24),
    (Errno::ILSEQ, 25),
    (Errno::INPROGRESS, 26),
    (Errno::INTR, 27),
    (Errno::INVAL, 28),
    (Errno::IO, IO),
    (Errno::ISCONN, 30),
    (Errno::ISDIR, 31),
    (Errno::LOOP, 32),
    (Errno::MFILE, 33),
    (Errno::MLINK, 34),
    (Errno::MSGSIZE, 35),
    (Errno::MULTIHOP, 36),
    (Errno::NAMETOOLONG, 37),
    (Errno::NETDOWN, 38),
    (Errno::NETRESET, 39),
    (Errno::NETUNREACH, 40),
    (Errno::NFILE, 41),
    (Errno::NOBUFS, 42),
    (Errno::NODEV, 43),
    (Errno::NOENT, 44),
    (Errno::NOEXEC, 45),
    (Errno::NOLCK, 46),
    (Errno::NOLINK, 47),
    (Errno::NOMEM, 48),
    (Errno::NOMSG, 49),
    (Errno::NOPROTOOPT, 50),
    (Errno::NOSPC, 51),
    (Errno::NOSYS, 52),
    (Errno::NOTCONN, 53),
    (Errno::NOTDIR, 54),
    (Errno::NOTEMPTY, 55),
    (Errno::NOTRECOVERABLE, 56),
    (Errno::NOTSOCK, 57),
    (Errno::NOTSUP, 58),
    (Errno::NOTTY, 59),
    (Errno::NXIO, 60),
    (Errno::OVERFLOW, 61),
    (Errno::PERM, 63),
    (Errno::PIPE, 64),
    (Errno::PROTO, 65),
    (Errno::PROTONOSUPPORT, 66),
    (Errno::PROTOTYPE, 67),
    (Errno::RANGE, 68),
    (Errno::ROFS, 69),
    (Errno::SPIPE, 70),
    (Errno::STALE, 72),
    (Errno::TIMEDOUT, 73),
    (Errno::TXTBSY, 74),
    (Errno::XDEV, 75),
];

/// The number of `io`, for errors without a number in preview 1.
const IO: u8 = 29;

/// The number of an error in preview 1.
pub(crate) fn number(errno: Errno) -> i32 {
    let found = NUMBERS.iter().find(|(known, _)| *known == errno);
    found.map_or(IO, |(_, number)| *number).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_has_a_number() {
        let numbers = [
            Errno::ROFS,
            Errno::XDEV,
            Errno::NXIO,
            Errno::TXTBSY,
            Errno::NODEV,
        ]
        .map(number);
        assert_eq!(numbers, [69, 75, 60, 74, 43]);
        // EUCLEAN, for which preview 1 has no number.
        let unclean = io::Error::from_raw_os_error(117);
        assert_eq!(number(of_io(&unclean)), 29);
        assert_eq!(number(of_io(&io::Error::other("no number"))), 29);
        assert!(NUMBERS.is_sorted_by_key(|(_, number)| *number));
    }
}
