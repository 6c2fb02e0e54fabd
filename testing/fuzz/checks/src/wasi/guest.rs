//! The guests: modules that export every preview 1 function under its own name.

use super::arguments::memory;
use super::bounds::{Canary, DEADLINE, HOST_BYTES_MAX, LATE_MAX};
use super::functions::{FUNCTIONS, Kind};
use super::world::World;
use pirn_compiler::Options;
use pirn_runtime::{Caller, ExternType, Instance, Linker, Module, Prepared, Region, SharedMemory};
use pirn_wasi::WasiCtx;
use std::fmt;
use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// An instance of one of the guests.
pub(super) type Guest = Instance<WasiCtx>;

/// Bytes of a page.
const PAGE: usize = 64 << 10;

/// A prepared guest with one kind of memory.
pub(super) struct PreparedGuest {
    pages: usize,
    shared: Option<SharedMemory>,
    prepared: Prepared<WasiCtx>,
}

impl fmt::Display for PreparedGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.shared.as_ref().map_or("a", |_| "a shared");
        write!(f, "a guest with {kind} memory of {} pages", self.pages)
    }
}

/// The text of a module with this memory, which exports every function that it imports.
fn text(memory: &str) -> String {
    let ty = |kind: &Kind| if *kind == Kind::Wide { "i64" } else { "i32" };
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

impl PreparedGuest {
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
        pirn_wasi::link(&mut linker, |wasi| wasi).expect("no name is defined twice");
        link_canaries(&mut linker);
        let shared = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(SharedMemory::new(&ty).expect("a shared memory")),
            _ => None,
        });
        if let Some(shared) = &shared {
            linker
                .memory("env", "memory", shared)
                .expect("no name is defined twice");
        }
        let region = Region::builder()
            .slots(1)
            .memory_bytes_max(pages * PAGE)
            .build();
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
        for (at, bytes) in memory(self.bytes()) {
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
            .expect("no name is defined twice");
    }
}

/// All guests: with one page, with 64 MiB, and with a shared memory.
pub(super) fn prepared_guests() -> &'static [PreparedGuest] {
    static GUESTS: OnceLock<Vec<PreparedGuest>> = OnceLock::new();
    GUESTS.get_or_init(|| {
        vec![
            PreparedGuest::new(1, false),
            PreparedGuest::new(1024, false),
            PreparedGuest::new(16, true),
        ]
    })
}
