//! 128-bit integers (the wide-arithmetic proposal), compared with Rust's. Edge values and random
//! numbers occur as parameters, constants and memory operands, alone and in chains, at every
//! optimisation level.

use crate::common;

use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Instance, Linker, Region, Results, TrapCode, TypedFunc};

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

/// Numbers around which carries and borrows appear and disappear.
const EDGES: [u128; 12] = [
    0,
    1,
    2,
    i64::MAX as u128,
    1 << 63,
    u64::MAX as u128,
    1 << 64,
    (u64::MAX as u128) << 64,
    i128::MAX as u128,
    1 << 127,
    u128::MAX - 1,
    u128::MAX,
];

/// An operator on two 128-bit numbers. Operands of which it uses only the lower half are truncated
/// before.
struct Operator {
    name: &'static str,
    is_product: bool,
    model: fn(u128, u128) -> u128,
}

const OPERATORS: [Operator; 4] = [
    Operator {
        name: "i64.add128",
        is_product: false,
        model: u128::wrapping_add,
    },
    Operator {
        name: "i64.sub128",
        is_product: false,
        model: u128::wrapping_sub,
    },
    Operator {
        name: "i64.mul_wide_s",
        is_product: true,
        model: |a, b| (i128::from(a as i64) * i128::from(b as i64)).cast_unsigned(),
    },
    Operator {
        name: "i64.mul_wide_u",
        is_product: true,
        model: |a, b| u128::from(a as u64) * u128::from(b as u64),
    },
];

fn low(number: u128) -> u64 {
    number as u64
}

fn high(number: u128) -> u64 {
    (number >> 64) as u64
}

fn joined((low, high): (u64, u64)) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// The edge values and random numbers.
fn numbers(others: usize) -> Vec<u128> {
    let mut random = Random(1);
    let others = (0..others).map(|_| random.u128());
    EDGES.into_iter().chain(others).collect()
}

struct Guest {
    instance: Instance<()>,
    prepared: pirn_runtime::Prepared<()>,
}

impl Guest {
    fn new(text: &str, level: OptLevel) -> Self {
        let mut options = Options::default();
        options.opt_level = level;
        let module = common::wat_with(text, &options);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        Self {
            instance: prepared.try_instantiate(()).expect("a slot is free"),
            prepared,
        }
    }

    fn func<P: pirn_runtime::Params, R: Results>(&self, name: &str) -> TypedFunc<P, R> {
        self.prepared.func(name).expect("it is exported")
    }

    fn write(&mut self, at: u32, numbers: &[u128]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.instance
            .memory_mut()
            .write(at, &bytes)
            .expect("inside");
    }

    fn read(&self, at: u32, len: usize) -> Vec<u64> {
        let mut bytes = vec![0; len * 8];
        self.instance.memory().read(at, &mut bytes).expect("inside");
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}

#[test]
fn wide_operators_compute_as_rust_does() {
    let mut text = String::from("(module");
    for op in &OPERATORS {
        let (operands, twice) = match op.is_product {
            true => ("(local.get 0) (local.get 2)", "(local.get 0) (local.get 0)"),
            false => (
                "(local.get 0) (local.get 1) (local.get 2) (local.get 3)",
                "(local.get 0) (local.get 1) (local.get 0) (local.get 1)",
            ),
        };
        for (name, operands) in [("of two", operands), ("of one", twice)] {
            text += &format!(
                "(func (export \"{} {name}\") (param i64 i64 i64 i64) (result i64 i64)
                   ({} {operands}))",
                op.name, op.name
            );
        }
    }
    text += ")";
    let numbers = numbers(40);
    for level in LEVELS {
        let mut guest = Guest::new(&text, level);
        for op in &OPERATORS {
            type Halves = (u64, u64, u64, u64);
            let [two, one] = ["of two", "of one"]
                .map(|name| guest.func::<Halves, (u64, u64)>(&format!("{} {name}", op.name)));
            for a in &numbers {
                for b in &numbers {
                    let params = (low(*a), high(*a), low(*b), high(*b));
                    let found = guest.instance.call(&two, params).expect("it returns");
                    let wanted = (op.model)(*a, *b);
                    assert_eq!(joined(found), wanted, "{} {a:#x} {b:#x}", op.name);
                }
                let params = (low(*a), high(*a), 0, 0);
                let found = guest.instance.call(&one, params).expect("it returns");
                assert_eq!(joined(found), (op.model)(*a, *a), "{} {a:#x}", op.name);
            }
        }
    }
}

