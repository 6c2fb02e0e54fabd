//! Java programs as functions: each invocation is isolated from the others, or not.
//!
//! `cargo run --release --bin java -- [ROUNDS [SVG [PROGRAM]]]` in `benches/peers` prints a table
//! and draws a graph, unless SVG is `-`. The engines run in turn. `cargo bench` there writes the
//! report of criterion. Both need `benches/peers/java/build.sh` first.

pub mod program;
pub mod engine;
pub mod pirn;
pub mod wasmtime;
pub mod jvm;
pub mod all;
pub mod graph;
