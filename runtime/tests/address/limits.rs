//! The largest memory: 65,535 pages. A sum of its last address and 65,536 must not wrap around.

use super::{LEVELS, PAGE, common};
use pirn_compiler::Options;
use pirn_runtime::{CallError, Instance, Linker, Region, TrapCode, Value};

const PAGES_MAX: u32 = 65_535;

/// Accesses at `$at`, at 65,536 bytes above (the distance from the largest memory's end to 2^32),
/// and one byte further.
const GUEST: &str = r#"(module (memory (export "memory") 1 65536)
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "far") (param $at i32) (result i32)
    (i32.store8 (local.get $at) (i32.const 7))
    (i32.load8_u (i32.add (local.get $at) (i32.const 65536))))
  (func (export "farther") (param $at i32) (result i32)
    (i32.store8 (local.get $at) (i32.const 7))
    (i32.load8_u (i32.add (local.get $at) (i32.const 65537))))
  (func (export "back") (param $at i32) (result i32)
    (i32.store8 (local.get $at) (i32.const 7))
    (i32.store8 (i32.add (local.get $at) (i32.const -1)) (i32.const 8))
    (i32.load8_u (local.get $at))))"#;

fn region() -> Region {
    let region = Region::builder().slots(1).memory_bytes_max(4 << 30);
    region.build().expect("a region")
}

/// The result of a function for a number, or its trap.
fn call(instance: &mut Instance<()>, name: &str, param: u32) -> Result<u32, TrapCode> {
    match instance.call_values(name, &[Value::I32(param.cast_signed())]) {
        Ok(results) => match results[..] {
            [Value::I32(result)] => Ok(result.cast_unsigned()),
            _ => panic!("{name} gives {results:?}"),
        },
        Err(CallError::Trap(trap)) => Err(trap.code()),
        Err(other) => panic!("{name} {param:#x}: {other}"),
    }
}

#[test]
fn sums_past_the_largest_memory_wrap_as_specified() {
    let region = region();
    let last = PAGES_MAX * PAGE as u32 - 1;
    for level in LEVELS {
        let mut options = Options::default();
        options.opt_level = level;
        let module = common::wat_with(GUEST, &options);
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let mut call = |name, param| call(&mut instance, name, param);
        assert_eq!(call("grow", PAGES_MAX - 1), Ok(1));
        let outside = Err(TrapCode::MemoryOutOfBounds);
        // `far` reaches 2^32 - 1, the last address, and `farther` wraps around to 0.
        assert_eq!(call("far", last), outside, "{level:?}");
        assert_eq!(call("back", 1), Ok(7), "{level:?}");
        assert_eq!(call("farther", last), Ok(8), "{level:?}");
        assert_eq!(call("far", last - PAGE as u32), Ok(7), "{level:?}");
        assert_eq!(call("far", last - PAGE as u32 + 1), outside, "{level:?}");
        assert_eq!(call("farther", last - PAGE as u32), outside, "{level:?}");
        assert_eq!(call("back", 0), outside, "{level:?}");
        assert_eq!(call("back", last + 1), outside, "{level:?}");
    }
}

#[test]
fn a_memory_grows_to_65_535_pages() {
    let region = region();
    let module = common::wat(GUEST);
    let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    let mut grow = |pages| call(&mut instance, "grow", pages);
    assert_eq!(grow(PAGES_MAX), Ok(u32::MAX), "65,536 pages");
    assert_eq!(grow(PAGES_MAX - 1), Ok(1), "65,535 pages");
    for pages in [1, 65_536, u32::MAX] {
        assert_eq!(grow(pages), Ok(u32::MAX), "{pages} more");
    }
    assert_eq!(grow(0), Ok(PAGES_MAX));
}

/// A memory with one more page is refused at compile time.
#[test]
fn a_memory_of_65_535_pages_fits() {
    let module = common::wat("(module (memory 65535))");
    let prepared = region().prepare(&module, &Linker::<()>::new());
    prepared.expect("it fits");
}
