//! The compiler replaces calls of known functions that store a product of 128-bit numbers. The
//! result must equal that of the function itself, which the test calls from the host without
//! replacement.

use crate::common;

use common::random::Random;
use pirn_runtime::{CallError, Instance, Linker, Module, Region, Value};

/// The implementations of the product that the compiler recognises.
const TEXTS: [&str; 2] = [
    include_str!("../../compiler/tests/multiply/digits.wat"),
    include_str!("../../compiler/tests/multiply/carries.wat"),
];

/// The implementations for 64-bit numbers.
const NARROW_TEXTS: [&str; 2] = [
    include_str!("../../compiler/tests/multiply/digits-narrow.wat"),
    include_str!("../../compiler/tests/multiply/carries-narrow.wat"),
];

struct Guest {
    instance: Instance<()>,
    /// Whether the memory has 64-bit addresses.
    is_64: bool,
}

/// The guest of a text, and a variant with a 64-bit memory.
fn guests(text: &str) -> [Guest; 2] {
    let wide = text.replace("\"memory\") 1)", "\"memory\") i64 1)");
    let wide = wide.replace("$to i32", "$to i64");
    [(text, false), (&wide, true)].map(|(text, is_64)| Guest::new(&common::wat(text), is_64))
}

impl Guest {
    fn new(module: &Module, is_64: bool) -> Self {
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(module, &Linker::new()).expect("it fits");
        Self {
            instance: prepared.try_instantiate(()).expect("a slot is free"),
            is_64,
        }
    }

    /// Calls a function with two factors, or with their halves. Returns the last bytes of the
    /// memory, and whether the call returned.
    fn run(&mut self, func: &str, to: u64, numbers: &[u64]) -> (bool, [u8; 32]) {
        let end = (64 << 10) - 32;
        let mut memory = self.instance.memory_mut();
        memory.write(end, &[0xa5; 32]).expect("inside");
        let numbers = numbers.iter().map(|n| Value::I64(n.cast_signed()));
        let to = match self.is_64 {
            true => Value::I64(to.cast_signed()),
            false => Value::I32((to as u32).cast_signed()),
        };
        let params: Vec<_> = [to].into_iter().chain(numbers).collect();
        let result = self.instance.call_values(func, &params);
        assert!(
            matches!(result, Ok(_) | Err(CallError::Trap(_))),
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

/// Both numbers as halves, the lower half first.
fn halves(a: u128, b: u128) -> [u64; 4] {
    [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64]
}

/// Numbers around which carries appear and disappear, and random numbers.
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
fn the_builtin_product_equals_the_functions_product() {
    let to = (64 << 10) - 16;
    for mut guest in TEXTS.into_iter().flat_map(guests) {
        for a in numbers() {
            for b in numbers() {
                let product = a.wrapping_mul(b).to_le_bytes();
                for func in ["itself", "called"] {
                    let (returned, found) = guest.run(func, to, &halves(a, b));
                    assert!(returned && found[16..] == product, "{func}: {a:#x} {b:#x}");
                }
                let (returned, found) = guest.run("narrow", to, &halves(a, b));
                let product = narrow(a, b);
                assert!(returned && found[16..] == product, "narrow: {a:#x} {b:#x}");
            }
        }
    }
    for mut guest in NARROW_TEXTS.into_iter().flat_map(guests) {
        for a in numbers() {
            for b in numbers() {
                for func in ["itself", "called"] {
                    let (returned, found) = guest.run(func, to, &[a as u64, b as u64]);
                    let product = narrow(a, b);
                    assert!(returned && found[16..] == product, "{func}: {a:#x} {b:#x}");
                }
            }
        }
    }
}

/// The product of the lower halves.
fn narrow(a: u128, b: u128) -> [u8; 16] {
    (u128::from(a as u64) * u128::from(b as u64)).to_le_bytes()
}

/// Out of bounds, the builtin must trap and write exactly like the function.
#[test]
fn an_out_of_bounds_product_writes_like_the_function() {
    let (a, b) = (u128::MAX / 3, u128::MAX / 5);
    let wide = TEXTS.map(|text| (text, halves(a, b).to_vec()));
    let narrow = NARROW_TEXTS.map(|text| (text, vec![a as u64, b as u64]));
    for (text, numbers) in wide.into_iter().chain(narrow) {
        for mut guest in guests(text) {
            let last = u64::from(u32::MAX);
            let far = [last - 15, last - 7, last];
            let farther = [last + 1, (1 << 33) + 8, 1 << 63, u64::MAX - 7, u64::MAX];
            let farther = farther.into_iter().filter(|_| guest.is_64);
            let near = (64 << 10) - 20..=64 << 10;
            for to in near.chain(far).chain(farther.collect::<Vec<_>>()) {
                let itself = guest.run("itself", to, &numbers);
                assert_eq!(guest.run("called", to, &numbers), itself, "{to:#x}");
                assert_eq!(itself.0, to <= (64 << 10) - 16, "{to:#x}");
            }
        }
    }
}
