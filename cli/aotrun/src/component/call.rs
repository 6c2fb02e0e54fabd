//! [`Call`]: the function of a component that a run calls.

use super::wave::Types;
use crate::args::Args;
use crate::given::utf_8;
use crate::outcome::Outcome;
use anyhow::{Context, Result, bail};
use pirn_cli::text::plain;
use pirn_component::{Component, Func, Instance, Limits, Prepared, TypedFunc, Value};
use pirn_wasi2::http::HANDLE;
use pirn_wasi2::{RUN, Wasi};

/// The function to call. `new` checks the function and its arguments before the guest runs.
pub(super) enum Call {
    /// `wasi:cli/run`.
    Run(TypedFunc<(), Result<(), ()>>),
    /// Another function, by values.
    Values {
        func: Func,
        params: Vec<Value>,
        types: Types,
    },
}

impl Call {
    pub(super) fn new(
        args: &Args,
        component: &Component,
        prepared: &Prepared<Wasi>,
    ) -> Result<Self> {
        let program = args.program.display();
        let Some(name) = &args.invoke else {
            if prepared.func(RUN).is_ok() {
                let run = prepared.typed(RUN);
                return Ok(Self::Run(run.with_context(|| program.to_string())?));
            }
            if prepared.func(HANDLE).is_ok() {
                bail!(
                    "{program} answers HTTP requests (wasi:http/incoming-handler), and is no \
                     command; serve it with pirn-serve"
                );
            }
            let names = names(component);
            bail!(
                "{program} exports no wasi:cli/run, it has {names}; name a function with --invoke"
            );
        };
        let found = find(component, name);
        let Some(func) = found.and_then(|name| prepared.func(&name).ok()) else {
            let names = names(component);
            bail!("{program} exports no function {name:?}, it has {names}; name one of them");
        };
        let types = Types::of(component);
        types.check(name, func.ty())?;
        let (wanted, found) = (func.ty().params.len(), args.args.len());
        if wanted != found {
            let ty = component.describe(func.ty());
            bail!(
                "function {name:?} of type {ty} takes {wanted} arguments, {found} were given; \
                 give one for each parameter"
            );
        }
        let params = func.ty().params.iter().zip(&args.args);
        let params = params.map(|((name, ty), text)| types.parse(name, *ty, utf_8(text)?));
        let params = params.collect::<Result<_>>()?;
        Ok(Self::Values {
            func,
            params,
            types,
        })
    }

    /// Calls the function, and returns its result in text form.
    pub(super) async fn run(
        &self,
        instance: &mut Instance<Wasi>,
        limits: Limits,
    ) -> Result<Option<String>, Outcome> {
        match self {
            Self::Run(run) => match instance.call_typed_async(limits, run, ()).await? {
                Ok(()) => Ok(None),
                Err(()) => Err(Outcome::Exited(1)),
            },
            Self::Values {
                func,
                params,
                types,
            } => {
                let result = instance.call_async_within(limits, func, params).await?;
                let (Some(result), Some(ty)) = (result, func.ty().result) else {
                    return Ok(None);
                };
                Ok(Some(types.print(ty, &result)?))
            }
        }
    }
}

/// The whole name of an exported function: `name` itself, or the only function of an interface with
/// the name `name`.
fn find(component: &Component, name: &str) -> Option<String> {
    let exact = component.exports().any(|(found, _)| found == name);
    if exact || name.contains('#') {
        return Some(name.to_owned());
    }
    let all = component.exports().map(|(name, _)| name);
    let mut of_interfaces =
        all.filter(|found| found.rsplit_once('#').is_some_and(|(_, last)| last == name));
    match (of_interfaces.next(), of_interfaces.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

/// The names of the exported functions, for messages.
fn names(component: &Component) -> String {
    const LISTED_MAX: usize = 16;
    let mut all: Vec<String> = component
        .exports()
        .map(|(name, _)| plain(&name).to_string())
        .take(LISTED_MAX + 1)
        .collect();
    if all.len() > LISTED_MAX {
        all[LISTED_MAX] = "...".to_owned();
    }
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}
