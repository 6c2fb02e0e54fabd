//! Runs CRuby with warm starts: the interpreter and a script start once, and every request gets an
//! instance of the snapshot.
//!
//! ```sh
//! examples/guests/build.sh ruby
//! cd examples/guests
//! cargo run --release --example ruby -- built/ruby.wasm ruby/app.rb
//! ```
//!
//! CRuby for WASI is a reactor whose exports take strings (canonical ABI of the early component
//! model), so `aotrun` alone cannot call them. It also imports an interface to JavaScript. A script
//! that uses that ends here with a trap.

use pirn_compiler::{Options, compile, parse_text};
use pirn_runtime::{ExternType, Instance, Linker, Module, Prepared, Region, Value};
use pirn_wasi::pipe::{ReadPipe, WritePipe};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::error::Error;
use std::io::Cursor;
use std::time::Instant;

/// Most bytes of Ruby's memory.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// Modules that only hosts with JavaScript can offer.
const JAVASCRIPT: &str = "rb-js-abi-host";
const HANDLES: &str = "canonical_abi";

/// Exports begin with these names, followed by their types in the interface language.
const INIT: &str = "ruby-init: ";
const LOAD_PATH: &str = "ruby-init-loadpath: ";
const EVAL: &str = "rb-eval-string-protect: ";
/// Allocates memory for arguments: old address, old size, alignment, new size.
const REALLOC: &str = "cabi_realloc";

type Failure = Box<dyn Error + Send + Sync>;

/// The output of a guest.
type Output = WritePipe<Cursor<Vec<u8>>>;

/// CRuby with a script that has run.
struct Ruby {
    warm: Prepared<WasiCtx>,
    eval: String,
}

impl Ruby {
    /// Starts CRuby, evaluates the script, and takes the snapshot.
    fn new(wasm: &[u8], script: &str) -> Result<Self, Failure> {
        let so = compile(&parse_text(wasm)?, &Options::default())?;
        let module = Module::from_bytes(&so)?;
        let region = Region::builder()
            .slots(8)
            .memory_bytes_max(MEMORY_BYTES_MAX)
            .stack_bytes(8 << 20)
            .build()?;
        let linker = linker(&module)?;
        let cold = region.prepare(&module, &linker)?;
        let mut instance = cold.instantiate(context("", &WritePipe::new_in_memory())?)?;
        instance.call_values("_initialize", &[])?;
        let args = list(&mut instance, &["ruby", "-EUTF-8", "-e_=0"])?;
        instance.call_values(&export(&module, INIT)?, &args)?;
        instance.call_values(&export(&module, LOAD_PATH)?, &[])?;
        let eval = export(&module, EVAL)?;
        evaluate(&mut instance, &eval, script)?;
        // Less to copy for each request.
        evaluate(&mut instance, &eval, "GC.start")?;
        let warm = region.prepare(&instance.snapshot_after(&["_initialize"])?, &linker)?;
        Ok(Self { warm, eval })
    }

    /// Evaluates Ruby in a new instance, with this standard input. Returns its output.
    fn answer(&self, ruby: &str, body: &str) -> Result<String, Failure> {
        let output = WritePipe::new_in_memory();
        let mut instance = self.warm.instantiate(context(body, &output)?)?;
        evaluate(&mut instance, &self.eval, ruby)?;
        drop(instance);
        let bytes = output
            .try_into_inner()
            .map_err(|_| "the output is in use")?;
        Ok(String::from_utf8(bytes.into_inner())?)
    }
}

/// The whole name of the export that begins with `name`.
fn export(module: &Module, name: &str) -> Result<String, Failure> {
    let mut exports = module.exports();
    let found = exports.find(|(export, _)| export.starts_with(name));
    let (found, _) = found.ok_or_else(|| format!("this is no CRuby: no export {name:?}"))?;
    Ok(found.to_owned())
}

fn context(body: &str, output: &Output) -> Result<WasiCtx, Failure> {
    let context = WasiCtxBuilder::new()
        .arg("ruby")?
        .stdin(ReadPipe::from(body))
        .stdout(output.clone())
        .stderr(WritePipe::new(std::io::stderr()))
        .build();
    Ok(context)
}

/// WASI, handles of Ruby values, and functions that trap in place of the JavaScript ones.
fn linker(module: &Module) -> Result<Linker<WasiCtx>, Failure> {
    let mut linker = Linker::new();
    pirn_wasi::link(&mut linker, |wasi| wasi)?;
    for (interface, name, ty) in module.imports() {
        let ExternType::Func(ty) = ty else { continue };
        if interface == JAVASCRIPT {
            let missing = name.split(':').next().unwrap_or_default().to_owned();
            linker.func_values(interface, name, ty, move |_, _, _| {
                let why = format!("{missing} needs JavaScript, and there is none");
                Err(std::io::Error::other(why).into())
            })?;
        } else if interface == HANDLES {
            // A handle is the address of the value itself. So a snapshot keeps all handles.
            linker.func_values(interface, name, ty, |_, params, results| {
                results.clone_from_slice(&params[..results.len()]);
                Ok(())
            })?;
        }
    }
    Ok(linker)
}

