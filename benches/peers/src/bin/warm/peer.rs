//! Wasmtime with the settings that make a cycle fastest, and wizer.

use crate::{Answer, Case, MEMORY_BYTES_MAX, input, ruby};
use pirn_peers::best::best;
use pirn_peers::row::Run;
use std::future::Future;
use std::path::Path;
use wasmtime::{
    Config, Extern, Instance, InstanceAllocationStrategy, InstancePre, Linker, Module,
    ModuleExport, PoolingAllocationConfig, Store, Val,
};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe, SinkOutputStream};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// What the host keeps for an instance.
type PeerData = Option<WasiP1Ctx>;

pub struct WarmPeer(wasmtime::Engine);

impl WarmPeer {
    pub fn new() -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_core_instances(8)
            .total_memories(8)
            .total_tables(8)
            .table_elements(1 << 16)
            .max_memory_size(MEMORY_BYTES_MAX);
        let mut config = Config::new();
        best(&mut pool, &mut config);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        // By default an image of more than 16 MiB with holes is copied for each instance.
        config.memory_guaranteed_dense_image_size(MEMORY_BYTES_MAX as u64);
        Self(wasmtime::Engine::new(&config).expect("an engine"))
    }

    /// WASI, and what Ruby imports beside it: see `linker` of the other engine.
    fn linker(&self, module: &Module) -> Linker<PeerData> {
        let mut linker = Linker::new(&self.0);
        p1::add_to_linker_sync(&mut linker, context).expect("the names are free");
        for import in module.imports() {
            let (interface, name) = (import.module(), import.name());
            let Some(ty) = import.ty().func().cloned() else {
                continue;
            };
            let defined = match interface {
                ruby::HANDLES => linker.func_new(interface, name, ty, |_, params, results| {
                    results.clone_from_slice(&params[..results.len()]);
                    Ok(())
                }),
                ruby::JAVASCRIPT => linker.func_new(interface, name, ty, |_, _, _| {
                    Err(wasmtime::Error::msg("there is no JavaScript"))
                }),
                _ => continue,
            };
            defined.expect("the name is free");
        }
        linker
    }

    /// The cold cycle, and the cycle of the module that wizer made. Writes that module to `folder`.
    ///
    /// # Panics
    ///
    /// If that module answers otherwise than `expected`.
    pub fn runs(&self, case: &Case, expected: &Answer, folder: Option<&str>) -> [Run<'static>; 2] {
        let warm = self.preinitialised(case);
        if let Some(folder) = folder {
            let file = Path::new(folder).join(format!("{}.wasm", case.name));
            std::fs::write(file, &warm).expect("the folder is there");
        }
        let [cold, warm] = [(&*case.wasm, true), (&*warm, false)].map(|(wasm, cold)| {
            let module = Module::new(&self.0, wasm).expect("it is valid");
            PeerGuest::new(self, &module, case, cold)
        });
        assert_eq!(&warm.answer(), expected, "{}", case.name);
        [cold.cycle(), warm.cycle()]
    }

    /// The module as wizer writes it after its initialisation.
    fn preinitialised(&self, case: &Case) -> Vec<u8> {
        let mut wizer = Wizer::new();
        wizer.init_func(*case.init.last().expect("there is one"));
        let (context, instrumented) = wizer.instrument(&case.wasm).expect("wizer takes it");
        let module = Module::new(&self.0, &instrumented).expect("it is valid");
        let mut store = Store::new(&self.0, data(case, case.script));
        let instance = self.linker(&module).instantiate(&mut store, &module);
        let mut state = WizerState {
            store,
            instance: instance.expect("it links"),
        };
        initialise(&mut state, case);
        ready(wizer.snapshot(&context, &mut state)).expect("it can be taken")
    }
}

/// A guest of which instances can be made.
struct PeerGuest {
    engine: wasmtime::Engine,
    pre: InstancePre<PeerData>,
    /// The export that answers a request, if there is one, and the number of its results.
    answer: Option<(ModuleExport, usize)>,
    case: Case,
    cold: bool,
}

impl PeerGuest {
    fn new(engine: &WarmPeer, module: &Module, case: &Case, cold: bool) -> Self {
        let answer = case.answer.map(|name| {
            let ty = module.get_export(name).and_then(|ty| ty.func().cloned());
            let results = ty.expect("it is a function").results().len();
            let export = module.get_export_index(name);
            (export.expect("it is exported"), results)
        });
        Self {
            engine: engine.0.clone(),
            pre: engine
                .linker(module)
                .instantiate_pre(module)
                .expect("it links"),
            answer,
            case: case.clone(),
            cold,
        }
    }

