//! Relaxed vector operators, compared with a model of the results that the specification allows.
//! The model numbers the allowed results of each operator.
//!
//! By default, the result must be the one that the documentation names for the target. With
//! deterministic operators, the result must be the first of the list. The test has operands in
//! registers, in memory and as constants. It runs at every optimisation level, for every level of
//! this machine's processor.

use crate::common;

use common::campaign::share;
use common::not_run;
use common::program::has_runner;
use common::random::Random;
use common::values::instance;
use pirn_compiler::{OptLevel, Options, RelaxedSimd};
use pirn_format::cpu::{self, Arch, CpuFeatures};
use pirn_runtime::Value;

/// Computes one lane of the result from the lanes of the operands. The first argument is the number
/// of the allowed result.
type Lane = fn(usize, [u64; 3]) -> u64;

/// The computation of an operator.
enum Model {
    /// Lane by lane: the number of bits of a lane, and the computation of one lane.
    Lanes(u32, Lane),
    /// The whole vector, given the number of the allowed result.
    Whole(fn(usize, [u128; 3]) -> u128),
}

/// The kind of edge values for the operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F64,
    Bytes,
    Words,
    Any,
}

struct Relaxed {
    name: &'static str,
    operands: usize,
    kind: Kind,
    /// Number of results that the specification allows at most.
    places: usize,
    /// The number of the allowed result on x86_64 without FMA, on x86_64 with FMA, and on aarch64.
    taken: [usize; 3],
    model: Model,
}

#[rustfmt::skip]
const OPERATORS: [Relaxed; 20] = [
    op("i8x16.relaxed_swizzle", 2, Kind::Bytes, 2, [1, 1, 0], Model::Whole(swizzle)),
    op("i32x4.relaxed_trunc_f32x4_s", 1, Kind::F32, 2, [1, 1, 0], Model::Lanes(32, |place, [a, ..]| signed(place, f64::from(single(a))))),
    op("i32x4.relaxed_trunc_f32x4_u", 1, Kind::F32, 4, [0, 0, 0], Model::Lanes(32, |place, [a, ..]| unsigned(place, f64::from(single(a))))),
    op("i32x4.relaxed_trunc_f64x2_s_zero", 1, Kind::F64, 2, [1, 1, 0], Model::Whole(|place, [a, ..]| low(a, |lane| signed(place, lane)))),
    op("i32x4.relaxed_trunc_f64x2_u_zero", 1, Kind::F64, 4, [0, 0, 0], Model::Whole(|place, [a, ..]| low(a, |lane| unsigned(place, lane)))),
    op("f32x4.relaxed_madd", 3, Kind::F32, 2, [0, 1, 1], Model::Lanes(32, |place, lanes| madd32(place, lanes.map(single)))),
    op("f32x4.relaxed_nmadd", 3, Kind::F32, 2, [0, 1, 1], Model::Lanes(32, nmadd32)),
    op("f64x2.relaxed_madd", 3, Kind::F64, 2, [0, 1, 1], Model::Lanes(64, |place, lanes| madd64(place, lanes.map(f64::from_bits)))),
    op("f64x2.relaxed_nmadd", 3, Kind::F64, 2, [0, 1, 1], Model::Lanes(64, nmadd64)),
    op("i8x16.relaxed_laneselect", 3, Kind::Bytes, 2, [1, 1, 0], Model::Lanes(8, |place, lanes| select(place, 8, lanes))),
    op("i16x8.relaxed_laneselect", 3, Kind::Words, 2, [1, 1, 0], Model::Lanes(16, |place, lanes| select(place, 16, lanes))),
    op("i32x4.relaxed_laneselect", 3, Kind::Any, 2, [1, 1, 0], Model::Lanes(32, |place, lanes| select(place, 32, lanes))),
    op("i64x2.relaxed_laneselect", 3, Kind::Any, 2, [1, 1, 0], Model::Lanes(64, |place, lanes| select(place, 64, lanes))),
    op("f32x4.relaxed_min", 2, Kind::F32, 4, [2, 2, 0], Model::Lanes(32, |place, [a, b, _]| extreme32(place, -1.0, a, b))),
    op("f32x4.relaxed_max", 2, Kind::F32, 4, [2, 2, 0], Model::Lanes(32, |place, [a, b, _]| extreme32(place, 1.0, a, b))),
    op("f64x2.relaxed_min", 2, Kind::F64, 4, [2, 2, 0], Model::Lanes(64, |place, [a, b, _]| extreme64(place, -1.0, a, b))),
    op("f64x2.relaxed_max", 2, Kind::F64, 4, [2, 2, 0], Model::Lanes(64, |place, [a, b, _]| extreme64(place, 1.0, a, b))),
    op("i16x8.relaxed_q15mulr_s", 2, Kind::Words, 2, [1, 1, 0], Model::Lanes(16, |place, [a, b, _]| multiply(place, a as i16, b as i16))),
    op("i16x8.relaxed_dot_i8x16_i7x16_s", 2, Kind::Bytes, 2, [1, 1, 0], Model::Whole(|place, [a, b, _]| dot(place, a, b))),
    op("i32x4.relaxed_dot_i8x16_i7x16_add_s", 3, Kind::Bytes, 2, [1, 1, 0], Model::Whole(dot_add)),
];

