//! Address computations that the compiler shortens. At every optimisation level, results, traps and
//! memory must equal those of unoptimised code, which computes each address as written.

use crate::common;

mod imported;
mod limits;
mod random;
mod shapes;

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Instance, Linker, Prepared, Region, TrapCode};

/// Without the optimiser, and with it.
const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

/// Bytes of a memory of one page.
const PAGE: usize = 1 << 16;

/// A guest at each level. Its functions take three numbers and return one.
struct Guests(Vec<Guest>);

struct Guest {
    level: OptLevel,
    prepared: Prepared<()>,
    instance: Instance<()>,
}

/// The outcome of a call: its result or trap, and the memory.
struct Left {
    result: Result<u64, TrapCode>,
    memory: Vec<u8>,
}

fn region() -> Region {
    let region = Region::builder().slots(LEVELS.len() as u32 + 1);
    region.memory_bytes_max(2 * PAGE).build().expect("a region")
}

impl Guests {
    fn new(region: &Region, text: &str, fuel: bool) -> Self {
        let guests = LEVELS.map(|level| {
            let mut options = Options::default();
            (options.opt_level, options.fuel) = (level, fuel);
            let module = common::wat_with(text, &options);
            let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
            let instance = prepared.try_instantiate(()).expect("a slot is free");
            Guest {
                level,
                prepared,
                instance,
            }
        });
        Self(guests.into())
    }

    /// Calls a function at each level, with a memory of one page that begins as `image`. `what`
    /// describes the call.
    fn call(&mut self, name: &str, params: (u32, u32, u32), image: &[u8], what: &str) -> Left {
        let mut left = self.0.iter_mut().map(|guest| {
            let left = guest.call(name, params, image);
            (guest.level, left)
        });
        let (_, first) = left.next().expect("there are levels");
        for (level, other) in left {
            let at = || format!("{name} {params:x?} at {level:?}: {what}");
            assert_eq!(other.result, first.result, "{}", at());
            assert!(other.memory == first.memory, "memories differ: {}", at());
        }
        first
    }
}

impl Guest {
    fn call(&mut self, name: &str, params: (u32, u32, u32), image: &[u8]) -> Left {
        let function = self.prepared.func::<(u32, u32, u32), u64>(name);
        let function = function.expect("it is exported");
        let start = self.instance.memory_mut().write(0, image);
        start.expect("it is inside");
        let result = match self.instance.call(&function, params) {
            Ok(result) => Ok(result),
            Err(CallError::Trap(trap)) => Err(trap.code()),
            Err(other) => panic!("{name} {params:x?}: {other}"),
        };
        let memory = self.instance.memory().as_slice().to_vec();
        if memory.len() > PAGE {
            self.instance = self.prepared.try_instantiate(()).expect("a slot is free");
        }
        Left { result, memory }
    }
}

/// Whether the compiler rewrites addresses for this machine. If not, the tests have nothing to
/// compare, and an emulator would take minutes.
fn is_rewritten() -> bool {
    let is_rewritten = std::env::consts::ARCH == "x86_64";
    if !is_rewritten {
        common::not_run("addresses are rewritten on x86_64 alone");
    }
    is_rewritten
}

/// Bytes in which no two groups of eight are equal.
fn image() -> Vec<u8> {
    let mut random = common::random::Random(11);
    let words = (0..PAGE / 8).flat_map(|_| random.u64().to_le_bytes());
    words.collect()
}

/// A statement that adds the value of an expression to the sum of earlier values.
fn take(value: &str) -> String {
    format!("(local.set $s (i64.add (i64.rotl (local.get $s) (i64.const 7)) {value}))\n")
}

/// A function of three numbers and some locals that returns the sum of its values.
fn function(name: &str, code: &str) -> String {
    format!(
        r#"(func (export "{name}") (param $p i32) (param $q i32) (param $r i32) (result i64)
  (local $a i32) (local $b i32) (local $turns i32) (local $s i64)
  (local.set $turns (i32.const 40))
{code}(local.get $s))
"#
    )
}

/// A module of functions with a memory of one page that can grow to two.
fn module(functions: &str) -> String {
    format!(r#"(module (memory (export "memory") 1 2) {functions})"#)
}
