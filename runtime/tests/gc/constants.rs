//! Constant expressions that convert a reference of the host which does not fit into a word, so
//! that it is in a box of the heap.

use crate::common::values::Lend as _;
use crate::common::{self, values::external};
use pirn_runtime::{ExternRef, Group, Linker, Value};
use std::num::NonZeroU64;

/// Exports the number of the host as an internal reference: by an immutable and a mutable global.
const OWNER: &str = r#"(module
  (import "h" "given" (global $given externref))
  (global $boxed (export "boxed") anyref (any.convert_extern (global.get $given)))
  (global (export "mutable") (mut anyref) (global.get $boxed)))"#;

/// Converts the imported reference back wherever a constant expression may stand.
const USER: &str = r#"(module
  (import "m" "boxed" (global $boxed anyref))
  (import "m" "mutable" (global (mut anyref)))
  (global $back externref (extern.convert_any (global.get $boxed)))
  (global $again externref (global.get $back))
  (type $externs (array externref))
  (table $filled 2 externref (extern.convert_any (global.get $boxed)))
  (table $written 3 externref)
  (elem (table $written) (i32.const 0) externref
    (item (extern.convert_any (global.get $boxed))) (item (global.get $again)))
  (elem $passive externref
    (item (extern.convert_any (global.get $boxed))) (item (ref.null extern)))
  (func (export "global") (result externref) (global.get $back))
  (func (export "global of a global") (result externref) (global.get $again))
  (func (export "table") (result externref) (table.get $filled (i32.const 1)))
  (func (export "active segment") (result externref) (table.get $written (i32.const 0)))
  (func (export "active segment by a global") (result externref)
    (table.get $written (i32.const 1)))
  (func (export "passive segment") (result externref)
    (table.init $written $passive (i32.const 2) (i32.const 0) (i32.const 1))
    (table.get $written (i32.const 2)))
  (func (export "array of a segment") (result externref)
    (array.get $externs (array.new_elem $externs $passive (i32.const 0) (i32.const 2))
      (i32.const 0))))"#;

/// The embedder gets the number that it gave, never the address of the box.
#[test]
fn constants_take_numbers_of_the_host_out_of_their_box() {
    // Without a box; with one; the runtime reserves the numbers just below the last one.
    for number in [5, (1 << 61) - 1, 1 << 61, 0xffff << 48, u64::MAX] {
        let mut linker = Linker::new();
        linker
            .global("h", "given", external(number))
            .expect("the name is free");
        let mut group = Group::new(&super::region(1 << 20), ());
        let owner = group
            .instantiate(&common::wat(OWNER), &linker)
            .expect("it starts");
        group.name("m", owner);
        let user = group
            .instantiate(&common::wat(USER), &linker)
            .expect("it links");
        let wanted = NonZeroU64::new(number).map(ExternRef::new);
        for name in [
            "global",
            "global of a global",
            "table",
            "active segment",
            "active segment by a global",
            "passive segment",
            "array of a segment",
        ] {
            let found = group.lend(user).call_values(name, &[]).expect(name);
            assert_eq!(found, [Value::ExternRef(wanted)], "{name} of {number:#x}");
        }
    }
}
