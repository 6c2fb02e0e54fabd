//! Small programs to copy: see the files beside this one, and run them with `cargo run --example`.
