//! Random operations on a graph of structs and arrays, compared with a model.

use super::{call, common, instance, region};
use crate::common::random::Random;
use pirn_compiler::Options;
use pirn_runtime::{TrapCode, Value};

/// Objects are in a table. Kinds: 0 is `$a`; 1 is `$b`, a subtype of `$a`; 2 is `$c`, a subtype of
/// `$b`; 3 is an array.
const GUEST: &str = r#"(module
  (type $a (sub (struct (field (mut i8)) (field (mut (ref null eq))))))
  (type $b (sub $a (struct (field (mut i8)) (field (mut (ref null eq))) (field (mut i16)))))
  (type $c (sub final $b (struct (field (mut i8)) (field (mut (ref null eq))) (field (mut i16)) (field (mut f64)))))
  (type $r (array (mut i16)))
  (table $t 64 eqref)
  (func (export "make") (param $at i32) (param $kind i32) (param $v i32)
    (table.set $t (local.get $at)
      (block $end (result eqref)
        (block (block (block (br_table 0 1 2 (i32.sub (local.get $kind) (i32.const 1))))
          (br $end (struct.new $b (local.get $v) (ref.null eq) (local.get $v))))
          (br $end (struct.new $c (local.get $v) (ref.null eq) (local.get $v) (f64.const 1))))
        (if (result eqref) (i32.eq (local.get $kind) (i32.const 3))
          (then (array.new $r (local.get $v) (i32.const 9)))
          (else (struct.new $a (local.get $v) (ref.null eq)))))))
  (func (export "kind") (param $at i32) (result i32) (local $o eqref)
    (local.set $o (table.get $t (local.get $at)))
    (i32.or
      (i32.or (ref.test (ref $a) (local.get $o)) (i32.shl (ref.test (ref $b) (local.get $o)) (i32.const 1)))
      (i32.or (i32.shl (ref.test (ref $c) (local.get $o)) (i32.const 2))
        (i32.shl (ref.test (ref $r) (local.get $o)) (i32.const 3)))))
  (func (export "set") (param $at i32) (param $v i32)
    (struct.set $a 0 (ref.cast (ref null $a) (table.get $t (local.get $at))) (local.get $v)))
  (func (export "get") (param $at i32) (result i32)
    (struct.get_s $a 0 (ref.cast (ref null $a) (table.get $t (local.get $at)))))
  (func (export "wide") (param $at i32) (result i32)
    (struct.get_u $b 2 (ref.cast (ref $b) (table.get $t (local.get $at)))))
  (func (export "put") (param $at i32) (param $n i32) (param $v i32)
    (array.set $r (ref.cast (ref null $r) (table.get $t (local.get $at))) (local.get $n) (local.get $v)))
  (func (export "read") (param $at i32) (param $n i32) (result i32)
    (array.get_s $r (ref.cast (ref null $r) (table.get $t (local.get $at))) (local.get $n)))
  (func (export "move") (param $at i32) (param $to i32) (param $from i32) (param $len i32) (local $o (ref null $r))
    (local.set $o (ref.cast (ref null $r) (table.get $t (local.get $at))))
    (array.copy $r $r (local.get $o) (local.get $to) (local.get $o) (local.get $from) (local.get $len)))
  (func (export "link") (param $at i32) (param $to i32)
    (struct.set $a 1 (ref.cast (ref null $a) (table.get $t (local.get $at))) (table.get $t (local.get $to))))
  (func (export "linked") (param $at i32) (param $to i32) (result i32)
    (ref.eq (struct.get $a 1 (ref.cast (ref null $a) (table.get $t (local.get $at)))) (table.get $t (local.get $to)))))"#;

/// An object: identity, kind, first and third field, the object that it refers to, and elements.
#[derive(Clone)]
struct Object {
    id: u64,
    kind: i32,
    first: i32,
    third: i32,
    next: Option<u64>,
    elements: [i32; 9],
}

type Outcome = Result<i32, TrapCode>;

