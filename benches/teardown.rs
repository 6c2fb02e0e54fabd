//! Teardown: the drop of an instance, after which its slot can be used again.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{guest, hello, instance, phase, prepared, region_of, sink, text};
use pirn_runtime::{Linker, Reset};

/// `touch(pages)` writes a byte to each of `pages` pages of 4 KiB; the memory has 4,112.
const TOUCH: &str = r#"(module (memory 257)
  (func (export "touch") (param $pages i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $pages)))
        (local.set $pages (i32.sub (local.get $pages) (i32.const 1)))
        (i32.store8 (i32.shl (local.get $pages) (i32.const 12)) (i32.const 1))
        (br $next)))))"#;

fn teardown(c: &mut Criterion) {
    let mut group = c.benchmark_group("teardown");
    let (null_module, touch_module) = (guest("null.wat"), text(TOUCH));
    for reset in Reset::ALL {
        let null = prepared(&null_module, reset);
        group.bench_function(format!("null, {reset}"), |b| {
            b.iter_custom(|count| phase(count, || instance(&null), drop));
        });
        let touch = prepared(&touch_module, reset);
        let func = touch.func::<u32, ()>("touch").expect("it is exported");
        for pages in [0, 1, 8, 64, 512, 1024, 4096] {
            let used = || {
                let mut instance = instance(&touch);
                instance.call(&func, pages).expect("it returns");
                instance
            };
            group.bench_function(format!("{pages} pages written, {reset}"), |b| {
                b.iter_custom(|count| phase(count, used, drop));
            });
        }
        for memories in [1, 2, 3] {
            let several = text(&format!(
                "(module {} (func (export \"touch\") {}))",
                "(memory 1)".repeat(memories),
                (0..memories)
                    .map(|n| format!("(i32.store {n} (i32.const 0) (i32.const 1))"))
                    .collect::<String>()
            ));
            let prepared = region_of(reset, 3)
                .prepare(&several, &Linker::<()>::new())
                .expect("it fits");
            let func = prepared.func::<(), ()>("touch").expect("it is exported");
            let used = || {
                let mut instance = instance(&prepared);
                instance.call(&func, ()).expect("it returns");
                instance
            };
            group.bench_function(
                format!("a page in each of {memories} memories, {reset}"),
                |b| {
                    b.iter_custom(|count| phase(count, used, drop));
                },
            );
        }
        let hello = hello(reset);
        let start = hello.func::<(), ()>("_start").expect("it is exported");
        let used = || {
            let mut instance = hello.try_instantiate(sink()).expect("a slot is free");
            instance.call(&start, ()).expect("it returns");
            instance
        };
        group.bench_function(format!("hello, {reset}"), |b| {
            b.iter_custom(|count| phase(count, used, drop));
        });
    }
    group.finish();
}

criterion_group!(benches, teardown);
criterion_main!(benches);
