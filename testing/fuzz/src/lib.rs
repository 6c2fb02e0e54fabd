//! Wasmtime as another engine for comparison. The checks are in `testing/fuzz/checks`, so that
//! `cargo test` can run them too.

#![forbid(unsafe_code)]

mod component;

use pirn_fuzz_checks::engine::Engine;
use pirn_fuzz_checks::guest::{FUNCS, GLOBALS, Plan, Uses};
use pirn_fuzz_checks::value::{End, Fault, Host, HostRefuses, Ref, Run, Val};
use pirn_runtime::ValType;
use wasmtime::{
    AnyRef, AsContextMut, Caller, Config, Error, Extern, ExternRef, FuncType, GcHeapOutOfMemory,
    Global, GlobalType, HeapType, I31, Instance, Linker, Module, Mutability, RefType, Rooted,
    Store, ThrownException, Trap, V128,
};

/// Wasmtime, with settings for guests that make NaNs canonical.
pub struct Wasmtime {
    engine: wasmtime::Engine,
}

impl Default for Wasmtime {
    fn default() -> Self {
        let mut config = Config::new();
        config
            .wasm_wide_arithmetic(true)
            .wasm_exceptions(true)
            .wasm_custom_page_sizes(true)
            .wasm_tail_call(true)
            .wasm_function_references(true)
            .wasm_gc(true)
            .wasm_threads(true)
            .shared_memory(true)
            .wasm_relaxed_simd(true)
            .relaxed_simd_deterministic(true)
            .cranelift_nan_canonicalization(true);
        config
            .max_wasm_stack(1 << 20)
            .memory_reservation(16 << 20)
            .gc_heap_reservation(32 << 20)
            .gc_heap_reservation_for_growth(0)
            .gc_heap_may_move(false)
            .wasm_backtrace_max_frames(None);
        config.cranelift_opt_level(wasmtime::OptLevel::None);
        let engine = wasmtime::Engine::new(&config).expect("settings that go together");
        Self { engine }
    }
}

impl Engine for Wasmtime {
    fn name(&self) -> &'static str {
        "Wasmtime"
    }

    fn takes(&self, _: &Uses) -> bool {
        true
    }

    fn run(&self, wasm: &[u8], plan: &Plan) -> Result<Run, String> {
        let module = Module::new(&self.engine, wasm).map_err(|error| format!("{error:#}"))?;
        let host = Host {
            calls: vec![],
            memory: plan.memory_seen_at_start(),
        };
        let mut store = Store::new(&self.engine, host);
        let linker = linker(&self.engine, &mut store);
        let mut run = Run::default();
        match linker.instantiate(&mut store, &module) {
            Ok(instance) => calls(&mut store, &instance, plan, &mut run)?,
            Err(error) => run.ends.push(end(&error)?),
        }
        run.host = std::mem::take(&mut store.data_mut().calls);
        Ok(run)
    }
}

fn linker(engine: &wasmtime::Engine, store: &mut Store<Host>) -> Linker<Host> {
    let mut linker = Linker::new(engine);
    for (index, (params, results)) in FUNCS.iter().enumerate() {
        let types = |types: &[ValType]| types.iter().copied().map(ty).collect::<Vec<_>>();
        let func_ty = FuncType::new(engine, types(params), types(results));
        let call = move |mut caller: Caller<'_, Host>,
                         params: &[wasmtime::Val],
                         into: &mut [wasmtime::Val]| {
            let params: Vec<_> = params.iter().map(|value| val(&mut caller, value)).collect();
            let memory = caller.data().memory.clone();
            let memory = memory
                .and_then(|name| caller.get_export(&name))
                .and_then(Extern::into_memory);
            let answer = match memory {
                None => caller.data_mut().call(index, &params, results, &mut []),
                Some(memory) => {
                    let (memory, host) = memory.data_and_store_mut(&mut caller);
                    host.call(index, &params, results, memory)
                }
            };
            for (into, val) in into.iter_mut().zip(answer.map_err(Error::new)?) {
                *into = value(&mut caller, val)?;
            }
            Ok(())
        };
        let defined = linker.func_new("host", &format!("f{index}"), func_ty, call);
        defined.expect("each name once");
    }
    for (index, val) in GLOBALS.iter().enumerate() {
        let of = GlobalType::new(
            ty(pirn_fuzz_checks::guest::type_of(*val)),
            Mutability::Const,
        );
        let value = value(&mut *store, *val).expect("room for nothing");
        let global = Global::new(&mut *store, of, value).expect("a value of its type");
        let defined = linker.define(&*store, "host", &format!("g{index}"), global);
        defined.expect("each name once");
    }
    linker
}

