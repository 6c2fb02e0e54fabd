//! Shared by tests that call functions by value: optimisation levels, groups, and results of calls.

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, ExternRef, Group, Instance, Linker, Prepared, Region, Value};
use std::num::NonZeroU64;

/// Options for every optimisation level.
pub(crate) fn levels() -> [Options; 3] {
    [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize].map(|level| {
        let mut options = Options::default();
        options.opt_level = level;
        options
    })
}

/// An empty group in a new region of `slots` slots.
pub(crate) fn group(slots: u32) -> Group<()> {
    let region = Region::builder().slots(slots).build().expect("a region");
    Group::new(&region, ())
}

/// Prepares a module without imports in a new region of one slot.
pub(crate) fn prepare(text: &str, options: &Options) -> Prepared<()> {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&super::wat_with(text, options), &Linker::new());
    prepared.expect("it is linked")
}

/// An instance of a module without imports, in a new region.
pub(crate) fn instance(text: &str, options: &Options) -> Instance<()> {
    let prepared = prepare(text, options);
    prepared.try_instantiate(()).expect("the slot is free")
}

/// The `i32` result of a call.
pub(crate) fn number(result: Result<Vec<Value>, CallError>) -> i32 {
    match result.expect("it returns")[..] {
        [Value::I32(number)] => number,
        ref other => panic!("{other:?}"),
    }
}

/// The host reference with this number; null for 0.
pub(crate) fn external(number: u64) -> Value {
    Value::ExternRef(NonZeroU64::new(number).map(ExternRef::new))
}
