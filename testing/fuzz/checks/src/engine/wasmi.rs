//! [`Wasmi`]: an interpreter that shares no code with pirn's compiler.

use super::Engine;
use crate::guest::{FUNCS, GLOBALS, Plan, Uses};
use crate::value::{End, Fault, Host, HostRefuses, Ref as Reference, Run, Val};
use pirn_runtime::ValType;
use wasmi::errors::{ErrorKind, InstantiationError, TableError};
use wasmi::{
    AsContext, AsContextMut, Caller, Config, Error, Extern, ExternRef, F32, F64, Func, FuncType,
    Global, Instance, Linker, Module, Mutability, Ref, Store, TrapCode, V128,
};

/// An interpreter that shares no code with pirn's compiler.
#[derive(Debug)]
pub struct Wasmi {
    engine: wasmi::Engine,
}

impl Default for Wasmi {
    fn default() -> Self {
        let mut config = Config::default();
        config
            .wasm_wide_arithmetic(true)
            .wasm_extended_const(true)
            .wasm_memory64(true)
            .wasm_multi_memory(true)
            .wasm_custom_page_sizes(true)
            .wasm_simd(true);
        config
            .set_max_recursion_depth(10_000)
            .set_max_stack_height(16 << 20);
        let engine = wasmi::Engine::new(&config);
        Self { engine }
    }
}

/// Lets wasmi return this error of the host.
impl wasmi::errors::HostError for HostRefuses {}

impl Engine for Wasmi {
    fn name(&self) -> &'static str {
        "wasmi"
    }

    fn takes(&self, uses: &Uses) -> bool {
        uses.is_plain()
    }

    fn run(&self, wasm: &[u8], plan: &Plan) -> Result<Run, String> {
        let module = Module::new(&self.engine, wasm).map_err(|error| error.to_string())?;
        let host = Host {
            calls: vec![],
            memory: plan.memory_seen_at_start(),
        };
        let mut store = Store::new(&self.engine, host);
        let linker = linker(&self.engine, &mut store);
        let mut run = Run::default();
        match linker.instantiate_and_start(&mut store, &module) {
            Ok(instance) => calls(&mut store, &instance, plan, &mut run)?,
            Err(error) => run.ends.push(end(&error)?),
        }
        run.host = std::mem::take(&mut store.data_mut().calls);
        Ok(run)
    }
}

fn linker(engine: &wasmi::Engine, store: &mut Store<Host>) -> Linker<Host> {
    let mut linker = Linker::new(engine);
    for (index, (params, results)) in FUNCS.iter().enumerate() {
        let types = |types: &[ValType]| types.iter().copied().map(ty).collect::<Vec<_>>();
        let func_ty = FuncType::new(types(params), types(results));
        let call =
            move |mut caller: Caller<'_, Host>, params: &[wasmi::Val], into: &mut [wasmi::Val]| {
                let params: Vec<_> = params.iter().map(|value| val(&caller, value)).collect();
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
                for (into, val) in into.iter_mut().zip(answer.map_err(Error::host)?) {
                    *into = value(&mut caller, val);
                }
                Ok(())
            };
        let defined = linker.func_new("host", &format!("f{index}"), func_ty, call);
        defined.expect("no name is defined twice");
    }
    for (index, val) in GLOBALS.iter().enumerate() {
        let value = value(&mut *store, *val);
        let global = Global::new(&mut *store, value, Mutability::Const);
        let defined = linker.define("host", &format!("g{index}"), global);
        defined.expect("no name is defined twice");
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
            .get_func(&*store, &call.name)
            .ok_or("no such function")?;
        let params: Vec<_> = call
            .params
            .iter()
            .map(|val| value(&mut *store, *val))
            .collect();
        let mut results: Vec<_> = call
            .results
            .iter()
            .map(|of| wasmi::Val::default(ty(*of)))
            .collect();
        let ended = match func.call(&mut *store, &params, &mut results) {
            Ok(()) => End::Returned(results.iter().map(|value| val(&*store, value)).collect()),
            Err(error) => end(&error)?,
        };
        let exhausted = ended == End::Exhausted;
        run.ends.push(ended);
        if exhausted {
            return Ok(());
        }
    }
    for name in &plan.memories {
        let memory = instance.get_memory(&*store, name).ok_or("no such memory")?;
        run.memories.push(memory.data(&*store).to_vec());
    }
    for name in &plan.globals {
        let global = instance.get_global(&*store, name).ok_or("no such global")?;
        run.globals.push(val(&*store, &global.get(&*store)));
    }
    Ok(())
}

