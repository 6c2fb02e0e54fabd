//! What can be known of a module before its functions are translated: constant contents, tables
//! that never change, functions recognised by what they compute.

pub(crate) mod image;
pub(crate) mod known_tables;
pub(crate) mod idioms;
