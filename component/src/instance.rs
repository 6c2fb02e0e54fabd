//! [`Instance`]: an instance of a component, and calls of its functions (`canon lift`).

use crate::error::{AbiError, AbiResult, CallError};
use crate::func::{Func, Realloc, Shared, TypedFunc};
use crate::host_bytes::HostBytes;
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Requests, Words};
use crate::state::State;
use crate::stop::{Progress, Stop};
use crate::typed::{CallParams, List as _, OwnedType, Typed};
use crate::value::{Resource, Value};
use pirn_format::component::ValueType;
use pirn_runtime::{
    FlatParams, FlatResult, Interruption, KillSwitch, MemoryMut, Params, Results, Usage,
};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An instance of a component, in its own slot. A drop of the instance resets the slot.
pub struct Instance<T> {
    core: pirn_runtime::Instance<State<T>>,
    shared: Arc<Shared>,
    /// Whether a call has failed. The state of the guest is then unknown (CanonicalABI, "traps").
    failed: bool,
}

/// Limits of a call. They cover all guest code that the call runs: the allocator, the function
/// itself, and its `post-return` function.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Wall time.
    pub deadline: Option<Duration>,
    /// The time after which the guest lets other tasks of the executor run. Only for asynchronous
    /// calls such as [`Instance::call_async_within`].
    pub timeslice: Option<Duration>,
}

/// The parameters of a call, and the type of its result.
trait Call {
    type Output;

