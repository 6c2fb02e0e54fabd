//! Calls that are made step by step: the guest is suspended and resumed.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::calls::{limits, pirn_limits_t};
use crate::data::{Answer, Guest, Owning, Question};
use crate::entry::{guard, guard_or, out, shared};
use crate::error::{Fallible, pirn_error_t};
use crate::host::{WORDS_MAX, store};
use crate::instance::{pirn_instance_t, with_instance};
use crate::prepared::{Words, params, pirn_func_t};
use pirn_runtime::{CallError, FlatResult, Step};

/// The call has returned: pirn_step_t has its result.
pub const PIRN_STEP_RETURNED: u32 = 0;
/// The guest called a function of pirn_linker_ask, and waits for pirn_instance_answer.
pub const PIRN_STEP_ASKED: u32 = 1;
/// The time slice has ended. Continue by pirn_instance_resume.
pub const PIRN_STEP_PREEMPTED: u32 = 2;

/// The progress of a call after one step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_step_t {
    /// One of PIRN_STEP_RETURNED to PIRN_STEP_PREEMPTED.
    pub kind: u32,
    /// Number of arguments of the function that the guest called, for PIRN_STEP_ASKED; otherwise 0.
    pub args_count: u32,
    /// The `tag` of pirn_linker_ask, for PIRN_STEP_ASKED; otherwise 0.
    pub tag: u64,
    /// The result of the call, for PIRN_STEP_RETURNED; 0 if the function has none.
    pub result: u64,
    /// The first `args_count` words are the arguments, as in pirn_host_words_t. The other words are
    /// 0.
    pub args: [u64; 17],
}

impl pirn_step_t {
    fn of(step: Step<FlatResult, Question>, words: &Words) -> Self {
        let mut made = Self {
            kind: PIRN_STEP_PREEMPTED,
            args_count: 0,
            tag: 0,
            result: 0,
            args: [0; WORDS_MAX],
        };
        match step {
            Step::Preempted => {}
            Step::Returned(result) => {
                made.kind = PIRN_STEP_RETURNED;
                made.result = words.result(result);
            }
            Step::Asked(question) => {
                made.kind = PIRN_STEP_ASKED;
                made.tag = question.tag;
                let count = question.params.words().len();
                store(&question.params, question.narrow, count, &mut made.args);
                made.args_count = count as u32;
            }
        }
        made
    }
}

/// How a call continues.
enum Advance<'a> {
    Start(&'a [u64]),
    Resume,
    Answer(Answer),
}

impl Advance<'_> {
    /// Makes a step of a call of `guest`.
    fn step<O: Owning>(
        self,
        guest: &mut Guest<O>,
        words: &Words,
        bounds: Option<&pirn_limits_t>,
    ) -> Result<Step<FlatResult, Question>, CallError> {
        let func = &words.func;
        match (pirn_limits_t::of(bounds, guest), self) {
            (Ok(limited), Self::Start(args)) => limited.start(func, params(args)),
            (Err(guest), Self::Start(args)) => guest.start(func, params(args)),
            (Ok(limited), Self::Resume) => limited.resume(func),
            (Err(guest), Self::Resume) => guest.resume(func),
            (Ok(limited), Self::Answer(answer)) => limited.resume_with(func, answer),
            (Err(guest), Self::Answer(answer)) => guest.resume_with(func, answer),
        }
    }
}

/// Makes the step that `how` returns, and writes the progress to `step`.
///
/// # Safety
///
/// During the call, `instance` and `func` must be live handles or null, `bounds` readable or null,
/// and `step` writable or null. `func` may be deleted once `how` has returned.
unsafe fn advance<'a>(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    bounds: *const pirn_limits_t,
    step: *mut pirn_step_t,
    how: impl FnOnce(&Words) -> Fallible<Advance<'a>>,
) -> Fallible<()> {
    // SAFETY: the caller ensures that `instance` and `func` are live or null, that `bounds` is
    // readable or null, and that `step` is writable or null. `words` is a copy, so a callback may
    // delete `func`.
    unsafe {
        let to = out(step, "step")?;
        let words = shared(func, "func")?.words()?;
        let bounds = limits(bounds)?;
        let how = how(&words)?;
        let made = with_instance!(instance, |guest| Ok(how.step(guest, &words, bounds)?))?;
        to.set(pirn_step_t::of(made, &words));
        Ok(())
    }
}