    /// Has a new instance answer a request. Returns the results.
    fn serve(&self, data: PeerData) -> Vec<Val> {
        let mut store = Store::new(&self.engine, data);
        let instance = self.pre.instantiate(&mut store).expect("a slot");
        let mut state = WizerState { store, instance };
        if self.cold {
            initialise(&mut state, &self.case);
        }
        let Some((export, results)) = &self.answer else {
            ruby::answer(&mut state);
            return vec![];
        };
        let func = instance.get_module_export(&mut state.store, export);
        let func = func.and_then(Extern::into_func).expect("it is exported");
        let params: Vec<Val> = self.case.params.iter().map(|n| Val::I32(*n)).collect();
        let mut results = vec![Val::I32(0); *results];
        func.call(&mut state.store, &params, &mut results)
            .expect("it answers");
        results
    }

    fn answer(&self) -> Answer {
        let output = MemoryOutputPipe::new(1 << 20);
        let wasi = || {
            let mut builder = WasiCtxBuilder::new();
            builder.stdin(MemoryInputPipe::new(self.case.body.as_bytes()));
            builder.stdout(output.clone()).build_p1()
        };
        let results = self.serve(self.case.wasi.then(wasi));
        Answer {
            output: String::from_utf8(output.contents().to_vec()).expect("it is text"),
            results: results.iter().map(Val::unwrap_i32).collect(),
        }
    }

    fn cycle(self) -> Run<'static> {
        let input = input(&self.case, self.cold);
        Box::new(move |count| {
            for _ in 0..count {
                self.serve(data(&self.case, input));
            }
        })
    }
}

/// The WASI context of an instance whose module imports WASI.
fn context(data: &mut PeerData) -> &mut WasiP1Ctx {
    data.as_mut().expect("it has a context")
}

fn data(case: &Case, input: &'static str) -> PeerData {
    case.wasi.then(|| {
        let mut builder = WasiCtxBuilder::new();
        builder.stdin(MemoryInputPipe::new(input.as_bytes()));
        builder.stdout(SinkOutputStream).build_p1()
    })
}

/// Initialises an instance, which has the script as standard input.
fn initialise(state: &mut WizerState, case: &Case) {
    for init in case.init {
        ruby::RubyGuest::call(state, init, &[]);
    }
    if case.answer.is_none() {
        ruby::start(state, case.script);
    }
}

/// An instance, also of a module that wizer has instrumented.
struct WizerState {
    store: Store<PeerData>,
    instance: Instance,
}

impl ruby::RubyGuest for WizerState {
    fn export(&mut self, prefix: &str) -> String {
        let mut exports = self.instance.exports(&mut self.store);
        let found = exports.find(|export| export.name().starts_with(prefix));
        found.expect("it is exported").name().to_owned()
    }

    fn call(&mut self, export: &str, params: &[i32]) -> Option<i32> {
        let func = self.instance.get_func(&mut self.store, export);
        let func = func.expect("it is exported");
        let params: Vec<Val> = params.iter().map(|n| Val::I32(*n)).collect();
        let mut results = vec![Val::I32(0); func.ty(&self.store).results().len()];
        func.call(&mut self.store, &params, &mut results)
            .expect("it returns");
        results.first().map(Val::unwrap_i32)
    }

    fn write(&mut self, at: u32, bytes: &[u8]) {
        let memory = self.instance.get_memory(&mut self.store, "memory");
        memory
            .expect("it is exported")
            .write(&mut self.store, at as usize, bytes)
            .expect("it was allocated");
    }

    fn read_u32(&mut self, at: u32) -> u32 {
        let memory = self.instance.get_memory(&mut self.store, "memory");
        let mut word = [0; 4];
        memory
            .expect("it is exported")
            .read(&self.store, at as usize, &mut word)
            .expect("it was allocated");
        u32::from_le_bytes(word)
    }
}

impl InstanceState for WizerState {
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name);
        match global.expect("wizer exports it").get(&mut self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(bits) => SnapshotVal::F32(bits),
            Val::F64(bits) => SnapshotVal::F64(bits),
            Val::V128(value) => SnapshotVal::V128(value.as_u128()),
            _ => panic!("wizer refuses globals of other types"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name);
        contents(memory.expect("wizer exports it").data(&self.store));
    }
}

/// The result of a future that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
