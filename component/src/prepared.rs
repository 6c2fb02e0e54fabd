//! [`Prepared`]: a component whose imports are looked up, and its functions.

use crate::component::{Component, Info};
use crate::error::LinkError;
use crate::func::{
    Func, FuncInner, Shared, TypedFunc, needs_no_memory, params_in_memory, result_in_memory,
};
use crate::host_bytes::{Account, AccountOf};
use crate::instance::Instance;
use crate::names::is_compatible;
use crate::state::State;
use crate::typed::{CallParams, Typed};
use pirn_format::component::{destructor_name, post_return_name, realloc_name};
use pirn_format::text;
use pirn_runtime::{FuelError, InstantiateError, Measure, Region};
use std::any::type_name;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A component whose imports are looked up, ready for instances in a region. A clone is a handle to
/// the same preparation.
pub struct Prepared<T>(Arc<Inner<T>>);

struct Inner<T> {
    core: pirn_runtime::Prepared<State<T>>,
    info: Arc<Info>,
    funcs: Vec<Func>,
    shared: Arc<Shared>,
    host_bytes_max: usize,
    account: Option<AccountOf<T>>,
}

impl<T> Clone for Prepared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: 'static> Prepared<T> {
    pub(crate) fn new(
        region: &Region,
        component: &Component,
        linker: &pirn_runtime::Linker<State<T>>,
        host_bytes_max: usize,
        account: Option<AccountOf<T>>,
    ) -> Result<Self, LinkError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let prepared = NEXT.fetch_add(1, Ordering::Relaxed);
        let core = region.prepare(component.module(), linker)?;
        let info = component.info();
        let all = &info.component;
        let mut funcs = vec![];
        for export in &all.exports {
            let options = all.options[export.options as usize];
            let named = |name: Option<String>| name.map(|name| core.func_flat(&name)).transpose();
            let realloc = options.realloc.map(realloc_name);
            let realloc = realloc.map(|name| core.func(&name)).transpose()?;
            funcs.push(Func(Arc::new(FuncInner {
                info: Arc::clone(info),
                name: export.path.join("#"),
                ty: export.ty,
                options,
                core: core.func_flat(&export.core)?,
                realloc,
                post_return: named(options.post_return.map(post_return_name))?,
                memory: info.memory_export(export.options).map(str::to_owned),
                prepared,
                params_in_memory: params_in_memory(info, export.ty),
                result_in_memory: result_in_memory(info, export.ty),
                lends: !all.tables.is_empty(),
                needs_no_memory: options.post_return.is_none() && needs_no_memory(info, export.ty),
            })));
        }
        let resources = (0..).zip(&all.resources);
        let destructors = resources.map(|(number, resource)| {
            let name = resource.has_destructor.then(|| destructor_name(number));
            name.map(|name| core.func_flat(&name)).transpose()
        });
        let destructors = destructors.collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner {
            core,
            info: Arc::clone(info),
            funcs,
            shared: Arc::new(Shared {
                destructors,
                prepared,
            }),
            host_bytes_max,
            account,
        })))
    }

    /// The exported function with a name, such as `add`, or
    /// `wasi:cli/run@0.2.0#run` for a function of an interface. If the component exports a
    /// compatible version of the interface instead, the function of that version.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function.
    pub fn func(&self, name: &str) -> Result<Func, LinkError> {
        let mut funcs = self.0.funcs.iter();
        let found = funcs.find(|func| func.0.name == name);
        let found = found.or_else(|| self.0.funcs.iter().find(|func| is_same(&func.0.name, name)));
        found.cloned().ok_or_else(|| {
            const LISTED_MAX: usize = 8;
            let names = self.0.funcs.iter().take(LISTED_MAX);
            let mut names: Vec<&str> = names.map(|func| func.0.name.as_str()).collect();
            if self.0.funcs.len() > LISTED_MAX {
                names.push("...");
            }
            if names.is_empty() {
                names.push("nothing");
            }
            LinkError::NoExport {
                wanted: name.to_owned(),
                found: text::plain(&names.join(", ")).to_string(),
            }
        })
    }

    /// The exported function with a name and these types.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoExport`] if there is no such function; [`LinkError::FuncType`] if the
    /// function has other types.
    pub fn typed<P: CallParams, R: Typed>(&self, name: &str) -> Result<TypedFunc<P, R>, LinkError> {
        let func = self.func(name)?;
        let (info, ty) = (&self.0.info, func.ty());
        if P::are(info, &ty.params) && R::is_optional(info, ty.result) {
            return Ok(TypedFunc::new(func));
        }
        Err(LinkError::FuncType {
            name: name.to_owned(),
            found: info.component.describe_func_shortly(ty),
            wanted: format!("{} -> {}", type_name::<P>(), type_name::<R>()),
        })
    }

    /// A new instance. If all slots are taken, the thread waits for a free slot.
    ///
    /// # Errors
    ///
    /// [`InstantiateError`] if the start failed.
    pub fn instantiate(&self, data: T) -> Result<Instance<T>, InstantiateError> {
        let core = self.0.core.instantiate(self.state(data))?;
        Ok(Instance::new(core, Arc::clone(&self.0.shared)))
    }

    /// [`instantiate`](Self::instantiate) without waiting.
    ///
    /// # Errors
    ///
    /// [`InstantiateError::Full`] if all slots are taken, and as
    /// [`instantiate`](Self::instantiate).
    pub fn try_instantiate(&self, data: T) -> Result<Instance<T>, InstantiateError> {
        let core = self.0.core.try_instantiate(self.state(data))?;
        Ok(Instance::new(core, Arc::clone(&self.0.shared)))
    }

    /// As [`instantiate`](Self::instantiate), but waits at most `timeout` for a free slot.
    ///
    /// # Errors
    ///
    /// [`InstantiateError::Timeout`] if no slot became free, and as
    /// [`instantiate`](Self::instantiate).
    pub fn instantiate_timeout(
        &self,
        data: T,
        timeout: Duration,
    ) -> Result<Instance<T>, InstantiateError> {
        let core = self.0.core.instantiate_timeout(self.state(data), timeout)?;
        Ok(Instance::new(core, Arc::clone(&self.0.shared)))
    }

    fn state(&self, mut data: T) -> State<T> {
        let made = self.0.account.map(|of| of(&mut data).clone());
        let account = Account::new(made, self.0.host_bytes_max);
        State::new(data, &self.0.info, account)
    }

    /// [`instantiate`](Self::instantiate) as a future. If all slots are taken, the future waits for
    /// a free slot, in the order of the calls. The start of the instance runs in one poll.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate).
    pub async fn instantiate_async(&self, data: T) -> Result<Instance<T>, InstantiateError> {
        let core = self.0.core.instantiate_async(self.state(data)).await?;
        Ok(Instance::new(core, Arc::clone(&self.0.shared)))
    }

    /// A copy of this preparation with a time limit for the start of an instance, see
    /// [`Prepared::start_deadline`](pirn_runtime::Prepared::start_deadline).
    #[must_use]
    pub fn start_deadline(&self, limit: Duration) -> Self {
        self.with_core(self.0.core.start_deadline(limit))
    }

    /// A copy of this preparation whose instances measure their use of resources, see
    /// [`Prepared::measured`](pirn_runtime::Prepared::measured).
    #[must_use]
    pub fn measured(&self, measure: Measure) -> Self {
        self.with_core(self.0.core.measured(measure))
    }

    /// A copy of this preparation whose instances begin with `fuel` units of fuel, see
    /// [`Prepared::start_fuel`](pirn_runtime::Prepared::start_fuel).
    ///
    /// # Errors
    ///
    /// [`FuelError::NotCounted`] if the component was compiled without `aotc --fuel`.
    pub fn start_fuel(&self, fuel: u64) -> Result<Self, FuelError> {
        Ok(self.with_core(self.0.core.start_fuel(fuel)?))
    }

    /// A copy with another preparation of the same core module.
    fn with_core(&self, core: pirn_runtime::Prepared<State<T>>) -> Self {
        Self(Arc::new(Inner {
            core,
            info: Arc::clone(&self.0.info),
            funcs: self.0.funcs.clone(),
            shared: Arc::clone(&self.0.shared),
            host_bytes_max: self.0.host_bytes_max,
            account: self.0.account,
        }))
    }

    /// The preparation of the core module.
    #[must_use]
    pub fn core(&self) -> &pirn_runtime::Prepared<State<T>> {
        &self.0.core
    }
}

/// Whether `found` and `wanted` name the same function, in compatible versions of one interface.
fn is_same(found: &str, wanted: &str) -> bool {
    match (found.rsplit_once('#'), wanted.rsplit_once('#')) {
        (Some((one, found)), Some((other, wanted))) => found == wanted && is_compatible(one, other),
        _ => false,
    }
}
