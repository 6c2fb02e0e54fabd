//! A guest that exports the functions of preview 1 that it imports, with its directory and its WASI
//! context.
#![allow(dead_code, reason = "each test uses a part of it")]

use pirn_runtime::{
    CallError, ExternType, Instance, Linker, Module, Prepared, Region, Reset, SharedMemory,
    TrapCode, Value,
};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{Dir, WasiCtx, WasiCtxBuilder, ambient_authority};

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const BADF: i32 = 8;
pub(crate) const INVAL: i32 = 28;
pub(crate) const NAMETOOLONG: i32 = 37;

pub(crate) const STDIN: i32 = 0;
pub(crate) const STDOUT: i32 = 1;
/// A flag of `path_open`: create the file if it does not exist.
pub(crate) const CREATE: i64 = 1;
/// A flag of `path_open`: open only a directory.
pub(crate) const DIRECTORY: i64 = 2;
/// Descriptor of the preopened directory.
pub(crate) const FOLDER: i32 = 3;

/// The functions and their parameters. All of them return an errno.
pub(crate) const FUNCTIONS: [(&str, &str); 27] = [
    ("fd_read", "i32 i32 i32 i32"),
    ("fd_pread", "i32 i32 i32 i64 i32"),
    ("fd_write", "i32 i32 i32 i32"),
    ("fd_pwrite", "i32 i32 i32 i64 i32"),
    ("sock_send", "i32 i32 i32 i32 i32"),
    ("sock_recv", "i32 i32 i32 i32 i32 i32"),
    ("random_get", "i32 i32"),
    ("fd_readdir", "i32 i32 i32 i64 i32"),
    ("fd_seek", "i32 i64 i32 i32"),
    ("fd_prestat_dir_name", "i32 i32 i32"),
    ("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
    ("path_readlink", "i32 i32 i32 i32 i32 i32"),
    ("path_rename", "i32 i32 i32 i32 i32 i32"),
    ("path_symlink", "i32 i32 i32 i32 i32"),
    ("fd_close", "i32"),
    ("fd_fdstat_get", "i32 i32"),
    ("fd_fdstat_set_flags", "i32 i32"),
    ("path_filestat_get", "i32 i32 i32 i32 i32"),
    ("fd_renumber", "i32 i32"),
    ("fd_filestat_set_size", "i32 i64"),
    ("fd_filestat_get", "i32 i32"),
    ("sock_accept", "i32 i32 i32"),
    ("path_create_directory", "i32 i32 i32"),
    ("path_remove_directory", "i32 i32 i32"),
    ("path_unlink_file", "i32 i32 i32"),
    ("path_link", "i32 i32 i32 i32 i32 i32 i32"),
    ("poll_oneoff", "i32 i32 i32 i32"),
];

/// A guest with this memory, which exports every function that it imports.
pub(crate) fn guest(memory: &str) -> Module {
    let mut text = String::from("(module\n");
    for (name, params) in FUNCTIONS {
        text += &format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {params}) (result i32)))\n"
        );
    }
    text += memory;
    for (name, params) in FUNCTIONS {
        let gets = (0..params.split(' ').count()).map(|i| format!("(local.get {i})"));
        let gets = gets.collect::<String>();
        text += &format!(
            "(func (export \"{name}\") (param {params}) (result i32) (call ${name} {gets}))\n"
        );
    }
    text += ")";
    module(&text)
}

/// Compiles a module in the text format, and opens it.
pub(crate) fn module(text: &str) -> Module {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default());
    Module::from_bytes(&so.expect("it is valid")).expect("it opens")
}

/// The functions of preview 1.
pub(crate) fn linker() -> Linker<WasiCtx> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
    linker
}

/// Links a module in the text format to preview 1, in a region of its own.
pub(crate) fn prepared(text: &str, slots: u32) -> Prepared<WasiCtx> {
    let region = Region::builder().slots(slots).build().expect("a region");
    let prepared = region.prepare(&module(text), &linker());
    prepared.expect("it is linked")
}

/// A prepared guest, and its directory with files.
pub(crate) struct Setup {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) prepared: Prepared<WasiCtx>,
    pub(crate) shared: Option<SharedMemory>,
}

impl Setup {
    /// A guest with its own memory of `pages` pages.
    pub(crate) fn new(pages: u32) -> Self {
        let module = guest(&format!("(memory (export \"memory\") {pages})\n"));
        Self::of(&module, None)
    }

    /// A guest with a shared memory of `pages` pages.
    pub(crate) fn shared(pages: u32) -> Self {
        let memory = format!(
            "(import \"env\" \"memory\" (memory {pages} {pages} shared))\n(export \"memory\" (memory 0))\n"
        );
        Self::shared_by(&memory, 1)
    }

