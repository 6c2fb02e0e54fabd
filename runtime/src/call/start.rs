//! The start of an instance, under the limits of one call.

use super::enter::{Invocation, begin_in_time, ready, timed};
use super::errors::{left_behind, not_begun, stopped};
use super::make::{NotStarted, make};
use super::running::is_whole;
use super::segments::{write_data, write_elements};
use crate::account::Clocks;
use crate::error::{CallError, InvalidCall};
use crate::stop::{Halt, Watched, Why, look};
use crate::store::descriptors;
use crate::store::member::{Member, Target};
use crate::trap::Trap;
use pirn_format::metadata::SegmentMode;
use std::sync::Arc;

/// Runs the rest of the start of member `at`: dynamic segments, then the start function (spec
/// 4.5.4, steps 14 to 17).
///
/// # Errors
///
/// The trap of a segment that does not fit, or the error of the start function.
pub(crate) fn start<T>(
    members: &mut [Member<T>],
    at: usize,
    host: &mut T,
) -> Result<(), CallError> {
    if !members[at].inner.starts() {
        return Ok(());
    }
    let inner = Arc::clone(&members[at].inner);
    let start = inner.module.metadata().start;
    run_prepared(members, at, host, |members, host, watched| {
        if inner.plan.is_made {
            make(members, at, host, watched)?;
        }
        if inner.plan.has_dynamic_segments {
            write_segments(members, at, watched)?;
        }
        // The start function is always in the list of functions that can be referenced.
        Ok(start.map(|start| members[at].target(start)))
    })
}

/// Writes the segments that depend on the imports and sizes of this instance.
fn write_segments<T>(
    members: &mut [Member<T>],
    at: usize,
    watched: Option<&Watched>,
) -> Result<(), Halt> {
    let inner = Arc::clone(&members[at].inner);
    let metadata = inner.module.metadata();
    let elements = metadata.elements.iter().enumerate();
    for (segment, element) in elements.skip(inner.plan.first_dynamic_element) {
        if let SegmentMode::Active { index, offset } = &element.mode {
            let address = metadata.tables[*index as usize].address;
            let start = descriptors::offset(&members[at], offset, address);
            let len = element.items.len() as u64;
            let mut bulk = write_elements(&members[at], *index, segment as u32, start, 0, len)?;
            bulk.run(&members[at], watched)?;
            look(watched)?;
        }
    }
    for (number, segment) in (0..).zip(&metadata.data) {
        if let SegmentMode::Active { index, offset } = &segment.mode {
            let address = metadata.memory_address(*index);
            let start = descriptors::offset(&members[at], offset, address);
            let bytes = descriptors::data(&members[at], number);
            let mut bulk = write_data(&members[at], *index, bytes, start)?;
            bulk.run(&members[at], watched)?;
            look(watched)?;
        }
    }
    Ok(())
}

/// Starts an instance: runs `prepare`, then the function that `prepare` returns, if any. The limits
/// of one call apply to `prepare` and the function together.
///
/// # Errors
///
/// As [`Invocation::run`], and the errors of `prepare`. A function without a target is an error.
fn run_prepared<T>(
    members: &mut [Member<T>],
    root: usize,
    data: &mut T,
    prepare: impl FnOnce(
        &mut [Member<T>],
        &mut T,
        Option<&Watched>,
    ) -> Result<Option<Option<Target>>, NotStarted>,
) -> Result<(), CallError> {
    ready(members)?;
    if members[root].clocks == Clocks::None {
        return run_prepared_untimed(members, root, data, prepare);
    }
    let run = |members: &mut [Member<T>]| run_prepared_untimed(members, root, data, prepare);
    timed(members, root, run, |_| false)
}

/// [`run_prepared`] on a thread that is [`ready`].
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
        Ok(Some(None)) => return Err(InvalidCall::NoStartEntry.into()),
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
    let invocation = Invocation {
        members,
        root,
        target,
        cells: 0,
        data,
    };
    match (&watched, limits) {
        (Some(watched), Some((control, _))) => invocation.enter_watched(control, watched),
        _ => invocation.enter_unwatched(),
    }
}
