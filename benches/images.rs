//! Initial memories of up to 16 MiB, dense, and sparse with one page of eight. Measures
//! instantiation in a slot that is warm for the module. Also measures the drop of an instance that
//! has written a byte to every page of the image, or to none. The groups have the names of Lucet's
//! graphs.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pirn_benches::{instance, phase, prepared, text};
use pirn_runtime::{Instance, Module, Prepared, Reset};

const PAGE: usize = 4096;
const KIB: [usize; 6] = [0, 64, 256, 1024, 4096, 16_384];
/// Bytes of memory after the image that no guest touches.
const REST: usize = 1 << 20;

/// A module with an image of `bytes` bytes, in every `apart`-th page.
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
        (bytes + REST) >> 16,
        PAGE * apart,
    ))
}

fn images(c: &mut Criterion) {
    for (name, apart) in [("dense", 1), ("sparse", 8)] {
        let all = KIB.map(|kib| (kib, prepared(&module(kib << 10, apart), Reset::Auto)));
        let mut group = c.benchmark_group(format!("instantiate_with_{name}_heap"));
        group.sample_size(20);
        for (kib, prepared) in &all {
            group.bench_function(BenchmarkId::new("KiB", kib), |b| {
                b.iter_custom(|count| phase(count, || (), |()| prepared.try_instantiate(())));
            });
        }
        group.finish();
        let mut group = c.benchmark_group(format!("drop_instance_with_{name}_heap"));
        group.sample_size(20);
        for (kib, prepared) in &all {
            group.bench_function(BenchmarkId::new("untouched, KiB", kib), |b| {
                b.iter_custom(|count| phase(count, || instance(prepared), drop));
            });
            group.bench_function(BenchmarkId::new("written, KiB", kib), |b| {
                b.iter_custom(|count| phase(count, || written(prepared), drop));
            });
        }
        group.finish();
    }
}

fn written(prepared: &Prepared<()>) -> Instance<()> {
    let mut instance = instance(prepared);
    instance.call_values("write", &[]).expect("it returns");
    instance
}

criterion_group!(benches, images);
criterion_main!(benches);
