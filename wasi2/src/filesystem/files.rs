//! Functions of a `descriptor` that take no path, preopened directories, and streams of entries.

use super::calls::{Answer, This, add, table, with, with_both, with_file, with_folder, with_state};
use super::descriptor::Descriptor;
use super::entries::Entries;
use super::error::ErrorCode;
use super::metadata::{DescriptorStat, MetadataHash};
use super::streams::{FileInput, FileOutput};
use super::types::{Advice, NewTimestamp, TYPES};
use crate::io::{exact, read_max};
use crate::limits::{ENTRIES_BYTES, SYNC_THREADS_MAX};
use crate::methods::{code_of_error, itself, methods, resource};
use crate::preopens::Source;
use crate::streams::{InputStream, OutputStream};
use crate::threads::Pool;
use crate::wasi::{View, Wasi};
use bytes::Bytes;
use pirn_component::{HostFuture, LinkError, Linker, Own, State};
use pirn_memory_files::MemoryDir;
use pirn_runtime::HostError;
use pirn_wasi::FileQuota;
use pirn_wasi::files::{Directory, Folder, HostDirectory, MemoryDirectory, Place};
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

const PREOPENS: &str = "wasi:filesystem/preopens@0.2.12";

/// The preopened directories of the guest, with their paths.
fn directories(wasi: &mut Wasi) -> Result<Vec<(Own<Descriptor>, String)>, HostError> {
    let config = Arc::clone(&wasi.config);
    let new = || Arc::new(FileQuota::new(config.files.max));
    let quota = Arc::clone(wasi.file_quota.get_or_insert_with(new));
    let all = config.files.preopens.iter().enumerate();
    let all = all.map(|(number, preopen)| {
        let directory: Box<dyn Directory> = match &preopen.source {
            Source::Host(dir) => Box::new(HostDirectory::new(Arc::clone(dir))),
            Source::Memory(base, limits) => {
                let made = wasi.memory_dirs.entry(number);
                let dir = made.or_insert_with(|| MemoryDir::new(base, *limits));
                // Device numbers of the host's file systems are far below this number.
                let device = u64::MAX - number as u64;
                Box::new(MemoryDirectory::new(dir.clone(), device))
            }
        };
        let folder = Folder::new(directory, preopen.access, Arc::clone(&quota));
        let folder = wasi.table.own(Descriptor::Folder(Arc::new(folder)))?;
        Ok((folder, preopen.path.clone()))
    });
    all.collect()
}

/// The threads that wait for the disk. A sync runs to its end even if its guest is stopped. Each
/// guest waits for one sync at a time.
static SYNCS: Pool = Pool::new(SYNC_THREADS_MAX, 1);

/// Waits until the disk has a file, on a thread that may block.
fn sync<T: View>(
    state: &mut State<T>,
    this: This,
    only_data: bool,
) -> HostFuture<'_, Result<(), ErrorCode>> {
    Box::pin(async move {
        let found = table(state).get::<Descriptor>(this.rep())?.clone();
        if !found.has_writes() {
            return Ok(Ok(()));
        }
        let user = state.data_mut().wasi().user();
        match Handle::try_current() {
            Ok(_) => SYNCS
                .run(user, move || found.sync(only_data))
                .await
                .map_err(|error| HostError::message(format!("a sync did not end: {error}"))),
            Err(_) => {
                let _permit = SYNCS.enter(user).await;
                Ok(found.sync(only_data))
            }
        }
    })
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.func(PREOPENS, "get-directories", |state, ()| {
        directories(state.data_mut().wasi())
    })?;
    resource::<T, Descriptor>(linker)?;
    resource::<T, Entries>(linker)?;
    code_of_error(linker, TYPES, "filesystem-error-code", |error| {
        error.downcast_ref::<io::Error>().map(ErrorCode::from)
    })?;
    link_data(linker)?;
    link_entries(linker)?;
    link_metadata(linker)
}

fn link_data<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, Descriptor, with_state;
        "read-via-stream"(position: u64) => |state, this| {
            let made = with_file(state, this, |file| {
                file.check_read()?;
                let file = Arc::clone(file);
                Ok(FileInput { file, position })
            })?;
            add(made, |input| table(state).own(InputStream::new(Box::new(input))))
        };
        "write-via-stream"(position: u64) => |state, this| {
            write_via_stream(state, this, Place::At(position))
        };
        "append-via-stream"() => |state, this| write_via_stream(state, this, Place::End);
        "read"(len: u64, at: u64) => |state, this| {
            let max = read_max(len);
            state.data_mut().wasi().host_bytes.check(max)?;
            with_file(state, this, |file| {
                file.check_read()?;
                let bytes = exact(file.file.read(max, at)?);
                let is_end = bytes.is_empty() && len > 0;
                Ok((bytes, is_end))
            })
        };
    }
    methods! { linker, Descriptor, with_file;
        "write"(bytes: Bytes, at: u64) => |file| {
            file.check_write()?;
            Ok(file.write(&bytes, Place::At(at))? as u64)
        };
        "set-size"(size: u64) => |file| {
            file.check_write()?;
            Ok(file.file.set_size(size)?)
        };
        "advise"(at: u64, len: u64, advice: Advice) => |file| {
            Ok(file.file.advise(at, len, advice.into())?)
        };
    }
    let name = "[method]descriptor.sync-data";
    linker.func_async(TYPES, name, |state, (this,): (This,)| {
        sync(state, this, true)
    })?;
    let name = "[method]descriptor.sync";
    linker.func_async(TYPES, name, |state, (this,): (This,)| {
        sync(state, this, false)
    })?;
    Ok(())
}

fn write_via_stream<T: View>(
    state: &mut State<T>,
    this: &This,
    place: Place,
) -> Answer<Own<OutputStream>> {
    let made = with_file(state, this, |file| {
        file.check_write()?;
        let file = Arc::clone(file);
        Ok(FileOutput { file, place })
    })?;
    add(made, |output| {
        table(state).own(OutputStream::new(Box::new(output)))
    })
}

fn link_entries<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, Descriptor, with_state;
        "read-directory"() => |state, this| {
            let bytes = state.data_mut().wasi().host_bytes.hold(ENTRIES_BYTES)?;
            let made = with_folder(state, this, |folder| Entries::new(folder, bytes))?;
            add(made, |entries| table(state).own(entries))
        };
    }
    methods! { linker, Entries, itself;
        "read-directory-entry"() => |entries| Ok(entries.next());
    }
    Ok(())
}

fn link_metadata<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, Descriptor, with;
        "get-flags"() => |found| Ok(found.flags());
        "get-type"() => |found| Ok(found.kind());
        "stat"() => |found| Ok(DescriptorStat::from(&found.metadata()?));
        "metadata-hash"() => |found| Ok(MetadataHash::from(&found.metadata()?));
        "set-times"(accessed: NewTimestamp, modified: NewTimestamp) => |found| {
            found.set_times(accessed, modified)
        };
    }
    methods! { linker, Descriptor, with_state;
        "is-same-object"(other: This) => |state, this| {
            with_both(state, this, &other, |one, other| match (one.metadata(), other.metadata()) {
                (Ok(one), Ok(other)) => one.identity() == other.identity(),
                _ => false,
            })
        };
    }
    Ok(())
}
