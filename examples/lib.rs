//! Small example programs. Each file in this folder is one; run it with `cargo run --example`.

#[cfg(doctest)]
pub mod pages;
