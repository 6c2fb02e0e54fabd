//! `wasi:random`. All three interfaces give numbers of the thread's generator, which is seeded by
//! the system and cannot be predicted.

use crate::limits::RANDOM_MAX;
use crate::wasi::View;
use bytes::Bytes;
use pirn_component::{LinkError, Linker};
use pirn_runtime::HostError;
use rand::Rng as _;

const RANDOM: &str = "wasi:random/random@0.2.12";
const INSECURE: &str = "wasi:random/insecure@0.2.12";
const SEED: &str = "wasi:random/insecure-seed@0.2.12";

fn random_bytes(len: u64) -> Result<Bytes, HostError> {
    if len > RANDOM_MAX {
        return Err(HostError::message(format!(
            "{len} random bytes at once, at most {RANDOM_MAX} are given; ask for fewer"
        )));
    }
    let mut bytes = vec![0; len as usize];
    rand::rng().fill_bytes(&mut bytes);
    Ok(bytes.into())
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
