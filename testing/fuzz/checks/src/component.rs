//! Random types and values in components, in two ways.
//!
//! A value goes from the host to a component, from there to a function of the host, and back. A
//! reader of the canonical ABI that shares no code with pirn reads what the component got. Half of
//! these components are damaged: they compile and run, or are refused.
//!
//! In the other components, one or two guests follow a script from the host, with and without
//! mistakes. pirn and other engines must behave equally.

mod decode;
mod types;
mod engine;
mod scripted;
mod hostile;
mod values;
mod case;
mod observed;
mod tally;
mod compare;

pub use engine::{Call, End, Engine, Fault, Pirn, Plan, Seen};
pub use tally::Tally;

use crate::random::Random;
use decode::{Encoding, Reader};
use pirn_compiler::{CompileError, Options};
use pirn_component::{Component, Linker, Value};
use pirn_runtime::{Module, Region};
use types::{Core, FLAT_PARAMS_MAX, Handles, Ty};

/// Where the guest writes its core parameters.
const PARAMS_AT: u32 = 8;
/// Values of each type.
const VALUES: usize = 4;

/// Makes a component from the input, and checks it. In half of the components, values of one type
/// must pass through unchanged. In the others, guests follow scripts, and the engines in `others`
/// must behave as pirn does. The canary changes a word that the component got.
///
/// # Errors
///
/// If a value changed, if a damaged component has another effect than an error, or if engines
/// differ.
pub fn check(data: &[u8], others: &[&dyn Engine], canary: bool) -> Result<Tally, String> {
    let mut random = Random::of_input(data);
    match random.once_in(2) {
        true => compare::check(&mut random, others, canary),
        false => echo(random, canary),
    }
}

/// Checks that values of one type pass through a component unchanged, or checks a damaged
/// component.
fn echo(mut random: Random, canary: bool) -> Result<Tally, String> {
    let depth = random.below(4);
    let ty = Ty::any(&mut random, depth, Handles::None);
    let encoding = Encoding::ALL[random.below(Encoding::ALL.len())];
    let text = text(&ty, encoding);
    let wasm = pirn_compiler::parse_text(text.as_bytes());
    let mut wasm = wasm
        .map_err(|error| format!("{error}: {text}"))?
        .into_owned();
    let damaged = !canary && random.once_in(2);
    if damaged {
        for _ in 0..=random.below(3) {
            let at = 8 + random.below(wasm.len() - 8);
            match random.below(4) {
                0 => wasm[at] = random.bits() as u8,
                1 => wasm.insert(at, random.any() as u8),
                2 => drop(wasm.remove(at)),
                _ => wasm[at] ^= 1 << random.below(8),
            }
        }
    }
    let so = match pirn_compiler::compile(&wasm, &Options::default()) {
        Ok(so) => so,
        Err(error @ (CompileError::Codegen { .. } | CompileError::Object(_))) => {
            return Err(error.to_string());
        }
        Err(error) if error.to_string().contains('\n') => {
            return Err(format!("not a line: {error}"));
        }
        Err(error) if damaged && !error.to_string().contains("fault of the compiler") => {
            return Ok(Tally {
                refused: 1,
                ..Tally::default()
            });
        }
        Err(error) => return Err(format!("{error}: {text}")),
    };
    let module = Module::from_bytes(&so).map_err(|error| error.to_string())?;
    let found = Component::new(&module);
    if damaged {
        // It may be a core module now, or lack its function.
        if let Ok(component) = found {
            let value = ty.value(&mut random);
            drop(around(&ty, encoding, &component, &value, false));
        }
        return Ok(Tally {
            compiled: 1,
            ..Tally::default()
        });
    }
    let component = found.map_err(|error| error.to_string())?;
    for _ in 0..VALUES {
        let value = ty.value(&mut random);
        around(&ty, encoding, &component, &value, canary)
            .map_err(|error| format!("{error}: {encoding:?} {ty:?}"))?;
    }
    Ok(Tally {
        values: VALUES,
        ..Tally::default()
    })
}

