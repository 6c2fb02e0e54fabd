//! Attacks with several memories: data left in the second and third memory, and accesses that reach
//! another memory than the named one. Also wrong reports of accesses out of bounds.
#![allow(unsafe_code, reason = "this test forks, and limits child processes")]

use super::common::{self, file::File, random::Random, setup};
use futures::task::noop_waker;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    CallError, Caller, Group, GroupError, Growth, HostError, Instance, InstantiateError,
    KillSwitch, LinkError, Linker, MemberId, Module, Prepared, Region, Reset, TrapCode, TypedFunc,
    Value,
};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, panic_any};
use std::pin::pin;
use std::task::Context;
use std::time::Duration;

mod access;
mod answers;
mod left;

const PAGE: usize = 1 << 16;

/// Number of pages by which a guest grows each memory.
const GROWN: usize = 2;

const LEVELS: [OptLevel; 2] = [OptLevel::None, OptLevel::Speed];

/// Runs a case in a child process.
pub(super) fn case(case: &str) {
    let words: Vec<_> = case.split(' ').collect();
    let [what, call, reset] = words[..] else {
        panic!("no case {case:?}")
    };
    let reset = common::reset_named(reset);
    match what {
        "failing" => left::failing(call, reset),
        "half" => left::half(call.parse().expect("a number"), reset),
        "forking" => left::forking(reset),
        _ => panic!("no case {case:?}"),
    }
}

fn region(slots: u32, memories: u32) -> Region {
    let region = Region::builder().slots(slots).memories(memories);
    region.memory_bytes_max(8 * PAGE).build().expect("a region")
}

fn outcome(result: Result<Vec<Value>, CallError>) -> Result<Vec<Value>, TrapCode> {
    result.map_err(|error| match error {
        CallError::Trap(trap) => trap.code(),
        other => panic!("{other}"),
    })
}

fn i32(value: u32) -> Value {
    Value::I32(value.cast_signed())
}
