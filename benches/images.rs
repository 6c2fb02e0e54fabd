//! Initial memories of 64 KiB to 16 MiB, dense, and sparse with one page of eight: instantiation in
//! a slot warm for the module, and teardown after the guest has written a byte into every page of them,
//! or into none.

use criterion::{Criterion, criterion_group, criterion_main};
use pirn_benches::{instance, phase, prepared, text};
use pirn_runtime::{Module, Prepared, Reset};

const PAGE: usize = 4096;

/// A module whose initial memory is so large, with every `apart`-th page in its image.
fn module(bytes: usize, apart: usize) -> Module {
    let page = "A".repeat(PAGE);
    let segment = |at: usize| format!("(data (i32.const {at}) \"{page}\")");
    let data: String = (0..bytes).step_by(PAGE * apart).map(segment).collect();
    text(&format!(
        "(module (memory (export \"memory\") {}) {data}
           (func (export \"write\") (local $at i32)
             (loop $next
               (i32.store8 (local.get $at) (i32.const 1))
               (br_if $next (i32.lt_u
                 (local.tee $at (i32.add (local.get $at) (i32.const {}))) (i32.const {bytes}))))))",
        bytes >> 16,
        PAGE * apart,
    ))
}

fn images(c: &mut Criterion) {
    for (name, apart) in [("dense", 1), ("sparse", 8)] {
        let mut group = c.benchmark_group(format!("{name} image"));
        group.sample_size(20);
        for kib in [64, 256, 1024, 4096, 16_384] {
            let prepared = prepared(&module(kib << 10, apart), Reset::Auto);
            group.bench_function(format!("instantiate, {kib} KiB"), |b| {
                b.iter_custom(|count| phase(count, || (), |()| prepared.try_instantiate(())));
            });
            group.bench_function(format!("teardown, {kib} KiB, untouched"), |b| {
                b.iter_custom(|count| phase(count, || instance(&prepared), drop));
            });
            group.bench_function(format!("teardown, {kib} KiB, written"), |b| {
                b.iter_custom(|count| phase(count, || written(&prepared), drop));
            });
        }
        group.finish();
    }
}

fn written(prepared: &Prepared<()>) -> pirn_runtime::Instance<()> {
    let mut instance = instance(prepared);
    instance.call_values("write", &[]).expect("it returns");
    instance
}

criterion_group!(benches, images);
criterion_main!(benches);
