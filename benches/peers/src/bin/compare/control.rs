//! Guests under control: called as futures, waiting for host functions, counting fuel, and stopped.
//!
//! Where Wasmtime has two ways, the cheaper one is used: epochs, if a guest need only be stopped.

use pirn_compiler::Options;
use pirn_peers::best::best;
use pirn_peers::row::{Row, Run};
use pirn_runtime as ours;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

const NULL: &[u8] = include_bytes!("../../../../../examples/guests/null.wat");
const HOST_CALLS: &[u8] = include_bytes!("../../../../../examples/guests/hostcalls.wat");

/// The computations.
const COMPUTED: [Computation; 2] = [
    Computation {
        name: "primes below 65,536",
        guest: include_bytes!("../../../../../examples/guests/sieve.wat"),
        export: "sieve",
        n: 65536,
        result: 6542,
    },
    Computation {
        name: "fib of 20",
        guest: include_bytes!("../../../../../examples/guests/fib.wasm"),
        export: "fib",
        n: 20,
        result: 6765,
    },
];

/// A function that only computes.
struct Computation {
    name: &'static str,
    guest: &'static [u8],
    export: &'static str,
    n: i32,
    result: i32,
}

/// The limit that can stop a guest before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Nothing,
    /// A time limit. pirn needs no checks in the code for it; Wasmtime uses epochs.
    Time,
    /// Fuel.
    Fuel,
}

/// A future that is pending once and wakes no task.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Polls a future until it is ready. No waker is needed.
fn polled<F: Future>(future: F) -> F::Output {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// The rows of this file.
pub fn rows<'a>() -> Vec<Row<'a>> {
    let row = |name: String, ours, best| Row {
        name,
        ours,
        best,
        pool: None,
        wasmer: None,
    };
    let mut rows = vec![
        row("async call of null".to_owned(), our_call(), their_call()),
        row("cycle: null, async".to_owned(), our_cycle(), their_cycle()),
    ];
    for (name, waits) in [("is ready", false), ("waits once", true)] {
        let name = format!("async host function that {name}");
        rows.push(row(name, our_host_calls(waits), their_host_calls(waits)));
    }
    for what in &COMPUTED {
        for (how, bound) in [
            ("", Bound::Nothing),
            (", by a deadline", Bound::Time),
            (", by fuel", Bound::Fuel),
        ] {
            let (ours, theirs) = (what.ours(bound), what.theirs(bound));
            rows.push(row(format!("{}{how}", what.name), ours, theirs));
        }
    }
    rows
}

fn our_module(guest: &[u8], fuel: bool) -> ours::Module {
    let mut options = Options::default();
    options.fuel = fuel;
    let wasm = pirn_compiler::parse_text(guest).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, &options).expect("it is valid");
    ours::Module::from_bytes(&so).expect("it opens")
}

fn our_prepared(guest: &[u8], fuel: bool, linker: &ours::Linker<()>) -> ours::Prepared<()> {
    let region = ours::Region::builder()
        .slots(8)
        .stack_bytes(512 << 10)
        .build();
    let module = our_module(guest, fuel);
    let prepared = region.expect("a region").prepare(&module, linker);
    prepared.expect("it links")
}

fn our_call<'a>() -> Run<'a> {
    let null = our_prepared(NULL, false, &ours::Linker::new());
    let func = null.func::<(), ()>("run").expect("it is exported");
    let mut instance = null.instantiate(()).expect("a slot");
    Box::new(move |count| {
        for _ in 0..count {
            polled(instance.call_async(&func, ())).expect("it returns");
        }
    })
}

fn our_cycle<'a>() -> Run<'a> {
    let null = our_prepared(NULL, false, &ours::Linker::new());
    let func = null.func::<(), ()>("run").expect("it is exported");
    Box::new(move |count| {
        for _ in 0..count {
            let instance = polled(null.instantiate_async(()));
            let mut instance = instance.expect("a slot");
            polled(instance.call_async(&func, ())).expect("it returns");
        }
    })
}

fn our_host_calls<'a>(waits: bool) -> Run<'a> {
    let mut linker = ours::Linker::new();
    let linked = if waits {
        linker.func_async("host", "f", |_, n: i32| {
            Box::pin(async move {
                Once(false).await;
                n
            })
        })
    } else {
        linker.func_async("host", "f", |_, n: i32| Box::pin(async move { n }))
    };
    linked.expect("the name is free");
    let prepared = our_prepared(HOST_CALLS, false, &linker);
    let func = prepared.func::<u32, i32>("calls").expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    Box::new(move |count| {
        let call = instance.call_async(&func, count as u32);
        black_box(polled(call).expect("it returns"));
    })
}

fn their_engine(bound: Bound) -> wasmtime::Engine {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(8)
        .total_memories(8)
        .total_tables(8)
        .total_stacks(8)
        .max_memory_size(4 << 20);
    let mut config = Config::new();
    best(&mut pool, &mut config);
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(bound == Bound::Time)
        .consume_fuel(bound == Bound::Fuel);
    wasmtime::Engine::new(&config).expect("an engine")
}

