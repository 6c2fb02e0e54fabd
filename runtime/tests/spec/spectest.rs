//! The host module that the test suite imports as `spectest`: an instance provides the stateful
//! items, and host functions provide the rest.

use crate::common;
use pirn_runtime::{AddrType, Group, Linker, MemoryType, PageSize, Region, SharedMemory};

/// All items except the functions.
const MODULE: &str = r#"(module
  (global (export "global_i32") i32 (i32.const 666))
  (global (export "global_i64") i64 (i64.const 666))
  (global (export "global_f32") f32 (f32.const 666.6))
  (global (export "global_f64") f64 (f64.const 666.6))
  (table (export "table") 10 20 funcref)
  (memory (export "memory") 1 2))"#;

/// A group with an instance named `spectest`, and a linker with the functions.
pub(crate) fn group(region: &Region) -> (Group<()>, Linker<()>) {
    let mut linker = Linker::new();
    functions(&mut linker).expect("no name is defined twice");
    let shared = MemoryType {
        address: AddrType::I32,
        page: PageSize::Large,
        min: 1,
        max: Some(2),
        shared: true,
    };
    let shared = SharedMemory::new(&shared).expect("the system has memory");
    let offered = linker.memory("spectest", "shared_memory", &shared);
    offered.expect("no name is defined twice");
    let mut group = Group::new(region, ());
    let spectest = group
        .instantiate(&common::wat(MODULE), &linker)
        .expect("there is a slot");
    group.name("spectest", spectest);
    (group, linker)
}

fn functions(linker: &mut Linker<()>) -> Result<(), pirn_runtime::LinkError> {
    linker.func("spectest", "print", || ())?;
    linker.func("spectest", "print_i32", |_: i32| ())?;
    linker.func("spectest", "print_i64", |_: i64| ())?;
    linker.func("spectest", "print_f32", |_: f32| ())?;
    linker.func("spectest", "print_f64", |_: f64| ())?;
    linker.func("spectest", "print_i32_f32", |_: i32, _: f32| ())?;
    linker.func("spectest", "print_f64_f64", |_: f64, _: f64| ())?;
    Ok(())
}
