//! Every atomic operator in every kind of memory, compared with a model: results, stored values,
//! and traps.

use crate::common::campaign::sampled;
use crate::common::random::Random;
use crate::common::values::shared_memory;
use crate::common::{self, values};
use core::fmt::Write;
use pirn_compiler::Options;
use pirn_runtime::{
    AddrType, CallError, Instance, Linker, MemoryType, PageSize, Region, SharedMemory, TrapCode,
    Value,
};

/// Bytes of each memory.
const BYTES: u64 = 1 << 16;

/// The kind of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Exchange,
    Compare,
}

const KINDS: [(Kind, &str); 9] = [
    (Kind::Load, "load"),
    (Kind::Store, "store"),
    (Kind::Add, "add"),
    (Kind::Sub, "sub"),
    (Kind::And, "and"),
    (Kind::Or, "or"),
    (Kind::Xor, "xor"),
    (Kind::Exchange, "xchg"),
    (Kind::Compare, "cmpxchg"),
];

#[derive(Debug, Clone)]
struct Operator {
    name: String,
    kind: Kind,
    is_wide: bool,
    bytes: u64,
}

/// All atomic operators.
fn operators() -> Vec<Operator> {
    let mut all = vec![];
    for (is_wide, ty, whole) in [(false, "i32", 4), (true, "i64", 8)] {
        for bytes in [1, 2, 4, 8].into_iter().filter(|bytes| *bytes <= whole) {
            for (kind, verb) in KINDS {
                let (bits, sign) = match bytes == whole {
                    true => (String::new(), ""),
                    false => ((bytes * 8).to_string(), "_u"),
                };
                let name = match kind {
                    Kind::Load => format!("{ty}.atomic.load{bits}{sign}"),
                    Kind::Store => format!("{ty}.atomic.store{bits}"),
                    _ => format!("{ty}.atomic.rmw{bits}.{verb}{sign}"),
                };
                all.push(Operator {
                    name,
                    kind,
                    is_wide,
                    bytes,
                });
            }
        }
    }
    all
}

impl Operator {
    fn operands(&self) -> usize {
        match self.kind {
            Kind::Load => 0,
            Kind::Compare => 2,
            _ => 1,
        }
    }

    fn value(&self, bits: u64) -> Value {
        match self.is_wide {
            true => Value::I64(bits.cast_signed()),
            false => Value::I32((bits as u32).cast_signed()),
        }
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes)
    }

    /// The value in memory after the operator, given the value before.
    fn after(&self, before: u64, operands: &[u64]) -> u64 {
        let after = match (self.kind, operands) {
            (Kind::Load, _) => before,
            (Kind::Add, [a]) => before.wrapping_add(*a),
            (Kind::Sub, [a]) => before.wrapping_sub(*a),
            (Kind::And, [a]) => before & a,
            (Kind::Or, [a]) => before | a,
            (Kind::Xor, [a]) => before ^ a,
            (Kind::Store | Kind::Exchange, [a]) => *a,
            (Kind::Compare, [expected, a]) if expected & self.mask() == before => *a,
            (Kind::Compare, _) => before,
            _ => unreachable!("an operator has its operands"),
        };
        after & self.mask()
    }

    /// A function with the operator at an offset. Its export's name has the operator's number.
    fn function(&self, number: usize, index: &str, offset: u64) -> String {
        let ty = if self.is_wide { "i64" } else { "i32" };
        let operands = self.operands();
        let mut text = format!("(func (export \"{number}+{offset}\") (param {index})");
        for _ in 0..operands {
            let _ = write!(text, " (param {ty})");
        }
        if self.kind != Kind::Store {
            let _ = write!(text, " (result {ty})");
        }
        let _ = write!(text, " ({} offset={offset}", self.name);
        for local in 0..=operands {
            let _ = write!(text, " (local.get {local})");
        }
        text + "))\n"
    }
}

/// Offsets of the functions: none, one smaller than most alignments, an aligned one, and one past
/// the guard region.
const OFFSETS: [u64; 4] = [0, 3, 8, 40 << 20];