fn their_prepared(
    engine: &wasmtime::Engine,
    guest: &[u8],
    linker: &wasmtime::Linker<()>,
) -> wasmtime::InstancePre<()> {
    let wasm = pirn_compiler::parse_text(guest).expect("it is well-formed");
    let module = wasmtime::Module::new(engine, &wasm).expect("it is valid");
    linker.instantiate_pre(&module).expect("it links")
}

fn their_call<'a>() -> Run<'a> {
    let engine = their_engine(Bound::Nothing);
    let pre = their_prepared(&engine, NULL, &wasmtime::Linker::new(&engine));
    let mut store = wasmtime::Store::new(&engine, ());
    let instance = polled(pre.instantiate_async(&mut store)).expect("a slot");
    let func = instance.get_typed_func::<(), ()>(&mut store, "run");
    let func = func.expect("it is exported");
    Box::new(move |count| {
        for _ in 0..count {
            polled(func.call_async(&mut store, ())).expect("it returns");
        }
    })
}

fn their_cycle<'a>() -> Run<'a> {
    let engine = their_engine(Bound::Nothing);
    let pre = their_prepared(&engine, NULL, &wasmtime::Linker::new(&engine));
    let export = pre.module().get_export_index("run").expect("it is there");
    Box::new(move |count| {
        for _ in 0..count {
            let mut store = wasmtime::Store::new(&engine, ());
            let instance = polled(pre.instantiate_async(&mut store)).expect("a slot");
            let func = instance.get_module_export(&mut store, &export);
            let func = func.and_then(wasmtime::Extern::into_func);
            let func = func.expect("it is exported").typed::<(), ()>(&store);
            let func = func.expect("it is of that type");
            polled(func.call_async(&mut store, ())).expect("it returns");
        }
    })
}

fn their_host_calls<'a>(waits: bool) -> Run<'a> {
    let engine = their_engine(Bound::Nothing);
    let mut linker = wasmtime::Linker::new(&engine);
    let linked = if waits {
        linker.func_wrap_async("host", "f", |_, (n,): (i32,)| {
            Box::new(async move {
                Once(false).await;
                n
            })
        })
    } else {
        linker.func_wrap_async("host", "f", |_, (n,): (i32,)| Box::new(async move { n }))
    };
    linked.expect("the name is free");
    let pre = their_prepared(&engine, HOST_CALLS, &linker);
    let mut store = wasmtime::Store::new(&engine, ());
    let instance = polled(pre.instantiate_async(&mut store)).expect("a slot");
    let func = instance.get_typed_func::<u32, i32>(&mut store, "calls");
    let func = func.expect("it is exported");
    Box::new(move |count| {
        let call = func.call_async(&mut store, count as u32);
        black_box(polled(call).expect("it returns"));
    })
}

impl Computation {
    fn ours<'a>(&self, bound: Bound) -> Run<'a> {
        let (n, expected) = (self.n, self.result);
        let prepared = our_prepared(self.guest, bound == Bound::Fuel, &ours::Linker::new());
        let func = prepared
            .func::<i32, i32>(self.export)
            .expect("it is exported");
        let mut instance = prepared.instantiate(()).expect("a slot");
        Box::new(move |count| {
            for _ in 0..count {
                let result = match bound {
                    Bound::Nothing => instance.call(&func, black_box(n)),
                    Bound::Time => instance
                        .deadline(Duration::from_secs(60))
                        .call(&func, black_box(n)),
                    Bound::Fuel => {
                        instance.set_fuel(1 << 40).expect("it counts");
                        instance.call(&func, black_box(n))
                    }
                };
                assert_eq!(result.expect("it returns"), expected);
            }
        })
    }

    fn theirs<'a>(&self, bound: Bound) -> Run<'a> {
        let (n, expected) = (self.n, self.result);
        let engine = their_engine(bound);
        let linker = wasmtime::Linker::new(&engine);
        let pre = their_prepared(&engine, self.guest, &linker);
        let mut store = wasmtime::Store::new(&engine, ());
        if bound == Bound::Fuel {
            // Fuel for instantiation, which is not measured.
            store.set_fuel(1 << 40).expect("it counts");
        }
        if bound == Bound::Time {
            store.set_epoch_deadline(1);
        }
        let instance = pre.instantiate(&mut store).expect("a slot");
        let func = instance.get_typed_func::<i32, i32>(&mut store, self.export);
        let func = func.expect("it is exported");
        Box::new(move |count| {
            for _ in 0..count {
                match bound {
                    Bound::Nothing => {}
                    Bound::Time => store.set_epoch_deadline(1),
                    Bound::Fuel => store.set_fuel(1 << 40).expect("it counts"),
                }
                let result = func.call(&mut store, black_box(n));
                assert_eq!(result.expect("it returns"), expected);
            }
        })
    }
}
