//! `wasi:random`. All three interfaces return numbers of the thread's generator. The system seeds
//! this generator, so guests cannot predict the numbers.

use crate::limits::RANDOM_MAX;
use crate::wasi::View;
use pirn_component::{Filled, LinkError, Linker};
use pirn_runtime::HostError;
use rand::Rng as _;

const RANDOM: &str = "wasi:random/random@0.2.12";
const INSECURE: &str = "wasi:random/insecure@0.2.12";
const SEED: &str = "wasi:random/insecure-seed@0.2.12";

/// Random bytes that the host makes in the memory of the guest.
fn random_bytes(len: u64) -> Result<Filled, HostError> {
    match u32::try_from(len) {
        Ok(bytes) if len <= RANDOM_MAX => {
            Ok(Filled::new(bytes, |piece| rand::rng().fill_bytes(piece)))
        }
        _ => Err(HostError::message(format!(
            "{len} random bytes at once, at most {RANDOM_MAX} are given; ask for fewer"
        ))),
    }
}

fn random_u64() -> u64 {
    rand::rng().next_u64()
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.func(RANDOM, "get-random-bytes", |_, (len,): (u64,)| {
        random_bytes(len)
    })?;
    linker.func(RANDOM, "get-random-u64", |_, ()| Ok(random_u64()))?;
    linker.func(
        INSECURE,
        "get-insecure-random-bytes",
        |_, (len,): (u64,)| random_bytes(len),
    )?;
    linker.func(
        INSECURE,
        "get-insecure-random-u64",
        |_, ()| Ok(random_u64()),
    )?;
    linker.func(SEED, "insecure-seed", |_, ()| {
        Ok((random_u64(), random_u64()))
    })?;
    Ok(())
}
