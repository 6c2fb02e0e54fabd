//! What tests that call functions by values share: levels of the optimiser, groups, and what a call gives.

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, ExternRef, Group, Instance, Linker, Prepared, Region, Value};
use std::num::NonZeroU64;

/// Every level of the optimiser.
pub(crate) fn levels() -> [Options; 3] {
    [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize].map(|level| {
        let mut options = Options::default();
        options.opt_level = level;
        options
    })
}

/// An empty group in a region of its own, of so many slots.
pub(crate) fn group(slots: u32) -> Group<()> {
    let region = Region::builder().slots(slots).build().expect("a region");
    Group::new(&region, ())
}

/// A text that imports nothing, compiled with these options, in a region of one slot.
pub(crate) fn prepare(text: &str, options: &Options) -> Prepared<()> {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&super::wat_with(text, options), &Linker::new());
    prepared.expect("it is linked")
}

/// An instance of a text that imports nothing, alone in its region.
pub(crate) fn instance(text: &str, options: &Options) -> Instance<()> {
    let prepared = prepare(text, options);
    prepared.try_instantiate(()).expect("the slot is free")
}

/// The number that a call gives.
pub(crate) fn number(result: Result<Vec<Value>, CallError>) -> i32 {
    match result.expect("it returns")[..] {
        [Value::I32(number)] => number,
        ref other => panic!("{other:?}"),
    }
}

/// A reference of the host's by its number, or null for 0.
pub(crate) fn external(number: u64) -> Value {
    Value::ExternRef(NonZeroU64::new(number).map(ExternRef::new))
}
