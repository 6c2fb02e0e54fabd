//! [`Pirn`]: runs guests under pirn.

use crate::guest::{Call, FUNCS, GLOBALS, Guest, MEMORIES, Plan};
use crate::setting::Setting;
use crate::value::{End, Fault, Host, Ref, Run, Val};
use pirn_compiler::OptLevel;
use pirn_format::metadata::Metadata;
use pirn_format::read::Checked;
use pirn_runtime::{
    AnyKind, AnyRef, CallError, ExternRef, FuncType, Instance, InstantiateError, Linker, Module,
    Prepared, Region, Reset, TrapCode, Value,
};
use std::num::NonZeroU64;
use std::sync::OnceLock;

/// A guest that pirn compiled with one setting.
#[derive(Debug)]
pub struct Pirn {
    module: Module,
    metadata: Metadata,
    reset: Reset,
}

/// More fuel than any guest uses.
const FUEL: u64 = 1 << 40;

impl Pirn {
    /// Compiles and opens a module. Its machine code must be proven, unless the verifier may refuse
    /// it.
    ///
    /// # Errors
    ///
    /// The error of the compiler, the verifier or the runtime.
    pub fn new(wasm: &[u8], setting: &Setting) -> Result<Self, String> {
        let so = setting.compile(wasm)?;
        let module = Module::from_bytes(&so).map_err(|error| error.to_string())?;
        let checked = Checked::new(&so).map_err(|error| error.to_string())?;
        // Without the optimiser, lanes may be inserted into a register with unknown bits. Guests
        // with structs and arrays may have operators that are refused.
        let is_proven = setting.level != OptLevel::None && !checked.metadata.has_object_types();
        if is_proven {
            pirn_verify::verify(&so).map_err(|error| format!("not proven: {error}"))?;
        }
        let (metadata, reset) = (checked.metadata, setting.reset);
        Ok(Self {
            module,
            metadata,
            reset,
        })
    }

    /// The calls of a guest, whose module must be this one.
    #[must_use]
    pub fn plan(&self, guest: &Guest) -> Plan {
        guest.plan(&self.module, &self.metadata)
    }

    /// Instantiates the module, makes the calls of a plan, and reads the exports.
    ///
    /// # Errors
    ///
    /// If a call ends in an unexpected way: not with results, a trap, or an error of a host
    /// function.
    pub fn run(&self, plan: &Plan) -> Result<Run, String> {
        let prepared = region(self.reset).prepare(&self.module, &linker());
        let mut prepared = prepared.map_err(|error| error.to_string())?;
        if self.module.counts_fuel() {
            prepared = prepared
                .start_fuel(FUEL)
                .map_err(|error| error.to_string())?;
        }
        run(&prepared, plan)
    }
}

/// One region for each reset, shared by all guests, so that a guest gets a slot that others have
/// used.
fn region(reset: Reset) -> &'static Region {
    static REGIONS: [OnceLock<Region>; Reset::ALL.len()] = [const { OnceLock::new() }; _];
    let at = Reset::ALL
        .iter()
        .position(|other| *other == reset)
        .unwrap_or(0);
    REGIONS[at].get_or_init(|| {
        let builder = || {
            Region::builder()
                .slots(2)
                .memories(MEMORIES as u32 + 1)
                .memory_bytes_max(8 << 20)
                .stack_bytes(4 << 20)
        };
        let region = builder().reset(reset).build();
        region.or_else(|_| builder().build()).expect("a region")
    })
}

fn linker() -> Linker<Host> {
    let mut linker = Linker::<Host>::new();
    for (index, (params, results)) in FUNCS.iter().enumerate() {
        let ty = FuncType {
            params: params.to_vec(),
            results: results.to_vec(),
        };
        let defined = linker.func_values(
            "host",
            &format!("f{index}"),
            ty,
            move |mut caller, params, into| {
                let params: Vec<_> = params.iter().copied().map(val).collect();
                let (mut memory, host) = caller.split();
                let answer = host.call(index, &params, results, memory.as_mut_slice())?;
                into.iter_mut()
                    .zip(answer)
                    .for_each(|(into, val)| *into = value(val));
                Ok(())
            },
        );
        defined.expect("no name is defined twice");
    }
    for (index, val) in GLOBALS.iter().enumerate() {
        let defined = linker.global("host", &format!("g{index}"), value(*val));
        defined.expect("no name is defined twice");
    }
    linker
}

fn run(prepared: &Prepared<Host>, plan: &Plan) -> Result<Run, String> {
    let mut run = Run::default();
    let host = Host {
        calls: vec![],
        memory: plan.memory_seen_at_start(),
    };
    let mut instance = match prepared.instantiate(host) {
        Ok(instance) => instance,
        Err(InstantiateError::Start(error)) => {
            run.ends.push(end(error)?);
            return Ok(run);
        }
        Err(error) => return Err(error.to_string()),
    };
    run.ends.push(End::Returned(vec![]));
    for call in &plan.calls {
        instance.data_mut().memory = plan.memory_seen_by(call);
        let ended = made(&mut instance, call)?;
        let exhausted = ended == End::Exhausted;
        run.ends.push(ended);
        run.fuel.extend(instance.fuel());
        if exhausted {
            return Ok(run);
        }
    }
    for name in &plan.memories {
        let memory = instance
            .exported_memory(name)
            .ok_or_else(|| format!("no memory {name:?}"))?;
        run.memories.push(memory.as_slice().to_vec());
    }
    for name in &plan.globals {
        let global = instance
            .global(name)
            .ok_or_else(|| format!("no global {name:?}"))?;
        run.globals.push(val(global));
    }
    run.host = instance.into_data().calls;
    Ok(run)
}