fn calls(
    store: &mut Store<Host>,
    instance: &Instance,
    plan: &Plan,
    run: &mut Run,
) -> Result<(), String> {
    run.ends.push(End::Returned(vec![]));
    for call in &plan.calls {
        store.data_mut().memory = plan.memory_seen_by(call);
        let func = instance
            .get_func(&mut *store, &call.name)
            .ok_or("no such function")?;
        let params = call.params.iter().map(|val| value(&mut *store, *val));
        let mut results = vec![wasmtime::Val::I32(0); call.results.len()];
        let ended = params.collect::<Result<Vec<_>, _>>();
        let ended = ended.and_then(|params| func.call(&mut *store, &params, &mut results));
        let ended = match ended {
            Ok(()) => End::Returned(
                results
                    .iter()
                    .map(|value| val(&mut *store, value))
                    .collect(),
            ),
            Err(error) => end(&error)?,
        };
        let exhausted = ended == End::Exhausted;
        run.ends.push(ended);
        if exhausted {
            return Ok(());
        }
    }
    for name in &plan.memories {
        let memory = instance
            .get_memory(&mut *store, name)
            .ok_or("no such memory")?;
        run.memories.push(memory.data(&*store).to_vec());
    }
    for name in &plan.globals {
        let global = instance
            .get_global(&mut *store, name)
            .ok_or("no such global")?;
        let value = global.get(&mut *store);
        run.globals.push(val(&mut *store, &value));
    }
    Ok(())
}

fn end(error: &Error) -> Result<End, String> {
    if error.downcast_ref::<HostRefuses>().is_some() {
        return Ok(End::Refused);
    }
    if error.is::<ThrownException>() {
        return Ok(End::Threw);
    }
    if error.is::<GcHeapOutOfMemory<()>>() || error.is::<GcHeapOutOfMemory<u32>>() {
        return Ok(End::Exhausted);
    }
    Ok(End::Trapped(match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => Fault::Unreachable,
        Some(Trap::MemoryOutOfBounds) => Fault::Memory,
        Some(Trap::TableOutOfBounds) => Fault::Table,
        Some(Trap::IndirectCallToNull) => Fault::Null,
        Some(Trap::NullReference) => Fault::NullReference,
        Some(Trap::CastFailure) => Fault::Cast,
        Some(Trap::ArrayOutOfBounds) => Fault::Array,
        Some(Trap::HeapMisaligned) => Fault::Unaligned,
        Some(Trap::AtomicWaitNonSharedMemory) => Fault::NotShared,
        Some(Trap::IntegerDivisionByZero) => Fault::Zero,
        Some(Trap::IntegerOverflow) => Fault::Overflow,
        Some(Trap::BadConversionToInteger) => Fault::Conversion,
        Some(Trap::BadSignature) => Fault::Type,
        Some(Trap::StackOverflow | Trap::AllocationTooLarge) => return Ok(End::Exhausted),
        _ => return Err(format!("{error:#}")),
    }))
}

