//! The start of an instance, under the limits of one call.

use super::errors::{left_behind, not_begun, stopped};
use super::{Member, Target, begin_in_time, enter_unwatched, enter_watched, is_whole, timed};
use crate::account::Clocks;
use crate::error::CallError;
use crate::instance::bulk::{Halt, NotStarted};
use crate::stop::{Watched, Why};
use crate::sys;
use crate::trap::Trap;

/// Starts an instance: runs `prepare`, then the function that `prepare` returns, if any. The limits
/// of one call apply to both together.
///
/// # Errors
///
/// As [`run`](super::run), and the errors of `prepare`. A function without a target is an error.
pub(crate) fn run_prepared<T>(
    members: &mut [Member<T>],
    root: usize,
    data: &mut T,
    prepare: impl FnOnce(
        &mut [Member<T>],
        &mut T,
        Option<&Watched>,
    ) -> Result<Option<Option<Target>>, NotStarted>,
) -> Result<(), CallError> {
    sys::signal::prepare_thread()?;
    if !is_whole(members) {
        return Err(left_behind());
    }
    if members[root].clocks == Clocks::None {
        return run_prepared_untimed(members, root, data, prepare);
    }
    timed(members, root, |members| {
        run_prepared_untimed(members, root, data, prepare)
    })
}

/// [`run_prepared`] on a thread for which `prepare_thread` has succeeded.
///
/// # Errors
///
/// As [`run_prepared`].
fn run_prepared_untimed<T>(
    members: &mut [Member<T>],
    root: usize,
    data: &mut T,
    prepare: impl FnOnce(
        &mut [Member<T>],
        &mut T,
        Option<&Watched>,
    ) -> Result<Option<Option<Target>>, NotStarted>,
) -> Result<(), CallError> {
    let limits = members[root].watch.as_ref();
    let limits = limits.map(|watch| (watch.control(), watch.bounds));
    let watched = match limits {
        None => None,
        Some((control, bounds)) => {
            let begun = begin_in_time(bounds).and_then(|()| Watched::begin(control, bounds));
            Some(begun.map_err(|error| not_begun(error, bounds, None))?)
        }
    };
    let prepared = match &watched {
        None => prepare(members, data, None),
        Some(watched) => watched.in_host(|| prepare(members, data, Some(watched))),
    };
    let target = match prepared {
        Ok(None) => return Ok(()),
        Ok(Some(Some(target))) => target,
        Ok(Some(None)) => {
            return Err(CallError::Invalid("start function has no entry".to_owned()));
        }
        Err(NotStarted::HostBytes(error)) => return Err(CallError::Trap(error.into())),
        Err(NotStarted::Halted(Halt::Trap(code))) => return Err(CallError::Trap(Trap::new(code))),
        Err(NotStarted::Halted(Halt::Stopped | Halt::SliceIsOver)) => {
            let why = watched.as_ref().and_then(Watched::why);
            let bounds = limits.map(|(_, bounds)| bounds).unwrap_or_default();
            return Err(stopped(why.unwrap_or(Why::Killed), bounds, None));
        }
    };
    // A limiter may have forked the process.
    if !is_whole(members) {
        return Err(left_behind());
    }
    match (&watched, limits) {
        (Some(watched), Some((control, _))) => {
            enter_watched(members, root, target, 0, data, control, watched)
        }
        _ => enter_unwatched(members, root, target, 0, data),
    }
}
