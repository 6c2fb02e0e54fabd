//! Shared by tests that call functions by value: optimisation levels, groups, and results of calls.

use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    AddrType, CallError, ExternRef, Group, Instance, InvalidCall, Linker, MemberId, MemberMut,
    MemberRef, MemoryType, PageSize, Prepared, Region, SharedMemory, Value,
};
use std::fmt::Debug;
use std::num::NonZeroU64;

/// Options for every optimisation level.
pub(crate) fn levels() -> [Options; 3] {
    [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize].map(|level| {
        let mut options = Options::default();
        options.opt_level = level;
        options
    })
}

/// A region of `slots` slots, with the default settings.
pub(crate) fn region(slots: u32) -> Region {
    let region = Region::builder().slots(slots).build();
    region.expect("the region is built")
}

/// An empty group in a new region of `slots` slots.
pub(crate) fn group(slots: u32) -> Group<()> {
    Group::new(&region(slots), ())
}

/// Lends members of groups for tests that use only the groups' own ids.
pub(crate) trait Lend<T, Q, A> {
    fn at(&self, member: MemberId) -> MemberRef<'_, T, Q, A>;
    fn lend(&mut self, member: MemberId) -> MemberMut<'_, T, Q, A>;
}

impl<T: 'static, Q: 'static, A: 'static> Lend<T, Q, A> for Group<T, Q, A> {
    fn at(&self, member: MemberId) -> MemberRef<'_, T, Q, A> {
        self.member(member).expect("the id is of this group")
    }

    fn lend(&mut self, member: MemberId) -> MemberMut<'_, T, Q, A> {
        self.member_mut(member).expect("the id is of this group")
    }
}

/// A shared memory with 32-bit addresses. `min` and `max` are numbers of pages.
pub(crate) fn shared_memory(min: u64, max: u64) -> SharedMemory {
    let ty = MemoryType {
        address: AddrType::I32,
        page: PageSize::Large,
        min,
        max: Some(max),
        shared: true,
    };
    SharedMemory::new(&ty).expect("the system has memory")
}

/// Prepares a module without imports in a new region of one slot.
pub(crate) fn prepare(text: &str, options: &Options) -> Prepared<()> {
    let prepared = region(1).prepare(&super::wat_with(text, options), &Linker::new());
    prepared.expect("it is linked")
}

/// An instance of a module without imports, in a new region.
pub(crate) fn instance(text: &str, options: &Options) -> Instance<()> {
    let prepared = prepare(text, options);
    prepared.try_instantiate(()).expect("the slot is free")
}

/// The reason for which a call was refused as invalid.
pub(crate) fn invalid<R: Debug>(result: Result<R, CallError>) -> InvalidCall {
    match result {
        Err(CallError::Invalid(why)) => *why,
        other => panic!("{other:?}"),
    }
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
