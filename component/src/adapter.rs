//! The functions that the core module of a component imports: lowered host functions, and the
//! built-ins of the canonical ABI.

use crate::component::Info;
use crate::error::{AbiError, LinkError, of_host};
use crate::host_bytes::HeldBytes;
use crate::host_func::{Destructor, HostFuture};
use crate::host_values::HostValues;
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Requests, Words};
use crate::state::{Pending, State, Unwritten};
use crate::stop::{Progress, Stop, unless_stopped};
use crate::transcode::{Memories, transcode};
use crate::value::Resource;
use pirn_format::component::{
    Adapter, FuncType as ComponentFuncType, StringEncoding, ValueType, broken_rule,
};
use pirn_runtime::{Caller, FlatParams, FlatResult, FuncType, HostError, Linker, MemoryMut};
use std::sync::Arc;

/// An import of the core module.
pub(crate) struct Place<'a> {
    pub(crate) module: &'a str,
    pub(crate) name: &'a str,
    pub(crate) ty: FuncType,
}

/// A lowered host function, with the types and options that a call from a component needs.
#[derive(Clone)]
pub(crate) struct Lowered {
    pub(crate) info: Arc<Info>,
    pub(crate) name: String,
    /// Index of the function's type.
    pub(crate) ty: u32,
    /// Index of the function's canonical options.
    pub(crate) options: u32,
    /// Size and alignment of the parameters, if the caller passes them in memory.
    pub(crate) params_in_memory: Option<(u64, u32)>,
    /// Whether the host writes the result to memory, because the result has too many core values.
    pub(crate) result_in_memory: bool,
}

/// The parameters of a call of a host function.
struct Lifted<P> {
    params: P,
    /// The address for the result, if the result is written to memory.
    result_at: u32,
    /// Counts the memory of the parameters until the call has ended.
    held: Option<HeldBytes>,
}

/// A host function with erased parameter and result types. Linking checks the types.
pub(crate) struct HostFunc<T> {
    /// Checks that the function has the type of an import. The error names the function's types.
    pub(crate) check: fn(&Info, &ComponentFuncType) -> Result<(), String>,
    /// Adds the function to the linker of the core module (`canon lower`).
    pub(crate) lower: Lowering<T>,
}

type Lowering<T> =
    Box<dyn Fn(&mut Linker<State<T>>, Place<'_>, Lowered) -> Result<(), LinkError> + Send + Sync>;

impl<T: Send + 'static> HostFunc<T> {
    /// Wraps a synchronous host function. `V` converts its parameters and its result.
    pub(crate) fn sync<V: HostValues>(
        func: impl Fn(&mut State<T>, V::Params) -> Result<V::Output, HostError> + Send + Sync + 'static,
    ) -> Self {
        let func = Arc::new(func);
        let lower = move |core: &mut Linker<State<T>>, place: Place<'_>, lowered: Lowered| {
            let func = Arc::clone(&func);
            let call = move |mut caller: Caller<'_, State<T>>, flat: FlatParams| {
                let lifted = match lowered.lift::<T, V>(&mut caller, &flat) {
                    Ok(lifted) => lifted,
                    Err(error) => return unless_stopped(Err(error)).map(FlatResult),
                };
                let _held = lifted.held;
                let output = func(caller.data_mut(), lifted.params)?;
                let written = lowered.finish::<T, V>(&mut caller, output, lifted.result_at);
                unless_stopped(written).map(FlatResult)
            };
            core.func_flat(place.module, place.name, place.ty, call)?;
            Ok(())
        };
        Self {
            check: V::check,
            lower: Box::new(lower),
        }
    }

    /// Wraps a host function that returns a future of its result. `V` converts its parameters and
    /// its result.
    pub(crate) fn future<V, F>(func: F) -> Self
    where
        V: HostValues,
        F: for<'a> Fn(&'a mut State<T>, V::Params) -> HostFuture<'a, V::Output>
            + Send
            + Sync
            + 'static,
    {
        let func = Arc::new(func);
        let lower = move |core: &mut Linker<State<T>>, place: Place<'_>, lowered: Lowered| {
            let (func, lowered) = (Arc::clone(&func), Arc::new(lowered));
            // Read the parameters before the first wait. After a wait, a component with several
            // memories offers no view of its memories.
            core.func_flat_async(
                place.module,
                place.name,
                place.ty,
                move |mut caller, flat| {
                    let lifted = lowered.lift::<T, V>(&mut caller, &flat);
                    let (func, lowered) = (Arc::clone(&func), Arc::clone(&lowered));
                    Box::pin(async move {
                        let lifted = match lifted {
                            Ok(lifted) => lifted,
                            Err(error) => return unless_stopped(Err(error)).map(FlatResult),
                        };
                        let _held = lifted.held;
                        let output = func(caller.data_mut(), lifted.params).await?;
                        let written = lowered.finish::<T, V>(&mut caller, output, lifted.result_at);
                        unless_stopped(written).map(FlatResult)
                    })
                },
            )?;
            Ok(())
        };
        Self {
            check: V::check,
            lower: Box::new(lower),
        }
    }
}

