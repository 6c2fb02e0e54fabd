//! Functions of a process: arguments, variables, clocks, random bytes.

use super::abi::{NUMBER, TIME};
use super::call::Call;
use super::failure::Done;
use crate::clock::Clock;
use crate::errno::Errno;
use crate::scratch::{PIECE_BYTES, Scratch};
use crate::strings::Strings;
use pirn_runtime::HostError;

pub(super) fn args_sizes_get(call: &mut Call<'_>, count: u32, bytes: u32) -> Done {
    sizes(call, &call.state.args, count, bytes)
}

pub(super) fn environ_sizes_get(call: &mut Call<'_>, count: u32, bytes: u32) -> Done {
    sizes(call, &call.state.env, count, bytes)
}

pub(super) fn args_get(call: &mut Call<'_>, addresses: u32, bytes: u32) -> Done {
    give(call, &call.state.args, addresses, bytes)
}

pub(super) fn environ_get(call: &mut Call<'_>, addresses: u32, bytes: u32) -> Done {
    give(call, &call.state.env, addresses, bytes)
}

/// The number of strings, and their total bytes including the terminating zeros.
fn sizes(call: &mut Call<'_>, strings: &Strings, count: u32, bytes: u32) -> Done {
    call.memory.check_result(count, NUMBER)?;
    call.memory.check_result(bytes, NUMBER)?;
    call.memory
        .write_u32(count, strings.offsets().len() as u32)?;
    call.memory.write_u32(bytes, strings.bytes().len() as u32)?;
    Ok(())
}

/// Writes the strings and an array of their addresses.
fn give(call: &mut Call<'_>, strings: &Strings, addresses: u32, bytes: u32) -> Done {
    let memory = &mut call.memory;
    memory.check(addresses, strings.offsets().len() as u64 * 4, 4)?;
    memory.check(bytes, strings.bytes().len() as u64, 1)?;
    memory.write(bytes, strings.bytes())?;
    for (offset, at) in strings.offsets().iter().zip((addresses..).step_by(4)) {
        memory.write_u32(at, bytes + offset)?;
    }
    Ok(())
}

/// The clock with a number.
///
/// # Errors
///
/// `badf` for the clocks of the processor, which a guest does not have; `inval` for other numbers.
fn clock(id: u32) -> Result<Clock, Errno> {
    match id {
        0 => Ok(Clock::System),
        1 => Ok(Clock::Monotonic),
        2 | 3 => Err(Errno::BADF),
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn clock_res_get(call: &mut Call<'_>, id: u32, resolution: u32) -> Done {
    call.memory.check_result(resolution, TIME)?;
    let told = call.state.clocks.resolution(clock(id)?);
    call.memory.write_u64(resolution, nanoseconds(told)?)?;
    Ok(())
}

pub(super) fn clock_time_get(call: &mut Call<'_>, id: u32, _precision: u64, time: u32) -> Done {
    call.memory.check_result(time, TIME)?;
    let now = call.state.clocks.now(clock(id)?);
    call.memory.write_u64(time, nanoseconds(now)?)?;
    Ok(())
}

fn nanoseconds(time: core::time::Duration) -> Result<u64, Errno> {
    u64::try_from(time.as_nanos()).map_err(|_| Errno::OVERFLOW)
}

/// A guest may ask for as many bytes as its memory holds. Between two pieces the host checks
/// whether the guest was stopped.
pub(super) fn random_get(call: &mut Call<'_>, start: u32, len: u32) -> Done {
    call.memory.check(start, len.into(), 1)?;
    let mut scratch = Scratch::take();
    let mut done = 0;
    while done < len && !call.is_stopped() {
        let piece = scratch.piece((len - done).min(PIECE_BYTES as u32) as usize);
        call.state.random.fill(piece)?;
        call.memory.write(start + done, piece)?;
        done += piece.len() as u32;
    }
    Ok(())
}

/// Signals do not exist here: the call ends the guest.
pub(super) fn proc_raise(_: &mut Call<'_>, signal: u32) -> Done {
    /// The largest number of a signal.
    const SIGNAL_MAX: u32 = 30;
    match signal {
        0..=SIGNAL_MAX => Err(HostError::message("proc_raise unsupported").into()),
        _ => Err(Errno::INVAL.into()),
    }
}

pub(super) fn sched_yield(_: &mut Call<'_>) -> Done {
    std::thread::yield_now();
    Ok(())
}
