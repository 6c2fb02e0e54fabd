//! The operations on pirn.

use crate::phase::Phase;
use pirn_peers::open::open;
use pirn_peers::row::Run;
use pirn_runtime::{Linker, Prepared, Region};
use pirn_wasi::WasiCtxBuilder;
use pirn_wasi::pipe::WritePipe;

pub struct PirnPhases {
    region: Region,
}

impl PirnPhases {
    pub fn new() -> Self {
        let region = Region::builder()
            .slots(8)
            .memory_bytes_max(80 << 20)
            .stack_bytes(512 << 10)
            .build()
            .expect("a region");
        println!("pirn: {}", region.describe());
        Self { region }
    }

    fn prepare(&self, guest: &[u8]) -> Prepared<()> {
        let module = open(guest);
        let mut linker = Linker::new();
        linker
            .func("host", "f", |n: i32| n)
            .expect("the name is free");
        self.region.prepare(&module, &linker).expect("it fits")
    }

    /// Each cycle makes its own WASI context, as a request would.
    fn hello<'a>(&self, guest: &[u8], name: &str) -> Run<'a> {
        let mut linker = Linker::new();
        pirn_wasi::link(&mut linker, |wasi| wasi).expect("the names are free");
        let module = open(guest);
        let hello = self.region.prepare(&module, &linker).expect("it links");
        let start = hello.func::<(), ()>(name).expect("it is exported");
        Box::new(move |count| {
            for _ in 0..count {
                let out = WritePipe::new(std::io::sink());
                let wasi = WasiCtxBuilder::new().stdout(out).build();
                let mut instance = hello.instantiate(wasi).expect("a slot");
                instance.call(&start, ()).expect("it returns");
            }
        })
    }

    pub fn run<'a>(&self, phase: Phase) -> Run<'a> {
        let (guest, name) = phase.guest();
        if let Phase::CycleHello = phase {
            return self.hello(&guest, name);
        }
        let prepared = self.prepare(&guest);
        match phase {
            Phase::CycleNull => {
                let func = prepared.func::<(), ()>(name).expect("it is exported");
                Box::new(move |count| {
                    for _ in 0..count {
                        let mut instance = prepared.instantiate(()).expect("a slot");
                        instance.call(&func, ()).expect("it returns");
                    }
                })
            }
            Phase::CyclePages(_) | Phase::CycleDense | Phase::CycleGrow | Phase::CycleHello => {
                let pages = phase.pages();
                let func = prepared.func::<u32, u32>(name).expect("it is exported");
                Box::new(move |count| {
                    for _ in 0..count {
                        let mut instance = prepared.instantiate(()).expect("a slot");
                        instance.call(&func, pages).expect("it returns");
                    }
                })
            }
            Phase::Call => {
                let func = prepared
                    .func::<(i32, i32), i32>(name)
                    .expect("it is exported");
                let mut instance = prepared.instantiate(()).expect("a slot");
                Box::new(move |count| {
                    for n in 0..count {
                        instance.call(&func, (n as i32, 1)).expect("it returns");
                    }
                })
            }
            Phase::HostCall => {
                let func = prepared.func::<u32, i32>(name).expect("it is exported");
                let mut instance = prepared.instantiate(()).expect("a slot");
                Box::new(move |count| {
                    instance.call(&func, count as u32).expect("it returns");
                })
            }
            Phase::Trap(_) => {
                let func = prepared.func::<(), ()>(name).expect("it is exported");
                let mut instance = prepared.instantiate(()).expect("a slot");
                Box::new(move |count| {
                    for _ in 0..count {
                        instance.call(&func, ()).expect_err("it traps");
                    }
                })
            }
        }
    }
}
