//! The operations on Wasmer: compiled with Cranelift, with a store for each instance, as its
//! documentation recommends.

use crate::phase::Phase;
use pirn_peers::row::Run;
use wasmer::{Function, Imports, Instance, Module, Store, TypedFunction, imports};

pub struct WasmerPhases {
    engine: wasmer::Engine,
}

impl WasmerPhases {
    pub fn new() -> Self {
        let compiler = wasmer::sys::Cranelift::new();
        Self {
            engine: wasmer::sys::EngineBuilder::new(compiler).engine().into(),
        }
    }

    /// The operation of a row; `None` for WASI. Wasmer's WASI is a library of a different kind and
    /// is not compared.
    pub fn run<'a>(&self, phase: Phase) -> Option<Run<'a>> {
        if let Phase::CycleHello = phase {
            return None;
        }
        let (guest, name) = phase.guest();
        let wasm = pirn_compiler::parse_text(&guest).expect("it is well-formed");
        let module = Module::new(&self.engine, &wasm).expect("it is valid");
        let engine = self.engine.clone();
        let make = move || {
            let mut store = Store::new(engine.clone());
            let imports: Imports = imports! {
                "host" => { "f" => Function::new_typed(&mut store, |n: i32| n) },
            };
            let instance = Instance::new(&mut store, &module, &imports).expect("an instance");
            (store, instance)
        };
        Some(match phase {
            Phase::CycleNull => Box::new(move |count| {
                for _ in 0..count {
                    let (mut store, instance) = make();
                    let func: TypedFunction<(), ()> = instance
                        .exports
                        .get_typed_function(&store, name)
                        .expect("it is exported");
                    func.call(&mut store).expect("it returns");
                }
            }),
            Phase::CyclePages(_) | Phase::CycleDense | Phase::CycleGrow | Phase::CycleHello => {
                let pages = phase.pages();
                Box::new(move |count| {
                    for _ in 0..count {
                        let (mut store, instance) = make();
                        let func: TypedFunction<u32, u32> = instance
                            .exports
                            .get_typed_function(&store, name)
                            .expect("it is exported");
                        func.call(&mut store, pages).expect("it returns");
                    }
                })
            }
            Phase::Call => {
                let (mut store, instance) = make();
                let func: TypedFunction<(i32, i32), i32> = instance
                    .exports
                    .get_typed_function(&store, name)
                    .expect("it is exported");
                Box::new(move |count| {
                    for n in 0..count {
                        func.call(&mut store, n as i32, 1).expect("it returns");
                    }
                })
            }
            Phase::HostCall => {
                let (mut store, instance) = make();
                let func: TypedFunction<u32, i32> = instance
                    .exports
                    .get_typed_function(&store, name)
                    .expect("it is exported");
                Box::new(move |count| {
                    func.call(&mut store, count as u32).expect("it returns");
                })
            }
            Phase::Trap(_) => {
                let (mut store, instance) = make();
                let func: TypedFunction<(), ()> = instance
                    .exports
                    .get_typed_function(&store, name)
                    .expect("it is exported");
                Box::new(move |count| {
                    for _ in 0..count {
                        func.call(&mut store).expect_err("it traps");
                    }
                })
            }
        })
    }
}
