//! Components under Wasmtime.

use crate::Wasmtime;
use pirn_component::{Resource, Value};
use pirn_fuzz_checks::component::{Call, End, Engine, Fault, Plan, Seen};
use wasmtime::component::{
    Component, Instance, Linker, Resource as Handle, ResourceAny, ResourceType, Val,
};
use wasmtime::{AsContextMut, Error, Result, Store, StoreContextMut, Trap};

/// The current call, and what the host has seen of it.
#[derive(Default)]
struct Host {
    call: Option<Call>,
    seen: Seen,
}

/// The resource type of the host.
struct Thing;

impl Engine for Wasmtime {
    fn name(&self) -> &'static str {
        "Wasmtime"
    }

    fn run(&self, plan: &Plan) -> Result<Vec<(End, Seen)>, String> {
        let text = |error: Error| format!("{error:#}");
        let component = Component::new(&self.engine, &plan.wasm).map_err(text)?;
        let linker = linker(&self.engine).map_err(text)?;
        let before = linker.instantiate_pre(&component).map_err(text)?;
        let mut ends = vec![];
        let mut kept: Option<(Store<Host>, Instance)> = None;
        for call in &plan.calls {
            let (mut store, instance) = match kept.take().filter(|_| !call.fresh) {
                Some(kept) => kept,
                None => {
                    let mut store = Store::new(&self.engine, Host::default());
                    let instance = before.instantiate(&mut store).map_err(text)?;
                    (store, instance)
                }
            };
            store.data_mut().call = Some(call.clone());
            for name in &plan.setups {
                let setup = instance
                    .get_func(&mut store, name)
                    .ok_or("no such function")?;
                setup.call(&mut store, &[], &mut []).map_err(text)?;
            }
            let func = instance
                .get_func(&mut store, "f")
                .ok_or("no such function")?;
            let params = call.params.iter();
            let params = params.map(|param| val(&mut store.as_context_mut(), param));
            let params = params.collect::<Result<Vec<_>>>().map_err(text)?;
            let mut results = [Val::Bool(false)];
            let end = match func.call(&mut store, &params, &mut results) {
                Ok(()) => {
                    let [result] = &results;
                    End::Returned(value(&mut store.as_context_mut(), result).map_err(text)?)
                }
                Err(error) => End::Failed(fault(&error)?),
            };
            let seen = std::mem::take(&mut store.data_mut().seen);
            if matches!(end, End::Returned(_)) {
                kept = Some((store, instance));
            }
            ends.push((end, seen));
        }
        Ok(ends)
    }
}

fn linker(engine: &wasmtime::Engine) -> Result<Linker<Host>> {
    let mut linker = Linker::<Host>::new(engine);
    let mut root = linker.root();
    root.func_wrap(
        "script",
        |store: StoreContextMut<'_, Host>, (at,): (u32,)| {
            Ok((store.data().call.as_ref().map_or(0, |call| call.word(at)),))
        },
    )?;
    root.func_wrap(
        "note",
        |mut store: StoreContextMut<'_, Host>, (key, word): (u32, u64)| {
            store.data_mut().seen.notes.push((key, word));
            Ok(())
        },
    )?;
    root.func_wrap("make", |_: StoreContextMut<'_, Host>, (rep,): (u32,)| {
        Ok((Handle::<Thing>::new_own(rep),))
    })?;
    root.func_new("h", |mut store, _, params, results| {
        for param in params {
            let given = value(&mut store, param)?;
            store.data_mut().seen.given.push(given);
        }
        let answer = store.data().call.as_ref().map(|call| call.answer.clone());
        if let (Some(answer), [result]) = (answer, results) {
            *result = val(&mut store, &answer)?;
        }
        Ok(())
    })?;
    root.resource("r", ResourceType::host::<Thing>(), |mut store, rep| {
        store.data_mut().seen.dropped.push(rep);
        Ok(())
    })?;
    Ok(linker)
}

fn fault(error: &Error) -> Result<Fault, String> {
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Ok(match trap {
            Trap::UnreachableCodeReached => Fault::Unreachable,
            Trap::MemoryOutOfBounds | Trap::StringOutOfBounds | Trap::ListOutOfBounds => {
                Fault::Bounds
            }
            Trap::UnalignedPointer => Fault::Unaligned,
            Trap::InvalidChar => Fault::Char,
            Trap::InvalidDiscriminant => Fault::Discriminant,
            Trap::CannotLeaveComponent => Fault::Leave,
            _ => return Err(format!("{error:#}")),
        });
    }
    let text = format!("{error:#}");
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    Ok(match () {
        () if says(&["not aligned"]) => Fault::Unaligned,
        () if says(&["out of bounds", "beyond end of memory", "size overflow"]) => Fault::Bounds,
        () if says(&["utf-8", "utf-16", "utf8", "utf16", "surrogate"]) => Fault::Text,
        () if says(&["char"]) => Fault::Char,
        () if says(&["discriminant"]) => Fault::Discriminant,
        () if says(&["borrow handles still remain"]) => Fault::Borrows,
        () if says(&[
            "unknown handle index",
            "own resource",
            "not a resource",
            "while borrowed",
            "handle index",
        ]) =>
        {
            Fault::Handle
        }
        () if says(&["fuel"]) => Fault::Exhausted,
        () => return Err(format!("a failure without a class: {text}")),
    })
}

