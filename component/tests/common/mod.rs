//! Components in a region of one slot.

#![allow(dead_code, reason = "no suite uses all of it")]

use pirn_compiler::{Options, compile, parse_text};
use pirn_component::{CallError, Component, Instance, Linker, Prepared, Value};
use pirn_runtime::{Module, Region};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// An instance of a component.
pub(crate) struct Guest<T = ()> {
    pub(crate) prepared: Prepared<T>,
    pub(crate) instance: Option<Instance<T>>,
    region: Region,
}

/// Compiles a text.
pub(crate) fn compiled(wat: &str) -> Result<Vec<u8>, String> {
    let wasm = parse_text(wat.as_bytes()).expect("it is well-formed");
    compile(&wasm, &Options::default()).map_err(|error| error.to_string())
}

/// The module of a text.
pub(crate) fn module(wat: &str) -> Module {
    Module::from_bytes(&compiled(wat).expect("it compiles")).expect("it opens")
}

/// The component of a text.
pub(crate) fn component(wat: &str) -> Component {
    Component::new(&module(wat)).expect("it is a component")
}

/// A component whose function `echo` takes and returns a value of the type `ty`. `types` has the
/// definitions that it uses, and `flat` its core types. If there are several, `stores` writes them
/// to address 16.
pub(crate) fn echo(types: &str, ty: &str, flat: &[&str], stores: &str) -> String {
    let params = flat.join(" ");
    let (result, core) = match flat {
        [one] => (*one, "(local.get 0)".to_owned()),
        _ => ("i32", format!("{stores} (i32.const 16)")),
    };
    format!(
        r#"(component
          {types}
          (core module $m
            (memory (export "memory") 2)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
              (global.get $next)
              (global.set $next (i32.and (i32.const -8)
                (i32.add (i32.const 7) (i32.add (global.get $next) (local.get 3))))))
            (func (export "echo") (param {params}) (result {result}) {core}))
          (core instance $i (instantiate $m))
          (func $echo (param "value" {ty}) (result {ty})
            (canon lift (core func $i "echo") (memory (core memory $i "memory"))
              (realloc (core func $i "realloc"))))
          (export "echo" (func $echo)))"#
    )
}

/// Writes two parameters to address 16.
pub(crate) const PAIR: &str =
    "(i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1))";

/// An instance of the component of a text.
pub(crate) fn guest<T: Default + Send + 'static>(wat: &str, linker: &Linker<T>) -> Guest<T> {
    let region = Region::builder()
        .slots(1)
        .memories(4)
        .memory_bytes_max(4 << 20);
    let region = region.build().expect("a region");
    let prepared = linker.prepare(&region, &component(wat)).expect("it links");
    let instance = prepared.instantiate(T::default()).expect("a slot is free");
    Guest {
        prepared,
        instance: Some(instance),
        region,
    }
}

impl<T: Send + 'static> Guest<T> {
    /// Calls a function. An error is its message.
    pub(crate) fn call(&mut self, name: &str, params: &[Value]) -> Result<Option<Value>, String> {
        self.call_typed(name, params).map_err(|error| {
            let message = error.to_string();
            assert!(!message.contains('\n'), "one line: {message}");
            message
        })
    }

    pub(crate) fn call_typed(
        &mut self,
        name: &str,
        params: &[Value],
    ) -> Result<Option<Value>, CallError> {
        let func = self.prepared.func(name).expect("it is exported");
        let instance = self.instance.as_mut().expect("it lives");
        instance.call(&func, params)
    }

    /// Drops the instance.
    pub(crate) fn free_slots_after_drop(&mut self) -> usize {
        self.instance = None;
        self.region.slots_free()
    }
}

/// Polls a future so many times, or until it is ready.
pub(crate) fn run<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}

/// Is ready at the second poll.
pub(crate) struct Later(pub(crate) bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}
