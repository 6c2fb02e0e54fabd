//! A function that stores a product of 128-bit numbers, whose calls the compiler does not make: they must
//! leave what the function leaves, which is called here from outside, where it is what it is.

mod common;

use common::random::Random;
use pirn_runtime::{CallError, Func, Instance, Linker, Module, Region};

/// The ways to compute it that the compiler knows.
const TEXTS: [&str; 2] = [
    include_str!("../../compiler/tests/multiply/digits.wat"),
    include_str!("../../compiler/tests/multiply/carries.wat"),
];

type Params = (u32, u64, u64, u64, u64);

struct Guest {
    instance: Instance<()>,
    funcs: [Func<Params, ()>; 3],
}

impl Guest {
    fn new(module: &Module) -> Self {
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(module, &Linker::new()).expect("it fits");
        let func = |name| prepared.func(name).expect("it is exported");
        Self {
            funcs: ["itself", "called", "narrow"].map(func),
            instance: prepared.try_instantiate(()).expect("a slot is free"),
        }
    }

    /// What one of the functions leaves at the end of the memory, and whether it returned.
    fn run(&mut self, func: usize, to: u32, a: u128, b: u128) -> (bool, [u8; 32]) {
        let halves = |number: u128| (number as u64, (number >> 64) as u64);
        let ((a, a_high), (b, b_high)) = (halves(a), halves(b));
        let end = (64 << 10) - 32;
        let mut memory = self.instance.memory_mut();
        memory.write(end, &[0xa5; 32]).expect("inside");
        let result = self
            .instance
            .call(&self.funcs[func], (to, a, a_high, b, b_high));
        assert!(
            matches!(result, Ok(()) | Err(CallError::Trap(_))),
            "{result:?}"
        );
        let mut found = [0; 32];
        self.instance
            .memory()
            .read(end, &mut found)
            .expect("inside");
        (result.is_ok(), found)
    }
}

/// Numbers around which carries are made and lost, and others.
fn numbers() -> Vec<u128> {
    let edges = [
        0,
        1,
        2,
        u128::from(u32::MAX),
        1 << 32,
        u128::from(u64::MAX),
        1 << 64,
        1 << 127,
        u128::MAX,
    ];
    let mut random = Random(1);
    let others = (0..40).map(|_| random.u128());
    edges.into_iter().chain(others).collect()
}

#[test]
fn a_multiplication_that_is_called_is_the_one_that_the_function_makes() {
    for text in TEXTS {
        let mut guest = Guest::new(&common::wat(text));
        let to = (64 << 10) - 16;
        for a in numbers() {
            for b in numbers() {
                let product = a.wrapping_mul(b).to_le_bytes();
                for func in [0, 1] {
                    let (returned, found) = guest.run(func, to, a, b);
                    assert!(returned && found[16..] == product, "{func}: {a:#x} {b:#x}");
                }
                let (low_a, low_b) = (u128::from(a as u64), u128::from(b as u64));
                let (returned, found) = guest.run(2, to, a, b);
                let product = (low_a * low_b).to_le_bytes();
                assert!(returned && found[16..] == product, "narrow: {a:#x} {b:#x}");
            }
        }
    }
}

#[test]
fn a_product_that_has_no_room_leaves_what_the_function_leaves() {
    for text in TEXTS {
        let mut guest = Guest::new(&common::wat(text));
        for to in ((64 << 10) - 20..=64 << 10).chain([u32::MAX - 15, u32::MAX - 7, u32::MAX]) {
            let (a, b) = (u128::MAX / 3, u128::MAX / 5);
            let itself = guest.run(0, to, a, b);
            assert_eq!(guest.run(1, to, a, b), itself, "{to:#x}");
            assert_eq!(itself.0, to <= (64 << 10) - 16, "{to:#x}");
        }
    }
}
