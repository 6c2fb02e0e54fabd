//! Several threads of a guest on one WASI context: they open, close, renumber, read and write at
//! once, with any numbers of descriptors, also with those of each other.

#[path = "common/setup.rs"]
mod setup;

use pirn_wasi::memory_files::Limits;
use pirn_wasi::{MemoryBase, MemoryDir, WasiCtx};
use setup::{BADF, CREATE, DIRECTORY, FOLDER, Guest, SUCCESS, Setup};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

/// Descriptor of the directory in memory; [`FOLDER`] is one of the host.
const MEMORY: i64 = 4;
const APPEND: i64 = 1;
const OUT: u32 = 64;
const ROUNDS: usize = 2000;

/// A context with a directory of the host and one in memory.
fn context(setup: &Setup, dir: &MemoryDir) -> WasiCtx {
    setup.context(|wasi| {
        let wasi = wasi.memory_dir(dir.clone(), "/memory");
        wasi.expect("a descriptor").descriptors_max(1000)
    })
}

fn open_in(guest: &mut Guest, dir: i64, name: &str, how: i64) -> Result<i64, i32> {
    const READ_WRITE: i64 = 1 << 1 | 1 << 6 | 1 << 2;
    let rights = if how & DIRECTORY == 0 { READ_WRITE } else { 2 };
    guest.write(0, name.as_bytes());
    let len = name.len() as i64;
    let arguments = [dir, 0, 0, len, how, rights, 0, 0, OUT.into()];
    match guest.call("path_open", &arguments) {
        SUCCESS => Ok(guest.number(OUT).into()),
        errno => Err(errno),
    }
}

/// wasi-common looks at the kind of a descriptor, and then removes it as that kind.
#[test]
fn a_descriptor_that_changes_its_kind_is_closed() {
    for with_memory in [false, true] {
        let setup = Setup::several(2, 2);
        std::fs::create_dir(setup.folder.path().join("below")).expect("room");
        let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
        let context = match with_memory {
            true => context(&setup, &dir),
            false => setup.context(|wasi| wasi),
        };
        let (mut one, mut other) = (setup.guest_of(context.clone()), setup.guest_of(context));
        // The number of a file, of which one thread makes a directory while the other closes it.
        let shared = AtomicI64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let file = one.open("file");
                    let below = open_in(&mut one, FOLDER.into(), "below", DIRECTORY);
                    let below = below.expect("it opens");
                    shared.store(file, Release);
                    let renumbered = one.call("fd_renumber", &[below, file]);
                    while shared.load(Acquire) != 0 {
                        thread::yield_now();
                    }
                    let left = if renumbered == SUCCESS { file } else { below };
                    let closed = one.call("fd_close", &[left]);
                    assert!([SUCCESS, BADF].contains(&closed), "{closed}");
                }
                shared.store(-1, Release);
            });
            scope.spawn(|| {
                loop {
                    match shared.load(Acquire) {
                        0 => thread::yield_now(),
                        -1 => break,
                        file => {
                            let closed = other.try_call("fd_close", &[file]);
                            shared.store(0, Release);
                            assert_eq!(closed.expect("no trap"), SUCCESS);
                        }
                    }
                }
            });
        });
    }
}

/// wasi-common sets the flags of no descriptor of a guest with threads. Those of files in memory
/// can be set, whatever other threads do with other descriptors meanwhile.
#[test]
fn flags_of_an_opened_file_can_be_set_while_others_are_closed() {
    let setup = Setup::several(2, 2);
    let dir = MemoryDir::new(&MemoryBase::empty(), Limits::default());
    let context = context(&setup, &dir);
    let guests = [(); 2].map(|()| setup.guest_of(context.clone()));
    thread::scope(|scope| {
        for (mut guest, name) in guests.into_iter().zip(["one", "other"]) {
            scope.spawn(move || {
                let number = open_in(&mut guest, MEMORY, name, CREATE).expect("it opens");
                for _ in 0..ROUNDS {
                    let next = open_in(&mut guest, MEMORY, name, CREATE).expect("it opens");
                    let set = guest.call("fd_fdstat_set_flags", &[next, APPEND]);
                    assert_eq!(set, SUCCESS);
                    assert_eq!(guest.call("fd_renumber", &[next, number]), SUCCESS);
                }
            });
        }
    });
    assert_eq!(dir.used_files(), 2);
}
