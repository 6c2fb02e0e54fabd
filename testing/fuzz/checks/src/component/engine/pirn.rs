//! Components under pirn.

use super::{Call, End, Engine, Fault, Plan, Seen};
use pirn_compiler::{OptLevel, Options};
use pirn_component::{AbiError, CallError, Component, Instance, Linker, Resource, State, Value};
use pirn_format::component::broken_rule;
use pirn_runtime::{Module, Region, TrapCode};

/// pirn, at one optimisation level.
#[derive(Debug, Clone, Copy)]
pub struct Pirn {
    /// The level.
    pub level: OptLevel,
}

/// The current call, and what the host has seen of it.
#[derive(Debug, Default)]
struct Host {
    call: Option<Call>,
    seen: Seen,
}

impl Engine for Pirn {
    fn name(&self) -> &'static str {
        "pirn"
    }

    fn run(&self, plan: &Plan) -> Result<Vec<(End, Seen)>, String> {
        let mut options = Options::default();
        options.opt_level = self.level;
        let so = pirn_compiler::compile(&plan.wasm, &options).map_err(text)?;
        let component = Component::new(&Module::from_bytes(&so).map_err(text)?).map_err(text)?;
        let linker = linker().map_err(text)?;
        let region = Region::builder().slots(1).memories(2).build();
        let region = region.map_err(text)?;
        let prepared = linker.prepare(&region, &component).map_err(text)?;
        let func = |name| prepared.func(name).map_err(text);
        let f = func("f")?;
        let setups = plan.setups.iter().map(|name| func(name));
        let setups = setups.collect::<Result<Vec<_>, _>>()?;
        let mut ends = vec![];
        let mut instance: Option<Instance<Host>> = None;
        for call in &plan.calls {
            let mut called = match instance.take().filter(|_| !call.fresh) {
                Some(kept) => kept,
                None => prepared.instantiate(Host::default()).map_err(text)?,
            };
            called.data_mut().call = Some(call.clone());
            for setup in &setups {
                called.call(setup, &[]).map_err(text)?;
            }
            let end = match called.call(&f, &call.params) {
                Ok(Some(value)) => End::Returned(value),
                Ok(None) => return Err("no result".to_owned()),
                Err(error) => End::Failed(fault(&error)?),
            };
            let seen = std::mem::take(&mut called.data_mut().seen);
            if matches!(end, End::Returned(_)) {
                instance = Some(called);
            }
            ends.push((end, seen));
        }
        drop(instance);
        match region.slots_free() {
            1 => Ok(ends),
            _ => Err("a slot is lost".to_owned()),
        }
    }
}

/// Any error of pirn.
type Error = Box<dyn std::error::Error>;

fn text<E: Into<Error>>(error: E) -> String {
    error.into().to_string()
}

fn linker() -> Result<Linker<Host>, pirn_component::LinkError> {
    let mut linker = Linker::<Host>::new();
    linker.func("", "script", |state: &mut State<Host>, (at,): (u32,)| {
        Ok(state.data().call.as_ref().map_or(0, |call| call.word(at)))
    })?;
    linker.func(
        "",
        "note",
        |state: &mut State<Host>, (key, word): (u32, u64)| {
            state.data_mut().seen.notes.push((key, word));
            Ok(())
        },
    )?;
    linker.func_values("", "make", |_: &mut State<Host>, params: Vec<Value>| {
        let rep = match params.first() {
            Some(Value::U32(rep)) => *rep,
            _ => 0,
        };
        Ok(Some(Value::Own(Resource::host(rep))))
    })?;
    linker.func_values("", "h", |state: &mut State<Host>, params: Vec<Value>| {
        let host = state.data_mut();
        host.seen.given.extend(params);
        Ok(host.call.as_ref().map(|call| call.answer.clone()))
    })?;
    let dropped = |state: &mut State<Host>, resource: Resource| {
        state.data_mut().seen.dropped.push(resource.rep());
        Ok(())
    };
    linker.resource("", "r", dropped)?;
    Ok(linker)
}

fn fault(error: &CallError) -> Result<Fault, String> {
    Ok(match error {
        CallError::Abi(error) => match error {
            AbiError::OutOfBounds { .. } => Fault::Bounds,
            AbiError::Unaligned { .. } => Fault::Unaligned,
            AbiError::String { .. } => Fault::Text,
            AbiError::Char(_) => Fault::Char,
            AbiError::Discriminant { .. } => Fault::Discriminant,
            AbiError::NoHandle(_)
            | AbiError::HandleType(_)
            | AbiError::NotOwned(_)
            | AbiError::Lent(_) => Fault::Handle,
            AbiError::BorrowsLeft(_) => Fault::Borrows,
            AbiError::CannotLeave => Fault::Leave,
            AbiError::HostBytes { .. } => Fault::Exhausted,
            AbiError::Between(rule) => {
                let is = |number| *rule == broken_rule(number);
                match () {
                    () if is(1) || is(30) || is(31) => Fault::Bounds,
                    () if is(23) => Fault::Leave,
                    () if is(25) => Fault::Char,
                    () if is(32) => Fault::Discriminant,
                    () if is(33) => Fault::Unaligned,
                    () => return Err(error.to_string()),
                }
            }
            _ => return Err(error.to_string()),
        },
        CallError::Core(pirn_runtime::CallError::Trap(trap))
            if trap.code() == TrapCode::Unreachable =>
        {
            Fault::Unreachable
        }
        _ => return Err(error.to_string()),
    })
}
