//! Every function of WASI 0.2 has the type that its WIT says.

use crate::common::wit;
use pirn_compiler::{Options, compile};
use pirn_component::{Component, Linker};
use pirn_runtime::{Module, Region};
use pirn_wasi2::Wasi;
use std::path::Path;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::ManglingAndAbi;

/// A component that imports and exports all of a world.
fn component(world: &str) -> Vec<u8> {
    let mut resolve = wit::wasi();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wit");
    let (package, _) = resolve.push_dir(folder).expect("it is well-formed");
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("the world");
    let mut core = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).expect("it fits");
    let encoder = ComponentEncoder::default();
    let encoder = encoder.module(&core).expect("it is a module");
    let encoded = encoder.validate(true).encode();
    encoded.expect("it is a component")
}

#[test]
fn all_functions_have_the_types_of_the_interfaces() {
    let so = compile(&component("all"), &Options::default()).expect("it compiles");
    let module = Module::from_bytes(&so).expect("it opens");
    let component = Component::new(&module).expect("it is a component");
    let mut linker = Linker::<Wasi>::new();
    pirn_wasi2::link(&mut linker).expect("nothing is defined twice");
    pirn_wasi2::http::link(&mut linker).expect("nothing is defined twice");
    let region = Region::builder().slots(1).build().expect("a region");
    linker
        .prepare(&region, &component)
        .map(drop)
        .expect("it links");
}