fn made(instance: &mut Instance<Host>, call: &Call) -> Result<End, String> {
    let params: Vec<_> = call.params.iter().copied().map(value).collect();
    match instance.call_values(&call.name, &params) {
        Ok(results) => Ok(End::Returned(results.into_iter().map(val).collect())),
        Err(error) => end(error),
    }
}

fn end(error: CallError) -> Result<End, String> {
    match error {
        CallError::Trap(trap) => fault(trap.code()),
        CallError::Host(_) => Ok(End::Refused),
        CallError::Exception(_) => Ok(End::Threw),
        other => Err(other.to_string()),
    }
}

fn fault(code: TrapCode) -> Result<End, String> {
    Ok(End::Trapped(match code {
        TrapCode::StackOverflow
        | TrapCode::MemoryExhausted
        | TrapCode::HeapExhausted
        | TrapCode::ExceptionsExhausted
        | TrapCode::HostMemoryExhausted => return Ok(End::Exhausted),
        TrapCode::MemoryOutOfBounds => Fault::Memory,
        TrapCode::TableOutOfBounds | TrapCode::UndefinedElement => Fault::Table,
        TrapCode::UninitializedElement => Fault::Null,
        TrapCode::NullReference
        | TrapCode::NullFunctionReference
        | TrapCode::NullExceptionReference
        | TrapCode::NullStructReference
        | TrapCode::NullArrayReference
        | TrapCode::NullI31Reference => Fault::NullReference,
        TrapCode::IndirectCallTypeMismatch => Fault::Type,
        TrapCode::IntegerOverflow => Fault::Overflow,
        TrapCode::IntegerDivideByZero => Fault::Zero,
        TrapCode::InvalidConversionToInteger => Fault::Conversion,
        TrapCode::Unreachable => Fault::Unreachable,
        TrapCode::ArrayOutOfBounds => Fault::Array,
        TrapCode::CastFailure => Fault::Cast,
        TrapCode::UnalignedAtomic => Fault::Unaligned,
        TrapCode::ExpectedSharedMemory => Fault::NotShared,
        other => return Err(format!("no guest of these traps with {other}")),
    }))
}

fn val(value: Value) -> Val {
    match value {
        Value::I32(value) => Val::I32(value.cast_unsigned()),
        Value::I64(value) => Val::I64(value.cast_unsigned()),
        Value::F32(bits) => Val::F32(bits),
        Value::F64(bits) => Val::F64(bits),
        Value::V128(bits) => Val::V128(bits),
        Value::FuncRef(reference) => Val::Func(reference.is_some()),
        Value::ExternRef(None) => Val::Extern(Ref::Null),
        Value::ExternRef(Some(reference)) => Val::Extern(match reference.any() {
            Some(any) => kind(any),
            None => Ref::Host(reference.get().get() as u32),
        }),
        Value::ExnRef(reference) => Val::Exn(reference.is_some()),
        Value::AnyRef(reference) => Val::Any(reference.map_or(Ref::Null, kind)),
    }
}

fn kind(any: AnyRef) -> Ref {
    match any.kind() {
        AnyKind::I31(number) => Ref::I31(number),
        AnyKind::Struct => Ref::Struct,
        AnyKind::Array => Ref::Array,
        AnyKind::Host(Some(reference)) => Ref::Host(reference.get().get() as u32),
        other => unreachable!("no reference of the host is {other:?}"),
    }
}

fn value(val: Val) -> Value {
    match val {
        Val::I32(bits) => Value::I32(bits.cast_signed()),
        Val::I64(bits) => Value::I64(bits.cast_signed()),
        Val::F32(bits) => Value::F32(bits),
        Val::F64(bits) => Value::F64(bits),
        Val::V128(bits) => Value::V128(bits),
        Val::Func(_) => Value::FuncRef(None),
        Val::Exn(_) => Value::ExnRef(None),
        Val::Extern(Ref::Null) => Value::ExternRef(None),
        Val::Extern(Ref::Host(number)) => Value::ExternRef(Some(host(number))),
        Val::Any(Ref::Null) => Value::AnyRef(None),
        Val::Any(Ref::Host(number)) => Value::AnyRef(AnyRef::host(host(number))),
        Val::Any(Ref::I31(number)) => Value::AnyRef(Some(AnyRef::i31(number))),
        other => unreachable!("no host makes {other:?}"),
    }
}

fn host(number: u32) -> ExternRef {
    ExternRef::new(NonZeroU64::new(number.into()).expect("numbers begin with 1"))
}