/// Starts a call of a function by words that can be suspended: by its time slice, or by a function
/// of pirn_linker_ask.
///
/// The first step is written to `step`. Until the call has returned or failed, the instance makes
/// no other call. The embedder can read and write the instance's memory, move the instance to
/// another thread, and delete it. A call of an instance of a group suspends the group. `limits`
/// apply to this step; NULL for no limits. `args` are as for pirn_instance_call_words. After an
/// error the call has ended. An error about the arguments or the state changes nothing.
///
/// # Safety
///
/// As pirn_instance_call_words, and `step` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_start(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    args: *const u64,
    step: *mut pirn_step_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, and a
    // readable or NULL `limits`, valid during this call. It also passes a word for each parameter
    // at `args` and a writable `step`. A callback may delete `func`: the call uses a copy.
    guard(|| unsafe {
        advance(instance, func, limits, step, |words| {
            Ok(Advance::Start(words.words(args)?))
        })
    })
}
/// Resumes a call that was preempted. `func` is the function that the call was started with.
/// PIRN_ERROR_STATE, without any change, if no call of this function was preempted.
///
/// # Safety
///
/// `instance` and `func` are live handles, `limits` is readable or NULL, `step` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_resume(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    step: *mut pirn_step_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, a readable
    // or NULL `limits`, and a writable `step`. All are valid during this call. A callback may
    // delete `func`: the call uses a copy.
    guard(|| unsafe { advance(instance, func, limits, step, |_| Ok(Advance::Resume)) })
}

/// Resumes a call whose guest has asked: the function of pirn_linker_ask returns `answer`, which is
/// ignored if the function has no result. PIRN_ERROR_STATE, without any change, if no call of this
/// function has asked.
///
/// # Safety
///
/// As pirn_instance_resume.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_answer(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    limits: *const pirn_limits_t,
    answer: u64,
    step: *mut pirn_step_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, a readable
    // or NULL `limits`, and a writable `step`. All are valid during this call. A callback may
    // delete `func`: the call uses a copy.
    guard(|| unsafe {
        advance(instance, func, limits, step, |_| {
            Ok(Advance::Answer(Answer::Word(answer)))
        })
    })
}

/// Ends a call whose guest has asked: the function of pirn_linker_ask fails with `failure`, as a
/// host function that returns `failure`. The library takes `failure` over in every case. Returns
/// the error of the call. If `failure` is of pirn_error_new, the error has the kind, message and
/// user of `failure`.
///
/// # Safety
///
/// `instance` and `func` are live handles, `failure` is a live error, which ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_answer_error(
    instance: *mut pirn_instance_t,
    func: *const pirn_func_t,
    failure: *mut pirn_error_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `instance` and `func`, and gives
    // the live error `failure` away.
    guard(|| unsafe {
        shared(failure.cast_const(), "failure")?;
        let answer = Answer::Error(Box::from_raw(failure));
        let words = shared(func, "func")?.words()?;
        with_instance!(instance, |guest| {
            // The answer is an error, so the guest is not resumed.
            let ended = guest.resume_with(&words.func, answer);
            ended.map(drop).map_err(Into::into)
        })
    })
}

/// Whether a call of the instance, or of its group, is suspended: 1 or 0. 0 for NULL, while another
/// function uses the instance or its group, and after the end of the group.
///
/// # Safety
///
/// `instance` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_is_suspended(instance: *mut pirn_instance_t) -> i32 {
    guard_or(0, || {
        // SAFETY: by the header's contract, the C caller passes a live or NULL `instance`, valid
        // during this call.
        let suspended = || unsafe { with_instance!(instance, |guest| Ok(guest.is_suspended())) };
        i32::from(suspended().unwrap_or(false))
    })
}

/// Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
///
/// # Safety
///
/// `instance` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_instance_cancel(instance: *mut pirn_instance_t) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `instance`, valid during this
    // call.
    guard(|| unsafe {
        with_instance!(instance, |guest| {
            guest.cancel();
            Ok(())
        })
    })
}
