//! Commands in C and Rust, made for preview 1, use files through Wasmtime's adapter.

use pirn_compiler::{Options, compile};
use pirn_component::{Component, Limits, Linker};
use pirn_runtime::{Module, Region};
use pirn_wasi2::{Bounded, Dir, Pipe, RUN, WasiBuilder, ambient_authority};
use std::path::Path;

#[test]
fn commands_of_preview_1_use_files() {
    for name in ["tour-c-p2", "tour-rust-p2"] {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
        let wasm = std::fs::read(guests.join(name).with_extension("wasm")).expect("a guest");
        let so = compile(&wasm, &Options::default()).expect("it compiles");
        let module = Module::from_bytes(&so).expect("it opens");
        let component = Component::new(&module).expect("it is a component");
        let mut linker = Linker::new();
        pirn_wasi2::link(&mut linker).expect("nothing is defined twice");
        let region = Region::builder()
            .slots(1)
            .memories(4)
            .build()
            .expect("a region");
        let prepared = linker.prepare(&region, &component).expect("it links");
        let run = prepared
            .typed::<(), Result<(), ()>>(RUN)
            .expect("a command");
        let host = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_ambient_dir(host.path(), ambient_authority()).expect("a directory");
        std::fs::write(host.path().join("input.txt"), "one\ntwo\n").expect("a file");
        let output = Pipe::new(Bounded::new(vec![], 1 << 20));
        let wasi = WasiBuilder::new().arg("tour").arg("one").env("NAME", "x");
        let wasi = wasi.stdout(output.clone()).stderr(output.clone());
        let mut instance = prepared
            .instantiate(wasi.preopened_dir(dir, "/data").build())
            .expect("a slot");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let called = instance.call_typed_async(Limits::default(), &run, ());
        let called = runtime.expect("a runtime").block_on(called);
        let text = output.with(|output| String::from_utf8_lossy(output.get_ref()).into_owned());
        assert!(matches!(called, Ok(Ok(()))), "{name}: {called:?}\n{text}");
        for line in [
            "/data/missing.txt: not found",
            "input.txt: 8 bytes",
            "back: the same",
        ] {
            assert!(text.contains(line), "{name} lacks {line:?}:\n{text}");
        }
        let mut names: Vec<_> = std::fs::read_dir(host.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort_unstable();
        let out = name.replace("tour-", "out-").replace("-p2", ".txt");
        assert_eq!(names, ["input.txt", &out]);
    }
}