fn ty(ty: ValType) -> wasmtime::ValType {
    match ty {
        ValType::I32 => wasmtime::ValType::I32,
        ValType::I64 => wasmtime::ValType::I64,
        ValType::F32 => wasmtime::ValType::F32,
        ValType::F64 => wasmtime::ValType::F64,
        ValType::V128 => wasmtime::ValType::V128,
        ValType::FUNCREF => wasmtime::ValType::Ref(RefType::new(true, HeapType::Func)),
        ValType::EXTERNREF => wasmtime::ValType::Ref(RefType::new(true, HeapType::Extern)),
        ValType::EXNREF => wasmtime::ValType::Ref(RefType::new(true, HeapType::Exn)),
        other => unreachable!("no host function has a value of type {other}"),
    }
}

fn val(mut store: impl AsContextMut<Data = Host>, value: &wasmtime::Val) -> Val {
    match value {
        wasmtime::Val::I32(value) => Val::I32(value.cast_unsigned()),
        wasmtime::Val::I64(value) => Val::I64(value.cast_unsigned()),
        wasmtime::Val::F32(bits) => Val::F32(*bits),
        wasmtime::Val::F64(bits) => Val::F64(*bits),
        wasmtime::Val::V128(value) => Val::V128(value.as_u128()),
        wasmtime::Val::FuncRef(reference) => Val::Func(reference.is_some()),
        wasmtime::Val::ExternRef(None) => Val::Extern(Ref::Null),
        wasmtime::Val::ExternRef(Some(reference)) => {
            let any = AnyRef::convert_extern(&mut store, *reference);
            Val::Extern(kind(&mut store, any.expect("it is rooted")))
        }
        wasmtime::Val::ExnRef(reference) => Val::Exn(reference.is_some()),
        wasmtime::Val::AnyRef(None) => Val::Any(Ref::Null),
        wasmtime::Val::AnyRef(Some(reference)) => Val::Any(kind(store, *reference)),
        other => unreachable!("no guest has {other:?}"),
    }
}

/// The kind of a reference that is not null.
fn kind(mut store: impl AsContextMut<Data = Host>, any: Rooted<AnyRef>) -> Ref {
    let rooted = "it is rooted";
    if let Some(number) = any.as_i31(&store).expect(rooted) {
        return Ref::I31(number.get_i32());
    }
    if any.is_struct(&store).expect(rooted) {
        return Ref::Struct;
    }
    if any.is_array(&store).expect(rooted) {
        return Ref::Array;
    }
    let reference = ExternRef::convert_any(&mut store, any).expect(rooted);
    let data = reference.data(store.as_context()).expect(rooted);
    let number = data.and_then(|data| data.downcast_ref::<u32>());
    Ref::Host(*number.expect("all data of the host are numbers"))
}

/// # Errors
///
/// If Wasmtime has no room for a reference.
fn value(mut store: impl AsContextMut<Data = Host>, val: Val) -> Result<wasmtime::Val, Error> {
    Ok(match val {
        Val::I32(bits) => wasmtime::Val::I32(bits.cast_signed()),
        Val::I64(bits) => wasmtime::Val::I64(bits.cast_signed()),
        Val::F32(bits) => wasmtime::Val::F32(bits),
        Val::F64(bits) => wasmtime::Val::F64(bits),
        Val::V128(bits) => wasmtime::Val::V128(V128::from(bits)),
        Val::Func(_) => wasmtime::Val::FuncRef(None),
        Val::Exn(_) => wasmtime::Val::ExnRef(None),
        Val::Extern(Ref::Host(number)) => {
            wasmtime::Val::ExternRef(Some(ExternRef::new(store, number)?))
        }
        Val::Extern(_) => wasmtime::Val::ExternRef(None),
        Val::Any(Ref::I31(number)) => {
            let number = I31::wrapping_i32(number);
            wasmtime::Val::AnyRef(Some(AnyRef::from_i31(store, number)))
        }
        Val::Any(Ref::Host(number)) => {
            let reference = ExternRef::new(store.as_context_mut(), number)?;
            wasmtime::Val::AnyRef(Some(AnyRef::convert_extern(store, reference)?))
        }
        Val::Any(_) => wasmtime::Val::AnyRef(None),
    })
}
