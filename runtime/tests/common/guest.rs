//! A guest that exports its memory of one page, and a function with an address as parameter. Tests
//! compare its memory and its trap at every optimisation level.

use super::wat_with;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Instance, Linker, Region, TrapCode, TypedFunc};

/// Bytes of the guest's memory.
pub(crate) const MEMORY: usize = 1 << 16;

/// A trap code, and its WebAssembly offset.
pub(crate) type Place = (TrapCode, Option<u32>);

/// A guest that was compiled at one optimisation level, with its function.
pub(crate) struct Guest(Instance<()>, TypedFunc<u32, ()>);

impl Guest {
    pub(crate) fn new(text: &str, level: OptLevel) -> Self {
        let mut options = Options::default();
        options.opt_level = level;
        let module = wat_with(text, &options);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let run = prepared.func("run").expect("it is exported");
        Self(prepared.try_instantiate(()).expect("a slot is free"), run)
    }

    /// Calls the function with a memory that starts with `begin`, followed by zeros. Returns the
    /// trap and the memory after the call.
    pub(crate) fn run(&mut self, begin: &[u8], address: u32) -> (Option<Place>, Vec<u8>) {
        let mut bytes = begin.to_vec();
        bytes.resize(MEMORY, 0);
        self.0.memory_mut().write(0, &bytes).expect("inside");
        let trap = match self.0.call(&self.1, address) {
            Ok(()) => None,
            Err(CallError::Trap(trap)) => Some((trap.code(), trap.wasm_offset())),
            Err(other) => panic!("{other}"),
        };
        self.0.memory().read(0, &mut bytes).expect("inside");
        (trap, bytes)
    }
}