    /// Lists the memory that the parameters need, and checks their types.
    fn request(&self, func: &Func, cx: &mut Collect<'_>) -> Result<(), CallError>;

    /// Writes the parameters as core values.
    fn lower(&self, func: &Func, cx: &mut Lower<'_>, to: &mut Words) -> AbiResult;

    /// Writes the parameters to memory at an address.
    fn store(&self, func: &Func, cx: &mut Lower<'_>, at: u32) -> AbiResult;

    /// Reads the result from a core value, or from memory.
    fn lift(func: &Func, cx: &mut Lift<'_>, word: u64) -> AbiResult<Self::Output>;
}

/// Parameters as values.
struct Untyped<'a>(&'a [Value]);

impl Call for Untyped<'_> {
    type Output = Option<Value>;

    fn request(&self, func: &Func, cx: &mut Collect<'_>) -> Result<(), CallError> {
        let types = &func.ty().params;
        if types.len() != self.0.len() {
            return Err(CallError::Parameters {
                func: func.0.name.clone(),
                wanted: types.len(),
                found: self.0.len(),
            });
        }
        Ok(self.0.request(cx, types)?)
    }

    fn lower(&self, func: &Func, cx: &mut Lower<'_>, to: &mut Words) -> AbiResult {
        self.0.lower(cx, &func.ty().params, to)
    }

    fn store(&self, func: &Func, cx: &mut Lower<'_>, at: u32) -> AbiResult {
        self.0.store(cx, &func.ty().params, at)
    }

    fn lift(func: &Func, cx: &mut Lift<'_>, word: u64) -> AbiResult<Option<Value>> {
        let Some(ty) = func.ty().result else {
            return Ok(None);
        };
        cx.spend(size_of::<Value>())?;
        result(func, cx, ty, word).map(Some)
    }
}

/// Parameters of Rust types.
struct OfTypes<P, R>(P, PhantomData<fn() -> R>);

impl<P: CallParams, R: Typed> Call for OfTypes<P, R> {
    type Output = R;

    #[inline]
    fn request(&self, func: &Func, cx: &mut Collect<'_>) -> Result<(), CallError> {
        Ok(self.0.request(cx, &func.ty().params)?)
    }

    #[inline]
    fn lower(&self, func: &Func, cx: &mut Lower<'_>, to: &mut Words) -> AbiResult {
        self.0.lower(cx, &func.ty().params, to)
    }

    #[inline]
    fn store(&self, func: &Func, cx: &mut Lower<'_>, at: u32) -> AbiResult {
        self.0.store(cx, &func.ty().params, at)
    }

    #[inline]
    fn lift(func: &Func, cx: &mut Lift<'_>, word: u64) -> AbiResult<R> {
        // A function without a result has the type `()`, which reads nothing.
        let ty = func.ty().result.unwrap_or(ValueType::Bool);
        result(func, cx, ty, word)
    }
}

/// Reads the result of a function from the core value that it returned, or from memory.
#[inline]
fn result<R: OwnedType>(func: &Func, cx: &mut Lift<'_>, ty: ValueType, word: u64) -> AbiResult<R> {
    match func.0.result_in_memory {
        true => {
            cx.check_result(ty, word as u32)?;
            R::load(cx, ty, word as u32)
        }
        false => R::lift(cx, ty, &mut Flat::new(&[word])),
    }
}

/// The steps of a call: lower the parameters, call the function, lift the result. `$enter` calls a
/// function of the core module, at once or as a future.
macro_rules! run {
    (
        $self:ident, $limits:ident, $func:ident, $call:ident,
        |$until:ident, $core:ident, $params:ident| $enter:expr
    ) => {{
        let mut requests = Requests::default();
        $self.begin($func, $call, &mut requests)?;
        // A call that fails, or whose future is dropped, leaves the instance failed.
        $self.failed = true;
        let mut until = $limits.deadline.and_then(Until::new);
        while let Some((realloc, params)) = next_allocation($func, &requests) {
            let ($until, $core, $params) = (&mut until, &realloc, params);
            let address = $enter;
            requests.give(address, $self.memory_bytes($func))?;
        }
        let mut words = Words::new();
        lower(&mut $self.core, $func, $call, requests.given(), &mut words)?;
        let ($until, $core, $params) = (&mut until, &$func.0.core, words.0);
        let FlatResult(word) = $enter;
        let value = $self.lift::<C>($func, word, until.as_ref())?;
        if let Some(post_return) = $func.0.post_return {
            let ($until, $core, $params) = (&mut until, &post_return, flat(&[word]));
            $enter;
        }
        $self.failed = false;
        Ok(value)
    }};
}

impl<T: 'static> Instance<T> {
    pub(crate) fn new(core: pirn_runtime::Instance<State<T>>, shared: Arc<Shared>) -> Self {
        Self {
            core,
            shared,
            failed: false,
        }
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// [`CallError::Value`] and [`CallError::Parameters`] if the values do not fit the function,
    /// [`CallError::OtherPreparation`] for a function of another preparation. After any other
    /// error, the instance cannot be called again.
    pub fn call(&mut self, func: &Func, params: &[Value]) -> Result<Option<Value>, CallError> {
        self.call_within(Limits::default(), func, params)
    }

    /// [`call`](Self::call) within limits.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and [`CallError::Core`] if a limit was reached.
    pub fn call_within(
        &mut self,
        limits: Limits,
        func: &Func,
        params: &[Value],
    ) -> Result<Option<Value>, CallError> {
        self.run(limits, func, &Untyped(params))
    }

    /// Calls a function with Rust types.
    ///
    /// A call that ends with [`CallError::Value`] gives no resource away, but it drops the handles
    /// among its parameters. Pass references to keep them.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_typed<P: CallParams, R: Typed>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.run(Limits::default(), &func.func, &OfTypes(params, PhantomData))
    }

    /// [`call_typed`](Self::call_typed) within limits.
    ///
    /// # Errors
    ///
    /// As [`call_within`](Self::call_within).
    pub fn call_typed_within<P: CallParams, R: Typed>(
        &mut self,
        limits: Limits,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.run(limits, &func.func, &OfTypes(params, PhantomData))
    }

    #[inline]
    fn run<C: Call>(
        &mut self,
        limits: Limits,
        func: &Func,
        call: &C,
    ) -> Result<C::Output, CallError> {
        run!(self, limits, func, call, |until, core, params| {
            self.enter(until, core, params)?
        })
    }

    /// Calls a function of the core module.
    #[inline]
    fn enter<P: Params, R: Results>(
        &mut self,
        until: &mut Option<Until>,
        func: &pirn_runtime::TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let called = match until {
            None => self.core.call(func, params),
            Some(until) => self.core.deadline(until.left()).call(func, params),
        };
        Ok(called?)
    }

    /// Calls a function as a future, on any executor. Asynchronous functions of the host suspend
    /// the guest. Dropping the future cancels the call, and the instance cannot be called again.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn call_async(
        &mut self,
        func: &Func,
        params: &[Value],
    ) -> Result<Option<Value>, CallError> {
        self.call_async_within(Limits::default(), func, params)
            .await
    }

    /// [`call_async`](Self::call_async) within limits.
    ///
    /// # Errors
    ///
    /// As [`call_within`](Self::call_within).
    pub async fn call_async_within(
        &mut self,
        limits: Limits,
        func: &Func,
        params: &[Value],
    ) -> Result<Option<Value>, CallError> {
        self.run_async(limits, func, &Untyped(params)).await
    }

    /// [`call_async_within`](Self::call_async_within) with Rust types.
    ///
    /// # Errors
    ///
    /// As [`call_within`](Self::call_within).
    pub async fn call_typed_async<P: CallParams + Sync, R: Typed>(
        &mut self,
        limits: Limits,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let call = OfTypes(params, PhantomData);
        self.run_async(limits, &func.func, &call).await
    }

