//! Measures how fast the verifier proves a guest's machine code on one processor, in bytes of code
//! a second. The guests were compiled with aotc's defaults before the timer starts. A separate
//! measurement (`check`) covers the check of the file's tables and hash, whose time does not depend
//! on the kind of code.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pirn_compiler::Options;
use pirn_format::cpu::Arch;
use pirn_format::read::{Checked, slice};
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeTable};
use pirn_verify::Verifier;
use std::hint::black_box;
use std::path::Path;

/// Guests in C and in Rust, and one with vector instructions.
const GUESTS: [&str; 4] = ["crypto", "simd", "tour-c", "web-rust"];

fn verify(c: &mut Criterion) {
    let mut group = c.benchmark_group("verify");
    group.sample_size(10);
    for name in GUESTS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
        let wasm = std::fs::read(folder.join(name).with_extension("wasm")).expect("it is there");
        let file = pirn_compiler::compile(&wasm, &Options::new(Arch::X86_64)).expect("it compiles");
        let checked = Checked::new(&file).expect("it is a module");
        let code = slice(&file, checked.header.section(Section::Code)).expect("it is in the file");
        let code = CodeTable::new(code).expect("the compiler wrote it");
        let entries: Vec<CodeEntry> = code.iter().collect();
        let bytes: u64 = entries.iter().map(|entry| u64::from(entry.len)).sum();
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(format!("{name}/check"), |b| {
            b.iter(|| Checked::new(black_box(&file)));
        });
        group.bench_function(format!("{name}/prove"), |b| {
            b.iter(|| {
                let verifier = Verifier::new(black_box(&file), &checked).expect("it is known");
                for entry in &entries {
                    verifier.verify_code(*entry).expect("it is proven");
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, verify);
criterion_main!(benches);
