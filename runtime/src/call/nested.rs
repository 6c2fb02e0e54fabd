//! Nested calls: calls that a host function makes into the guest that called it.
//!
//! A nested call runs on the stack of the waiting guest, below the frames of that guest. The nested
//! call uses the same activation and the same limits. A guard saves the activation's fields that
//! describe the waiting guest, and restores them before the host function continues.
//!
//! ```text
//!   guest stack                                host stack
//!   ┌─────────────────────────┐ high           ┌──────────────────────────────┐ high
//!   │ frames of the guest     │                │ `enter_by`: the call         │
//!   │   that waits            │◀ guest_sp ◀─── │ words pushed by `start`      │◀ host_sp saved
//!   │ cells of the nested call│                │ the host function            │
//!   │ frames of the nested    │                │ `enter`: the nested call     │
//!   │   call                  │                │ words pushed by its `start`  │◀ host_sp now
//!   └─────────────────────────┘ low            └──────────────────────────────┘ low
//! ```
//!
//! A guest cannot be suspended in a nested call, because the waiting guest and the nested call have
//! frames of the host between them. So the runtime refuses host functions that suspend the guest,
//! and defers the end of a time slice until the nested call has returned. Kills, deadlines,
//! processor-time budgets and fuel apply to the nested call, too. A kill, a deadline or an
//! exhausted budget also ends the waiting guest. Running out of fuel is a trap of the nested call:
//! the host function can add fuel and return to the waiting guest.
//!
//! # Safety
//!
//! This file owns two facts. A nested call begins only on the thread of the waiting guest, in the
//! innermost host function that the guest waits for. A nested call writes only unused stack memory.
#![allow(unsafe_code)]

use super::caller::{Caller, instance_id};
use super::entry::run_in;
use super::errors::{foreign, left_behind};
use super::parameters::{self, looked_up_elsewhere};
use super::running::{Call, Header, Nested, is_whole, member_of};
use super::typed_func::TypedFunc;
use super::untyped_func::{Func, Wanted};
use crate::error::{CallError, CallState, InvalidCall, LinkError, Operation, StateError};
use crate::module::Module;
use crate::signals::Running;
use crate::store::member::Target;
use crate::switch::{self, Activation, Record};
use crate::trap::{Trap, TrapCode};
use crate::value::typed::{Params, Results, sealed};
use crate::value::{Cell, FuncRef, InstanceId, Value};
use core::mem::{self, ManuallyDrop};
use core::slice;
use pirn_format::layout::MemoryDesc;

/// Bytes of the guest's stack below the cells of a nested call that must be accessible. The entry
/// routine writes to these bytes. It is host code, so its fault would not become a trap of the
/// guest.
const ENTRY_BYTES: usize = 4096;

/// The vtable for nested calls of a [`Call`] with data `T`.
pub(super) fn functions<T>() -> &'static Nested {
    const {
        &Nested {
            check: check::<T>,
            module: module::<T>,
            memory: memory::<T>,
            enter: enter::<T>,
            values: values::<T>,
        }
    }
}

/// The place of a nested call: the running call, and the point at which its guest waits.
#[derive(Clone, Copy)]
struct Site {
    /// The running [`Call`].
    call: *mut (),
    /// Stack pointer of the guest that waits.
    guest_sp: usize,
    /// Addresses of the guest's stack: start and end.
    stack: [usize; 2],
}

impl Site {
    /// The place of a nested call of the instance that a [`Caller`] belongs to.
    ///
    /// # Errors
    ///
    /// [`CallState::NotWaiting`] unless the guest waits for the host function of that caller, on
    /// this thread.
    fn of<T>(caller: &Caller<'_, T>) -> Result<Self, StateError> {
        let activation = caller.activation();
        // The current activation of a thread belongs to the guest that the thread entered last and
        // has not left. So this check fails on another thread, after the guest was left, and while
        // a host function of the guest runs another instance.
        //
        // SAFETY: the activation lives as long as the context. While the activation runs, only its
        // own thread changes it. If the activation is current on this thread, its own thread is
        // this thread.
        if !Running::is(activation) || unsafe { (*Record::with(activation)).in_async_host } {
            return Err(StateError::new(Operation::Nest, CallState::NotWaiting));
        }
        // SAFETY: the activation runs on this thread. The caller exists, so the guest waits for its
        // host function. That function is the innermost, because a nested call borrows the caller.
        Ok(unsafe { Self::waiting(activation) })
    }

    /// The place at which the guest of an activation waits.
    ///
    /// # Safety
    ///
    /// The guest must wait for a host function, on this thread.
    unsafe fn waiting(activation: *mut Activation) -> Self {
        // SAFETY: the caller ensures that the guest waits. The activation is the first part of the
        // record of the instance whose stack it uses.
        let ((call, guest_sp), stack) = unsafe {
            let stack = (*Record::with(activation)).guest.stack;
            ((*activation).exit(), stack)
        };
        Self {
            call,
            guest_sp,
            stack,
        }
    }

