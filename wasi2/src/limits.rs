//! Bounds of the host's resources that a guest can use.

/// Most resources of a guest at a time, of all types together: streams, pollables, errors and
/// others.
pub(crate) const RESOURCES_MAX: usize = 4096;

/// Most bytes that one read of a stream returns.
pub(crate) const READ_MAX: usize = 64 << 10;

/// Most bytes that a stream takes at once.
pub(crate) const WRITE_MAX: usize = 64 << 10;

/// Most bytes of one `blocking-write-and-flush` (wasi:io, `streams.wit`).
pub(crate) const BLOCKING_WRITE_MAX: usize = 4096;

/// Most random bytes of one call. The host makes them in the guest's memory.
pub(crate) const RANDOM_MAX: u64 = 64 << 20;

/// Most bytes of a body that wait for the connection. At this bound the guest must wait.
pub(crate) const BODY_QUEUE_MAX: usize = 64 << 10;

/// Most bytes of one `fields` (wasi:http): names, values, and 128 bytes for each field.
pub(crate) const FIELDS_BYTES_MAX: usize = 128 << 10;

/// The count of host memory for each resource of a guest, in addition to its own size. It covers
/// the entry in the table, and small allocations of streams, timers, sockets and tasks. Large
/// allocations count separately.
pub(crate) const RESOURCE_BYTES: usize = 1 << 10;

/// The count of host memory for a stream of directory entries: the entries that the host reads at
/// once.
pub(crate) const ENTRIES_BYTES: usize = 32 << 10;

/// Most bytes of each text in an error of `wasi:http` that a guest gives to the host.
pub(crate) const ERROR_TEXT_MAX: usize = 1 << 10;

/// Most bytes of a request's authority. The longest domain name has 253 bytes.
pub(crate) const AUTHORITY_BYTES_MAX: usize = 1024;

/// Most bytes of a request's method.
pub(crate) const METHOD_BYTES_MAX: usize = 256;

/// Size of the read buffer and of the write buffer of a connection to another server. It bounds the
/// head of a response, and the bytes of a body that wait for the guest.
pub(crate) const CONNECTION_BUFFER_MAX: usize = 64 << 10;

/// Most connections of a guest to other servers (wasi:http).
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// Most bytes of one `descriptor.write`, so that the thread is soon free.
pub(crate) const FILE_WRITE_MAX: usize = 1 << 20;

/// Most threads of the process on which guests wait for the disk (`descriptor.sync`). One program
/// gets only a part of them (`threads.rs`).
pub(crate) const SYNC_THREADS_MAX: usize = 16;

/// Default of the most sockets of a guest at a time. A dropped socket counts while one of its
/// streams is open.
pub(crate) const SOCKETS_MAX: usize = 64;

/// Connections that wait for a listening socket by default.
pub(crate) const BACKLOG: u64 = 128;

/// Most connections that a guest can let wait for a listening socket.
pub(crate) const BACKLOG_MAX: u64 = 1024;

/// Largest buffer in the kernel that a guest can ask for. Linux reserves twice this size.
pub(crate) const SOCKET_BUFFER_MAX: u64 = 1 << 20;

/// Most datagrams of one call that receives or sends.
pub(crate) const DATAGRAMS_MAX: usize = 16;

/// A call that receives datagrams stops after this many bytes.
pub(crate) const DATAGRAM_BYTES: usize = 64 << 10;

/// Most names that a guest looks up at a time. A lookup counts until it ends, even if the guest has
/// dropped it. Beyond the limit, lookups of `wasi:http` wait, and lookups of sockets fail.
pub(crate) const LOOKUPS_MAX: usize = 4;

/// Most names that the process looks up at a time, each name on a thread. One program gets only a
/// part of these threads (`threads.rs`). Further lookups wait.
pub(crate) const LOOKUP_THREADS_MAX: usize = 64;

/// Most addresses of one name.
pub(crate) const ADDRESSES_MAX: usize = 64;
