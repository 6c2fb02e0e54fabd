//! [`Setup`]: a region with several prepared modules.

use super::modules::{FUEL, Funcs, PAGE, Shape, shapes};
use super::tenant::{Tenant, Wire};
use pirn_runtime::{Caller, HostError, InstantiateError, Linker, Prepared, Region, Reset};

/// A region with several prepared modules.
#[derive(Debug)]
pub(super) struct Setup {
    region: Region,
    prepared: Vec<(Prepared<Wire, u32, u32>, Funcs)>,
}

fn linker() -> Linker<Wire, u32, u32> {
    let mut linker = Linker::asking();
    let defined = linker
        .func("host", "kill", |caller: Caller<'_, Wire>| {
            // The instance was not killed before: a killed guest does not run this function.
            caller
                .data()
                .switch()
                .kill()
                .map(drop)
                .map_err(HostError::from)
        })
        .and_then(|linker| {
            linker.func("host", "preempt", |caller: Caller<'_, Wire>| {
                caller.data().switch().preempt();
            })
        })
        .and_then(|linker| {
            linker.func("host", "fail", || {
                Err::<(), _>(HostError::message("as it should"))
            })
        })
        .and_then(|linker| {
            linker.func_ask(
                "host",
                "ask",
                |_, (n,): (u32,)| Ok(n),
                |_, _: (u32,), answer: u32| answer,
            )
        });
    defined.expect("no name is defined twice");
    linker
}

impl Setup {
    /// Makes a region with `slots` slots, and prepares all modules for it.
    pub(super) fn of(reset: Reset, slots: u32) -> Result<Self, String> {
        let builder = |reset| {
            let builder = Region::builder()
                .slots(slots)
                .memories(3)
                .memory_bytes_max(30 * PAGE)
                .stack_bytes(128 << 10);
            builder.reset(reset).build()
        };
        let region = builder(reset).or_else(|_| builder(Reset::Auto));
        let region = region.map_err(|error| error.to_string())?;
        let linker = linker();
        let room = |shape: &Shape| {
            let mut prepared = region.prepare(&shape.module, &linker).expect("it fits");
            if shape.module.counts_fuel() {
                prepared = prepared.start_fuel(FUEL).expect("it counts");
            }
            let func = |name| prepared.func(name).expect("it is exported");
            let funcs = Funcs {
                dirty: func("dirty"),
                grow: func("grow"),
                fresh: prepared.func("fresh").expect("it is exported"),
                load: func("load"),
                ask: func("ask"),
                yields: func("yields"),
                forever: func("forever"),
                kills: func("kills"),
                fails: func("fails"),
                unreachable: func("unreachable"),
                deep: func("deep"),
            };
            (prepared, funcs)
        };
        let prepared = shapes().iter().map(room).collect();
        Ok(Self { region, prepared })
    }

    /// Makes an instance of a module if a slot is free, and checks its initial state.
    pub(super) fn instantiate(
        &self,
        which: usize,
        living: usize,
        canary: bool,
    ) -> Result<Option<Tenant>, String> {
        let which = which % self.prepared.len();
        let (prepared, funcs) = &self.prepared[which];
        let full = living == self.region.describe().slots() as usize;
        let mut instance = match prepared.try_instantiate(Wire::default()) {
            Ok(_) if full => return Err("an instance without a slot".to_owned()),
            Ok(instance) => instance,
            Err(InstantiateError::Full { .. }) if full => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if canary && let Some(byte) = instance.memory_mut().as_mut_slice().last_mut() {
            *byte ^= 4;
        }
        let mut tenant = Tenant::new(instance, *funcs, &shapes()[which]);
        tenant
            .check_initial_state()
            .map_err(|error| format!("module {which}: {error}"))?;
        Ok(Some(tenant))
    }

    /// Number of free slots.
    pub(super) fn slots_free(&self) -> usize {
        self.region.slots_free()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_memories_and_heaps_are_detected() {
        let setup = Setup::of(Reset::Auto, 1).unwrap();
        let mut looked = 0;
        for (prepared, funcs) in &setup.prepared {
            let mut instance = prepared.try_instantiate(Wire::default()).unwrap();
            instance.call(&funcs.dirty, 3).unwrap();
            // The call has dropped segments and resized tables, so `fresh` detects a change in any
            // case. So check each extra part alone.
            for name in ["second", "heap"] {
                let Ok(func) = prepared.func::<(), u32>(name) else {
                    continue;
                };
                assert_eq!(instance.call(&func, ()).unwrap(), 1, "{name}");
                looked += 1;
            }
        }
        assert_eq!(looked, 4);
    }
}
