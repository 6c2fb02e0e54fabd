//! Functions of a `descriptor` that take no path, preopened directories, and streams of entries.

use super::calls::{Answer, This, add, table, with, with_both, with_file, with_folder};
use super::descriptor::Descriptor;
use super::entries::Entries;
use super::error::ErrorCode;
use super::metadata::{DescriptorStat, MetadataHash};
use super::streams::{FileInput, FileOutput};
use super::types::{Advice, NewTimestamp, TYPES};
use crate::io::{exact, read_max};
use crate::limits::{ENTRIES_BYTES, SYNC_THREADS_MAX};
use crate::methods::{code_of_error, getter, resource};
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
    let name = "[method]descriptor.read-via-stream";
    linker.func(TYPES, name, |state, (this, position): (This, u64)| {
        let made = with_file(state, &this, |file| {
            file.check_read()?;
            let file = Arc::clone(file);
            Ok(FileInput { file, position })
        })?;
        add(made, |input| {
            table(state).own(InputStream::new(Box::new(input)))
        })
    })?;
    let name = "[method]descriptor.write-via-stream";
    linker.func(TYPES, name, |state, (this, position): (This, u64)| {
        write_via_stream(state, &this, Place::At(position))
    })?;
    let name = "[method]descriptor.append-via-stream";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        write_via_stream(state, &this, Place::End)
    })?;
    let name = "[method]descriptor.read";
    linker.func(TYPES, name, |state, (this, len, at): (This, u64, u64)| {
        let max = read_max(len);
        state.data_mut().wasi().host_bytes.check(max)?;
        with_file(state, &this, |file| {
            file.check_read()?;
            let bytes = exact(file.file.read(max, at)?);
            let is_end = bytes.is_empty() && len > 0;
            Ok((bytes, is_end))
        })
    })?;
    let name = "[method]descriptor.write";
    linker.func(
        TYPES,
        name,
        |state, (this, bytes, at): (This, Bytes, u64)| {
            with_file(state, &this, |file| {
                file.check_write()?;
                Ok(file.write(&bytes, Place::At(at))? as u64)
            })
        },
    )?;
    let name = "[method]descriptor.set-size";
    linker.func(TYPES, name, |state, (this, size): (This, u64)| {
        with_file(state, &this, |file| {
            file.check_write()?;
            Ok(file.file.set_size(size)?)
        })
    })?;
    let name = "[method]descriptor.advise";
    type Advise = (This, u64, u64, Advice);
    linker.func(TYPES, name, |state, (this, at, len, advice): Advise| {
        with_file(state, &this, |file| {
            Ok(file.file.advise(at, len, advice.into())?)
        })
    })?;
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
    let name = "[method]descriptor.read-directory";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let bytes = state.data_mut().wasi().host_bytes.hold(ENTRIES_BYTES)?;
        let made = with_folder(state, &this, |folder| Entries::new(folder, bytes))?;
        add(made, |entries| table(state).own(entries))
    })?;
    getter(linker, "read-directory-entry", |entries: &mut Entries| {
        Ok(entries.next())
    })
}

fn link_metadata<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    let name = "[method]descriptor.get-flags";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        with(state, &this, |found| Ok(found.flags()))
    })?;
    let name = "[method]descriptor.get-type";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        with(state, &this, |found| Ok(found.kind()))
    })?;
    let name = "[method]descriptor.stat";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        with(state, &this, |found| {
            Ok(DescriptorStat::from(&found.metadata()?))
        })
    })?;
    let name = "[method]descriptor.metadata-hash";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        with(state, &this, |found| {
            Ok(MetadataHash::from(&found.metadata()?))
        })
    })?;
    let name = "[method]descriptor.is-same-object";
    linker.func(TYPES, name, |state, (this, other): (This, This)| {
        with_both(state, &this, &other, |one, other| {
            match (one.metadata(), other.metadata()) {
                (Ok(one), Ok(other)) => one.identity() == other.identity(),
                _ => false,
            }
        })
    })?;
    let name = "[method]descriptor.set-times";
    type SetTimes = (This, NewTimestamp, NewTimestamp);
    linker.func(
        TYPES,
        name,
        |state, (this, accessed, modified): SetTimes| {
            with(state, &this, |found| found.set_times(accessed, modified))
        },
    )?;
    Ok(())
}
