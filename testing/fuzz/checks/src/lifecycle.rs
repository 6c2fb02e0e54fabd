//! Instances of several modules use the slots of a region in turn, and end in every possible way.
//! Each instance must start with exactly the state that its module defines. No instance may access
//! another's memory. In each state, the runtime must allow the operations of that state and refuse
//! all others.

mod modules;
mod tenant;
mod setup;

use crate::random::Random;
use pirn_runtime::Reset;
use setup::Setup;
use std::ops::AddAssign;

/// Counts of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences of operations.
    pub sequences: usize,
    /// Instances that were made and checked.
    pub instances: usize,
    /// Operations on instances.
    pub acts: usize,
    /// Operations that left a call suspended.
    pub suspended: usize,
    /// Operations that stopped a guest: a kill, or a deadline.
    pub stopped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.instances += other.instances;
        self.acts += other.acts;
        self.suspended += other.suspended;
        self.stopped += other.stopped;
    }
}

/// Most operations of one sequence.
const ACTS_MAX: usize = 200;

/// Performs the operations that the bytes encode: one byte for the region, and two for each
/// operation. The canary changes a byte of memory before an instance is checked.
///
/// # Errors
///
/// The unexpected state, and the operation that found it.
pub fn check(data: &[u8], canary: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let Some((first, acts)) = data.split_first() else {
        return Ok(tally);
    };
    let reset = Reset::ALL[usize::from(*first) % Reset::ALL.len()];
    let slots = 1 + u32::from(*first) / 4 % 3;
    let setup = Setup::of(reset, slots)?;
    let mut tenants: Vec<tenant::Tenant> = vec![];
    for (at, act) in acts.chunks_exact(2).take(ACTS_MAX).enumerate() {
        let [act, number] = [act[0], act[1]];
        let told =
            |error: String| format!("{reset}, {slots} slots, act {at} ({act} {number}): {error}");
        // One operation in four makes an instance; the others are performed on an existing one.
        if act % 4 == 0 || tenants.is_empty() {
            let made = setup.instantiate(number.into(), tenants.len(), canary);
            tenants.extend(made.map_err(told)?);
            tally.instances += 1;
            continue;
        }
        let who = usize::from(number) % tenants.len();
        let mut random = Random::new(at as u64 ^ u64::from(number) << 8 ^ u64::from(act) << 16);
        if act % 16 == 1 {
            tenants
                .swap_remove(who)
                .drop_checked(&mut random)
                .map_err(told)?;
            continue;
        }
        let outcome = tenants[who].act(act / 4, &mut random).map_err(told)?;
        tally.acts += 1;
        tally.suspended += usize::from(outcome == tenant::Outcome::Suspended);
        tally.stopped += usize::from(outcome == tenant::Outcome::Stopped);
    }
    drop(tenants);
    let free = setup.slots_free();
    if free != slots as usize {
        return Err(format!(
            "{reset}: {free} of {slots} slots are free when all are gone"
        ));
    }
    tally.sequences = 1;
    Ok(tally)
}