/// Address of `bytes` new bytes of the guest.
fn allocate(instance: &mut Instance<WasiCtx>, bytes: usize) -> Result<u32, Failure> {
    let size = Value::I32(i32::try_from(bytes)?);
    let params = [Value::I32(0), Value::I32(0), Value::I32(4), size];
    match instance.call_values(REALLOC, &params)?[..] {
        [Value::I32(address)] => Ok(address.cast_unsigned()),
        ref other => Err(format!("{REALLOC} returned {other:?}").into()),
    }
}

/// Copies a text to the guest: its address and its length. CRuby expects a zero byte at the end.
fn text(instance: &mut Instance<WasiCtx>, text: &str) -> Result<[u32; 2], Failure> {
    let text = format!("{text}\0");
    let address = allocate(instance, text.len())?;
    instance.memory_mut().write(address, text.as_bytes())?;
    Ok([address, u32::try_from(text.len())?])
}

/// Copies a list of texts to the guest, as the parameters of a call.
fn list(instance: &mut Instance<WasiCtx>, texts: &[&str]) -> Result<[Value; 2], Failure> {
    let address = allocate(instance, texts.len() * 8)?;
    for (at, one) in (address..).step_by(8).zip(texts) {
        let [start, len] = text(instance, one)?;
        instance.memory_mut().write_u32(at, start)?;
        instance.memory_mut().write_u32(at + 4, len)?;
    }
    Ok([address, texts.len() as u32].map(|word| Value::I32(word.cast_signed())))
}

/// Evaluates Ruby. An exception is an error; Ruby has printed it.
fn evaluate(instance: &mut Instance<WasiCtx>, eval: &str, ruby: &str) -> Result<(), Failure> {
    // The export only says that there was an exception.
    let guarded =
        format!("begin\n{ruby}\nrescue Exception => e\n$stderr.puts e.full_message\nraise\nend");
    let params = text(instance, &guarded)?.map(|word| Value::I32(word.cast_signed()));
    let results = instance.call_values(eval, &params)?;
    let [Value::I32(at)] = results[..] else {
        return Err(format!("{eval} returned {results:?}").into());
    };
    // A handle, and the state of the interpreter: 0 if it went well.
    match instance.memory().read_u32(at.cast_unsigned() + 4)? {
        0 => Ok(()),
        state => Err(format!("Ruby ended with state {state}").into()),
    }
}

#[test]
fn each_request_is_the_first_of_its_instance() {
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/guests");
    let Ok(wasm) = std::fs::read(format!("{guests}/built/ruby.wasm")) else {
        eprintln!("NOT RUN: ruby.wasm is not built; run examples/guests/build.sh ruby");
        return;
    };
    let script = std::fs::read_to_string(format!("{guests}/ruby/app.rb"));
    let ruby = Ruby::new(&wasm, &script.expect("the script is there")).expect("it starts");
    for n in 0..1000 {
        let item = n * 7 % 1009;
        let cents = match item {
            0..1000 => (100 + item * item % 9973).to_string(),
            _ => "none".to_owned(),
        };
        let answer = ruby.answer("handle", &format!("item-{item}"));
        let wanted = format!("item-{item}: {cents} cents, requests: 1\n");
        assert_eq!(answer.expect("it answers"), wanted, "request {n}");
    }
    let error = ruby.answer("handle(1)", "").expect_err("wrong arguments");
    assert!(error.to_string().contains("state"), "{error}");
    assert_eq!(
        ruby.answer("handle", "item-0")
            .expect("it answers")
            .lines()
            .count(),
        1
    );
}

#[test]
fn a_module_that_is_no_ruby_is_named() {
    let wasm = br#"(module (memory (export "memory") 1) (func (export "_initialize"))
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8)))"#;
    let error = Ruby::new(wasm, "").err().expect("it has no ruby-init");
    assert!(
        error.to_string().contains("no export \"ruby-init: \""),
        "{error}"
    );
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [wasm, script] = &args[..] else {
        return Err("give two files: ruby.wasm, and a script that defines handle".into());
    };
    let wasm = std::fs::read(wasm).map_err(|error| format!("{wasm}: {error}"))?;
    let script = std::fs::read_to_string(script).map_err(|error| format!("{script}: {error}"))?;
    let ruby = Ruby::new(&wasm, &script)?;
    println!("{}", ruby.answer("handle", "item-7")?);
    let start = Instant::now();
    for n in 0..1000 {
        let item = format!("item-{}", n % 100);
        let answer = ruby.answer("handle", &item)?;
        assert!(
            answer.contains(&item) && answer.contains("requests: 1"),
            "{answer}"
        );
    }
    println!("{:.0} us a request", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