/// A constant operand can become an immediate, select a shorter form, or fold the whole result.
#[test]
fn operands_may_be_constants() {
    let constant = |op: &Operator, number: u128| match op.is_product {
        true => format!("(i64.const {})", low(number)),
        false => format!("(i64.const {}) (i64.const {})", low(number), high(number)),
    };
    let edges = EDGES.into_iter().enumerate();
    let pairs = edges.flat_map(|(i, a)| EDGES.into_iter().map(move |b| (i, a, b)));
    let pairs: Vec<_> = pairs.collect();
    for op in &OPERATORS {
        let name = op.name;
        let param = match op.is_product {
            true => "(local.get 0)",
            false => "(local.get 0) (local.get 1)",
        };
        let mut text = String::from("(module");
        for (i, number) in EDGES.into_iter().enumerate() {
            let number = constant(op, number);
            for (side, operands) in [
                ("left", format!("{number} {param}")),
                ("right", format!("{param} {number}")),
            ] {
                text += &format!(
                    "(func (export \"{side} {i}\") (param i64 i64) (result i64 i64)
                       ({name} {operands}))"
                );
            }
        }
        for (at, (_, a, b)) in pairs.iter().enumerate() {
            let (a, b) = (constant(op, *a), constant(op, *b));
            text += &format!("(func (export \"both {at}\") (result i64 i64) ({name} {a} {b}))");
        }
        text += ")";
        for level in LEVELS {
            let mut guest = Guest::new(&text, level);
            for (at, (i, a, b)) in pairs.iter().enumerate() {
                let params = (low(*b), high(*b));
                let func = guest.func::<_, (u64, u64)>(&format!("left {i}"));
                let found = guest.instance.call(&func, params).expect("it returns");
                assert_eq!(joined(found), (op.model)(*a, *b), "{name} {a:#x} {b:#x}");
                let func = guest.func::<_, (u64, u64)>(&format!("right {i}"));
                let found = guest.instance.call(&func, params).expect("it returns");
                assert_eq!(joined(found), (op.model)(*b, *a), "{name} {b:#x} {a:#x}");
                let func = guest.func::<(), (u64, u64)>(&format!("both {at}"));
                let found = guest.instance.call(&func, ()).expect("it returns");
                assert_eq!(joined(found), (op.model)(*a, *b), "{name} {a:#x} {b:#x}");
            }
        }
    }
}

