//! Exceptions of random programs, compared with a model. The programs throw and catch in every way,
//! with both sets of operators, at two optimisation levels, with and without fuel, in one module
//! and in two.

use crate::common;
mod oracle;
mod program;
mod text;

use common::campaign::{every, sampled};
use common::random::Random;
use common::values::{Lend as _, group};
use oracle::{End, Oracle, Val, answer};
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    CallError, Caller, Group, Instance, Linker, MemberId, Module, Region, TrapCode, Value,
};
use program::{Form, Home, Program, Ty};

/// Number of programs in the full campaign, in a manual run, and of calls for each program.
const PROGRAMS: u64 = 300;
const MANY_PROGRAMS: u64 = 3_000;
const CALLS: u64 = 12;

/// A program that can be called.
enum Guest {
    One(Box<Instance<()>>),
    Two(Box<Group<()>>, [MemberId; 2], usize),
}

impl Guest {
    fn new(program: &Program, options: &Options) -> Self {
        let open = |home| -> Module { common::wat_with(&text::module(program, home), options) };
        let first = open(Home::First);
        let mut linker = Linker::new();
        let asked = linker.func("host", "ask", |_: Caller<'_, ()>, word: i64| answer(word));
        asked.expect("the name is free");
        if !program.has_second {
            let region = Region::builder().slots(1).build().expect("a region");
            let prepared = region.prepare(&first, &linker).expect("it fits");
            let instance = prepared.try_instantiate(()).expect("a slot is free");
            return Self::One(Box::new(instance));
        }
        let mut group = group(2);
        let first = group.instantiate(&first, &linker).expect("it starts");
        group.name("first", first);
        let second = group.instantiate(&open(Home::Second), &linker);
        let members = [first, second.expect("it links")];
        Self::Two(Box::new(group), members, program.funcs[0].home as usize)
    }

    fn run(&mut self, params: &[Value]) -> Result<Vec<Value>, CallError> {
        match self {
            Self::One(instance) => instance.call_values("run", params),
            Self::Two(group, members, at) => group.lend(members[*at]).call_values("run", params),
        }
    }

    fn noted(&mut self) -> Option<Value> {
        match self {
            Self::One(instance) => instance.global("noted"),
            Self::Two(group, members, _) => group.at(members[0]).global("noted"),
        }
    }

    /// Sets the fuel of each instance.
    fn set_fuel(&mut self, fuel: u64) {
        match self {
            Self::One(instance) => instance.set_fuel(fuel).expect("it counts"),
            Self::Two(group, members, _) => {
                for member in *members {
                    group.lend(member).set_fuel(fuel).expect("it counts");
                }
            }
        }
    }

    fn fuel(&self) -> Vec<Option<u64>> {
        match self {
            Self::One(instance) => vec![instance.fuel()],
            Self::Two(group, members, _) => members.map(|member| group.at(member).fuel()).to_vec(),
        }
    }
}

/// Whether the guest's results equal the model's. References are only compared for null.
fn is_same(wanted: &[Val], found: &[Value]) -> bool {
    let pairs = wanted.iter().zip(found);
    wanted.len() == found.len() && { pairs }.all(|pair| match pair {
        (Val::I32(wanted), Value::I32(found)) => wanted == found,
        (Val::I64(wanted), Value::I64(found)) => wanted == found,
        (Val::F64(wanted), Value::F64(found)) => wanted.to_bits() == *found,
        (Val::V128(wanted), Value::V128(found)) => wanted == found,
        (Val::Exn(wanted), Value::ExnRef(found)) => wanted.is_some() == found.is_some(),
        _ => false,
    })
}

fn is_outcome(wanted: &Result<Vec<Val>, End>, found: &Result<Vec<Value>, CallError>) -> bool {
    match (wanted, found) {
        (Ok(wanted), Ok(found)) => is_same(wanted, found),
        (Err(End::Trap), Err(CallError::Trap(trap))) => trap.code() == TrapCode::Unreachable,
        (Err(End::Thrown(wanted)), Err(CallError::Exception(found))) => {
            let tag = format!("t{}", wanted.tag);
            found.tag() == Some(&tag) && is_same(&wanted.values, found.values())
        }
        _ => false,
    }
}

fn argument(random: &mut Random, ty: Ty) -> (Val, Value) {
    match ty {
        Ty::I32 => {
            let value = random.u64() as i32;
            (Val::I32(value), Value::I32(value))
        }
        Ty::I64 => {
            let value = random.u64() as i64;
            (Val::I64(value), Value::I64(value))
        }
        Ty::F64 => {
            let value = f64::from(random.u64() as i32) / 16.0;
            (Val::F64(value), Value::F64(value.to_bits()))
        }
        Ty::V128 => {
            let value = random.u128();
            (Val::V128(value), Value::V128(value))
        }
        Ty::Exn => (Val::Exn(None), Value::ExnRef(None)),
    }
}

/// Counts of calls that returned or threw or trapped, and of caught exceptions.
#[derive(Debug, Default)]
struct Counts {
    returns: u64,
    throws: u64,
    traps: u64,
    catches: u64,
}

/// The ends of calls with little fuel, and the values that the guest recorded before.
fn without_fuel(guest: &mut Guest, params: &[Value]) -> Vec<(String, Option<Value>)> {
    let fuels = [50, 100, 200, 400, 800, 1600].into_iter();
    let end = fuels.map(|fuel| {
        guest.set_fuel(fuel);
        let end = match guest.run(params) {
            Ok(_) => "returned".to_owned(),
            Err(CallError::Exception(thrown)) => format!("{:?}", thrown.tag()),
            // Do not compare the trap's location: the optimiser may check fuel earlier.
            Err(CallError::Trap(trap)) => trap.code().to_string(),
            Err(other) => other.to_string(),
        };
        (end, guest.noted())
    });
    end.collect()
}

fn compare(seed: u64, counts: &mut Counts) {
    let form = [Form::Table, Form::Legacy, Form::Both][seed as usize % 3];
    let program = Program::random(&mut Random(seed), form);
    let mut wanted = vec![];
    let mut oracle = Oracle::new(&program);
    let mut random = Random(!seed);
    for call in 0..CALLS {
        let steps = match program.is_recursive {
            true => 20 + 10 * call as u32,
            false => 50 << (call % 7),
        };
        let params = program.funcs[0].params.iter();
        let (args, mut params): (Vec<_>, Vec<_>) = { params }
            .map(|param| argument(&mut random, param.0))
            .unzip();
        params.insert(0, Value::I32(steps as i32));
        let outcome = oracle.run(steps, args);
        *match outcome {
            Ok(_) => &mut counts.returns,
            Err(End::Thrown(_)) => &mut counts.throws,
            Err(End::Trap) => &mut counts.traps,
        } += 1;
        wanted.push((params, outcome, oracle.noted));
    }
    counts.catches += oracle.catches;
    let (mut left, mut cut) = (vec![], vec![]);
    // One program of four counts fuel. By default it only runs with fuel, and each other program at
    // one level.
    let (is_whole, counts_fuel) = (every(2) == 1, seed.is_multiple_of(4));
    let is_chosen = |level: OptLevel| seed.is_multiple_of(2) == (level == OptLevel::None);
    for (level, fuel) in [
        (OptLevel::None, false),
        (OptLevel::Speed, false),
        (OptLevel::None, true),
        (OptLevel::Speed, true),
    ] {
        let runs = match fuel {
            true => counts_fuel,
            false => is_whole || !counts_fuel && is_chosen(level),
        };
        if !runs {
            continue;
        }
        let mut options = Options::default();
        (options.opt_level, options.fuel) = (level, fuel);
        let mut guest = Guest::new(&program, &options);
        if fuel {
            guest.set_fuel(1 << 40);
        }
        for (call, (params, wanted, noted)) in wanted.iter().enumerate() {
            let found = guest.run(params);
            assert!(
                is_outcome(wanted, &found),
                "seed {seed}, {form:?}, {level:?}, fuel {fuel}, call {call}: {found:?}, not {wanted:?}"
            );
            assert_eq!(
                guest.noted(),
                Some(Value::I64(*noted)),
                "seed {seed}, {form:?}, {level:?}, fuel {fuel}, call {call}: another outcome"
            );
        }
        if fuel {
            left.push(guest.fuel());
            cut.push(without_fuel(&mut guest, &wanted[0].0));
        }
    }
    assert!(
        left.windows(2).all(|pair| pair[0] == pair[1]),
        "seed {seed}: other remaining fuel: {left:?}"
    );
    assert!(
        cut.windows(2).all(|pair| pair[0] == pair[1]),
        "seed {seed}: another outcome with little fuel: {cut:?}"
    );
}

fn compare_all(seeds: impl Iterator<Item = u64>) {
    let mut counts = Counts::default();
    for seed in seeds {
        compare(seed, &mut counts);
    }
    let Counts {
        returns,
        throws,
        traps,
        catches,
    } = counts;
    assert!(
        returns > throws && throws > traps && traps > 0 && catches > returns,
        "{counts:?}"
    );
}

#[test]
fn exceptions_of_random_programs_equal_the_model() {
    compare_all(sampled(0..PROGRAMS, 19, 0));
}

#[test]
#[ignore = "takes minutes"]
fn exceptions_of_many_random_programs_equal_the_model() {
    compare_all(PROGRAMS..PROGRAMS + MANY_PROGRAMS);
}

/// The callee has more parameters than registers, and tail-calls a function with few. The frame of
/// that function then lies where the parameters were, inside the caller's frame.
#[test]
fn an_exception_of_a_tail_call_is_caught_by_the_caller() {
    const COUNTS: [usize; 3] = [0, 12, 60];
    let mut text = "(module (tag $t (param i64))".to_owned();
    for count in COUNTS {
        let params = "i64 ".repeat(count);
        text += &format!("(func $f{count} (param {params} i64) (throw $t (local.get {count})))");
        for by in COUNTS {
            let params = "i64 ".repeat(by);
            let zeros = |count| "(i64.const 0)".repeat(count);
            text += &format!(
                "(func $t{by}_{count} (param {params} i64) (return_call $f{count} {} (local.get {by})))
                 (func (export \"table {by} {count}\") (param $p i64) (result i64)
                   (i64.add (local.get $p) (block $h (result i64) (try_table (catch $t $h)
                     (call $t{by}_{count} {1} (local.get $p))) (i64.const -1))))
                 (func (export \"legacy {by} {count}\") (param $p i64) (result i64)
                   local.get $p try (result i64) {1} local.get $p call $t{by}_{count} i64.const -1
                   catch $t end i64.add)",
                zeros(count),
                zeros(by),
            );
        }
    }
    text += ")";
    for level in [OptLevel::None, OptLevel::Speed] {
        let mut options = Options::default();
        options.opt_level = level;
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&common::wat_with(&text, &options), &Linker::new());
        let instance = prepared.expect("it fits").try_instantiate(());
        let mut instance = instance.expect("a slot is free");
        for form in ["table", "legacy"] {
            for (by, count) in COUNTS.iter().flat_map(|by| COUNTS.map(|count| (by, count))) {
                let name = format!("{form} {by} {count}");
                let found = instance.call_values(&name, &[Value::I64(21)]);
                let found = found.expect("it is caught");
                assert_eq!(found, [Value::I64(42)], "{name}, {level:?}");
            }
        }
    }
}
