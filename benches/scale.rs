//! Many slots at once: ten thousand live instances and thirty thousand reserved slots. It mainly
//! prints memory and mappings, which criterion cannot measure. It is a bench and not a test because
//! it has no pass or fail.

use pirn_benches::{guest, sink};
use pirn_runtime::{Linker, Region};
use std::time::{Duration, Instant};

const INSTANCES: u32 = 10_000;
const SLOTS: u32 = 30_000;

/// Resident KiB and number of mappings of the process.
fn process() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    (pages.expect("it is a number") * 4, maps.lines().count())
}

/// Makes [`INSTANCES`] values that live at the same time, and prints the cost of each.
fn many<T>(name: &str, mut make: impl FnMut() -> T) {
    let before = process();
    let start = Instant::now();
    let all: Vec<T> = (0..INSTANCES).map(|_| make()).collect();
    let (made, after) = (start.elapsed(), process());
    let start = Instant::now();
    drop(all);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(INSTANCES);
    let kib = (after.0 - before.0) as f64 / f64::from(INSTANCES);
    let mappings = (after.1 - before.1) as f64 / f64::from(INSTANCES);
    println!(
        "{INSTANCES} live {name}: {kib:.1} KiB resident and {mappings:.1} mappings each, \
         made in {:.2} us, dropped in {:.2} us each",
        each(made),
        each(start.elapsed()),
    );
}

fn main() {
    let start = Instant::now();
    let region = Region::builder()
        .slots(SLOTS)
        .build()
        .expect("address space");
    println!("{SLOTS} slots reserved in {:?}", start.elapsed());
    let null = region
        .prepare(&guest("null.wat"), &Linker::new())
        .expect("it fits");
    let run = null.func::<(), ()>("run").expect("it is exported");
    many("instances of null", || {
        let mut instance = null.try_instantiate(()).expect("a slot is free");
        instance.call(&run, ()).expect("it returns");
        instance
    });
    // Free the region first: it occupies most of the address space.
    drop((null, region));
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
    let region = Region::builder()
        .slots(INSTANCES)
        .build()
        .expect("address space");
    let hello = region
        .prepare(&guest("hello.wasm"), &linker)
        .expect("it links");
    let start = hello.func::<(), ()>("_start").expect("it is exported");
    many("instances of hello", || {
        let mut instance = hello.try_instantiate(sink()).expect("a slot is free");
        instance.call(&start, ()).expect("it returns");
        instance
    });
}