    /// A guest that imports a shared memory by this text, and up to `slots` instances at once.
    pub(crate) fn shared_by(text: &str, slots: u32) -> Self {
        let module = guest(text);
        let ty = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(ty),
            _ => None,
        });
        let memory = SharedMemory::new(&ty.expect("it imports one")).expect("memory");
        Self::with_slots(&module, Some(memory), slots)
    }

    pub(crate) fn of(module: &Module, shared: Option<SharedMemory>) -> Self {
        Self::with_slots(module, shared, 1)
    }

    /// A guest with its own memory of `pages` pages, and up to `slots` instances at once.
    pub(crate) fn several(pages: u32, slots: u32) -> Self {
        let module = guest(&format!("(memory (export \"memory\") {pages})\n"));
        Self::with_slots(&module, None, slots)
    }

    /// A guest whose slot is reset in this way. `None` if the kernel cannot.
    pub(crate) fn reset_by(module: &Module, reset: Reset) -> Option<Self> {
        let region = Region::builder().slots(1).reset(reset).build().ok()?;
        Some(Self::in_region(&region, module, None))
    }

    fn with_slots(module: &Module, shared: Option<SharedMemory>, slots: u32) -> Self {
        let region = Region::builder().slots(slots).build().expect("a region");
        Self::in_region(&region, module, shared)
    }

    fn in_region(region: &Region, module: &Module, shared: Option<SharedMemory>) -> Self {
        let mut linker = linker();
        if let Some(memory) = &shared {
            linker
                .memory("env", "memory", memory)
                .expect("the name is free");
        }
        Self {
            folder: tempfile::tempdir().expect("a temporary directory"),
            prepared: region.prepare(module, &linker).expect("it links"),
            shared,
        }
    }

    /// An instance that reads endless bytes of value 7 from its standard input, and whose output is
    /// discarded.
    pub(crate) fn guest(&self) -> Guest {
        self.guest_with(|wasi| wasi)
    }

    /// An instance as from [`guest`](Self::guest), with changes to its context.
    pub(crate) fn guest_with(&self, more: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder) -> Guest {
        self.guest_of(self.context(more))
    }

    /// A context with endless input, discarded output, and the directory of the host.
    pub(crate) fn context(&self, more: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder) -> WasiCtx {
        let folder = Dir::open_ambient_dir(self.folder.path(), ambient_authority());
        let wasi = WasiCtxBuilder::new()
            .stdin(ReadPipe::new(std::io::repeat(7)))
            .stdout(WritePipe::new(std::io::sink()))
            .preopened_dir(folder.expect("it is there"), "/")
            .expect("there is room");
        more(wasi).build()
    }

    /// An instance with a context, which it may share with others, as threads of a guest do.
    pub(crate) fn guest_of(&self, context: WasiCtx) -> Guest {
        let instance = self.prepared.try_instantiate(context);
        Guest {
            instance: instance.expect("a slot is free"),
            shared: self.shared.clone(),
        }
    }
}

pub(crate) struct Guest {
    pub(crate) instance: Instance<WasiCtx>,
    pub(crate) shared: Option<SharedMemory>,
}

/// Converts numbers to the parameter types of a function.
pub(crate) fn values(name: &str, arguments: &[i64]) -> Vec<Value> {
    let (_, params) = FUNCTIONS.iter().find(|(n, _)| *n == name).expect("known");
    let params = params.split(' ').zip(arguments);
    params
        .map(|(ty, argument)| match ty {
            "i64" => Value::I64(*argument),
            _ => Value::I32(*argument as i32),
        })
        .collect()
}

impl Guest {
    pub(crate) fn try_call(&mut self, name: &str, arguments: &[i64]) -> Result<i32, CallError> {
        let results = self.instance.call_values(name, &values(name, arguments))?;
        match results[..] {
            [Value::I32(errno)] => Ok(errno),
            _ => panic!("{results:?}"),
        }
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &[i64]) -> i32 {
        let called = self.try_call(name, arguments);
        called.unwrap_or_else(|error| panic!("{name} {arguments:?}: {error}"))
    }

    /// Whether a call ends with the trap for an address outside the memory.
    pub(crate) fn is_outside(&mut self, name: &str, arguments: &[i64]) -> bool {
        match self.try_call(name, arguments) {
            Err(CallError::Trap(trap)) => trap.code() == TrapCode::MemoryOutOfBounds,
            _ => false,
        }
    }

    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) {
        match &self.shared {
            Some(memory) => memory.write(at.into(), bytes).expect("it is inside"),
            None => {
                let mut memory = self.instance.memory_mut();
                memory.write(at, bytes).expect("it is inside");
            }
        }
    }

    pub(crate) fn read(&self, at: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match &self.shared {
            Some(memory) => memory.read(at.into(), &mut bytes).expect("it is inside"),
            None => {
                let memory = self.instance.memory();
                memory.read(at, &mut bytes).expect("it is inside");
            }
        }
        bytes
    }

    pub(crate) fn number(&self, at: u32) -> u32 {
        let bytes = self.read(at, 4).try_into().expect("4 bytes");
        u32::from_le_bytes(bytes)
    }

    /// Writes I/O vectors to the guest's memory.
    pub(crate) fn vectors(&mut self, at: u32, vectors: impl IntoIterator<Item = (u32, u32)>) {
        let parts = vectors.into_iter().flat_map(|(start, len)| [start, len]);
        let bytes: Vec<u8> = parts.flat_map(u32::to_le_bytes).collect();
        self.write(at, &bytes);
    }

    /// Opens or creates a file for reading and writing. Returns its descriptor, or the errno.
    pub(crate) fn try_open(&mut self, name: &str, flags: i64) -> Result<i64, i32> {
        const READ: i64 = 1 << 1;
        const READ_WRITE: i64 = READ | 1 << 6 | 1 << 2;
        let rights = match flags & DIRECTORY {
            0 => READ_WRITE,
            _ => READ,
        };
        self.write(0, name.as_bytes());
        let len = name.len() as i64;
        let arguments = [FOLDER.into(), 0, 0, len, flags, rights, 0, 0, 64];
        match self.call("path_open", &arguments) {
            SUCCESS => Ok(self.number(64).into()),
            errno => Err(errno),
        }
    }

    /// Opens or creates a file for reading and writing.
    pub(crate) fn open(&mut self, name: &str) -> i64 {
        self.try_open(name, CREATE).expect("it opens")
    }
}