    /// Records whether a nested call failed, and returns its result.
    fn ended<R>(&self, result: Result<R, CallError>) -> Result<R, CallError> {
        // SAFETY: the call runs, and its activation lives as long as the call. The guest waits.
        unsafe {
            let activation = (*self.call.cast::<Header>()).activation;
            (*Record::with(activation)).nested_failed = result.is_err();
        }
        result
    }

    fn nested(&self) -> &'static Nested {
        // SAFETY: the call runs, and a call begins with a header.
        unsafe { (*self.call.cast::<Header>()).nested }
    }

    /// Address of `count` cells on the part of the stack that the waiting guest does not use. The
    /// frames of the nested call begin below them.
    ///
    /// # Errors
    ///
    /// The trap of a stack overflow, if there is no room.
    fn cells(&self, count: usize) -> Result<*mut Cell, CallError> {
        let bytes = count * size_of::<Cell>();
        let at = self.guest_sp.checked_sub(bytes).map(|at| at & !15);
        match at {
            Some(at) if at >= self.stack[0] + ENTRY_BYTES && at < self.stack[1] => {
                Ok(at as *mut Cell)
            }
            _ => Err(CallError::Trap(Trap::new(TrapCode::StackOverflow))),
        }
    }
}

impl<T> Caller<'_, T> {
    /// The descriptor of the exported memory `name`, if the guest waits on this thread.
    pub(super) fn memory_export(&self, name: &str) -> Option<*const MemoryDesc> {
        let activation = self.activation();
        if !Running::is(activation) {
            return None;
        }
        // SAFETY: the activation runs on this thread. The caller exists, so the guest waits for its
        // host function.
        let site = unsafe { Site::waiting(activation) };
        // SAFETY: the call of the site runs, and its guest waits.
        unsafe { (site.nested().memory)(site.call, self.vmctx(), name) }
    }

    /// The exported function `name` of the calling instance, for [`call`](Self::call).
    ///
    /// If the guest calls the host function often, look the guest's function up only once. Use
    /// [`Prepared::func`](crate::Prepared::func) before the first request, and keep the result in
    /// the host's data.
    ///
    /// # Errors
    ///
    /// [`CallError::Lookup`] if the instance exports no such function, or if the function's type
    /// does not match `P` and `R`. [`CallError::State`] as for [`call`](Self::call).
    pub fn func<P: Params, R: Results>(&self, name: &str) -> Result<TypedFunc<P, R>, CallError> {
        let site = Site::of(self)?;
        // SAFETY: `Site::of` found the running call.
        let (module, prepared) = unsafe { (site.nested().module)(site.call, self.vmctx())? };
        let found = TypedFunc::find(&module, prepared, name);
        site.ended(found.map_err(|error: LinkError| CallError::Lookup(Box::new(error))))
    }

    /// Calls a function of the calling instance: its allocator, for example.
    ///
    /// The call is nested: it runs while the guest waits for this host function. The nested call
    /// uses the guest's stack, the limits of the guest's call, and the guest's fuel. A kill, a
    /// deadline or a budget of processor time ends both calls. If the host function returns the
    /// error of a nested call, the guest's call ends with that error.
    ///
    /// In the nested call, the guest can call host functions that make further nested calls.
    /// [`RegionBuilder::nested_calls_max`](crate::RegionBuilder::nested_calls_max) limits how many
    /// nested calls can run at one time. The guest cannot be suspended in a nested call: functions
    /// of [`Linker::func_ask`](crate::Linker::func_ask) and
    /// [`Linker::func_async`](crate::Linker::func_async) are refused. The end of a time slice takes
    /// effect after the nested call.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`](crate::Instance::call), and:
    ///
    /// * [`CallError::Trap`] with [`TrapCode::StackOverflow`] if the guest's stack has no room for
    ///   the parameters;
    /// * [`CallError::State`] in a host function of
    ///   [`Linker::func_async`](crate::Linker::func_async), and in the function that computes the
    ///   results from the answer to a question;
    /// * [`CallError::State`] on another thread than the guest's, and while another instance runs
    ///   on this thread;
    /// * [`CallError::Invalid`] if the number of running nested calls is the maximum that the
    ///   region allows.
    pub fn call<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let site = Site::of(self)?;
        site.ended(self.call_at(site, func, params))
    }

    /// [`call`](Self::call) at the place that [`Site::of`] returned.
    fn call_at<P: Params, R: Results>(
        &mut self,
        site: Site,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        // SAFETY: `Site::of` found the running call.
        unsafe { (site.nested().check)(site.call, self.vmctx(), func.prepared)? };
        let (count, instance_id) = (func.cells(), instance_id(self, func.needs_instance_id()));
        let cells = site.cells(count)?;
        // SAFETY: `Site::cells` returned the address of `count` cells, which nothing else uses. Any
        // bytes are a valid cell.
        let to = unsafe { slice::from_raw_parts_mut(cells, count) };
        sealed::List::store(params, to, instance_id).map_err(foreign)?;
        // SAFETY: the context of a caller is initialised, and `check` compared the preparations.
        let target = unsafe { func.linked_target(self.vmctx()) };
        // SAFETY: `Site::of` found the running call. The function belongs to the instance, as
        // checked, and `cells` holds its parameters.
        unsafe { (site.nested().enter)(site.call, target, cells.cast())? };
        // SAFETY: the guest has returned, and its results are in the cells.
        let from = unsafe { slice::from_raw_parts(cells, count) };
        Ok(<R as sealed::List>::load(from, instance_id))
    }

    /// Calls the exported function `name` of the calling instance, with values of the function's
    /// parameter types. The call is nested, as with [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and as [`Instance::call_values`](crate::Instance::call_values).
    pub fn call_values(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.call_wanted(Wanted::Export(name), params)
    }

    /// Calls a function of the calling instance, with values of the function's parameter types. The
    /// call is nested, as with [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and as [`Instance::call_func`](crate::Instance::call_func).
    pub fn call_func(&mut self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.call_wanted(Wanted::Func(func), params)
    }

    /// Calls the function that a reference of the guest refers to: a callback that the guest has
    /// passed to this host function, for example. The call is nested, as with [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and as [`Instance::call_ref`](crate::Instance::call_ref).
    pub fn call_ref(
        &mut self,
        reference: FuncRef,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        self.call_wanted(Wanted::Reference(reference), params)
    }

    fn call_wanted(
        &mut self,
        wanted: Wanted<'_>,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let site = Site::of(self)?;
        // SAFETY: `Site::of` found the running call.
        site.ended(unsafe { (site.nested().values)(site.call, self.vmctx(), wanted, params) })
    }
}

