//! Threads of a program (wasi-threads): `wasi.thread-spawn` makes another instance over the same memory, and a thread that calls
//! its `wasi_thread_start`.
//!
//! The program ends with the first of its threads that exits, traps or throws, and when `_start` returns: whoever runs or waits
//! then is killed.

use crate::outcome::Outcome;
use anyhow::{Result, bail};
use pirn_runtime::{
    Caller, ExternType, Func, Instance, KillSwitch, LinkError, Linker, MemoryType, Module,
    Prepared, SharedMemory,
};
use pirn_wasi::WasiCtx;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Where programs import it from (wasi-threads).
const MODULE: &str = "wasi";
const SPAWN: &str = "thread-spawn";
const START: &str = "wasi_thread_start";

/// Most threads of a program at once, beside its first: each has a slot.
pub(crate) const THREADS_MAX: u32 = 64;
/// The largest number of a thread (wasi-threads, "TID").
const TID_MAX: i32 = 0x1FFF_FFFF;
/// The answer where there is no thread: less than zero, and `again` of preview 1.
const AGAIN: i32 = -6;

type Start = Func<(i32, i32), ()>;

/// The threads of a program.
#[derive(Default)]
pub(crate) struct Threads {
    /// Of what they are instances, and what they call.
    program: OnceLock<(Prepared<WasiCtx>, Start)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last thread.
    tid: i32,
    /// By which each instance is ended that has not been dropped.
    switches: Vec<(i32, KillSwitch)>,
    running: Vec<JoinHandle<()>>,
    /// Why the program ends, and that it does.
    outcome: Option<Outcome>,
    is_over: bool,
}

/// Whether a module may make threads.
pub(crate) fn may_spawn(module: &Module) -> bool {
    let is_spawn = |(module, name, _): (&str, &str, ExternType)| (module, name) == (MODULE, SPAWN);
    module.imports().any(is_spawn)
}

/// Offers the shared memories that a module imports, of at most so many bytes each.
///
/// # Errors
///
/// If one begins with more, or the system has none.
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

impl Threads {
    /// Offers `thread-spawn`.
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

    /// Says what threads are instances of.
    ///
    /// # Errors
    ///
    /// What the program lacks.
    pub(crate) fn of(&self, prepared: &Prepared<WasiCtx>) -> Result<()> {
        let mut imports = prepared.module().imports();
        if !imports.any(|(_, _, ty)| matches!(ty, ExternType::Memory(ty) if ty.shared)) {
            bail!(
                "it imports {MODULE}.{SPAWN} and no shared memory; link it with --import-memory and --shared-memory"
            );
        }
        let start = prepared.func(START)?;
        let _ = self.program.set((prepared.clone(), start));
        Ok(())
    }

    /// Has the first instance end with the others.
    pub(crate) fn first(&self, instance: &mut Instance<WasiCtx>) {
        self.lock().switches.push((0, instance.kill_switch()));
    }

    /// Makes a thread; gives its number, or less than zero.
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
        let tid = state.tid + 1;
        let switch = instance.kill_switch();
        let (threads, start) = (Arc::clone(self), *start);
        let run = move || {
            let ended = instance.call(&start, (tid, argument));
            drop(instance);
            match ended {
                Ok(()) => threads.lock().switches.retain(|(other, _)| *other != tid),
                Err(error) => threads.end(Some(error.into())),
            }
        };
        let thread = std::thread::Builder::new().name(format!("guest-{tid}"));
        let Ok(thread) = thread.spawn(run) else {
            return AGAIN;
        };
        state.tid = tid;
        state.switches.push((tid, switch));
        // Those that have ended are nobody to wait for.
        state.running.retain(|thread| !thread.is_finished());
        state.running.push(thread);
        tid
    }

    /// Ends the program, for this reason if there is none yet.
    fn end(&self, outcome: Option<Outcome>) {
        let mut state = self.lock();
        if !state.is_over {
            state.is_over = true;
            state.outcome = outcome;
        }
        for (_, switch) in state.switches.drain(..) {
            // Gone, or killed before.
            let _ = switch.kill();
        }
    }

    /// Ends all threads but the first, which has ended; gives why it did, if that was another's doing.
    pub(crate) fn finish(&self) -> Option<Outcome> {
        self.end(None);
        let running = std::mem::take(&mut self.lock().running);
        for thread in running {
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
