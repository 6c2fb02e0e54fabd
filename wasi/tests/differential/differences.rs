//! The known differences between preview 1 here and in wasi-common.

use super::calls::{BOTH, Call, link, of_path, open, open_last, process, read, seek, write};
use super::machine::{Answer, Ended};
use crate::preview1::driver::{APPEND, CREAT, DIRECTORY, READ, TRUNC, WRITE};
use crate::preview1::errno::{
    BADF, FBIG, INVAL, ISDIR, LOOP, NAMETOOLONG, NOENT, NOTDIR, NOTSOCK, NOTSUP,
};

/// The side with which Linux agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linux {
    Pirn,
    Common,
}

/// A known difference.
pub(super) struct Difference {
    pub(super) reason: &'static str,
    /// For readers of the table.
    #[allow(dead_code, reason = "the table says it to its reader")]
    pub(super) linux: Linux,
    /// Calls of which one differs by this reason.
    pub(super) example: fn() -> Vec<Call>,
    /// Whether the row describes a call with the answers of wasi-common and of pirn.
    pub(super) covers: fn(call: &Call, common: &Answer, pirn: &Answer) -> bool,
}

/// `fdflags` of synchronous files.
const SYNC: i64 = 2 | 8 | 16;

/// Whether both sides succeed with different results.
fn both_succeed(common: &Answer, pirn: &Answer) -> bool {
    common.errno == Ok(0) && pirn.errno == Ok(0)
}

