//! Random changes before and after a snapshot. An instance of the snapshot must end in the state of
//! an instance that made all changes itself.

use super::common::{campaign::share, random::Random};
use super::{GUEST, common, fresh, look, prepare, run, wide_region};
use pirn_runtime::{Instance, Value};

/// Makes a random change, through the guest or through the host's views.
fn change(instance: &mut Instance<super::Notes>, random: &mut Random) {
    match random.below(4) {
        0 => run(instance, "change", &[Value::I32(random.below(256) as i32)]),
        1 => run(instance, "use kept segments", &[]),
        2 => {
            let mut memory = instance.memory_mut();
            let at = random.below(memory.len() as u64 - 8) as u32;
            memory
                .write_u64(at, random.below(u64::MAX))
                .expect("it is in the memory");
        }
        _ => {
            let value = Value::I32(random.below(1 << 30) as i32);
            instance.set_global("i32", value).expect("it is mutable");
        }
    }
}

#[test]
fn random_changes_continue_after_a_snapshot() {
    let region = wide_region(2);
    let module = common::wat(GUEST);
    let cold = prepare(&region, &module);
    for seed in 0..share(200, 4) {
        let mut random = Random(seed);
        let (mut wanted, mut found) = (fresh(&cold), fresh(&cold));
        for _ in 0..1 + random.below(3) {
            for _ in 0..random.below(6) {
                let mut same = Random(random.0);
                change(&mut wanted, &mut random);
                change(&mut found, &mut same);
            }
            let snapshot = found.snapshot().expect("it can be taken");
            found = fresh(&prepare(&region, &snapshot));
            assert_eq!(look(&mut found), look(&mut wanted), "seed {seed}");
        }
    }
}
