//! Spills values of random blocks: effects keep their order, and the register pressure stays low.

use super::*;
use crate::ir::block::CLASSES;
use crate::optimize::alternatives::schedule::tests::{insts, random};
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;

/// Integer registers in these tests.
const COUNT: usize = 8;

/// Whether any block has more than `count` live integers at some instruction.
fn exceeds(func: &Function, count: usize) -> bool {
    let shared = shared_values(func);
    let is_exceeded = |insts: &Vec<Inst>| {
        let list = List::new(func, insts, &shared, &mut Numbers::new());
        let mut registers = [usize::MAX; CLASSES];
        registers[0] = count;
        list.exceeds(Registers(registers))
    };
    insts(func).iter().any(is_exceeded)
}

#[test]
fn pressure_stays_low_and_effects_keep_their_order() {
    let flags = Flags::new(settings::builder());
    let mut changed = 0;
    for seed in 1..300 {
        let mut func = random(seed, 20 + seed as usize);
        let was_exceeded = exceeds(&func, COUNT);
        let before = insts(&func);
        spill(&mut func, Registers([COUNT; CLASSES]));
        verify_function(&func, &flags).expect("the result is valid");
        let after = insts(&func);
        changed += usize::from(was_exceeded);
        for (before, after) in before.iter().zip(&after) {
            let kept = after.iter().filter(|inst| before.contains(inst));
            assert!(kept.eq(before), "seed {seed}");
        }
        // Values that the second block also uses are not spilled, so they come on top of `COUNT`.
        assert!(
            !exceeds(&func, COUNT + 3),
            "seed {seed}: {}",
            func.display()
        );
        let mut again = random(seed, 20 + seed as usize);
        spill(&mut again, Registers([COUNT; CLASSES]));
        assert_eq!(again.display().to_string(), func.display().to_string());
    }
    assert!(changed > 200, "only {changed} changed");
}
