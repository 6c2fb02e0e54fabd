//! All suites of the server and of `pirn-serve`.

mod access;
mod admission;
mod authority;
mod bounds;
mod common;
mod components;
mod config;
mod handlers;
mod health;
mod languages;
mod load;
mod manager;
mod reload;
mod serve;
mod server;
mod signed;
mod streams;
#[cfg(feature = "otlp")]
mod traces;
mod warm;

// Each test has a limit of its run time.
use pirn_testing as _;