    async fn run_async<C: Call>(
        &mut self,
        limits: Limits,
        func: &Func,
        call: &C,
    ) -> Result<C::Output, CallError> {
        let slice = limits.timeslice;
        run!(self, limits, func, call, |until, core, params| {
            self.enter_async(until, slice, core, params).await?
        })
    }

    /// Calls a function of the core module as a future.
    async fn enter_async<P: Params, R: Results>(
        &mut self,
        until: &mut Option<Until>,
        slice: Option<Duration>,
        func: &pirn_runtime::TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let called = match (until.as_mut().map(Until::left), slice) {
            (None, None) => self.core.call_async(func, params),
            (Some(left), None) => self.core.deadline(left).call_async(func, params),
            (None, Some(slice)) => self.core.timeslice(slice).call_async(func, params),
            (Some(left), Some(slice)) => {
                let limited = self.core.deadline(left).timeslice(slice);
                limited.call_async(func, params)
            }
        };
        Ok(called.await?)
    }

    /// Drops a resource that the component defines and that the host got as [`Value::Own`]: calls
    /// the destructor of the resource type, if there is one.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call). Nothing happens for a resource of the host or of another instance,
    /// or for a resource that the host no longer owns.
    pub fn drop_resource(&mut self, resource: Resource) -> Result<(), CallError> {
        self.drop_resource_within(Limits::default(), resource)
    }

    /// [`drop_resource`](Self::drop_resource) within limits.
    ///
    /// # Errors
    ///
    /// As [`drop_resource`](Self::drop_resource), and [`CallError::Core`] if a limit was reached.
    pub fn drop_resource_within(
        &mut self,
        limits: Limits,
        resource: Resource,
    ) -> Result<(), CallError> {
        if self.failed {
            return Err(CallError::Failed);
        }
        let scopes = &mut self.core.data_mut().scopes;
        if !scopes.take_from_host(resource) {
            return Ok(());
        }
        let defined = scopes.info.defined_resource(resource.ty);
        let all = &self.shared.destructors;
        let destructor = defined.and_then(|at| *all.get(at as usize)?);
        let Some(destructor) = destructor else {
            return Ok(());
        };
        let params = flat(&[resource.rep.into()]);
        let called = match limits.deadline {
            None => self.core.call(&destructor, params),
            Some(limit) => self.core.deadline(limit).call(&destructor, params),
        };
        let called = called.map(drop).map_err(CallError::from);
        self.check(called)
    }

    /// The embedder's data.
    #[must_use]
    pub fn data(&self) -> &T {
        self.core.data().data()
    }

    /// The embedder's data, mutable.
    pub fn data_mut(&mut self) -> &mut T {
        self.core.data_mut().data_mut()
    }

    /// Ends the instance and returns the embedder's data.
    #[must_use]
    pub fn into_data(self) -> T {
        self.core.into_data().into_data()
    }

    /// The counter of the memory that the host keeps for the guest, up to
    /// [`Linker::host_bytes_max`](crate::Linker::host_bytes_max).
    #[must_use]
    pub fn host_bytes(&self) -> &HostBytes {
        self.core.data().host_bytes()
    }

