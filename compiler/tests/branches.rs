//! Tables of branches: what is moved on the way to a target is there once, however often the table names it.

mod common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

/// An interpreter's loop in small: locals that each turn computes, and a table whose entries are nearly
/// all for the loop's start.
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

/// How many instructions a listing has; the tables' own entries are data.
fn instructions(text: &str, arch: Arch, level: OptLevel, fuel: bool) -> usize {
    let mut options = Options::new(arch);
    (options.opt_level, options.fuel) = (level, fuel);
    let asm = common::listing(text, &options);
    let is_code = |text: &&str| !text.starts_with(".long");
    common::instructions(&asm).filter(is_code).count()
}

#[test]
fn many_entries_of_one_target_take_no_more_code_than_few() {
    for arch in Arch::ALL {
        for level in [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize] {
            for fuel in [false, true] {
                let [few, many] =
                    [3, 300].map(|entries| instructions(&interpreter(entries), arch, level, fuel));
                // Constants that do not fit one instruction, at most.
                assert!(many <= few + 2, "{arch:?} {level:?}: {few} and {many}");
            }
        }
    }
}

/// A target that is named twice, and needs nothing moved, is jumped to by the table itself. One jump, which
/// nothing reaches, may stay behind the table.
#[test]
fn entries_for_which_nothing_is_moved_cost_no_jump() {
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
