//! `wasi:random`. All three interfaces return bytes of the kernel's generator, which guests cannot
//! predict.

use crate::limits::RANDOM_MAX;
use crate::wasi::View;
use pirn_component::{Filled, LinkError, Linker};
use pirn_runtime::HostError;
use pirn_wasi::Random;

const RANDOM: &str = "wasi:random/random@0.2.12";
const INSECURE: &str = "wasi:random/insecure@0.2.12";
const SEED: &str = "wasi:random/insecure-seed@0.2.12";

/// Most bytes of one getrandom(2).
const BUFFER_BYTES: usize = 4096;

/// Random bytes that the host makes in the memory of the guest.
fn random_bytes(len: u64) -> Result<Filled, HostError> {
    match u32::try_from(len) {
        Ok(bytes) if len <= RANDOM_MAX => Ok(Filled::new(bytes, fill)),
        _ => Err(HostError::message(format!(
            "{len} random bytes at once, at most {RANDOM_MAX} are given; ask for fewer"
        ))),
    }
}

/// Fills bytes, by way of a buffer: pages of the guest that do not exist yet are made by a fault of
/// this process, and not of the kernel. A panic, which ends the guest's call, if the kernel has no
/// generator.
fn fill(bytes: &mut [u8]) {
    let mut buffer = [0; BUFFER_BYTES];
    for piece in bytes.chunks_mut(BUFFER_BYTES) {
        let random = &mut buffer[..piece.len()];
        let filled = Random::kernel().fill(random);
        filled.unwrap_or_else(|errno| panic!("getrandom(2) gave no bytes: {errno}"));
        piece.copy_from_slice(random);
    }
}

fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
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