/// An addition can take its operand from memory. The loaded value and the trap must stay.
#[test]
fn operands_may_be_in_memory() {
    let half = |address, offset| format!("(i64.load offset={offset} (local.get {address}))");
    let mut text = String::from("(module (memory (export \"memory\") 1)");
    for op in &OPERATORS {
        let [a, b] = [0, 1].map(|address| match op.is_product {
            true => half(address, 0),
            false => half(address, 0) + &half(address, 8),
        });
        text += &format!(
            "(func (export \"{}\") (param i32 i32) (result i64 i64) ({} {a} {b}))",
            op.name, op.name
        );
    }
    text += ")";
    let (at, end) = (1000, 64 << 10);
    for level in LEVELS {
        let mut guest = Guest::new(&text, level);
        for op in &OPERATORS {
            let func = guest.func::<(u32, u32), (u64, u64)>(op.name);
            for a in numbers(20) {
                for b in numbers(20) {
                    guest.write(at, &[a, b]);
                    let params = (at, at + 16);
                    let found = guest.instance.call(&func, params).expect("it returns");
                    assert_eq!(joined(found), (op.model)(a, b), "{} {a:#x} {b:#x}", op.name);
                }
            }
            let width = if op.is_product { 8 } else { 16 };
            for other in end - 16..=end {
                for params in [(0, other), (other, 0)] {
                    let result = guest.instance.call(&func, params);
                    let inside = other + width <= end;
                    match result {
                        Ok(_) => assert!(inside, "{} {params:?}", op.name),
                        Err(CallError::Trap(trap)) => {
                            assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
                            assert!(!inside, "{} {params:?}", op.name);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
}

/// Sums, differences and products of 256 bits, limb by limb as compilers emit them. Each carry is
/// an operand of the next limb, when other instructions have changed the processor's flags.
const CHAINS: &str = r#"(module (memory (export "memory") 1)
  (func (export "add") (param $to i32) (param $a i32) (param $b i32) (result i64) (local $carry i64)
    ADD
    (local.get $carry))
  (func (export "sub") (param $to i32) (param $a i32) (param $b i32) (result i64) (local $borrow i64)
    SUB
    (local.get $borrow))
  (func (export "mul") (param $to i32) (param $a i32) (param $b i32) (local $carry i64)
    MUL))"#;

fn chains() -> String {
    let limb = |base, at: usize| format!("(i64.load offset={} (local.get ${base}))", 8 * at);
    let store = |at: usize| {
        format!(
            "(i64.store offset={} (local.get $to) (local.get $limb))",
            8 * at
        )
    };
    let (mut add, mut sub, mut mul) = (String::new(), String::new(), String::new());
    for at in 0..4 {
        let (a, b, store) = (limb("a", at), limb("b", at), store(at));
        add += &format!(
            "(i64.add128 (i64.add128 {a} (i64.const 0) {b} (i64.const 0)) (local.get $carry) (i64.const 0))
             (local.set $carry) (local.set $limb) {store}"
        );
        // The upper half is 0 or -1; its lowest bit is the borrow.
        sub += &format!(
            "(i64.sub128 (i64.sub128 {a} (i64.const 0) {b} (i64.const 0)) (local.get $borrow) (i64.const 0))
             (i64.and (i64.const 1)) (local.set $borrow) (local.set $limb) {store}"
        );
    }
    for row in 0..4 {
        mul += "(local.set $carry (i64.const 0))";
        for column in 0..4 {
            let (a, b, to) = (limb("a", column), limb("b", row), limb("to", row + column));
            mul += &format!(
                "(i64.add128
                   (i64.add128 (i64.mul_wide_u {a} {b}) {to} (i64.const 0))
                   (local.get $carry) (i64.const 0))
                 (local.set $carry) (local.set $limb) {}",
                store(row + column)
            );
        }
        mul += &format!("(local.set $limb (local.get $carry)) {}", store(row + 4));
    }
    let text = CHAINS.replace("(local $carry", "(local $limb i64) (local $carry");
    let text = text.replace("(local $borrow", "(local $limb i64) (local $borrow");
    text.replace("ADD", &add)
        .replace("SUB", &sub)
        .replace("MUL", &mul)
}

/// Splits 64-bit limbs, lowest first, into 32-bit digits, so that sums and products do not
/// overflow.
fn digits(limbs: &[u64]) -> Vec<u64> {
    limbs
        .iter()
        .flat_map(|limb| [limb & 0xffff_ffff, limb >> 32])
        .collect()
}

/// The sum or difference, and the carry or borrow (0 or 1).
fn sum(a: &[u64], b: &[u64], is_difference: bool) -> (Vec<u64>, u64) {
    let mut carry = 0;
    let digits: Vec<_> = digits(a)
        .into_iter()
        .zip(digits(b))
        .map(|(a, b)| {
            let sum = match is_difference {
                true => a.wrapping_sub(b).wrapping_sub(carry),
                false => a + b + carry,
            };
            carry = sum >> 32 & 1;
            sum & 0xffff_ffff
        })
        .collect();
    (limbs(&digits), carry)
}

fn product(a: &[u64], b: &[u64]) -> Vec<u64> {
    let (a, b) = (digits(a), digits(b));
    let mut to = vec![0; a.len() + b.len()];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, b) in b.iter().enumerate() {
            let sum = a * b + to[i + j] + carry;
            (to[i + j], carry) = (sum & 0xffff_ffff, sum >> 32);
        }
        to[i + b.len()] = carry;
    }
    limbs(&to)
}

fn limbs(digits: &[u64]) -> Vec<u64> {
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[low, high]| high << 32 | low).collect()
}

#[test]
fn carries_propagate_through_chains() {
    let text = chains();
    let (a_at, b_at, to) = (64, 128, 192);
    for level in LEVELS {
        let mut guest = Guest::new(&text, level);
        type Params = (u32, u32, u32);
        let [add, sub] = ["add", "sub"].map(|name| guest.func::<Params, u64>(name));
        let mul = guest.func::<Params, ()>("mul");
        let params = (to, a_at, b_at);
        let numbers = numbers(4);
        let wholes: Vec<_> = numbers
            .iter()
            .flat_map(|low| numbers.iter().map(move |high| [*low, *high]))
            .collect();
        for a in wholes.iter().step_by(3) {
            for b in wholes.iter().step_by(5) {
                guest.write(a_at, a);
                guest.write(b_at, b);
                let [x, y] = [a_at, b_at].map(|at| guest.read(at, 4));
                for (func, is_difference) in [(&add, false), (&sub, true)] {
                    let carry = guest.instance.call(func, params).expect("it returns");
                    let found = (guest.read(to, 4), carry);
                    assert_eq!(found, sum(&x, &y, is_difference), "{a:x?} {b:x?}");
                }
                guest.write(to, &[0; 4]);
                guest.instance.call(&mul, params).expect("it returns");
                let found = guest.read(to, 8);
                assert_eq!(found, product(&x, &y), "{a:x?} {b:x?}");
            }
        }
    }
}
