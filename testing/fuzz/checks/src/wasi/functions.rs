//! The functions of preview 1, and the meaning of their parameters.

/// The meaning of a parameter, which determines its hostile values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A descriptor.
    Fd,
    /// The address of an array: of vectors, or of subscriptions.
    Array,
    /// The number of elements of an array.
    Count,
    /// The address of a path.
    Path,
    /// The length of a path, or of a buffer.
    Len,
    /// An address to write to.
    Out,
    /// Flags, a clock, a signal: a small number.
    Small,
    /// A number of 64 bits: an offset, rights, a time.
    Wide,
}

use Kind::{Array, Count, Fd, Len, Out, Path, Small, Wide};

/// Every function of preview 1, with its parameters.
pub const FUNCTIONS: &[(&str, &[Kind])] = &[
    ("args_get", &[Out, Out]),
    ("args_sizes_get", &[Out, Out]),
    ("environ_get", &[Out, Out]),
    ("environ_sizes_get", &[Out, Out]),
    ("clock_res_get", &[Small, Out]),
    ("clock_time_get", &[Small, Wide, Out]),
    ("fd_advise", &[Fd, Wide, Wide, Small]),
    ("fd_allocate", &[Fd, Wide, Wide]),
    ("fd_close", &[Fd]),
    ("fd_datasync", &[Fd]),
    ("fd_fdstat_get", &[Fd, Out]),
    ("fd_fdstat_set_flags", &[Fd, Small]),
    ("fd_fdstat_set_rights", &[Fd, Wide, Wide]),
    ("fd_filestat_get", &[Fd, Out]),
    ("fd_filestat_set_size", &[Fd, Wide]),
    ("fd_filestat_set_times", &[Fd, Wide, Wide, Small]),
    ("fd_pread", &[Fd, Array, Count, Wide, Out]),
    ("fd_prestat_get", &[Fd, Out]),
    ("fd_prestat_dir_name", &[Fd, Out, Len]),
    ("fd_pwrite", &[Fd, Array, Count, Wide, Out]),
    ("fd_read", &[Fd, Array, Count, Out]),
    ("fd_readdir", &[Fd, Out, Len, Wide, Out]),
    ("fd_renumber", &[Fd, Fd]),
    ("fd_seek", &[Fd, Wide, Small, Out]),
    ("fd_sync", &[Fd]),
    ("fd_tell", &[Fd, Out]),
    ("fd_write", &[Fd, Array, Count, Out]),
    ("path_create_directory", &[Fd, Path, Len]),
    ("path_filestat_get", &[Fd, Small, Path, Len, Out]),
    (
        "path_filestat_set_times",
        &[Fd, Small, Path, Len, Wide, Wide, Small],
    ),
    ("path_link", &[Fd, Small, Path, Len, Fd, Path, Len]),
    (
        "path_open",
        &[Fd, Small, Path, Len, Small, Wide, Wide, Small, Out],
    ),
    ("path_readlink", &[Fd, Path, Len, Out, Len, Out]),
    ("path_remove_directory", &[Fd, Path, Len]),
    ("path_rename", &[Fd, Path, Len, Fd, Path, Len]),
    ("path_symlink", &[Path, Len, Fd, Path, Len]),
    ("path_unlink_file", &[Fd, Path, Len]),
    ("poll_oneoff", &[Array, Out, Count, Out]),
    ("proc_exit", &[Small]),
    ("proc_raise", &[Small]),
    ("random_get", &[Out, Len]),
    ("sched_yield", &[]),
    ("sock_accept", &[Fd, Small, Out]),
    ("sock_recv", &[Fd, Array, Count, Small, Out, Out]),
    ("sock_send", &[Fd, Array, Count, Small, Out]),
    ("sock_shutdown", &[Fd, Small]),
];