impl Lowered {
    /// Reads the parameters of a call.
    #[inline]
    fn lift<T, V: HostValues>(
        &self,
        caller: &mut Caller<'_, State<T>>,
        flat: &FlatParams,
    ) -> Result<Lifted<V::Params>, HostError> {
        let ty = &self.info.component.funcs[self.ty as usize];
        let encoding = self.encoding();
        let stop = Stop::Guest(caller.stop_flag());
        let (memory, state) = memory(caller, &self.info, self.options)?;
        state.scopes.enter().map_err(of_host)?;
        let (bytes, scopes) = (memory.as_slice(), &mut state.scopes);
        let mut lift = Lift::new(&self.info, bytes, encoding, scopes, stop);
        let mut words = Flat::new(flat.words());
        let params = V::lift(&mut lift, ty, &mut words, self.params_in_memory);
        let params = params.map_err(of_host)?;
        let spent = lift.spent();
        let held = state.scopes.account.hold(spent).map_err(of_host)?;
        let result_at = if self.result_in_memory {
            words.word() as u32
        } else {
            0
        };
        Ok(Lifted {
            params,
            result_at,
            held,
        })
    }

    /// Ends a call: returns the result as a core value, or writes it to memory. If the guest must
    /// first allocate memory for the result, returns the first request for memory.
    #[inline]
    fn finish<T, V: HostValues>(
        &self,
        caller: &mut Caller<'_, State<T>>,
        output: V::Output,
        result_at: u32,
    ) -> Result<u64, HostError> {
        let ty = self.info.component.funcs[self.ty as usize].result;
        let stop = Stop::Guest(caller.stop_flag());
        let state = caller.data_mut();
        state.scopes.exit().map_err(of_host)?;
        let unwritten = V::unwritten(output, ty).map_err(|wrong| {
            let name = &self.name;
            HostError::message(format!("the host's {name} returned {wrong}"))
        })?;
        let (Some(ty), Some(value)) = (ty, unwritten) else {
            return Ok(0);
        };
        let encoding = self.encoding();
        let mut requests = Requests::default();
        let mut collect = Collect {
            info: &self.info,
            scopes: &mut state.scopes,
            encoding,
            requests: &mut requests,
            progress: Progress::new(stop),
        };
        value.request(&mut collect, ty, &self.name)?;
        requests.count(size_of::<V::Unwritten>());
        if let Some((bytes, align)) = requests.next() {
            let held = state.scopes.account.hold(requests.host_bytes());
            state.pending = Some(Pending {
                _held: held.map_err(of_host)?,
                value: Box::new(value),
                ty,
                options: self.options,
                address: result_at,
                requests,
            });
            return Ok(request(bytes, align));
        }
        if self.result_in_memory {
            store(caller, &self.info, self.options, ty, &value, result_at, &[])?;
            return Ok(0);
        }
        let mut words = Words::new();
        let scopes = &mut state.scopes;
        let mut lower = Lower::new(&self.info, &mut [], encoding, scopes, &[], Stop::Never);
        value.flat(&mut lower, ty, &mut words).map_err(of_host)?;
        Ok(words.0.words().first().copied().unwrap_or(0))
    }

    fn encoding(&self) -> StringEncoding {
        self.info.component.options[self.options as usize].encoding
    }
}

/// Encodes a request for memory as the core value that the guest receives.
fn request(bytes: u32, align: u32) -> u64 {
    u64::from(align) << 32 | u64::from(bytes)
}

/// Returns the memory that a function's canonical options name, and the state.
fn memory<'a, T>(
    caller: &'a mut Caller<'_, State<T>>,
    info: &Info,
    options: u32,
) -> Result<(MemoryMut<'a>, &'a mut State<T>), HostError> {
    match info.memory_export(options) {
        None => Ok(caller.split()),
        Some(name) => caller.exported_split(name).ok_or_else(no_view),
    }
}

/// The error of a memory without a view. Only a component with several memories has such a memory,
/// after a host function has waited.
fn no_view() -> HostError {
    HostError::message(
        "an asynchronous function of the host cannot return a record, tuple or variant without \
         strings and lists to a component with several memories; make the function synchronous",
    )
}

