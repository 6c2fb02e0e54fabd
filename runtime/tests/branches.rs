//! `br_table` with hundreds of entries and few targets, compared with a model. The test calls each
//! index of the table and some past its end. The targets are block ends, the function's end and a
//! loop, and each takes a value.

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;
use pirn_runtime::{Linker, Module, Region};

/// Number of entries of the table, without the default.
const ENTRIES: u32 = 300;

/// The only entry whose target no other entry shares.
const ALONE: u32 = 150;

/// Number of iterations, after which the function returns.
const TURNS: u32 = 5;

/// The target of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The start of a loop with a parameter.
    Loop,
    /// The end of the outermost block.
    Outer,
    /// The end of the block inside it.
    Inner,
    /// The end of the block that only one entry targets.
    Alone,
    /// The end of the function.
    Function,
}

impl Target {
    const ALL: [Self; 5] = [
        Self::Loop,
        Self::Outer,
        Self::Inner,
        Self::Alone,
        Self::Function,
    ];

    /// The target of an entry.
    fn of(entry: u32) -> Self {
        match entry {
            ALONE => Self::Alone,
            _ => match entry % 7 {
                0 | 3 | 5 => Self::Loop,
                1 => Self::Outer,
                2 | 6 => Self::Inner,
                _ => Self::Function,
            },
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Loop => "$loop",
            Self::Outer => "$outer",
            Self::Inner => "$inner",
            Self::Alone => "$alone",
            Self::Function => "4",
        }
    }
}

/// Fuel of the code from a target to the end. It executes each of its operators once.
fn fuel_after(target: Target) -> u64 {
    match target {
        Target::Loop | Target::Function => 0,
        Target::Outer => 4,
        Target::Inner | Target::Alone => 3,
    }
}

/// Operators of an iteration. The last iteration executes two operators in place of the table's
/// seven.
const TURN_FUEL: u64 = 30;

/// A loop that changes its locals and its operand, with the table at its end. After a `return`, the
/// same table occurs again in unreachable code.
const TEXT: &str = r#"(module
  (func (export "run") (param $index i32) (result i32)
    (local $x i32) (local $y i32) (local $turns i32) (local $v i32)
    (block $outer (result i32)
      (block $inner (result i32)
        (block $alone (result i32)
          (i32.const 100)
          (loop $loop (param i32) (result i32)
            (local.set $v)
            (local.set $x (i32.add (i32.mul (local.get $x) (i32.const 3)) (local.get $v)))
            (local.set $y (i32.xor (local.get $y) (local.get $x)))
            (local.set $turns (i32.add (local.get $turns) (i32.const 1)))
            (local.set $index (i32.add (local.get $index) (i32.const 1)))
            (if (i32.eq (local.get $turns) (i32.const TURNS))
              (then
                (return (local.get $y))
                (br_table TABLE (i32.const 0) (i32.const 0))))
            (br_table TABLE
              (i32.add (local.get $x) (local.get $turns))
              (i32.sub (local.get $index) (i32.const 1)))))
        (return (i32.add (local.get $x))))
      (return (i32.sub (local.get $y))))
    (i32.xor (i32.mul (local.get $turns)) (local.get $x))))"#;

fn text(default: Target) -> String {
    let mut table = String::new();
    for entry in 0..ENTRIES {
        table += Target::of(entry).label();
        table += " ";
    }
    table += default.label();
    TEXT.replace("TURNS", &TURNS.to_string())
        .replace("TABLE", &table)
}

/// The guest's result and the fuel that it uses.
fn model(mut index: u32, default: Target) -> (u32, u64) {
    let (mut x, mut y, mut v, mut fuel) = (0_u32, 0, 100, 1);
    for turns in 1..=TURNS {
        x = x.wrapping_mul(3).wrapping_add(v);
        y ^= x;
        fuel += TURN_FUEL;
        if turns == TURNS {
            return (y, fuel - 7 + 2);
        }
        v = x.wrapping_add(turns);
        let target = match index < ENTRIES {
            true => Target::of(index),
            false => default,
        };
        index = index.wrapping_add(1);
        let result = match target {
            Target::Loop => continue,
            Target::Function => v,
            Target::Outer => v.wrapping_mul(turns) ^ x,
            Target::Inner => v.wrapping_sub(y),
            Target::Alone => v.wrapping_add(x),
        };
        return (result, fuel + fuel_after(target));
    }
    unreachable!("the last turn returns")
}

#[test]
fn each_index_branches_to_its_target() {
    for default in Target::ALL {
        let text = text(default);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        for (level, fuel) in [
            (OptLevel::None, false),
            (OptLevel::Speed, false),
            (OptLevel::None, true),
            (OptLevel::Speed, true),
        ] {
            for arch in Arch::ALL {
                let mut options = Options::new(arch);
                (options.opt_level, options.fuel) = (level, fuel);
                let so = pirn_compiler::compile(&wasm, &options).expect("it is valid");
                if Some(arch) == Arch::from_name(std::env::consts::ARCH) {
                    check(&Module::from_bytes(&so).expect("it is ours"), default, fuel);
                }
            }
        }
    }
}

/// Calls the guest with each index of the table, and some past it.
fn check(module: &Module, default: Target, fuel: bool) {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(module, &Linker::new()).expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    let run = prepared.func::<u32, u32>("run").expect("it is exported");
    let past = [1 << 16, i32::MAX as u32, 1 << 31, u32::MAX - 1, u32::MAX];
    for index in (0..ENTRIES + 10).chain(past) {
        let (wanted, uses) = model(index, default);
        if fuel {
            instance.set_fuel(1000).expect("it counts");
        }
        let found = instance.call(&run, index).expect("it returns");
        assert_eq!(found, wanted, "{index}, default {default:?}");
        if fuel {
            let left = instance.fuel().expect("it counts");
            assert_eq!(1000 - left, uses, "{index}, default {default:?}");
        }
    }
}
