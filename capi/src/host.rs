//! Functions of the embedder: the types of their pointers, and [`Env`].
//!
//! # Safety
//!
//! This file owns one fact. The library calls a function of the embedder only with the `env` that
//! came with the function, and never after `env` was freed.
#![allow(unsafe_code)]

use crate::caller::pirn_caller_t;
use crate::data::Data;
use crate::entry::{Out, out, taken};
use crate::error::{Fallible, argument, pirn_error_t};
use crate::kinds::{is_narrow, normal};
use crate::lend::lend;
use crate::value::pirn_val_t;
use core::ffi::c_void;
use pirn_runtime::{Caller, FlatParams, FlatResult, FuncType, HostError, ValType, Value};
use smallvec::SmallVec;

/// The result of a host function.
type Returned<T> = Result<T, HostError>;

/// A host function by values. `args` has as many values as the function has parameters. `results`
/// has room for the function's results; the values begin as zero or null, and the function writes
/// them. Both lists are valid until the function returns.
///
/// The function returns NULL, or an error that it owns and gives to the library: the guest's call
/// then ends with that error. It runs on the thread that called the guest, and on several threads
/// at the same time if several threads call guests. It must not leave by longjmp(3). A C++
/// exception that leaves the function ends the process.
pub type pirn_host_func_t = Option<
    unsafe extern "C-unwind" fn(
        env: *mut c_void,
        caller: *mut pirn_caller_t,
        args: *const pirn_val_t,
        results: *mut pirn_val_t,
    ) -> *mut pirn_error_t,
>;

/// A host function by words, for functions over numbers: up to 17 parameters and one result. A
/// 32-bit number is the lower half of its word; the upper half of an argument is zero. `result` is
/// one word, even if the function has no result. Return value, threads and exceptions are as for
/// pirn_host_func_t.
pub type pirn_host_words_t = Option<
    unsafe extern "C-unwind" fn(
        env: *mut c_void,
        caller: *mut pirn_caller_t,
        args: *const u64,
        result: *mut u64,
    ) -> *mut pirn_error_t,
>;

/// Decides whether a memory of an instance, or its heap of structs and arrays, may grow from
/// `current` to `desired` bytes. Not 0 allows the growth. `maximum` is the maximum of the memory's
/// type, or UINT64_MAX for a heap or a type without a maximum. `data` is the pointer of
/// pirn_instance_new.
pub type pirn_limiter_t = Option<
    unsafe extern "C-unwind" fn(
        env: *mut c_void,
        data: *mut c_void,
        current: u64,
        desired: u64,
        maximum: u64,
    ) -> i32,
>;

/// Frees the `env` of a function. It may be called on any thread that deletes a handle. It must not
/// use the handle that the running library function deletes or changes.
pub type pirn_env_delete_t = Option<unsafe extern "C-unwind" fn(env: *mut c_void)>;

/// The pointer that a function of the embedder gets, with its destructor.
pub(crate) struct Env {
    pointer: *mut c_void,
    delete: pirn_env_delete_t,
}

// SAFETY: the library only passes the pointer on. The rules of the header require functions that
// work on any thread, and on several at the same time.
unsafe impl Send for Env {}
// SAFETY: as for `Send`: the header requires functions that several threads may call at the same
// time.
unsafe impl Sync for Env {}

impl Env {
    /// Takes over the pointer.
    ///
    /// # Safety
    ///
    /// `delete` must be null, or a function that can be called once with `pointer`, on any thread.
    pub(crate) unsafe fn new(pointer: *mut c_void, delete: pirn_env_delete_t) -> Self {
        Self { pointer, delete }
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        if let Some(delete) = self.delete {
            // SAFETY: the caller of `new` ensured that `delete` accepts `pointer` once, and a drop
            // happens once.
            unsafe { delete(self.pointer) };
        }
    }
}

/// The result of a function of the embedder.
///
/// # Safety
///
/// `error` must be null, or an error that the embedder owned.
pub(crate) unsafe fn ended(error: *mut pirn_error_t) -> Returned<()> {
    // SAFETY: the caller ensures that `error` is null, or that the embedder owned it and has given
    // it away.
    match unsafe { taken(error) } {
        None => Ok(()),
        Some(error) => Err(error.into_host_error()),
    }
}

