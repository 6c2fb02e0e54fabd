//! Wasmer, with Cranelift or LLVM as its compiler, and only the WASI functions that the guests use.
//! Wasmer's own WASI is a library of a different kind. While a guest is timed, it calls no WASI
//! function except the clock.

use anyhow::Result;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};
use wasmer::sys::CompilerConfig;
use wasmer::{
    Function, FunctionEnv, FunctionEnvMut, Instance, Memory, MemoryView, Module, Store, imports,
};

/// Errnos of WASI.
const BADF: i32 = 8;
const FAULT: i32 = 21;
const NOSYS: i32 = 52;
const SPIPE: i32 = 70;

/// File type "character device", the first byte of an `fdstat`.
const CHARACTER_DEVICE: u8 = 2;

/// The state of the host functions: how they find the guest's memory.
#[derive(Default)]
struct WasiHost {
    memory: Option<Memory>,
    /// The arguments of the guest, each with a zero at its end.
    arguments: Vec<Vec<u8>>,
}

type Env<'a> = FunctionEnvMut<'a, WasiHost>;

/// Runs the guest and returns its exit code, unless the guest ends the process.
pub fn run(
    file: &Path,
    arguments: &[&str],
    compiler: impl Into<Box<dyn CompilerConfig>>,
) -> Result<i32> {
    let engine: ::wasmer::Engine = ::wasmer::sys::EngineBuilder::new(compiler).engine().into();
    let module = Module::new(&engine, std::fs::read(file)?)?;
    let mut store = Store::new(engine);
    let arguments = arguments
        .iter()
        .map(|text| [text.as_bytes(), b"\0"].concat());
    let host = WasiHost {
        memory: None,
        arguments: arguments.collect(),
    };
    let host = FunctionEnv::new(&mut store, host);
    let imports = imports! {
        "wasi_snapshot_preview1" => {
            "args_get" => Function::new_typed_with_env(&mut store, &host, args_get),
            "args_sizes_get" => Function::new_typed_with_env(&mut store, &host, args_sizes_get),
            "environ_get" => Function::new_typed(&mut store, |_: i32, _: i32| 0i32),
            "environ_sizes_get" =>
                Function::new_typed_with_env(&mut store, &host, environ_sizes_get),
            "sched_yield" => Function::new_typed(&mut store, || 0i32),
            "clock_time_get" => Function::new_typed_with_env(&mut store, &host, clock_time_get),
            "fd_close" => Function::new_typed(&mut store, |_: i32| 0i32),
            "fd_fdstat_get" => Function::new_typed_with_env(&mut store, &host, fd_fdstat_get),
            "fd_seek" => Function::new_typed(&mut store, |_: i32, _: i64, _: i32, _: i32| SPIPE),
            "fd_write" => Function::new_typed_with_env(&mut store, &host, fd_write),
            // The guest has no files.
            "fd_fdstat_set_flags" => Function::new_typed(&mut store, |_: i32, _: i32| BADF),
            "fd_prestat_dir_name" => Function::new_typed(&mut store, |_: i32, _: i32, _: i32| BADF),
            "fd_prestat_get" => Function::new_typed(&mut store, |_: i32, _: i32| BADF),
            "fd_read" => Function::new_typed(&mut store, |_: i32, _: i32, _: i32, _: i32| BADF),
            "fd_renumber" => Function::new_typed(&mut store, |_: i32, _: i32| BADF),
            "path_open" => Function::new_typed(&mut store, path_open),
            "poll_oneoff" => Function::new_typed(&mut store, |_: i32, _: i32, _: i32, _: i32| NOSYS),
            "proc_exit" => Function::new_typed(&mut store, proc_exit),
            "random_get" => Function::new_typed_with_env(&mut store, &host, random_get),
        },
    };
    let instance = Instance::new(&mut store, &module, &imports)?;
    let memory = instance.exports.get_memory("memory")?.clone();
    host.as_mut(&mut store).memory = Some(memory);
    let start = instance
        .exports
        .get_typed_function::<(), ()>(&store, "_start")?;
    start.call(&mut store)?;
    Ok(0)
}

