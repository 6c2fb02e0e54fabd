//! The guests: modules that export every preview 1 function under its own name.

use super::world::World;
use super::{Canary, DEADLINE, HOST_BYTES_MAX, LATE_MAX};
use pirn_compiler::Options;
use pirn_runtime::{Caller, ExternType, Instance, Linker, Module, Prepared, Region, SharedMemory};
use pirn_wasi::WasiCtx;
use std::fmt;
use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// An instance of one of the guests.
pub(super) type Guest = Instance<WasiCtx>;

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

/// Bytes of a page.
const PAGE: usize = 64 << 10;

/// A prepared guest with one kind of memory.
pub(super) struct House {
    pages: usize,
    shared: Option<SharedMemory>,
    prepared: Prepared<WasiCtx>,
}

impl fmt::Display for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.shared.as_ref().map_or("a", |_| "a shared");
        write!(f, "a guest with {kind} memory of {} pages", self.pages)
    }
}

/// The text of a module with this memory, which exports every function that it imports.
fn text(memory: &str) -> String {
    let ty = |kind: &Kind| if *kind == Wide { "i64" } else { "i32" };
    let (mut imports, mut exports) = (String::new(), String::new());
    for (name, kinds) in FUNCTIONS {
        let types: Vec<_> = kinds.iter().map(ty).collect();
        let gets: Vec<_> = (0..kinds.len())
            .map(|at| format!("(local.get {at})"))
            .collect();
        let (types, gets) = (types.join(" "), gets.join(" "));
        let result = if *name == "proc_exit" {
            ""
        } else {
            "(result i32)"
        };
        imports += &format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {types}) {result}))"
        );
        exports +=
            &format!("(func (export \"{name}\") (param {types}) {result} (call ${name} {gets}))");
    }
    for name in ["memory", "time", "descriptors"] {
        imports += &format!("(import \"canary\" \"{name}\" (func ${name}))");
        exports += &format!("(func (export \"canary_{name}\") (call ${name}))");
    }
    format!("(module {imports} {memory} {exports})")
}

impl House {
    fn new(pages: usize, is_shared: bool) -> Self {
        let memory = if is_shared {
            format!(
                "(import \"env\" \"memory\" (memory {pages} {pages} shared)) (export \"memory\" (memory 0))"
            )
        } else {
            format!("(memory (export \"memory\") {pages})")
        };
        let text = text(&memory);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("well-formed");
        let so = pirn_compiler::compile(&wasm, &Options::default()).expect("valid");
        let module = Module::from_bytes(&so).expect("a module");
        let mut linker = Linker::new();
        pirn_wasi::link(&mut linker, |wasi| wasi).expect("each name once");
        link_canaries(&mut linker);
        let shared = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(SharedMemory::new(&ty).expect("a shared memory")),
            _ => None,
        });
        if let Some(shared) = &shared {
            linker
                .memory("env", "memory", shared)
                .expect("each name once");
        }
        let region = Region::builder().slots(1).memory_max(pages * PAGE).build();
        let region = region.expect("a region");
        Self {
            pages,
            shared,
            prepared: region.prepare(&module, &linker).expect("it is linked"),
        }
    }

    /// Bytes of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.pages * PAGE
    }

    /// An instance with its own context. Its memory holds the values that arguments point to.
    pub(super) fn instance(&self, world: &World) -> Result<Guest, String> {
        let instance = self.prepared.try_instantiate(world.context()?);
        let mut instance = instance.map_err(|error| error.to_string())?;
        for (at, bytes) in super::arguments::memory(self.bytes()) {
            match &self.shared {
                Some(shared) => shared.write(at as u64, &bytes),
                None => instance.memory_mut().write(at as u32, &bytes),
            }
            .map_err(|error| error.to_string())?;
        }
        Ok(instance)
    }
}

/// Defines the host functions that each break a limit: see [`Canary`].
fn link_canaries(linker: &mut Linker<WasiCtx>) {
    static KEPT: Mutex<Vec<File>> = Mutex::new(vec![]);
    let canary = |canary| {
        move |_: Caller<'_, WasiCtx>| match canary {
            Canary::Memory => drop(vec![1_u8; HOST_BYTES_MAX + 1]),
            Canary::Time => thread::sleep(DEADLINE + LATE_MAX + DEADLINE),
            Canary::Descriptors => {
                let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(File::open("/dev/null").ok());
            }
        }
    };
    for (name, kind) in [
        ("memory", Canary::Memory),
        ("time", Canary::Time),
        ("descriptors", Canary::Descriptors),
    ] {
        linker
            .func("canary", name, canary(kind))
            .expect("each name once");
    }
}

/// All guests: with one page, with 64 MiB, and with a shared memory.
pub(super) fn houses() -> &'static [House] {
    static HOUSES: OnceLock<Vec<House>> = OnceLock::new();
    HOUSES.get_or_init(|| {
        vec![
            House::new(1, false),
            House::new(1024, false),
            House::new(16, true),
        ]
    })
}