/// A host function by values.
///
/// # Errors
///
/// If `func` is null.
///
/// # Safety
///
/// `func` must be null, or a function that can be called with the pointer of `env` while `env`
/// lives.
#[expect(
    clippy::type_complexity,
    reason = "the closure has the type that the linker wants"
)]
pub(crate) unsafe fn by_values(
    func: pirn_host_func_t,
    env: Env,
    ty: &FuncType,
) -> Fallible<
    impl Fn(Caller<'_, Data>, &[Value], &mut [Value]) -> Returned<()> + Send + Sync + 'static,
> {
    let func = func.ok_or_else(|| argument("`func` is NULL; pass a function"))?;
    let zeros: Vec<_> = ty.results.iter().map(|ty| pirn_val_t::zero(*ty)).collect();
    Ok(
        move |mut caller: Caller<'_, Data>, params: &[Value], results: &mut [Value]| {
            let references = &mut caller.data_mut().references;
            let made = params
                .iter()
                .map(|param| pirn_val_t::of(*param, references));
            let args = made.collect::<Fallible<SmallVec<[pirn_val_t; 8]>>>();
            let args = args.map_err(pirn_error_t::into_host_error)?;
            let mut answers = SmallVec::<[pirn_val_t; 4]>::from_slice(&zeros);
            let error = lend(&mut caller, |handle| {
                // SAFETY: the caller of `by_values` ensures that `func` accepts the pointer of
                // `env`. `args` and `answers` have a value for each parameter and result of the
                // type.
                unsafe { func(env.pointer(), handle, args.as_ptr(), answers.as_mut_ptr()) }
            });
            // SAFETY: the header requires that the function owned `error` and gives it to the
            // library.
            unsafe { ended(error)? };
            let references = &caller.data().references;
            for (result, answer) in results.iter_mut().zip(&answers) {
                // SAFETY: all fields of `answer` were written: `answers` began as zeros.
                let answer = unsafe { answer.value(references) };
                *result = answer.map_err(pirn_error_t::into_host_error)?;
            }
            Ok(())
        },
    )
}

/// A host function by words. The closure returns the result's word; the word is 0 if the embedder's
/// function wrote no result.
///
/// # Errors
///
/// If `func` is null.
///
/// # Safety
///
/// As [`by_values`].
pub(crate) unsafe fn by_words(
    func: pirn_host_words_t,
    env: Env,
    ty: &FuncType,
) -> Fallible<impl Fn(Caller<'_, Data>, FlatParams) -> Returned<FlatResult> + Send + Sync + 'static>
{
    let func = func.ok_or_else(|| argument("`func` is NULL; pass a function"))?;
    let narrow = narrow(&ty.params);
    let count = ty.params.len();
    Ok(move |mut caller: Caller<'_, Data>, params: FlatParams| {
        let mut args = [0; WORDS_MAX];
        store(&params, narrow, count, &mut args);
        let mut result = 0;
        let error = lend(&mut caller, |handle| {
            // SAFETY: the caller of `by_words` ensures that `func` accepts the pointer of `env`.
            // `args` has `WORDS_MAX` words, the most that a function has.
            unsafe { func(env.pointer(), handle, args.as_ptr(), &raw mut result) }
        });
        // SAFETY: the header requires that the function owned `error` and gives it to the library.
        unsafe { ended(error)? };
        Ok(FlatResult(result))
    })
}

/// Most words of a function over numbers.
pub(crate) const WORDS_MAX: usize = 17;

/// A bit for each type: 1 for types of 32 bits.
pub(crate) fn narrow(types: &[ValType]) -> u32 {
    let bits = types.iter().enumerate();
    bits.fold(0, |bits, (at, ty)| match at < WORDS_MAX && is_narrow(*ty) {
        true => bits | 1 << at,
        false => bits,
    })
}

/// Copies the first `count` words. The upper halves of 32-bit numbers become zero.
pub(crate) fn store(params: &FlatParams, narrow: u32, count: usize, to: &mut [u64; WORDS_MAX]) {
    let words = params.words().iter().take(count).enumerate();
    for (place, (at, word)) in to.iter_mut().zip(words) {
        *place = normal(*word, narrow >> at & 1 != 0);
    }
}

/// A function that limits the growth of memories.
///
/// # Errors
///
/// If `allows` is null.
///
/// # Safety
///
/// As [`by_values`].
pub(crate) unsafe fn limiter(
    allows: pirn_limiter_t,
    env: Env,
) -> Fallible<impl Fn(&mut Data, pirn_runtime::Growth) -> bool + Send + Sync + 'static> {
    let allows = allows.ok_or_else(|| argument("`allows` is NULL; pass a function"))?;
    Ok(move |data: &mut Data, growth: pirn_runtime::Growth| {
        let maximum = growth.maximum.unwrap_or(u64::MAX);
        let (env, data) = (env.pointer(), data.host.get());
        // SAFETY: the caller of `limiter` ensures that `allows` accepts the pointer of `env`.
        unsafe { allows(env, data, growth.current, growth.desired, maximum) != 0 }
    })
}

/// The place for a result if the function has one; `None` if it has none.
///
/// # Errors
///
/// As [`out`].
pub(crate) fn place_if(wanted: bool, place: *mut u64) -> Fallible<Option<Out<u64>>> {
    wanted.then(|| out(place, "result")).transpose()
}
