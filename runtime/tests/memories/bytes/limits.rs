//! Limits of sizes and growth, import matching, and names of types.

use super::{OUT, PAGE, outcome, region};
use crate::common::values::Lend as _;
use crate::common::{self, values};
use pirn_compiler::Options;
use pirn_format::types::MemoryType;
use pirn_runtime::{AddrType, ExternType, Group, Growth, Linker, PageSize, Region, Value};

/// The requests for growth and the reports of failed growth that the embedder got.
#[derive(Default)]
struct Asked {
    asked: Vec<(u64, u64, Option<u64>)>,
    failed: Vec<(u64, u64, String)>,
}

/// Growth ends at the limits of the type, the region and the embedder, all in bytes. A sum that
/// exceeds 64 bits or the address type is past every limit.
#[test]
fn growth_ends_at_the_exact_limit_in_bytes() {
    const NO: i64 = -1;
    let most = 4 * PAGE as i64;
    let cases = [
        ("i32 0", vec![(most, 0), (1, NO), (0, most), (-1, NO)]),
        (
            "i32 0",
            vec![
                (most + 1, NO),
                (-1, NO),
                (i64::from(i32::MIN), NO),
                (1, 0),
                (0, 1),
            ],
        ),
        (
            "i32 0 10",
            vec![(11, NO), (10, 0), (0, 10), (1, NO), (-1, NO), (-10, NO)],
        ),
        ("i32 7 7", vec![(0, 7), (1, NO)]),
        (
            "i32 0 4294967295",
            vec![(-1, NO), (most, 0), (1, NO), (-most, NO)],
        ),
        ("i32 65536 65537", vec![(1, 65_536), (0, 65_537), (1, NO)]),
        ("i32 65535 65536", vec![(2, NO), (1, 65_535), (0, 65_536)]),
        (
            "i64 0",
            vec![
                (i64::MIN, NO),
                (-1, NO),
                (1 << 32, NO),
                ((1 << 32) + 1, NO),
                (3, 0),
                (-1, NO),
                (-3, NO),
                (0, 3),
            ],
        ),
        (
            "i64 5 18446744073709551615",
            vec![
                (-1, NO),
                (-5, NO),
                (-6, NO),
                (i64::MAX, NO),
                (most - 5, 5),
                (1, NO),
            ],
        ),
    ];
    for (ty, steps) in cases {
        let address = &ty[..3];
        let text = format!(
            "(module (memory (export \"m\") {ty} (pagesize 1))
              (func (export \"grow\") (param {address}) (result {address}) (memory.grow (local.get 0)))
              (func (export \"size\") (result {address}) (memory.size)))"
        );
        // The region rounds its limit up to whole pages, for memories of every kind.
        let region = Region::builder().slots(1).memory_bytes_max(4 * PAGE - 100);
        let region = region.build().expect("a region");
        let mut linker = Linker::new();
        linker
            .memory_limiter(|asked: &mut Asked, growth: Growth| {
                asked
                    .asked
                    .push((growth.current, growth.desired, growth.maximum));
                true
            })
            .growth_failed(|asked: &mut Asked, growth, error| {
                asked
                    .failed
                    .push((growth.current, growth.desired, error.to_string()));
            });
        let prepared = region
            .prepare(&common::wat(&text), &linker)
            .expect("it fits");
        let mut guest = prepared
            .try_instantiate(Asked::default())
            .expect("the slot");
        let number = |values: Vec<Value>| match values[..] {
            [Value::I32(number)] => i64::from(number),
            [Value::I64(number)] => number,
            ref other => panic!("{other:?}"),
        };
        for (by, before) in steps {
            let size = guest.memory().len();
            let param = match address {
                "i64" => Value::I64(by),
                _ => Value::I32(by as i32),
            };
            let outcome = number(guest.call_values("grow", &[param]).expect("it returns"));
            assert_eq!(outcome, before, "{ty} by {by}");
            let grown = if before == NO { 0 } else { by as usize };
            assert_eq!(guest.memory().len(), size + grown, "{ty} by {by}");
            let now = number(guest.call_values("size", &[]).expect("it returns"));
            assert_eq!(now as usize, size + grown, "{ty} by {by}");
        }
        let asked = guest.data();
        assert!(
            asked
                .asked
                .iter()
                .all(|(now, then, max)| now < then && max.is_none_or(|max| *then <= max))
        );
        for (now, desired, message) in &asked.failed {
            assert!(now < desired && message.contains("bytes"), "{message}");
        }
    }
}

#[test]
fn the_limiter_gets_sizes_in_bytes() {
    let text = "(module (memory 10 200 (pagesize 1))
      (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0))))";
    let mut linker = Linker::new();
    linker
        .memory_limiter(|asked: &mut Asked, growth: Growth| {
            asked
                .asked
                .push((growth.current, growth.desired, growth.maximum));
            growth.desired <= 100
        })
        .growth_failed(|asked: &mut Asked, growth, error| {
            asked
                .failed
                .push((growth.current, growth.desired, error.to_string()));
        });
    let prepared = region(1)
        .prepare(&common::wat(text), &linker)
        .expect("it fits");
    let mut guest = prepared
        .try_instantiate(Asked::default())
        .expect("the slot");
    for (by, outcome) in [(91, -1), (90, 10), (1, -1), (101, -1)] {
        let found = values::number(guest.call_values("grow", &[Value::I32(by)]));
        assert_eq!(found, outcome, "{by}");
    }
    let asked = guest.data();
    let most = Some(200);
    assert_eq!(
        asked.asked,
        [(10, 101, most), (10, 100, most), (100, 101, most)]
    );
    let [(100, 201, message)] = &asked.failed[..] else {
        panic!("{:?}", asked.failed)
    };
    assert!(
        message.contains("201") && message.contains("200"),
        "{message}"
    );
}

/// The largest memory: its last byte is the last byte that any memory may have.
#[test]
fn the_largest_memory_ends_with_its_last_byte() {
    const MOST: u64 = (1 << 32) - PAGE as u64;
    let refused = |min: u64, ty: &str| {
        let text = format!("(module (memory {ty} {min} (pagesize 1)))");
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        let error = pirn_compiler::compile(&wasm, &Options::default()).expect_err("too large");
        assert_eq!(
            error.to_string(),
            format!("module has {min} initial bytes of memory, the limit is {MOST}; use fewer")
        );
    };
    for min in [MOST + 1, (1 << 32) - 1] {
        refused(min, "i32");
        refused(min, "i64");
    }
    for min in [1 << 32, u64::MAX - PAGE as u64 + 1, u64::MAX] {
        refused(min, "i64");
    }
    let text = format!(
        "(module (memory {} (pagesize 1))
          (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0)))
          (func (export \"size\") (result i32) (memory.size))
          (func (export \"f\") (param i32) (result i64)
            (i64.store (local.get 0) (i64.const 5)) (i64.load offset=1 (i32.sub (local.get 0) (i32.const 1)))))",
        MOST - 3
    );
    let region = Region::builder().slots(1).memory_bytes_max(MOST as usize);
    let region = region.build().expect("a region");
    let prepared = region
        .prepare(&common::wat(&text), &Linker::<()>::new())
        .expect("it fits");
    let mut guest = match prepared.try_instantiate(()) {
        Ok(guest) => guest,
        Err(error) => return common::not_run(error),
    };
    let mut call = |name: &str, param: Option<u64>| {
        let params: Vec<_> = param
            .iter()
            .map(|at| Value::I32((*at as u32).cast_signed()))
            .collect();
        outcome(guest.call_values(name, &params))
    };
    let number = |at: u64| Ok(vec![Value::I32((at as u32).cast_signed())]);
    assert_eq!(call("f", Some(MOST - 11)), Ok(vec![Value::I64(5)]));
    assert_eq!(call("f", Some(MOST - 10)), OUT);
    assert_eq!(call("grow", Some(4)), number(u64::MAX));
    assert_eq!(call("grow", Some(3)), number(MOST - 3));
    assert_eq!(call("size", None), number(MOST));
    assert_eq!(call("grow", Some(1)), number(u64::MAX));
    assert_eq!(call("grow", Some(PAGE as u64)), number(u64::MAX));
    assert_eq!(call("f", Some(MOST - 8)), Ok(vec![Value::I64(5)]));
    for at in (MOST - 7..MOST + 8).chain([(1 << 32) - 8, (1 << 32) - 1]) {
        assert_eq!(call("f", Some(at)), OUT, "{at:#x}");
    }
}

#[test]
fn regions_report_memories_without_room() {
    let region = Region::builder().slots(1).memory_bytes_max(PAGE).build();
    let region = region.expect("a region");
    let prepare = |size: usize| {
        let module = common::wat(&format!("(module (memory {size} (pagesize 1)))"));
        region.prepare(&module, &Linker::<()>::new())
    };
    assert!(prepare(PAGE).is_ok());
    assert_eq!(
        prepare(PAGE + 1).expect_err("it does not fit").to_string(),
        "module needs 2 pages of memory, slots hold 1; raise `memory_bytes_max`"
    );
}

/// An imported memory must have the declared page size. Sizes count these pages.
#[test]
fn imported_memories_must_have_the_declared_page_size() {
    for (exported, imported, fits) in [
        ("100 200 (pagesize 1)", "100 200 (pagesize 1)", true),
        ("100 200 (pagesize 1)", "0 (pagesize 1)", true),
        ("100 200 (pagesize 1)", "101 200 (pagesize 1)", false),
        ("100 200 (pagesize 1)", "100 199 (pagesize 1)", false),
        ("100 (pagesize 1)", "100 200 (pagesize 1)", false),
        ("100 (pagesize 1)", "0 4294967295 (pagesize 1)", false),
        ("100 200 (pagesize 1)", "i64 100 200 (pagesize 1)", false),
        (
            "i64 100 200 (pagesize 1)",
            "i64 100 18446744073709551615 (pagesize 1)",
            true,
        ),
        ("65536 65536 (pagesize 1)", "1 1", false),
        ("65536 65536 (pagesize 1)", "0", false),
        ("0 0 (pagesize 1)", "0 0", false),
        ("0 0", "0 0 (pagesize 1)", false),
        ("1 1", "1 1 (pagesize 1)", false),
        ("1 1", "1 1 (pagesize 65536)", true),
        ("1 1 (pagesize 65536)", "1 1", true),
    ] {
        let mut group = Group::new(&region(2), ());
        let owner = format!("(module (memory (export \"m\") {exported}))");
        let owner = group.instantiate(&common::wat(&owner), &Linker::new());
        group.name("o", owner.expect("it fits"));
        let text = format!("(module (import \"o\" \"m\" (memory {imported})))");
        let ended = group.instantiate(&common::wat(&text), &Linker::new());
        assert_eq!(ended.is_ok(), fits, "{exported} as {imported}");
        if let Err(error) = ended {
            let message = error.to_string();
            let is_told = |one: &str| one.contains("(pagesize 1)");
            let count = message.matches("pages of a byte").count();
            let expected = usize::from(is_told(exported)) + usize::from(is_told(imported));
            assert!(count == expected, "{exported} as {imported}: {message}");
        }
    }
    // The current size after growth counts in the import check, in pages of the memory's own size.
    let mut group = Group::new(&region(3), ());
    let owner = "(module (memory (export \"m\") 1 90000 (pagesize 1))
      (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0))))";
    let owner = group.instantiate(&common::wat(owner), &Linker::new());
    let owner = owner.expect("it fits");
    group.name("o", owner);
    let module = common::wat("(module (import \"o\" \"m\" (memory 70000 90000 (pagesize 1))))");
    for (by, fits) in [(0, false), (69_998, false), (1, true)] {
        let outcome = group.lend(owner).call_values("grow", &[Value::I32(by)]);
        outcome.expect("it returns");
        assert_eq!(
            group.instantiate(&module, &Linker::new()).is_ok(),
            fits,
            "{by}"
        );
    }
}

