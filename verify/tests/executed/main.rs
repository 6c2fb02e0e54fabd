//! Code that the verifier accepts keeps the verifier's promises when it runs.
//!
//! The tests generate machine code, ask the verifier, and run the code that it accepts. A piece of
//! code runs in two worlds, which differ in everything that a guest must not learn ([`world`]).
//! Rules that read the real registers check each instruction ([`supervise`], [`rules`]).
//! Afterwards, the guest must see the same values in both worlds ([`trial`]).
//!
//! * [`pieces`] grows random code, group by group, so that the verifier accepts it.
//! * [`grafts`] changes functions of real modules.
//! * [`canaries`] runs the attacks of `verify/tests/attacks` without the verifier: the rules and
//!   the comparison must see them.
//!
//! `PIRN_PIECES` is the number of pieces, 1,000 in the whole campaign, and `PIRN_PIECES_SEED` the
//! seed of the first piece. A message about a violation has the seed and the code.
#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "not every test uses it")]
mod common;

#[path = "../attacks/guest.rs"]
#[allow(dead_code, reason = "not every test uses it")]
mod guest;

#[path = "../attacks/list.rs"]
#[allow(dead_code, reason = "not every test uses it")]
mod list;

mod canaries;
mod context;
mod emit;
mod grafts;
mod grow;
mod piece;
mod pieces;
mod places;
mod random;
mod rules;
mod supervise;
mod trial;
mod world;

/// A number that the environment may set.
fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok());
    value.unwrap_or(default)
}

/// The number of random pieces.
fn pieces() -> u64 {
    number("PIRN_PIECES", pirn_testing::campaign::share(1_000, 4))
}