/// Writes a value to the memory of a function's canonical options.
fn store<T>(
    caller: &mut Caller<'_, State<T>>,
    info: &Info,
    options: u32,
    ty: ValueType,
    value: &dyn Unwritten,
    at: u32,
    given: &[u32],
) -> Result<(), HostError> {
    let encoding = info.component.options[options as usize].encoding;
    let stop = Stop::Guest(caller.stop_flag());
    let (mut memory, state) = memory(caller, info, options)?;
    let (bytes, scopes) = (memory.as_mut_slice(), &mut state.scopes);
    let mut lower = Lower::new(info, bytes, encoding, scopes, given, stop);
    lower.check_result(ty, at).map_err(of_host)?;
    value.store(&mut lower, ty, at).map_err(of_host)
}

/// Records the address of memory that the guest has allocated for a result. Returns the next
/// request, or writes the result if no request is left.
fn allocated<T>(
    caller: &mut Caller<'_, State<T>>,
    info: &Info,
    address: u32,
) -> Result<u64, HostError> {
    let Some(mut pending) = caller.data_mut().pending.take() else {
        return Err(HostError::message("no result waits for memory"));
    };
    let bytes = memory(caller, info, pending.options)?.0.len();
    pending.requests.give(address, bytes).map_err(of_host)?;
    if let Some((bytes, align)) = pending.requests.next() {
        caller.data_mut().pending = Some(pending);
        return Ok(request(bytes, align));
    }
    let (value, given) = (&*pending.value, pending.requests.given());
    store(
        caller,
        info,
        pending.options,
        pending.ty,
        value,
        pending.address,
        given,
    )?;
    Ok(0)
}

/// Adds a built-in of the canonical ABI to the linker of the core module.
pub(crate) fn intrinsic<T: 'static>(
    core: &mut Linker<State<T>>,
    place: Place<'_>,
    adapter: Adapter,
    info: &Arc<Info>,
    destructors: &[Destructor<T>],
) -> Result<(), LinkError> {
    let Place { module, name, ty } = place;
    let memories = Memories::of(adapter);
    if let (Adapter::Transcode { op, .. }, 2) = (adapter, ty.results.len()) {
        core.func_values(module, name, ty, move |mut caller, params, results| {
            let mut words = [0; 5];
            for (word, param) in words.iter_mut().zip(params) {
                if let pirn_runtime::Value::I32(param) = param {
                    *word = param.cast_unsigned();
                }
            }
            let numbers = transcode(&mut caller, op, &memories, words)?;
            let numbers = numbers.map(|n| pirn_runtime::Value::I32(n.cast_signed()));
            results.copy_from_slice(&numbers);
            Ok(())
        })?;
        return Ok(());
    }
    let info = Arc::clone(info);
    let destructor = match adapter {
        Adapter::ResourceDrop(table) => {
            let resource = info.table(table).resource;
            destructors.get(resource as usize).cloned()
        }
        _ => None,
    };
    let answer = move |caller: &mut Caller<'_, State<T>>, flat: &FlatParams| {
        let word = |at: usize| flat.words().get(at).map_or(0, |word| *word as u32);
        let scopes = &mut caller.data_mut().scopes;
        let number = match adapter {
            Adapter::ResourceNew(table) => scopes.add_own(table, word(0)),
            Adapter::ResourceRep(table) => scopes.rep(table, word(0)),
            Adapter::ResourceDrop(table) => {
                let ended = scopes.drop_handle(table, word(0)).map_err(of_host)?;
                return match (ended, &destructor) {
                    (Some(rep), Some(destructor)) => {
                        destructor(caller.data_mut(), Resource::host(rep)).map(|()| 0)
                    }
                    // The guest's own code calls the destructor of a guest's resource type.
                    (Some(rep), None) => Ok(1 << 32 | u64::from(rep)),
                    (None, _) => Ok(0),
                };
            }
            Adapter::TransferOwn => {
                let rep = scopes.take_own(word(1), word(0));
                rep.and_then(|rep| scopes.add_own(word(2), rep))
            }
            Adapter::TransferBorrow => {
                let rep = scopes.lend(word(1), word(0));
                rep.and_then(|rep| scopes.add_borrow(word(2), rep))
            }
            Adapter::EnterCall => scopes.enter().map(|()| 0),
            Adapter::ExitCall => scopes.exit().map(|()| 0),
            Adapter::Allocated => return unless_stopped(allocated(caller, &info, word(0))),
            // A transcoder with two results does not get here: the start of `intrinsic` adds it.
            Adapter::Transcode { op, .. } => {
                let params = std::array::from_fn(word);
                let numbers = transcode(caller, op, &memories, params)?;
                return Ok(numbers[0].into());
            }
            Adapter::Trap => Err(AbiError::Between(broken_rule(word(0)))),
            Adapter::CannotLeave => Err(AbiError::CannotLeave),
            Adapter::Lower { .. } => Ok(0),
        };
        number.map(u64::from).map_err(of_host)
    };
    core.func_flat(module, name, ty, move |mut caller, flat| {
        answer(&mut caller, &flat).map(FlatResult)
    })?;
    Ok(())
}