const fn op(
    name: &'static str,
    operands: usize,
    kind: Kind,
    places: usize,
    taken: [usize; 3],
    model: Model,
) -> Relaxed {
    Relaxed {
        name,
        operands,
        kind,
        places,
        taken,
        model,
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn low(vector: u128, lane: impl Fn(f64) -> u64) -> u128 {
    let [a, b] = [vector as u64, (vector >> 64) as u64].map(|bits| lane(f64::from_bits(bits)));
    u128::from(a) | u128::from(b) << 32
}

/// Rust's conversions saturate, and give 0 for NaN.
fn signed(place: usize, number: f64) -> u64 {
    let is_in_range = (-2_147_483_648.0..2_147_483_648.0).contains(&number.trunc());
    let value = match place {
        1 if !is_in_range => i32::MIN,
        _ => number as i32,
    };
    u64::from(value as u32)
}

fn unsigned(place: usize, number: f64) -> u64 {
    let is_in_range = (0.0..4_294_967_296.0).contains(&number.trunc());
    let value = match place {
        1 if !is_in_range => u32::MAX,
        2 if !is_in_range => u32::MAX - 1,
        3 if !is_in_range => 1 << 31,
        _ => number as u32,
    };
    u64::from(value)
}

fn madd32(place: usize, [a, b, c]: [f32; 3]) -> u64 {
    let sum = if place == 1 {
        a.mul_add(b, c)
    } else {
        a * b + c
    };
    u64::from(sum.to_bits())
}

fn madd64(place: usize, [a, b, c]: [f64; 3]) -> u64 {
    let sum = if place == 1 {
        a.mul_add(b, c)
    } else {
        a * b + c
    };
    sum.to_bits()
}

fn nmadd32(place: usize, lanes: [u64; 3]) -> u64 {
    let [a, b, c] = lanes.map(single);
    madd32(place, [-a, b, c])
}

fn nmadd64(place: usize, lanes: [u64; 3]) -> u64 {
    let [a, b, c] = lanes.map(f64::from_bits);
    madd64(place, [-a, b, c])
}

fn swizzle(place: usize, [lanes, at, _]: [u128; 3]) -> u128 {
    let lanes = lanes.to_le_bytes();
    let lane = at.to_le_bytes().map(|at| match (at, place) {
        (0..16, _) | (16..128, 1) => lanes[usize::from(at) % 16],
        _ => 0,
    });
    u128::from_le_bytes(lane)
}

fn select(place: usize, bits: u32, [a, b, mask]: [u64; 3]) -> u64 {
    let highest = mask >> (bits - 1) & 1 == 1;
    let mask = match place {
        1 if highest => u64::MAX,
        1 => 0,
        _ => mask,
    };
    a & mask | b & !mask
}

/// The smaller number if `sign` is -1, otherwise the greater one.
fn extreme(place: usize, sign: f64, a: f64, b: f64) -> f64 {
    let unusual = a.is_nan() || b.is_nan() || a == 0.0 && b == 0.0;
    match place {
        _ if !unusual => {
            if (a - b) * sign > 0.0 || a == b {
                a
            } else {
                b
            }
        }
        1 => a,
        2 => b,
        // Ignores a NaN if the other operand is a number, and orders -0 below +0.
        3 if a.is_nan() => b,
        3 if b.is_nan() => a,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        _ if a.is_sign_negative() == (sign < 0.0) => a,
        _ => b,
    }
}

/// [`extreme`] for 32-bit numbers. The result is always one of the operands or NaN, so it is exact.
fn extreme32(place: usize, sign: f64, a: u64, b: u64) -> u64 {
    let [a, b] = [a, b].map(|bits| f64::from(single(bits)));
    u64::from((extreme(place, sign, a, b) as f32).to_bits())
}

fn extreme64(place: usize, sign: f64, a: u64, b: u64) -> u64 {
    extreme(place, sign, f64::from_bits(a), f64::from_bits(b)).to_bits()
}

fn multiply(place: usize, a: i16, b: i16) -> u64 {
    let product = (i32::from(a) * i32::from(b) + 0x4000) >> 15;
    let value = match (product, place) {
        (0x8000, 1) => i16::MIN,
        (0x8000, _) => i16::MAX,
        (product, _) => product as i16,
    };
    u64::from(value as u16)
}

/// Saturated sums of two products each.
fn sums(place: usize, a: u128, b: u128) -> [i16; 8] {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    let product = |at: usize| {
        let other = match place {
            1 => i32::from(b[at]),
            _ => i32::from(b[at] as i8),
        };
        i32::from(a[at] as i8) * other
    };
    std::array::from_fn(|at| {
        let sum = product(2 * at) + product(2 * at + 1);
        sum.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
    })
}

fn dot(place: usize, a: u128, b: u128) -> u128 {
    let lanes = sums(place, a, b).into_iter().rev();
    lanes.fold(0, |all, lane| all << 16 | u128::from(lane as u16))
}

fn dot_add(place: usize, [a, b, c]: [u128; 3]) -> u128 {
    let sums = sums(place, a, b);
    (0..4).rev().fold(0, |all, at| {
        let pair = i32::from(sums[2 * at]) + i32::from(sums[2 * at + 1]);
        let sum = pair.wrapping_add((c >> (32 * at)) as i32);
        all << 32 | u128::from(sum as u32)
    })
}

impl Relaxed {
    fn wanted(&self, place: usize, operands: [u128; 3]) -> u128 {
        match self.model {
            Model::Whole(model) => model(place, operands),
            Model::Lanes(bits, model) => {
                let mask = u64::MAX >> (64 - bits);
                (0..128 / bits).fold(0, |all, lane| {
                    let lanes = operands.map(|all| (all >> (lane * bits)) as u64 & mask);
                    all | u128::from(model(place, lanes)) << (lane * bits)
                })
            }
        }
    }

    /// The vector with all NaNs replaced by one, if the operator gives floats.
    fn canonical(&self, vector: u128) -> u128 {
        let gives_floats = self.name.starts_with('f');
        let bits = match self.kind {
            Kind::F32 if gives_floats => 32,
            Kind::F64 if gives_floats => 64,
            _ => return vector,
        };
        (0..128 / bits).fold(0, |all, lane| {
            let found = (vector >> (lane * bits)) as u64;
            let one = match bits {
                32 if single(found).is_nan() => u64::from(f32::NAN.to_bits()),
                32 => u64::from(found as u32),
                _ if f64::from_bits(found).is_nan() => f64::NAN.to_bits(),
                _ => found,
            };
            all | u128::from(one) << (lane * bits)
        })
    }

    /// The number of the allowed result that code for this processor produces by default.
    fn taken(&self, cpu: CpuFeatures) -> usize {
        match cpu.arch() {
            Arch::X86_64 => self.taken[usize::from(cpu.has("fma") && cpu.has("avx"))],
            Arch::Aarch64 => self.taken[2],
        }
    }

    /// The operator in the text format, with the given operands.
    fn text(&self, operand: impl Fn(usize) -> String) -> String {
        let operands: String = (0..self.operands).map(operand).collect();
        format!("({} {operands})", self.name)
    }
}

/// Edge values, around which the results change.
const SINGLES: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    0.999_999_94,
    -0.999_999_94,
    1.5,
    -1.5,
    f32::NAN,
    -f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1e-45,
    2_147_483_500.0,
    2_147_483_600.0,
    -2_147_483_600.0,
    4_294_967_000.0,
    4_294_967_300.0,
    1.000_000_1,
];
const DOUBLES: [f64; 28] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    0.999_999_999_999_999_9,
    -0.999_999_999_999_999_9,
    1.5,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    2_147_483_647.0,
    2_147_483_647.5,
    2_147_483_648.0,
    -2_147_483_648.0,
    -2_147_483_648.5,
    -2_147_483_649.0,
    4_294_967_295.0,
    4_294_967_295.5,
    4_294_967_296.0,
    1e300,
    1.000_000_000_000_000_2,
];
const BYTES: [u8; 12] = [0, 1, 15, 16, 17, 31, 0x7f, 0x80, 0x81, 0x8f, 0xf0, 0xff];
const WORDS: [u16; 10] = [
    0, 1, 0x7f, 0x80, 0x7fff, 0x8000, 0x8001, 0xff00, 0xff7f, 0xffff,
];