/// The expected result of an operation. `objects` is indexed by identity, and `table` holds
/// identities.
fn expected(
    objects: &mut [Object],
    table: &mut [Option<u64>; 64],
    name: &str,
    p: &[i32],
) -> Outcome {
    let at = table[p[0] as usize];
    let null = |code| Err(code);
    match name {
        "kind" => Ok(at.map_or(0, |id| match objects[id as usize].kind {
            0 => 1,
            1 => 3,
            2 => 7,
            _ => 8,
        })),
        "wide" => match at.map(|id| &objects[id as usize]) {
            Some(object) if matches!(object.kind, 1 | 2) => Ok(object.third),
            _ => null(TrapCode::CastFailure),
        },
        "put" | "read" | "move" => {
            let Some(id) = at else {
                return null(TrapCode::NullArrayReference);
            };
            let object = &mut objects[id as usize];
            if object.kind != 3 {
                return null(TrapCode::CastFailure);
            }
            let outside = Err(TrapCode::ArrayOutOfBounds);
            if name == "move" {
                let (to, from, len) = (p[1] as usize, p[2] as usize, p[3] as usize);
                if to + len > 9 || from + len > 9 {
                    return outside;
                }
                object.elements.copy_within(from..from + len, to);
                return Ok(0);
            }
            let Some(element) = object.elements.get_mut(p[1] as usize) else {
                return outside;
            };
            if name == "put" {
                *element = i32::from(p[2] as i16);
                return Ok(0);
            }
            Ok(*element)
        }
        _ => {
            let other = p.get(1).map(|to| table[*to as usize & 63]);
            let Some(id) = at else {
                return null(TrapCode::NullStructReference);
            };
            let object = &mut objects[id as usize];
            if object.kind == 3 {
                return null(TrapCode::CastFailure);
            }
            match (name, other) {
                ("set", _) => object.first = i32::from(p[1] as i8),
                ("link", Some(other)) => object.next = other,
                ("linked", Some(other)) => return Ok(i32::from(object.next == other)),
                _ => return Ok(object.first),
            }
            Ok(0)
        }
    }
}

#[test]
fn random_operations_on_objects_equal_the_model() {
    for (seed, fuel) in [(1, false), (2, false), (3, true)] {
        let mut options = Options::default();
        options.fuel = fuel;
        let region = region(16 << 20);
        let mut guest = instance(&region, &common::wat_with(GUEST, &options));
        let mut random = Random(seed);
        let (mut objects, mut table) = (vec![], [None; 64]);
        for _ in 0..20_000 {
            let mut below = |n: u64| random.below(n) as i32;
            let at = below(64);
            let (name, p) = match below(9) {
                0 | 1 => {
                    let (kind, v) = (below(4), below(1 << 32));
                    let id = objects.len() as u64;
                    objects.push(Object {
                        id,
                        kind,
                        first: i32::from(v as i8),
                        third: i32::from(v as u16),
                        next: None,
                        elements: [i32::from(v as i16); 9],
                    });
                    table[at as usize] = Some(objects[id as usize].id);
                    let params = [at, kind, v].map(Value::I32);
                    call(&mut guest, "make", &params).expect("there is room");
                    continue;
                }
                2 => ("kind", vec![at]),
                3 => ("set", vec![at, below(1 << 32)]),
                4 => match below(2) {
                    0 => ("get", vec![at]),
                    _ => ("wide", vec![at]),
                },
                5 => ("put", vec![at, below(10), below(1 << 32)]),
                6 => ("read", vec![at, below(10)]),
                7 => ("move", vec![at, below(10), below(10), below(6)]),
                _ => match below(2) {
                    0 => ("link", vec![at, below(64)]),
                    _ => ("linked", vec![at, below(64)]),
                },
            };
            let wanted = expected(&mut objects, &mut table, name, &p);
            let params: Vec<_> = p.iter().copied().map(Value::I32).collect();
            let found = match call(&mut guest, name, &params) {
                Ok(Value::I32(value)) => Ok(value),
                Err(pirn_runtime::CallError::Trap(trap)) => Err(trap.code()),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, wanted, "{name} {p:?} seed {seed}");
        }
    }
}
