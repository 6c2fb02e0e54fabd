//! What tests that call functions by values share: levels of the optimiser, groups, and what a call gives.

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, ExternRef, Group, Region, Value};
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