/// A vector of edge values, of random bits, or of one edge value in all lanes.
fn operand(kind: Kind, random: &mut Random) -> u128 {
    let spread = match random.below(8) {
        0 => return random.u128(),
        1 => true,
        _ => false,
    };
    let lane = |random: &mut Random| -> (u32, u128) {
        let mut at = |count: usize| random.below(count as u64) as usize;
        match kind {
            Kind::F32 => (32, SINGLES[at(SINGLES.len())].to_bits().into()),
            Kind::F64 => (64, DOUBLES[at(DOUBLES.len())].to_bits().into()),
            Kind::Words => (16, WORDS[at(WORDS.len())].into()),
            Kind::Bytes | Kind::Any => (8, BYTES[at(BYTES.len())].into()),
        }
    };
    let (bits, first) = lane(random);
    (1..128 / bits).fold(first, |all, _| {
        all << bits | if spread { first } else { lane(random).1 }
    })
}

fn operands(kind: Kind, random: &mut Random) -> [u128; 3] {
    [(); 3].map(|()| operand(kind, random))
}

/// Works around an error of the emulator. For BSL with a known vector of ones, QEMU 10.0's
/// `tcg/optimize.c` returns that vector even where the mask's bit is 0.
fn emulated(op: &Relaxed, mut operands: [u128; 3]) -> [u128; 3] {
    if has_runner() && op.name.ends_with("laneselect") && operands[1] == u128::MAX {
        not_run(format_args!(
            "{} of constants, the second all ones",
            op.name
        ));
        operands[1] = u128::MAX - 1;
    }
    operands
}

