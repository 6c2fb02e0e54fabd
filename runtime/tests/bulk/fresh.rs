//! Operations on pages that no access has touched: the kernel has no page at first, or a page that
//! only a write makes the slot's own. An operation stops at each such page, and must continue
//! exactly where it stopped, also if its ranges overlap.

use super::{FUNCS, MEMORY, Operation, common, options};
use crate::common::random::Random;
use pirn_compiler::OptLevel;
use pirn_runtime::{Linker, Region};

/// Bytes of a page of the kernel.
const PAGE: usize = 4096;

/// The initial memory: of four pages two are filled, one only at its end, and one is empty.
fn initial(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; MEMORY];
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        let filled = match number % 4 {
            0 | 3 => page,
            1 => &mut page[PAGE - 10..],
            _ => &mut [],
        };
        filled.fill_with(|| 1 + random.below(255) as u8);
    }
    bytes
}

/// A data segment for each page that is not empty.
fn segments(initial: &[u8]) -> String {
    let pages = initial.chunks(PAGE).enumerate();
    let segment = |(number, page): (usize, &[u8])| {
        let start = page.iter().position(|byte| *byte != 0)?;
        let bytes: String = page[start..].iter().map(|b| format!("\\{b:02x}")).collect();
        let at = number * PAGE + start;
        Some(format!("(data (i32.const {at}) \"{bytes}\")"))
    };
    pages.filter_map(segment).collect()
}

/// Ranges that cross pages, most of them with a short distance.
fn numbers(random: &mut Random) -> [u32; 3] {
    let length = match random.below(3) {
        0 => 65 + random.below(100),
        1 => 65 + random.below(3 * PAGE as u64),
        _ => 65 + random.below(8 * PAGE as u64),
    };
    let near = |random: &mut Random| {
        let page = 1 + random.below(7);
        page * PAGE as u64 + random.below(300) - 150
    };
    let first = near(random);
    let second = match random.below(3) {
        0 => near(random),
        _ => first + random.below(200),
    };
    let numbers = match random.below(2) {
        0 => [first, second, length],
        _ => [second, first, length],
    };
    numbers.map(|number| number as u32)
}

#[test]
fn operations_on_fresh_pages_equal_the_model() {
    let mut random = Random(0x0bad_cafe_1234_5678);
    let initial = initial(&mut random);
    let text = format!(
        "(module (memory (export \"memory\") 1) {} {FUNCS})",
        segments(&initial)
    );
    let module = common::wat_with(&text, &options(OptLevel::Speed, false));
    for reset in common::resets() {
        let region = Region::builder().slots(1).reset(reset).build();
        let region = region.expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new());
        let prepared = prepared.expect("it fits");
        for _ in 0..400 {
            let [to, source, length] = numbers(&mut random);
            let operation = match random.below(4) {
                0 => Operation::Fill,
                _ => Operation::Copy,
            };
            let func = prepared.func::<(u32, u32, u32), ()>(operation.name());
            let func = func.expect("it is exported");
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            let mut model = initial.clone();
            assert!(operation.apply(&mut model, to, source, length));
            let what = format!("{reset}: {operation:?} {to} {source} {length}");
            let done = instance.call(&func, (to, source, length));
            done.unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut found = vec![0; MEMORY];
            instance.memory().read(0, &mut found).expect("inside");
            assert!(found == model, "{what} leaves other bytes");
        }
    }
}