/// The numbers of bytes in the text of an answer.
fn bytes(answer: &Answer) -> impl Iterator<Item = u64> {
    let parts = answer.text.split(" bytes");
    parts.filter_map(|part| part.rsplit(' ').next()?.parse().ok())
}

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        reason: "an undefined flag, whence, clock, advice or signal ends a guest of wasi-common",
        linux: Linux::Pirn,
        example: || vec![seek(0, 0, 3)],
        covers: |_, common, pirn| common.errno == Err(Ended::Trapped) && pirn.errno == Ok(INVAL),
    },
    Difference {
        reason: "wasi-common does not open files with dsync, rsync or sync",
        linux: Linux::Pirn,
        example: || vec![open("a", 0, BOTH, 16)],
        covers: |call, common, _| {
            matches!(call, Call::Open { flags, .. } if flags & SYNC != 0)
                && common.errno == Ok(NOTSUP)
        },
    },
    Difference {
        reason: "poll_oneoff of a descriptor that is none, or cannot be waited for: wasi-common \
                 gives an errno, and pirn an event with it",
        linux: Linux::Pirn,
        example: || vec![Call::Poll(vec![(1, 3)])],
        covers: |call, common, pirn| {
            matches!(call, Call::Poll(_))
                && [Ok(BADF), Ok(INVAL)].contains(&common.errno)
                && pirn.errno == Ok(0)
        },
    },
    Difference {
        reason: "functions of sockets, for a descriptor that is none",
        linux: Linux::Pirn,
        example: || vec![process("sock_shutdown", &[1, 1])],
        covers: |call, common, pirn| {
            matches!(call, Call::Process { name, .. } if name.starts_with("sock_"))
                && (common.errno == Ok(BADF) && pirn.errno == Ok(NOTSOCK))
        },
    },
    Difference {
        reason: "a position in a directory is an index in wasi-common, and each removed or made \
                 entry moves the positions after it",
        linux: Linux::Pirn,
        example: || {
            let removed = ["a", "b", "to-a", "to-d"].map(|name| of_path("path_unlink_file", name));
            let again = (0..12).map(|nth| Call::ListAgain { fd: 3, nth });
            let list = Call::List { fd: 3, len: 4096 };
            [list].into_iter().chain(removed).chain(again).collect()
        },
        covers: |call, common, pirn| {
            matches!(call, Call::ListAgain { .. })
                && both_succeed(common, pirn)
                && pirn.text.is_empty()
        },
    },
    Difference {
        reason: "wasi-common has exit codes up to 125 only",
        linux: Linux::Pirn,
        example: || vec![process("proc_exit", &[126])],
        covers: |_, common, pirn| {
            common.errno == Err(Ended::Trapped) && matches!(pirn.errno, Err(Ended::Exited(126..)))
        },
    },
    Difference {
        reason: "at the end of a file, wasi-common's poll_oneoff tells of one byte to read",
        linux: Linux::Pirn,
        example: || vec![open("b", 0, BOTH, 0), Call::Poll(vec![(1, 4)])],
        covers: |call, common, pirn| {
            matches!(call, Call::Poll(_))
                && both_succeed(common, pirn)
                && bytes(common)
                    .zip(bytes(pirn))
                    .all(|(c, p)| c == p || (c, p) == (1, 0))
        },
    },
    Difference {
        reason: "of several buffers, wasi-common reads to the first only",
        linux: Linux::Pirn,
        example: || vec![open("a", 0, BOTH, 0), read(4, &[2, 8], None)],
        covers: |call, common, pirn| {
            matches!(call, Call::Read { lens, .. } if lens.len() > 1) && both_succeed(common, pirn)
        },
    },
    Difference {
        reason: "beyond the end of a file, wasi-common's poll_oneoff tells of a negative number of \
                 bytes to read",
        linux: Linux::Common,
        example: || {
            vec![
                open("b", 0, BOTH, 0),
                seek(4, 5, 0),
                Call::Poll(vec![(1, 4)]),
            ]
        },
        covers: |call, common, pirn| {
            matches!(call, Call::Poll(_))
                && both_succeed(common, pirn)
                && bytes(common).any(|bytes| bytes.cast_signed() < 0)
                && bytes(pirn).all(|bytes| bytes.cast_signed() >= 0)
        },
    },
    Difference {
        reason: "fd_pwrite to a file that is set to append: Linux appends, and POSIX and preview 1 \
                 write at the position",
        linux: Linux::Common,
        example: || vec![open("a", 0, BOTH, APPEND), write(4, "text", Some(0))],
        covers: |call, common, pirn| {
            matches!(call, Call::Write { at: Some(_), .. })
                && pirn.errno == Ok(0)
                && [Ok(0), Ok(FBIG)].contains(&common.errno)
        },
    },
    Difference {
        reason: "wasi-common does not look at the position of an fd_pread or fd_pwrite of no bytes",
        linux: Linux::Pirn,
        example: || vec![open("a", 0, BOTH, 0), write(4, "", Some(i64::MIN))],
        covers: |call, common, pirn| {
            let is_empty = match call {
                Call::Write { bytes, at, .. } => bytes.is_empty() && *at < Some(0),
                Call::Read { lens, at, .. } => lens.iter().all(|len| *len == 0) && *at < Some(0),
                _ => false,
            };
            is_empty && (common.errno == Ok(0) && pirn.errno == Ok(INVAL))
        },
    },
    Difference {
        reason: "wasi-common empties no file for a reader, or that is set to append",
        linux: Linux::Pirn,
        example: || vec![open("a", TRUNC, BOTH, APPEND)],
        covers: |call, common, _| {
            matches!(call, Call::Open { how, rights, flags, .. }
                if how & TRUNC != 0 && (flags & APPEND != 0 || rights & WRITE == 0))
                && common.errno == Ok(INVAL)
        },
    },
    Difference {
        reason: "wasi-common opens no directory with append",
        linux: Linux::Pirn,
        example: || vec![open("d", 0, READ, APPEND)],
        covers: |call, common, _| {
            matches!(call, Call::Open { flags, .. } if flags & APPEND != 0)
                && common.errno == Ok(ISDIR)
        },
    },
    Difference {
        reason: "wasi-common opens no link as a directory, without following it: Linux says notdir",
        linux: Linux::Pirn,
        example: || vec![open_last("to-d", DIRECTORY)],
        covers: |call, common, pirn| {
            matches!(call, Call::Open { how, lookup: 0, .. } if how & DIRECTORY != 0)
                && (common.errno == Ok(LOOP) && pirn.errno == Ok(NOTDIR))
        },
    },
    Difference {
        reason: "wasi-common ignores slashes and dots at the end of a path, or has another error",
        linux: Linux::Pirn,
        example: || vec![of_path("path_remove_directory", "e/")],
        covers: |call, _, _| {
            call.paths().into_iter().any(|path| {
                ["/", "/.", "/.."]
                    .iter()
                    .any(|end| path.0.ends_with(end.as_bytes()))
            })
        },
    },
    Difference {
        reason: "of two wrong paths, or a wrong path and an empty target, wasi-common reports the \
                 second",
        linux: Linux::Pirn,
        example: || vec![link("none", "a/x")],
        covers: |call, common, pirn| {
            matches!(call, Call::Link { .. } | Call::Symlink { .. })
                && (common.errno != Ok(0)
                    && [NOENT, INVAL, NAMETOOLONG].map(Ok).contains(&pirn.errno))
        },
    },
    Difference {
        reason: "wasi-common sets the size of a file that the guest has made and may not write",
        linux: Linux::Pirn,
        example: || {
            let resize = Call::OfDescriptor {
                name: "fd_filestat_set_size",
                fd: 4,
                more: vec![1],
            };
            vec![open("new", CREAT, 0, 0), resize]
        },
        covers: |call, common, pirn| {
            matches!(call, Call::OfDescriptor { name, .. } if *name == "fd_filestat_set_size")
                && ([Ok(0), Ok(FBIG)].contains(&common.errno) && pirn.errno == Ok(INVAL))
        },
    },
];