/// The processor levels that this machine supports, and its full feature set, without duplicates.
fn cpus() -> Vec<CpuFeatures> {
    let machine = cpu::detect();
    let arch = machine.arch();
    let levels = arch.levels().iter();
    let mut cpus: Vec<_> = levels
        .filter_map(|level| CpuFeatures::level(arch, level.name))
        .collect();
    cpus.push(machine);
    cpus.retain(|cpu| cpu.bits() & !machine.bits() == 0);
    cpus.dedup();
    cpus
}

fn settings() -> Vec<Options> {
    let mut all = vec![];
    for cpu in cpus() {
        for opt_level in [OptLevel::None, OptLevel::Speed] {
            for relaxed in [RelaxedSimd::Fastest, RelaxedSimd::Deterministic] {
                let mut options = Options::new(cpu.arch());
                (options.cpu, options.opt_level) = (cpu, opt_level);
                options.relaxed_simd = relaxed;
                all.push(options);
            }
        }
    }
    all
}

/// Checks that a result is the one of the allowed results that the options select.
fn check(op: &Relaxed, options: &Options, operands: [u128; 3], found: &[Value], how: &str) -> u128 {
    let place = match options.relaxed_simd {
        RelaxedSimd::Deterministic => 0,
        RelaxedSimd::Fastest => op.taken(options.cpu),
    };
    assert!(place < op.places);
    let [Value::V128(found)] = found else {
        panic!("{found:?}");
    };
    let (found, wanted) = (
        op.canonical(*found),
        op.canonical(op.wanted(place, operands)),
    );
    assert_eq!(
        found,
        wanted,
        "{} {how}, {:?} {:?} for {}: {operands:032x?} gives {found:032x}, place {place} is {wanted:032x}",
        op.name,
        options.relaxed_simd,
        options.opt_level,
        options.cpu.name()
    );
    found
}

/// Rounds for each operator, each setting, and each kind of operand.
const ROUNDS: u64 = 500;