    /// The resources that the instance has used, see
    /// [`Instance::usage`](pirn_runtime::Instance::usage). The field `host_bytes` is the sum of the
    /// bytes of [`host_bytes`](Self::host_bytes) and of the bytes that the runtime holds for
    /// exceptions.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.with_host_bytes(self.core.usage())
    }

    /// [`usage`](Self::usage) without the counts of pages, see
    /// [`Instance::usage_without_pages`](pirn_runtime::Instance::usage_without_pages).
    #[must_use]
    pub fn usage_without_pages(&self) -> Usage {
        self.with_host_bytes(self.core.usage_without_pages())
    }

    fn with_host_bytes(&self, mut usage: Usage) -> Usage {
        let account = self.host_bytes();
        usage.host_bytes += account.held();
        usage.host_bytes_peak += account.peak();
        usage
    }

    /// A switch that stops the running call from any thread, see
    /// [`Instance::kill_switch`](pirn_runtime::Instance::kill_switch).
    pub fn kill_switch(&mut self) -> KillSwitch {
        self.core.kill_switch()
    }

    /// The instance of the core module, for its usage and its fuel.
    #[must_use]
    pub fn core(&self) -> &pirn_runtime::Instance<State<T>> {
        &self.core
    }

    /// Marks the instance as failed if a call has failed.
    fn check<R>(&mut self, result: Result<R, CallError>) -> Result<R, CallError> {
        self.failed |= result.is_err();
        result
    }

    /// Checks the parameters of a call, and lists the memory that the parameters need.
    #[inline]
    fn begin<C: Call>(
        &mut self,
        func: &Func,
        call: &C,
        requests: &mut Requests,
    ) -> Result<(), CallError> {
        if self.failed {
            return Err(CallError::Failed);
        }
        if self.shared.prepared != func.0.prepared {
            return Err(CallError::OtherPreparation);
        }
        if let Some((bytes, align)) = func.0.params_in_memory {
            requests.push(bytes, align)?;
        }
        let mut collect = Collect {
            info: &func.0.info,
            scopes: &mut self.core.data_mut().scopes,
            encoding: func.0.options.encoding,
            requests,
            progress: Progress::new(Stop::Never),
        };
        call.request(func, &mut collect)
    }

    /// Reads the result of a call from the core value that the function returned.
    #[inline]
    fn lift<C: Call>(
        &mut self,
        func: &Func,
        word: u64,
        until: Option<&Until>,
    ) -> Result<C::Output, CallError> {
        let (memory, state) = split(&mut self.core, func);
        if func.0.lends {
            state.scopes.exit()?;
        }
        let bytes = memory.as_ref().map_or(&[][..], |memory| memory.as_slice());
        let (info, encoding) = (&func.0.info, func.0.options.encoding);
        let stop = until.map_or(Stop::Never, |until| Stop::At(until.end));
        let mut cx = Lift::new(info, bytes, encoding, &mut state.scopes, stop);
        C::lift(func, &mut cx, word).map_err(|error| match (error, until) {
            (AbiError::Stopped, Some(until)) => CallError::Core(pirn_runtime::CallError::Deadline(
                Interruption::in_host(until.limit),
            )),
            (error, _) => CallError::Abi(error),
        })
    }

    /// The size in bytes of the memory that a function uses.
    fn memory_bytes(&self, func: &Func) -> usize {
        let memory = match &func.0.memory {
            None => Some(self.core.memory()),
            Some(name) => self.core.exported_memory(name),
        };
        memory.map_or(0, |memory| memory.len())
    }
}

/// The allocator, and its parameters for the next piece of memory that a call needs.
#[inline]
fn next_allocation(func: &Func, requests: &Requests) -> Option<(Realloc, (u32, u32, u32, u32))> {
    let (bytes, align) = requests.next()?;
    Some((func.0.realloc?, (0, 0, align, bytes)))
}

/// Writes the parameters of a call: the core values to `words`, and the data that the core values
/// point to into the memory.
#[inline]
fn lower<T, C: Call>(
    core: &mut pirn_runtime::Instance<State<T>>,
    func: &Func,
    call: &C,
    given: &[u32],
    words: &mut Words,
) -> AbiResult {
    let (mut memory, state) = split(core, func);
    if func.0.lends {
        state.scopes.enter()?;
    }
    let bytes = memory.as_mut().map_or(&mut [][..], MemoryMut::as_mut_slice);
    let (info, encoding) = (&func.0.info, func.0.options.encoding);
    let scopes = &mut state.scopes;
    let mut cx = Lower::new(info, bytes, encoding, scopes, given, Stop::Never);
    if func.0.params_in_memory.is_none() {
        return call.lower(func, &mut cx, words);
    }
    let at = cx.piece();
    words.push(at.into());
    call.store(func, &mut cx, at)
}

/// The memory of a function, if its values need memory, and the state.
#[inline]
fn split<'a, T>(
    core: &'a mut pirn_runtime::Instance<State<T>>,
    func: &Func,
) -> (Option<MemoryMut<'a>>, &'a mut State<T>) {
    match &func.0.memory {
        _ if func.0.needs_no_memory => (None, core.data_mut()),
        None => {
            let (memory, state) = core.split();
            (Some(memory), state)
        }
        Some(name) => core.exported_split(name),
    }
}

/// The deadline of a call, for all guest functions that the call enters.
struct Until {
    end: Instant,
    /// The whole time limit, which error messages name.
    limit: Duration,
    is_begun: bool,
}

impl Until {
    /// A deadline after `limit` from now. `None` if the clock cannot represent the deadline.
    fn new(limit: Duration) -> Option<Self> {
        Some(Self {
            end: Instant::now().checked_add(limit)?,
            limit,
            is_begun: false,
        })
    }

    /// The time that is left for the next guest function.
    fn left(&mut self) -> Duration {
        match std::mem::replace(&mut self.is_begun, true) {
            true => self.end.saturating_duration_since(Instant::now()),
            // The first function gets the whole limit, so that its error message names the limit.
            false => self.limit,
        }
    }
}

/// Parameters of a call of the core module. `words` has one word here, which fits.
#[inline]
fn flat(words: &[u64]) -> FlatParams {
    FlatParams::new(words).unwrap_or_else(|_| FlatParams::none())
}
