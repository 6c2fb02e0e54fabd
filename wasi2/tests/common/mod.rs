//! What several suites use.

#![allow(dead_code, reason = "no suite uses all of it")]

pub(crate) mod handler;
pub(crate) mod http;
pub(crate) mod wit;