/// A guest, its shared memory if the host provides one, and whether its addresses have 64 bits.
struct Guest {
    instance: Instance<()>,
    shared: Option<SharedMemory>,
    is_64: bool,
}

impl Guest {
    fn read(&self, address: u64, bytes: u64) -> u64 {
        let mut read = [0; 8];
        let into = &mut read[..bytes as usize];
        match &self.shared {
            Some(shared) => shared.read(address, into).expect("it is inside"),
            None => {
                let memory = self.instance.memory();
                let from = memory.slice(address as u32, bytes as u32);
                into.copy_from_slice(from.expect("it is inside"));
            }
        }
        u64::from_le_bytes(read)
    }

    fn call(
        &mut self,
        operator: &Operator,
        number: usize,
        offset: u64,
        index: u64,
        operands: &[u64],
    ) -> Result<Option<u64>, TrapCode> {
        let index = match self.is_64 {
            true => Value::I64(index.cast_signed()),
            false => Value::I32((index as u32).cast_signed()),
        };
        let mut params = vec![index];
        params.extend(operands.iter().map(|bits| operator.value(*bits)));
        let name = format!("{number}+{offset}");
        match self.instance.call_values(&name, &params).as_deref() {
            Ok([]) => Ok(None),
            Ok([Value::I32(result)]) => Ok(Some(u64::from(result.cast_unsigned()))),
            Ok([Value::I64(result)]) => Ok(Some(result.cast_unsigned())),
            Err(CallError::Trap(trap)) => Err(trap.code()),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// The declaration of a memory, and whether the host provides it.
const MEMORIES: [(&str, bool); 7] = [
    ("(memory 1 1)", false),
    ("(memory 1 1 shared)", false),
    ("(memory i64 1 1)", false),
    ("(memory i64 1 1 shared)", false),
    ("(memory 65536 65536 (pagesize 1))", false),
    ("(import \"h\" \"m\" (memory 1 1 shared))", true),
    ("(import \"h\" \"m\" (memory i64 1 1 shared))", true),
];

fn guest(text: &str, is_shared: bool, options: &Options, operators: &[Operator]) -> Guest {
    let is_64 = text.contains("i64");
    let index = if is_64 { "i64" } else { "i32" };
    let mut wat = format!("(module {text}\n");
    for (number, operator) in operators.iter().enumerate() {
        for offset in OFFSETS {
            wat += &operator.function(number, index, offset);
        }
    }
    let module = common::wat_with(&(wat + ")"), options);
    let ty = MemoryType {
        address: if is_64 { AddrType::I64 } else { AddrType::I32 },
        page: PageSize::Large,
        min: 1,
        max: Some(1),
        shared: true,
    };
    let shared = is_shared.then(|| SharedMemory::new(&ty).expect("the system has memory"));
    let mut linker = Linker::new();
    if let Some(shared) = &shared {
        linker.memory("h", "m", shared).expect("the name is free");
    }
    let region = Region::builder().slots(1).memory_bytes_max(BYTES as usize);
    let region = region.build().expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let instance = prepared.try_instantiate(()).expect("a slot");
    Guest {
        instance,
        shared,
        is_64,
    }
}

#[test]
fn every_atomic_operator_equals_its_model() {
    let operators = operators();
    assert_eq!(operators.len(), 63);
    let mut random = Random(1);
    // By default each memory has one of the three levels.
    for (at, (text, is_shared)) in MEMORIES.into_iter().enumerate() {
        for options in sampled(values::levels(), 3, at) {
            let mut guest = guest(text, is_shared, &options, &operators);
            for (number, operator) in operators.iter().enumerate() {
                for round in 0..4 {
                    let last = BYTES - operator.bytes;
                    let address = match round {
                        0 => last,
                        _ => random.below(last / operator.bytes) * operator.bytes,
                    };
                    let before = guest.read(address, operator.bytes);
                    let mut operands = vec![];
                    operands.resize_with(operator.operands(), || random.u64());
                    if operator.kind == Kind::Compare && round % 2 == 1 {
                        // The bits above the operand's width must be ignored in the comparison.
                        operands[0] = before | operands[0] & !operator.mask();
                    }
                    let offset = [0, 8][usize::from(address >= 8 && round > 1)];
                    let index = address - offset;
                    let result = guest.call(operator, number, offset, index, &operands);
                    let wanted = (operator.kind != Kind::Store).then_some(before);
                    let case = format!("{} at {address} of {text}", operator.name);
                    assert_eq!(result, Ok(wanted), "{case}");
                    let after = guest.read(address, operator.bytes);
                    assert_eq!(after, operator.after(before, &operands), "{case}");
                }
            }
        }
    }
}

#[test]
fn every_atomic_operator_checks_its_address() {
    let operators = operators();
    // By default each memory has one of the three levels.
    for (at, (text, is_shared)) in MEMORIES.into_iter().enumerate() {
        for options in sampled(values::levels(), 3, at) {
            let mut guest = guest(text, is_shared, &options, &operators);
            let is_64 = guest.is_64;
            for (number, operator) in operators.iter().enumerate() {
                let operands = vec![0; operator.operands()];
                let mut trap = |offset: u64, index: u64| {
                    let result = guest.call(operator, number, offset, index, &operands);
                    result.err()
                };
                let name = &operator.name;
                if operator.bytes > 1 {
                    let mut beside = vec![(0, 1), (3, 0), (8, operator.bytes / 2), (3, 2)];
                    if is_64 {
                        // These addresses are also out of bounds.
                        beside.extend([
                            (0, (1 << 32) + 1),
                            (3, 1 << 63),
                            (8, 0_u64.wrapping_sub(1)),
                        ]);
                    }
                    for (offset, index) in beside {
                        let found = trap(offset, index);
                        let wanted = Some(TrapCode::UnalignedAtomic);
                        assert_eq!(found, wanted, "{name} at {index} + {offset} of {text}");
                    }
                }
                let far = u64::from(u32::MAX) + 1 - operator.bytes;
                let mut outside = vec![(0, BYTES), (8, BYTES - 8), (0, far), (8, far)];
                outside.extend([(40 << 20, 0), (40 << 20, far)]);
                if is_64 {
                    outside.extend([(0, 1 << 32), (0, 0_u64.wrapping_sub(operator.bytes))]);
                    outside.extend([(8, 0_u64.wrapping_sub(8)), (40 << 20, 1 << 63)]);
                }
                for (offset, index) in outside {
                    let found = trap(offset, index);
                    let wanted = Some(TrapCode::MemoryOutOfBounds);
                    assert_eq!(found, wanted, "{name} at {index} + {offset} of {text}");
                }
            }
        }
    }
}

/// Each access must see the stores before it, whatever the compiler knows of the addresses.
#[test]
fn accesses_are_not_moved_over_atomics() {
    const GUEST: &str = r#"(module (import "h" "m" (memory 1 1 shared))
      (func (export "sum") (result i32) (local $a i32)
        (i32.store (i32.const 0) (i32.const 1))
        (local.set $a (i32.load (i32.const 0)))
        (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 10)))
        (local.set $a (i32.add (local.get $a) (i32.load (i32.const 0))))
        (i32.atomic.store (i32.const 0) (i32.const 100))
        (local.set $a (i32.add (local.get $a) (i32.load (i32.const 0))))
        (drop (i32.atomic.rmw.cmpxchg (i32.const 0) (i32.const 100) (i32.const 1000)))
        (local.set $a (i32.add (local.get $a) (i32.load (i32.const 0))))
        (i32.store (i32.const 0) (i32.const 10000))
        (i32.add (local.get $a) (i32.atomic.load (i32.const 0)))))"#;
    for options in values::levels() {
        let mut linker = Linker::new();
        linker
            .memory("h", "m", &shared_memory(1, 1))
            .expect("the name is free");
        let region = Region::builder().slots(1).build().expect("a region");
        let module = common::wat_with(GUEST, &options);
        let prepared = region.prepare(&module, &linker).expect("it fits");
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        let sum = values::number(guest.call_values("sum", &[]));
        assert_eq!(sum, 1 + 11 + 100 + 1_000 + 10_000);
    }
}