/// Checks that the preparation `prepared` made the instance with the context `vmctx`.
///
/// # Safety
///
/// `call` must be a running [`Call`] with data `T`, whose guest waits for a host function.
unsafe fn check<T>(call: *mut (), vmctx: *mut u8, prepared: InstanceId) -> Result<(), CallError> {
    // SAFETY: the caller ensures that the call runs. Nothing else uses its members while the guest
    // waits for a host function.
    let members = unsafe { &*(*call.cast::<Call<'_, T>>()).members };
    match member_of(members, vmctx) {
        Some(at) if members[at].inner.id == prepared => Ok(()),
        _ => Err(looked_up_elsewhere()),
    }
}

/// The module of the instance with the context `vmctx`, and the id of its preparation.
///
/// # Safety
///
/// As [`check`].
unsafe fn module<T>(call: *mut (), vmctx: *mut u8) -> Result<(Module, InstanceId), CallError> {
    // SAFETY: as in `check`, the caller ensures that the call runs and its guest waits.
    let members = unsafe { &*(*call.cast::<Call<'_, T>>()).members };
    let at = member_of(members, vmctx).ok_or_else(looked_up_elsewhere)?;
    let inner = &members[at].inner;
    Ok((inner.module.clone(), inner.id))
}

/// The descriptor of the exported memory `name` of the instance with the context `vmctx`.
///
/// # Safety
///
/// As [`check`].
unsafe fn memory<T>(call: *mut (), vmctx: *mut u8, name: &str) -> Option<*const MemoryDesc> {
    // SAFETY: as in `check`, the caller ensures that the call runs and its guest waits.
    let members = unsafe { &*(*call.cast::<Call<'_, T>>()).members };
    members[member_of(members, vmctx)?].memory_export(name)
}

/// Calls a function of the instance with the context `vmctx`. A reference may be to a function of
/// another member of the call.
///
/// # Safety
///
/// As [`check`].
unsafe fn values<T>(
    call: *mut (),
    vmctx: *mut u8,
    wanted: Wanted<'_>,
    params: &[Value],
) -> Result<Vec<Value>, CallError> {
    // SAFETY: the caller ensures that the call runs. Nothing else uses its members while the guest
    // waits for a host function.
    let (members, site) = unsafe {
        let call = &mut *call.cast::<Call<'_, T>>();
        let site = Site::waiting(call.header.activation);
        (&mut *call.members, site)
    };
    let at = member_of(members, vmctx).ok_or_else(looked_up_elsewhere)?;
    let prepared = parameters::prepare(members, at, wanted, params)?;
    let cells = site.cells(prepared.count())?;
    // SAFETY: `Site::cells` returned the address of `prepared.count()` cells, which nothing else
    // uses. Any bytes are a valid cell.
    prepared.store(unsafe { slice::from_raw_parts_mut(cells, prepared.count()) });
    // SAFETY: the caller ensures that the call runs. The function belongs to a member of the call,
    // and `cells` holds its parameters.
    unsafe { enter::<T>(site.call, prepared.target, cells.cast())? };
    // SAFETY: the guest has returned, and its results are in the cells.
    Ok(prepared.results(unsafe { slice::from_raw_parts(cells, prepared.count()) }))
}

/// Makes a nested call. After a return, `cells` holds the results.
///
/// # Errors
///
/// The reason why the nested call ended; [`InvalidCall::NestedCalls`]; or
/// [`InvalidCall::NotInherited`] in a fork.
///
/// # Safety
///
/// As [`check`]. `target` must be a function of a member of the call. `cells` must be an address
/// from [`Site::cells`] and hold the function's parameters.
unsafe fn enter<T>(call: *mut (), target: Target, cells: *mut u8) -> Result<(), CallError> {
    let outer = call.cast::<Call<'_, T>>();
    // SAFETY: the caller ensures that the call runs. While the guest waits for a host function,
    // nothing has a reference to the call.
    let (activation, data, watched, members) = unsafe {
        let members = &mut *(*outer).members;
        let activation = (*outer).header.activation;
        (activation, (*outer).data, (*outer).watched, members)
    };
    if !is_whole(members) {
        return Err(left_behind());
    }
    // SAFETY: the activation lives as long as the call, and its guest waits.
    let running = unsafe { (*Record::with(activation)).nested_calls };
    let limit = members[0].inner.region.nested_calls_max();
    if running >= limit {
        return Err(InvalidCall::NestedCalls { running, limit }.into());
    }
    let mut run = || {
        // SAFETY: the activation lives as long as the call, and its guest waits on this thread.
        let _outer = unsafe { SavedExit::of(activation) };
        let around = members[0].exceptions.as_mut().map(|of| of.begin_nested());
        // `left` takes the contents of the call. After a return there is nothing to drop.
        let mut nested = ManuallyDrop::new(Call::new(
            activation,
            members,
            data,
            watched,
            functions::<T>(),
        ));
        let Target { code, entry, vmctx } = target;
        let start = |activation, cells, answer, call| {
            // SAFETY: code, entry and context belong to a function of a member. The stack below
            // `cells` is free, because the frames of the waiting guest lie above the cells.
            unsafe { switch::start(activation, vmctx, entry, code, cells, answer, call) }
        };
        // SAFETY: the activation is the current activation of this thread. `cells` lies on the
        // stack of its guest.
        let returned = unsafe { run_in(&mut nested, cells, start) };
        let result = if returned { Ok(()) } else { Err(nested.left()) };
        if let Some(exceptions) = &mut nested.members[0].exceptions {
            exceptions.end_nested(around.flatten());
        }
        result
    };
    match watched {
        Some(watched) => watched.in_nested_call(run),
        None => run(),
    }
}

/// Guard: saves the fields that describe the waiting guest, and restores them on drop.
struct SavedExit {
    activation: *mut Activation,
    host_sp: u64,
    guest_sp: u64,
    guest_registers: [u64; switch::arch::SAVED_REGISTERS],
}

impl SavedExit {
    /// # Safety
    ///
    /// The activation must live longer than the guard. Its guest must wait, on this thread.
    unsafe fn of(activation: *mut Activation) -> Self {
        // SAFETY: the caller ensures that the activation lives and its guest waits. The buffer for
        // registers is null, or valid while the call runs.
        let (record, registers) = unsafe {
            (
                &mut *Record::with(activation),
                (*activation).registers.as_mut(),
            )
        };
        if let Some(registers) = registers {
            // These registers are from an earlier preemption of the waiting guest. That guest has
            // run since then, so the registers are stale.
            registers.taken = false;
        }
        record.nested_calls += 1;
        let of = &mut record.activation;
        Self {
            activation,
            host_sp: of.host_sp,
            guest_sp: mem::take(&mut of.guest_sp),
            // The registers of the nested guest are unknown until it exits.
            guest_registers: mem::take(&mut of.guest_registers),
        }
    }
}

impl Drop for SavedExit {
    fn drop(&mut self) {
        // SAFETY: the caller of `of` ensured that the activation lives. The nested call has ended.
        let record = unsafe { &mut *Record::with(self.activation) };
        record.nested_calls -= 1;
        let of = &mut record.activation;
        of.host_sp = self.host_sp;
        of.guest_sp = self.guest_sp;
        of.guest_registers = self.guest_registers;
    }
}
