//! `wasi:filesystem`, called by a component: what each function does, and what hostile calls get.

mod bounds;
mod driver;
mod files;
mod linux;
mod memory;
mod paths;
