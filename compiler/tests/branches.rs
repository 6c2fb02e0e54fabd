//! `br_table`: the compiler emits the moves for a target once, even if many entries name it.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

/// A small interpreter loop: each iteration computes its locals, and nearly all entries of the
/// table target the loop's start.
fn interpreter(entries: usize) -> String {
    let again = "$loop ".repeat(entries);
    format!(
        r#"(module
  (func (export "run") (param $a i32) (param $b i32) (param $c i32) (param $d i32) (result i32)
    (block $end (block $other (loop $loop
      (local.set $a (i32.mul (local.get $b) (local.get $c)))
      (local.set $b (i32.xor (local.get $c) (local.get $d)))
      (local.set $c (i32.sub (local.get $d) (local.get $a)))
      (local.set $d (i32.rotl (local.get $a) (local.get $b)))
      (br_table $other {again} $end (local.get $a))))
      (return (i32.sub (local.get $c) (local.get $d))))
    (i32.add (local.get $a) (local.get $b))))"#
    )
}

/// Number of instructions in a listing. Entries of jump tables are data.
fn instructions(text: &str, arch: Arch, level: OptLevel, fuel: bool) -> usize {
    let mut options = Options::new(arch);
    (options.opt_level, options.fuel) = (level, fuel);
    let asm = common::listing(text, &options);
    let is_code = |text: &&str| !text.starts_with(".long");
    common::instructions(&asm).filter(is_code).count()
}

#[test]
fn many_entries_with_one_target_need_no_more_code_than_few() {
    for arch in Arch::ALL {
        for level in [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize] {
            for fuel in [false, true] {
                let [few, many] =
                    [3, 300].map(|entries| instructions(&interpreter(entries), arch, level, fuel));
                // Large constants may need up to two more instructions.
                assert!(many <= few + 2, "{arch:?} {level:?}: {few} and {many}");
            }
        }
    }
}

/// The table jumps directly to a target that is named twice and needs no moves. One unreachable
/// jump may remain after the table.
#[test]
fn entries_without_moves_need_no_extra_jump() {
    let table = |targets: &str| {
        format!(
            r#"(module (func (export "run") (param i32) (result i32)
  (block $a (block $b (block $c
    (br_table {targets} (local.get 0)))
    (return (i32.const 30)))
    (return (i32.const 20)))
  (i32.const 10)))"#
        )
    };
    for arch in Arch::ALL {
        let [once, twice] = ["$a $b $c", "$a $b $a $b $c $c"]
            .map(|targets| instructions(&table(targets), arch, OptLevel::Speed, false));
        assert!(twice <= once + 1, "{arch:?}: {once} and {twice}");
    }
}
