//! 64-bit memories and tables: results, memory content and traps at every boundary of a 64-bit
//! address. The tests compare them with a model, and with guests that have 32-bit memories.

use crate::common;
use crate::common::values::Lend as _;

mod access;
mod bulk;
mod linking;
mod random;
mod tables;
mod tenants;

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Group, Instance, Linker, MemberId, Region, TrapCode, Value};

/// Bytes of a page.
const PAGE: u64 = 1 << 16;

/// Bytes after 4 GiB that an access without a check may reach.
const GUARD: u64 = 32 << 20;

/// Without the optimiser, and with it.
const LEVELS: [OptLevel; 2] = [OptLevel::None, OptLevel::Speed];

/// The result of a call, or its trap.
type Outcome = Result<Vec<Value>, TrapCode>;

fn outcome(result: Result<Vec<Value>, CallError>) -> Outcome {
    result.map_err(|error| match error {
        CallError::Trap(trap) => trap.code(),
        other => panic!("{other}"),
    })
}

/// An instance, alone or with an imported memory.
enum Guest {
    Alone(Instance<()>),
    Importing(Group<()>, MemberId),
}

fn region(slots: u32) -> Region {
    let region = Region::builder()
        .slots(slots)
        .memory_bytes_max(4 << 20)
        .tables(4);
    region.build().expect("a region")
}

/// Compiles a module from its text.
fn module(text: &str, level: OptLevel, fuel: bool) -> pirn_runtime::Module {
    let mut options = Options::default();
    (options.opt_level, options.fuel) = (level, fuel);
    common::wat_with(text, &options)
}

impl Guest {
    fn alone(region: &Region, text: &str, level: OptLevel, fuel: bool) -> Self {
        let module = module(text, level, fuel);
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        Self::Alone(prepared.try_instantiate(()).expect("a slot is free"))
    }

    /// A guest that imports `own.memory`, which has this type.
    fn importing(region: &Region, memory: &str, text: &str, level: OptLevel) -> Self {
        let mut group = Group::new(region, ());
        let owner = format!("(module (memory (export \"memory\") {memory}))");
        let owner = group.instantiate(&common::wat(&owner), &Linker::new());
        group.name("own", owner.expect("it fits"));
        let member = group.instantiate(&module(text, level, false), &Linker::new());
        let member = member.expect("it fits");
        Self::Importing(group, member)
    }

    fn call(&mut self, name: &str, params: &[Value]) -> Outcome {
        outcome(match self {
            Self::Alone(instance) => instance.call_values(name, params),
            Self::Importing(group, member) => group.lend(*member).call_values(name, params),
        })
    }

    /// Calls a function with the content of the guest's memory.
    fn memory<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Alone(instance) => look(instance.memory().as_slice()),
            Self::Importing(group, member) => look(group.at(*member).memory().as_slice()),
        }
    }

    /// Whether the guest's memory contains exactly these bytes.
    fn holds(&self, bytes: &[u8]) -> bool {
        self.memory(|memory| memory == bytes)
    }

    /// Whether both memories have the same content.
    fn is_like(&self, other: &Self) -> bool {
        other.memory(|other| self.holds(other))
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Alone(instance) => instance.memory_mut().as_mut_slice().copy_from_slice(bytes),
            Self::Importing(group, member) => {
                let mut lent = group.lend(*member);
                let mut memory = lent.memory_mut();
                memory.as_mut_slice().copy_from_slice(bytes);
            }
        }
    }
}

/// A number as a parameter.
fn i64(value: u64) -> Value {
    Value::I64(value.cast_signed())
}

/// Numbers around which a 64-bit address could be mistaken for another: 0, 4 GiB, addresses in
/// bounds plus 4 GiB, the sign bit, the last address, and the memory's end.
fn edges(bytes: u64) -> Vec<u64> {
    let around = [
        0,
        PAGE,
        bytes,
        1 << 31,
        1 << 32,
        (1 << 32) + bytes,
        (1 << 32) + GUARD,
        1 << 33,
        1 << 47,
        1 << 63,
        (1 << 63) + bytes,
        (1 << 63) + (1 << 32),
    ];
    let near = |at: u64| [-17, -16, -8, -4, -1, 0, 1, 8].map(|by| at.wrapping_add_signed(by));
    let mut edges: Vec<_> = around.into_iter().flat_map(near).collect();
    edges.extend([PAGE / 2, (1 << 32) + PAGE / 2, u64::MAX - PAGE]);
    edges.sort_unstable();
    edges.dedup();
    edges
}