#[test]
fn each_relaxed_operator_gives_the_documented_result() {
    let function = |(at, op): (usize, &Relaxed)| {
        let params = op.text(|operand| format!("(local.get {operand})"));
        let memory =
            op.text(|operand| format!("(v128.load offset={} (local.get 0))", 16 * operand));
        format!(
            "(func (export \"params{at}\") (param v128 v128 v128) (result v128) {params})
             (func (export \"memory{at}\") (param i32) (result v128) {memory})"
        )
    };
    let functions: String = OPERATORS.iter().enumerate().map(function).collect();
    let text = format!("(module (memory (export \"memory\") 1) {functions})");
    for options in settings() {
        let mut guest = instance(&text, &options);
        let mut random = Random(1);
        for (at, op) in OPERATORS.iter().enumerate() {
            let (mut differing, rounds) = (0, share(ROUNDS, 2));
            for _ in 0..rounds {
                let operands = operands(op.kind, &mut random);
                let params = operands.map(Value::V128);
                let found = guest.call_values(&format!("params{at}"), &params);
                let found = check(
                    op,
                    &options,
                    operands,
                    &found.expect("it returns"),
                    "by parameters",
                );
                let bytes = operands.map(u128::to_le_bytes).concat();
                let place = random.below(0x100) as u32;
                guest
                    .memory_mut()
                    .write(place, &bytes)
                    .expect("it is there");
                let loaded = guest.call_values(&format!("memory{at}"), &[Value::I32(place as i32)]);
                check(
                    op,
                    &options,
                    operands,
                    &loaded.expect("it returns"),
                    "from memory",
                );
                let others = (0..op.places).map(|place| op.canonical(op.wanted(place, operands)));
                differing += u64::from(others.into_iter().any(|other| other != found));
            }
            // A canary: inputs for which all allowed results are equal cannot reveal an error.
            assert!(differing > rounds / 50, "{}: {differing}", op.name);
        }
    }
}

/// Constant operands: the optimiser's results must be those of the processor.
#[test]
fn relaxed_operators_fold_to_the_processors_result() {
    let mut random = Random(2);
    for _ in 0..6 {
        let all: Vec<_> = OPERATORS
            .iter()
            .map(|op| emulated(op, operands(op.kind, &mut random)))
            .collect();
        let function = |(at, op): (usize, &Relaxed)| {
            let constants = op.text(|operand| {
                let [a, b] = [0, 64].map(|shift| (all[at][operand] >> shift) as i64);
                format!("(v128.const i64x2 {a} {b})")
            });
            format!("(func (export \"f{at}\") (result v128) {constants})")
        };
        let functions: String = OPERATORS.iter().enumerate().map(function).collect();
        for options in settings() {
            let mut guest = instance(&format!("(module {functions})"), &options);
            for (at, op) in OPERATORS.iter().enumerate() {
                let found = guest.call_values(&format!("f{at}"), &[]);
                check(
                    op,
                    &options,
                    all[at],
                    &found.expect("it returns"),
                    "of constants",
                );
            }
        }
    }
}

/// A guest that computes in a loop with more live values than there are registers.
#[test]
fn relaxed_operators_are_right_under_register_pressure() {
    let uses =
        |at: usize| OPERATORS[at].text(|operand| format!("(local.get {})", (at + operand) % 3));
    let sets: String = (0..OPERATORS.len())
        .map(|at| format!("(local.set {} {})", at + 3, uses(at)))
        .collect();
    let stores: String = (0..OPERATORS.len())
        .map(|at| {
            format!(
                "(v128.store offset={} (i32.const 0) (local.get {}))",
                16 * at,
                at + 3
            )
        })
        .collect();
    let locals = "v128 ".repeat(OPERATORS.len());
    let text = format!(
        "(module (memory (export \"memory\") 1)
           (func (export \"run\") (param v128 v128 v128) (local {locals}) (local $n i32)
             (local.set $n (i32.const 3))
             (loop $again {sets} (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
             {stores}))"
    );
    let mut random = Random(3);
    for options in settings() {
        let mut guest = instance(&text, &options);
        for round in 0..200 {
            let kind = [Kind::F32, Kind::F64, Kind::Bytes, Kind::Words, Kind::Any][round % 5];
            let params = operands(kind, &mut random);
            guest
                .call_values("run", &params.map(Value::V128))
                .expect("it returns");
            let mut bytes = [0; 16 * OPERATORS.len()];
            guest.memory().read(0, &mut bytes).expect("it is there");
            for (at, op) in OPERATORS.iter().enumerate() {
                let found: [u8; 16] = bytes[16 * at..][..16].try_into().expect("16 bytes");
                let found = [Value::V128(u128::from_le_bytes(found))];
                let operands = [0, 1, 2].map(|operand| params[(at + operand) % 3]);
                check(op, &options, operands, &found, "in a loop");
            }
        }
    }
}