fn memory<'a>(env: &'a Env<'_>) -> Option<MemoryView<'a>> {
    let memory = env.data().memory.as_ref()?;
    Some(memory.view(env))
}

/// 0, or the errno for an address outside the memory.
fn errno<T>(done: Option<T>) -> i32 {
    done.map_or(FAULT, |_| 0)
}

#[expect(clippy::too_many_arguments, reason = "as many as WASI's has")]
fn path_open(
    _fd: i32,
    _flags: i32,
    _path: i32,
    _path_bytes: i32,
    _open: i32,
    _rights: i64,
    _inherited: i64,
    _fd_flags: i32,
    _to: i32,
) -> i32 {
    BADF
}

fn proc_exit(code: i32) {
    std::process::exit(code);
}

/// Implements both clocks: the time of day at the first call, plus the monotonic time since then.
fn clock_time_get(env: Env<'_>, _clock: i32, _precision: i64, to: u32) -> i32 {
    static START: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (start, day) = START.get_or_init(|| {
        let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (Instant::now(), day.unwrap_or_default())
    });
    let ns = (*day + start.elapsed()).as_nanos() as u64;
    errno(memory(&env).and_then(|memory| memory.write(to.into(), &ns.to_le_bytes()).ok()))
}

fn write_pair(env: &Env<'_>, to: [u32; 2], values: [usize; 2]) -> Option<()> {
    let memory = memory(env)?;
    for (to, value) in to.into_iter().zip(values) {
        memory
            .write(to.into(), &(value as u32).to_le_bytes())
            .ok()?;
    }
    Some(())
}

fn args_sizes_get(env: Env<'_>, count: u32, bytes: u32) -> i32 {
    let arguments = &env.data().arguments;
    let sum = arguments.iter().map(Vec::len).sum();
    errno(write_pair(&env, [count, bytes], [arguments.len(), sum]))
}

fn environ_sizes_get(env: Env<'_>, count: u32, bytes: u32) -> i32 {
    errno(write_pair(&env, [count, bytes], [0, 0]))
}

fn args_get(env: Env<'_>, mut to: u32, mut texts: u32) -> i32 {
    let mut write = || {
        let memory = memory(&env)?;
        for argument in &env.data().arguments {
            memory.write(to.into(), &texts.to_le_bytes()).ok()?;
            memory.write(texts.into(), argument).ok()?;
            (to, texts) = (to + 4, texts + argument.len() as u32);
        }
        Some(())
    };
    errno(write())
}

fn fd_fdstat_get(env: Env<'_>, _fd: i32, to: u32) -> i32 {
    let mut stat = [0; 24];
    stat[0] = CHARACTER_DEVICE;
    // All rights.
    stat[8..].fill(0xff);
    errno(memory(&env).and_then(|memory| memory.write(to.into(), &stat).ok()))
}

fn fd_write(env: Env<'_>, fd: i32, vectors: u32, count: u32, written: u32) -> i32 {
    let write = || {
        let memory = memory(&env)?;
        let mut all = vec![];
        for vector in 0..u64::from(count) {
            let mut pair = [0; 8];
            memory
                .read(u64::from(vectors) + 8 * vector, &mut pair)
                .ok()?;
            let [address, bytes] = [0, 4]
                .map(|at| u32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]));
            let at = all.len();
            all.resize(at + bytes as usize, 0);
            memory.read(address.into(), &mut all[at..]).ok()?;
        }
        match fd {
            2 => std::io::stderr().write_all(&all).ok()?,
            _ => {
                let mut out = std::io::stdout();
                out.write_all(&all).ok()?;
                out.flush().ok()?;
            }
        }
        let bytes = all.len() as u32;
        memory.write(written.into(), &bytes.to_le_bytes()).ok()
    };
    errno(write())
}

fn random_get(env: Env<'_>, to: u32, bytes: u32) -> i32 {
    let random = || {
        use std::io::Read;
        let mut all = vec![0; bytes as usize];
        let mut source = std::fs::File::open("/dev/urandom").ok()?;
        source.read_exact(&mut all).ok()?;
        memory(&env)?.write(to.into(), &all).ok()
    };
    errno(random())
}
