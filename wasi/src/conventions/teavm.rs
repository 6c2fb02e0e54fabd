//! [`link_teavm`]: the host functions that Java programs import if TeaVM compiled them for WASI.

use crate::clock::Clock;
use crate::context::WasiCtx;
use pirn_runtime::{Caller, LinkError, Linker};

/// The module of the functions of `java.lang.Math`.
const MATH: &str = "teavmMath";
/// The module of other functions.
const TEAVM: &str = "teavm";
type Function = fn(f64) -> f64;
/// The functions of one operand, and their implementations.
const FUNCTIONS: [(&str, Function); 8] = [
    ("sin", libm::sin),
    ("cos", libm::cos),
    ("tan", libm::tan),
    ("asin", libm::asin),
    ("acos", libm::acos),
    ("atan", libm::atan),
    ("exp", libm::exp),
    ("log", libm::log),
];

/// Defines the functions that [TeaVM](https://teavm.org) 0.10 imports besides preview 1.
///
/// * `teavmMath.sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `exp`, `log` and `atan2` give the same
///   bits on every processor, within the errors that `java.lang.Math` allows. `aotc` replaces the
///   imports `sqrt`, `floor` and `ceil` by operators.
/// * `teavm.nanoTime`, for `System.nanoTime`, gives the milliseconds of the monotonic clock of the
///   context, as a fraction.
///
/// `ctx` finds the context in the data of an instance, as for [`pirn_wasi::link`](crate::link).
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker already defines one of the functions.
pub fn link_teavm<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: fn(&mut T) -> &mut WasiCtx,
) -> Result<(), LinkError> {
    for (name, function) in FUNCTIONS {
        linker.func(MATH, name, function)?;
    }
    linker.func(MATH, "atan2", libm::atan2)?;
    linker.func(TEAVM, "nanoTime", move |mut caller: Caller<'_, T>| {
        let now = ctx(caller.data_mut()).0.clocks.now(Clock::Monotonic);
        now.as_secs_f64() * 1e3
    })?;
    Ok(())
}