#[test]
fn types_report_their_page_size() {
    let module = common::wat(
        r#"(module (memory (export "a") 0 (pagesize 1)) (memory (export "b") i64 3 9 (pagesize 1))
          (memory (export "c") 2 (pagesize 65536)))"#,
    );
    let found: Vec<_> = module
        .exports()
        .map(|(name, ty)| match ty {
            ExternType::Memory(ty) => format!("{name} {ty} {}", ty.page.bytes()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "a 0.. pages of a byte 1",
        "b i64 3..9 pages of a byte 1",
        "c 2.. pages 65536",
    ];
    assert_eq!(found, expected);
}

/// No computation with a number of pages overflows.
#[test]
fn sizes_in_pages_do_not_overflow() {
    let page = PAGE as u64;
    for (size, min, bytes, accessible) in [
        (PageSize::Byte, 0, Some(0), Some(0)),
        (PageSize::Byte, 1, Some(1), Some(page)),
        (PageSize::Byte, page, Some(page), Some(page)),
        (PageSize::Byte, page + 1, Some(page + 1), Some(2 * page)),
        (
            PageSize::Byte,
            u64::MAX - page + 1,
            Some(u64::MAX - page + 1),
            Some(u64::MAX - page + 1),
        ),
        (
            PageSize::Byte,
            u64::MAX - page + 2,
            Some(u64::MAX - page + 2),
            None,
        ),
        (PageSize::Byte, u64::MAX, Some(u64::MAX), None),
        (
            PageSize::Large,
            (1 << 48) - 1,
            Some(u64::MAX - page + 1),
            Some(u64::MAX - page + 1),
        ),
        (PageSize::Large, 1 << 48, None, None),
        (PageSize::Large, u64::MAX, None, None),
    ] {
        let ty = MemoryType {
            address: AddrType::I64,
            page: size,
            min,
            max: None,
            shared: false,
        };
        assert_eq!(ty.min_bytes(), bytes, "{ty}");
        assert_eq!(ty.accessible_bytes(), accessible, "{ty}");
    }
}
