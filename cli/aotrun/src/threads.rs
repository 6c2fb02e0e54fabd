//! Threads of a program (wasi-threads): `wasi.thread-spawn` makes another instance over the same
//! memory. A host thread of a pool calls that instance's `wasi_thread_start`.
//!
//! The program ends when `_start` returns, or when one of its threads exits, traps or throws. All
//! other threads are then killed, also threads that wait.

use crate::outcome::Outcome;
use crate::pool::Pool;
use anyhow::{Result, bail};
use pirn_runtime::{
    Caller, ExternType, Instance, KillSwitch, LinkError, Linker, MemoryType, Module, Prepared,
    SharedMemory, TypedFunc,
};
use pirn_wasi::WasiCtx;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Module from which programs import `thread-spawn` (wasi-threads).
const MODULE: &str = "wasi";
const SPAWN: &str = "thread-spawn";
const START: &str = "wasi_thread_start";

/// Most threads of a program at the same time, besides its first thread. Each thread has a slot.
pub(crate) const THREADS_MAX: u32 = 64;
/// The largest thread id (wasi-threads, "TID").
const TID_MAX: i32 = 0x1FFF_FFFF;
/// Result of `thread-spawn` when it cannot make a thread: the negated number of `again` in preview
/// 1.
const AGAIN: i32 = -6;

type Start = TypedFunc<(i32, i32), ()>;

/// The threads of a program.
pub(crate) struct Threads {
    /// The prepared module that each thread instantiates, and the function that each thread calls.
    program: OnceLock<(Prepared<WasiCtx>, Start)>,
    state: Mutex<State>,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct State {
    /// Id of the most recent thread.
    tid: i32,
    /// Thread id and kill switch of each live instance.
    switches: Vec<(i32, KillSwitch)>,
    /// The outcome of the program, if a spawned thread has ended the program.
    outcome: Option<Outcome>,
    is_over: bool,
}

/// Whether the module imports `thread-spawn`.
pub(crate) fn may_spawn(module: &Module) -> bool {
    let is_spawn = |(module, name, _): (&str, &str, ExternType)| (module, name) == (MODULE, SPAWN);
    module.imports().any(is_spawn)
}

/// Defines the shared memories that a module imports. A memory has at most `memory_max` bytes.
///
/// # Errors
///
/// If a memory's minimum exceeds `memory_max`, or the system has no memory for it.
pub(crate) fn link_memories(
    linker: &mut Linker<WasiCtx>,
    module: &Module,
    memory_max: usize,
) -> Result<()> {
    for (from, name, ty) in module.imports() {
        let ExternType::Memory(ty) = ty else { continue };
        if !ty.shared {
            continue;
        }
        let most = memory_max as u64 / ty.page.bytes();
        if ty.min > most {
            let kib = |pages: u64| pages * ty.page.bytes() / 1024;
            let (needed, limit) = (kib(ty.min), memory_max / 1024);
            bail!("it needs {needed} KiB of memory, --memory-max is {limit} KiB; raise it");
        }
        let max = ty.max.map(|max| max.min(most));
        let memory = SharedMemory::new(&MemoryType { max, ..ty })?;
        linker.memory(from, name, &memory)?;
    }
    Ok(())
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            program: OnceLock::new(),
            state: Mutex::default(),
            pool: Arc::new(Pool::new(THREADS_MAX)),
        }
    }
}

impl Threads {
    /// Defines `thread-spawn`.
    ///
    /// # Errors
    ///
    /// As [`Linker::func`].
    pub(crate) fn link(self: &Arc<Self>, linker: &mut Linker<WasiCtx>) -> Result<(), LinkError> {
        let threads = Arc::clone(self);
        let spawn = move |caller: Caller<'_, WasiCtx>, argument: i32| {
            let context = caller.data().clone();
            threads.spawn(context, argument)
        };
        linker.func(MODULE, SPAWN, spawn)?;
        Ok(())
    }

    /// Sets the prepared module that the threads instantiate.
    ///
    /// # Errors
    ///
    /// If the program imports no shared memory, or exports no `wasi_thread_start` of the right
    /// type.
    pub(crate) fn of(&self, prepared: &Prepared<WasiCtx>) -> Result<()> {
        let mut imports = prepared.module().imports();
        if !imports.any(|(_, _, ty)| matches!(ty, ExternType::Memory(ty) if ty.shared)) {
            bail!(
                "it imports {MODULE}.{SPAWN} and no shared memory; link it with \
                 --import-memory and --shared-memory"
            );
        }
        let start = prepared.func(START)?;
        let _ = self.program.set((prepared.clone(), start));
        Ok(())
    }

    /// Registers the kill switch of the first instance, for the case that another thread ends the
    /// program.
    pub(crate) fn first(&self, instance: &mut Instance<WasiCtx>) {
        self.lock().switches.push((0, instance.kill_switch()));
    }

    /// Makes a thread. Returns the thread's id, or a negative number.
    fn spawn(self: &Arc<Self>, context: WasiCtx, argument: i32) -> i32 {
        let Some((prepared, start)) = self.program.get() else {
            return AGAIN;
        };
        let Ok(mut instance) = prepared.try_instantiate(context) else {
            return AGAIN;
        };
        let mut state = self.lock();
        if state.is_over || state.tid == TID_MAX {
            return AGAIN;
        }
        state.tid += 1;
        let tid = state.tid;
        state.switches.push((tid, instance.kill_switch()));
        drop(state);
        let (threads, start) = (Arc::clone(self), *start);
        let run = move || {
            let ended = instance.call(&start, (tid, argument));
            drop(instance);
            match ended {
                Ok(()) => threads.forget(tid),
                Err(error) => threads.end(Some(error.into())),
            }
        };
        if self.pool.run(Box::new(run)).is_err() {
            self.forget(tid);
            return AGAIN;
        }
        tid
    }

    /// Removes the kill switch of a thread that has ended, or that could not start.
    fn forget(&self, tid: i32) {
        let switches = &mut self.lock().switches;
        switches.retain(|(other, _)| *other != tid);
    }

    /// Ends the program with `outcome`, unless the program has already ended.
    fn end(&self, outcome: Option<Outcome>) {
        let mut state = self.lock();
        if !state.is_over {
            state.is_over = true;
            state.outcome = outcome;
        }
        for (_, switch) in state.switches.drain(..) {
            // An error means that the instance is gone or was killed before.
            let _ = switch.kill();
        }
    }

    /// Ends all threads after the first thread has ended. Returns the outcome if another thread
    /// ended the program.
    pub(crate) fn finish(&self) -> Option<Outcome> {
        self.end(None);
        self.pool.close();
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