/// Sends a value through a component.
fn around(
    ty: &Ty,
    encoding: Encoding,
    component: &Component,
    value: &Value,
    canary: bool,
) -> Result<(), String> {
    let mut linker = Linker::<Option<Value>>::new();
    let host = |state: &mut pirn_component::State<Option<Value>>, params: Vec<Value>| {
        let value = params.into_iter().next();
        *state.data_mut() = value.clone();
        Ok(value)
    };
    linker
        .func_values("", "host", host)
        .map_err(|error| error.to_string())?;
    let region = Region::builder().slots(1).memories(2).build();
    let region = region.map_err(|error| error.to_string())?;
    let prepared = linker
        .prepare(&region, component)
        .map_err(|error| error.to_string())?;
    let func = prepared.func("f").map_err(|error| error.to_string())?;
    let mut instance = prepared
        .instantiate(None)
        .map_err(|error| error.to_string())?;
    let returned = instance.call(&func, std::slice::from_ref(value));
    let returned = returned.map_err(|error| error.to_string());
    let got = instance.core().memory().as_slice().to_vec();
    let at_host = instance.into_data();
    if region.slots_free() != 1 {
        return Err("a slot is lost".to_owned());
    }
    let returned = returned?;
    let reader = Reader {
        memory: &got,
        encoding,
    };
    let count = ty.flat().len();
    let words = (0..count.min(FLAT_PARAMS_MAX)).map(|at| {
        let at = PARAMS_AT as usize + at * 8;
        let bytes = got.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes) ^ u64::from(canary)
    });
    let words: Vec<u64> = words.collect();
    let read = reader.value(ty, &words, FLAT_PARAMS_MAX, words[0] as u32);
    for (place, found) in [("guest", read), ("host", at_host), ("caller", returned)] {
        if found.as_ref() != Some(value) {
            return Err(format!("the {place} has {found:?}, not {value:?}"));
        }
    }
    Ok(())
}

/// A component whose function `f` gives its parameter to the host and returns the host's result.
fn text(ty: &Ty, encoding: Encoding) -> String {
    let mut types = String::new();
    let name = ty.declare(&mut types, &mut 0);
    let flat = ty.flat();
    let params = ty.core_params();
    let in_memory = flat.len() > 1;
    let names = Core::names(&params);
    let result = flat[0].name();
    // A lowered function takes the address of a result in memory.
    let (host, lifted, end) = match in_memory {
        true => (
            format!("(param {names} i32)"),
            format!("(param {names}) (result i32)"),
            "(i32.const 1024) (call $host) (i32.const 1024)",
        ),
        false => {
            let ty = format!("(param {names}) (result {result})");
            (ty.clone(), ty, "(call $host)")
        }
    };
    let mut body = String::new();
    for (at, core) in params.iter().enumerate() {
        let word = core.bits(&format!("(local.get {at})"));
        let place = PARAMS_AT as usize + at * 8;
        body += &format!("(i64.store (i32.const {place}) {word})\n");
    }
    for at in 0..params.len() {
        body += &format!("(local.get {at}) ");
    }
    let options = format!(
        "(memory (core memory $l \"m\")) (realloc (core func $l \"r\")) string-encoding={}",
        encoding.option()
    );
    format!(
        r#"(component
          {types}
          (import "host" (func $h (param "x" {name}) (result {name})))
          (core module $libc
            (memory (export "m") 16)
            (global $end (mut i32) (i32.const 65536))
            (func (export "r") (param i32 i32 i32 i32) (result i32)
              (local $at i32)
              (local.set $at (i32.and
                (i32.add (global.get $end) (i32.sub (local.get 2) (i32.const 1)))
                (i32.sub (i32.const 0) (local.get 2))))
              (global.set $end (i32.add (local.get $at) (local.get 3)))
              (local.get $at)))
          (core instance $l (instantiate $libc))
          (core func $host (canon lower (func $h) {options}))
          (core module $m
            (import "l" "m" (memory 1))
            (import "h" "h" (func $host {host}))
            (func (export "f") {lifted} {body} {end}))
          (core instance $i (instantiate $m
            (with "l" (instance $l)) (with "h" (instance (export "h" (func $host))))))
          (func (export "f") (param "x" {name}) (result {name})
            (canon lift (core func $i "f") {options})))"#
    )
}