fn end(error: &Error) -> Result<End, String> {
    if error.downcast_ref::<HostRefuses>().is_some() {
        return Ok(End::Refused);
    }
    // Both errors are traps, but wasmi has no trap code for them.
    if let ErrorKind::Instantiation(InstantiationError::ElementSegmentDoesNotFit { .. })
    | ErrorKind::Table(TableError::CopyOutOfBounds) = error.kind()
    {
        return Ok(End::Trapped(Fault::Table));
    }
    Ok(End::Trapped(match error.as_trap_code() {
        Some(TrapCode::UnreachableCodeReached) => Fault::Unreachable,
        Some(TrapCode::MemoryOutOfBounds) => Fault::Memory,
        Some(TrapCode::TableOutOfBounds) => Fault::Table,
        Some(TrapCode::IndirectCallToNull) => Fault::Null,
        Some(TrapCode::IntegerDivisionByZero) => Fault::Zero,
        Some(TrapCode::IntegerOverflow) => Fault::Overflow,
        Some(TrapCode::BadConversionToInteger) => Fault::Conversion,
        Some(TrapCode::BadSignature) => Fault::Type,
        Some(TrapCode::StackOverflow | TrapCode::GrowthOperationLimited) => {
            return Ok(End::Exhausted);
        }
        _ => return Err(error.to_string()),
    }))
}

fn ty(ty: ValType) -> wasmi::ValType {
    match ty {
        ValType::I32 => wasmi::ValType::I32,
        ValType::I64 => wasmi::ValType::I64,
        ValType::F32 => wasmi::ValType::F32,
        ValType::F64 => wasmi::ValType::F64,
        ValType::V128 => wasmi::ValType::V128,
        ValType::FUNCREF => wasmi::ValType::FuncRef,
        ValType::EXTERNREF => wasmi::ValType::ExternRef,
        other => unreachable!("no host function has a value of type {other}"),
    }
}

fn val(store: &impl AsContext<Data = Host>, value: &wasmi::Val) -> Val {
    match value {
        wasmi::Val::I32(value) => Val::I32(value.cast_unsigned()),
        wasmi::Val::I64(value) => Val::I64(value.cast_unsigned()),
        wasmi::Val::F32(value) => Val::F32(value.to_bits()),
        wasmi::Val::F64(value) => Val::F64(value.to_bits()),
        wasmi::Val::V128(value) => Val::V128(value.as_u128()),
        wasmi::Val::FuncRef(reference) => Val::Func(!reference.is_null()),
        wasmi::Val::ExternRef(reference) => {
            let number =
                |reference: &ExternRef| reference.data(store.as_context()).downcast_ref().copied();
            let number = reference.val().and_then(number);
            Val::Extern(number.map_or(Reference::Null, Reference::Host))
        }
    }
}

fn value(store: &mut impl AsContextMut<Data = Host>, val: Val) -> wasmi::Val {
    match val {
        Val::I32(bits) => wasmi::Val::I32(bits.cast_signed()),
        Val::I64(bits) => wasmi::Val::I64(bits.cast_signed()),
        Val::F32(bits) => wasmi::Val::F32(F32::from_bits(bits)),
        Val::F64(bits) => wasmi::Val::F64(F64::from_bits(bits)),
        Val::V128(bits) => wasmi::Val::V128(V128::from(bits)),
        Val::Func(_) => wasmi::Val::FuncRef(Ref::<Func>::Null),
        Val::Extern(Reference::Null) => wasmi::Val::ExternRef(Ref::Null),
        Val::Extern(Reference::Host(number)) => {
            wasmi::Val::ExternRef(Ref::Val(ExternRef::new(store.as_context_mut(), number)))
        }
        other => unreachable!("no guest that it takes has {other:?}"),
    }
}
