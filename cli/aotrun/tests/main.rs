//! All suites of `aotrun`.

mod bytes;
mod command_line;
mod common;
mod components;
mod guests;
mod inherited;
mod load;
mod snapshot;
mod threads;
mod threads_guests;
mod trust;