/// Converts a value to Wasmtime's type.
fn val(store: &mut StoreContextMut<'_, Host>, value: &Value) -> Result<Val> {
    let mut all = |values: &[Value]| {
        let values = values.iter().map(|value| val(store, value));
        values.collect::<Result<Vec<_>>>()
    };
    let payload = |store: &mut StoreContextMut<'_, Host>, payload: &Option<Box<Value>>| {
        let payload = payload.as_deref();
        let payload = payload.map(|value| val(store, value).map(Box::new));
        payload.transpose()
    };
    Ok(match value {
        Value::Bool(value) => Val::Bool(*value),
        Value::S8(value) => Val::S8(*value),
        Value::U8(value) => Val::U8(*value),
        Value::S16(value) => Val::S16(*value),
        Value::U16(value) => Val::U16(*value),
        Value::S32(value) => Val::S32(*value),
        Value::U32(value) => Val::U32(*value),
        Value::S64(value) => Val::S64(*value),
        Value::U64(value) => Val::U64(*value),
        Value::F32(value) => Val::Float32(*value),
        Value::F64(value) => Val::Float64(*value),
        Value::Char(value) => Val::Char(*value),
        Value::String(value) => Val::String(value.clone()),
        Value::List(values) => Val::List(all(values)?),
        Value::Tuple(values) => Val::Tuple(all(values)?),
        Value::Record(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| Ok((name.clone(), val(store, value)?)));
            Val::Record(fields.collect::<Result<_>>()?)
        }
        Value::Variant(name, value) => Val::Variant(name.clone(), payload(store, value)?),
        Value::Enum(name) => Val::Enum(name.clone()),
        Value::Option(value) => Val::Option(payload(store, value)?),
        Value::Result(Ok(value)) => Val::Result(Ok(payload(store, value)?)),
        Value::Result(Err(value)) => Val::Result(Err(payload(store, value)?)),
        Value::Flags(names) => Val::Flags(names.clone()),
        // For a borrowed parameter, Wasmtime lends the owned handle. The host cannot make a
        // borrowed handle outside of a call.
        Value::Own(resource) | Value::Borrow(resource) => {
            let handle = Handle::<Thing>::new_own(resource.rep());
            Val::Resource(ResourceAny::try_from_resource(handle, store)?)
        }
    })
}

/// Converts a value from Wasmtime's type.
fn value(store: &mut StoreContextMut<'_, Host>, from: &Val) -> Result<Value> {
    let mut all = |values: &[Val]| {
        let values = values.iter().map(|from| value(store, from));
        values.collect::<Result<Vec<_>>>()
    };
    let payload = |store: &mut StoreContextMut<'_, Host>, payload: &Option<Box<Val>>| {
        let payload = payload.as_deref();
        let payload = payload.map(|from| value(store, from).map(Box::new));
        payload.transpose()
    };
    Ok(match from {
        Val::Bool(value) => Value::Bool(*value),
        Val::S8(value) => Value::S8(*value),
        Val::U8(value) => Value::U8(*value),
        Val::S16(value) => Value::S16(*value),
        Val::U16(value) => Value::U16(*value),
        Val::S32(value) => Value::S32(*value),
        Val::U32(value) => Value::U32(*value),
        Val::S64(value) => Value::S64(*value),
        Val::U64(value) => Value::U64(*value),
        Val::Float32(value) => Value::F32(*value),
        Val::Float64(value) => Value::F64(*value),
        Val::Char(value) => Value::Char(*value),
        Val::String(value) => Value::String(value.clone()),
        Val::List(values) => Value::List(all(values)?),
        Val::Tuple(values) => Value::Tuple(all(values)?),
        Val::Record(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, from)| Ok((name.clone(), value(store, from)?)));
            Value::Record(fields.collect::<Result<_>>()?)
        }
        Val::Variant(name, from) => Value::Variant(name.clone(), payload(store, from)?),
        Val::Enum(name) => Value::Enum(name.clone()),
        Val::Option(from) => Value::Option(payload(store, from)?),
        Val::Result(Ok(from)) => Value::Result(Ok(payload(store, from)?)),
        Val::Result(Err(from)) => Value::Result(Err(payload(store, from)?)),
        Val::Flags(names) => Value::Flags(names.clone()),
        Val::Resource(any) => {
            let owned = any.owned();
            let handle = any.try_into_resource::<Thing>(store)?;
            let resource = Resource::host(handle.rep());
            match owned {
                true => Value::Own(resource),
                false => Value::Borrow(resource),
            }
        }
        other => return Err(Error::msg(format!("no type has the value {other:?}"))),
    })
}
