//! A host that runs each request in its own sandbox. The guest reads the request, converts it to
//! upper case, and replies.
//!
//! A server would open a module that `aotc` has compiled, and would contain no compiler. This
//! example compiles its guest first, so that it runs on its own.

use pirn_runtime::{CallError, Caller, Linker, Module, Prepared, Region, Trap, TypedFunc};
use std::error::Error;
use std::time::Duration;

const GUEST: &str = r#"(module
  (import "http" "read" (func $read (param i32 i32) (result i32)))
  (import "http" "reply" (func $reply (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (result i32)
    (local $len i32) (local $at i32)
    (local.set $len (call $read (i32.const 0) (i32.const 65536)))
    (if (i32.eqz (local.get $len)) (then (return (i32.const 400))))
    (loop $next
      (if (i32.lt_u (i32.sub (i32.load8_u (local.get $at)) (i32.const 97)) (i32.const 26))
        (then (i32.store8 (local.get $at)
          (i32.sub (i32.load8_u (local.get $at)) (i32.const 32)))))
      (br_if $next (i32.lt_u
        (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $len))))
    (call $reply (i32.const 0) (local.get $len))
    (i32.const 200)))"#;

/// Longest time that a request may take.
const LIMIT: Duration = Duration::from_millis(50);

/// The host's data for one request.
struct Request {
    body: Vec<u8>,
    reply: Vec<u8>,
}

/// The prepared guest.
struct Filter {
    prepared: Prepared<Request>,
    handle: TypedFunc<(), u32>,
    limit: Duration,
}

impl Filter {
    fn new(module: &Module, region: &Region, limit: Duration) -> Result<Self, Box<dyn Error>> {
        let mut linker = Linker::<Request>::new();
        linker.func(
            "http",
            "read",
            |mut caller: Caller<'_, Request>, ptr: u32, cap: u32| {
                let (mut memory, request) = caller.split();
                memory.write_prefix(ptr, cap, &request.body)
            },
        )?;
        let reply = |mut caller: Caller<'_, Request>, ptr: u32, len: u32| -> Result<(), Trap> {
            let (memory, request) = caller.split();
            request.reply.extend_from_slice(memory.slice(ptr, len)?);
            Ok(())
        };
        linker.func("http", "reply", reply)?;
        let prepared = region.prepare(module, &linker)?;
        let handle = prepared.func("handle")?;
        Ok(Self {
            prepared,
            handle,
            limit,
        })
    }

    /// Runs one request in a new sandbox, and returns its status and reply.
    fn answer(&self, body: &[u8]) -> Result<(u32, Vec<u8>), Box<dyn Error>> {
        let request = Request {
            body: body.to_vec(),
            reply: vec![],
        };
        let mut instance = self.prepared.instantiate(request)?;
        match instance.deadline(self.limit).call(&self.handle, ()) {
            Ok(status) => Ok((status, instance.into_data().reply)),
            // A trap or a deadline is the guest's fault, not the server's.
            Err(CallError::Trap(trap)) => Ok((500, trap.to_string().into_bytes())),
            Err(late @ CallError::Deadline(_)) => Ok((504, late.to_string().into_bytes())),
            Err(error) => Err(error.into()),
        }
    }
}

fn compile() -> Result<Module, Box<dyn Error>> {
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes())?;
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
    Ok(Module::from_bytes(&so)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let region = Region::builder()
        .slots(100)
        .memory_bytes_max(1 << 20)
        .build()?;
    println!("{}", region.describe());
    let filter = Filter::new(&compile()?, &region, LIMIT)?;
    for body in ["a first request", "another one", ""] {
        let (status, reply) = filter.answer(body.as_bytes())?;
        println!("{status} {}", String::from_utf8_lossy(&reply));
    }
    Ok(())
}

#[test]
fn each_request_has_a_sandbox_of_its_own() -> Result<(), Box<dyn Error>> {
    let region = Region::builder().slots(1).build()?;
    // No request of this test takes an hour, also on a busy machine.
    let filter = Filter::new(&compile()?, &region, Duration::from_secs(3600))?;
    assert_eq!(
        filter.answer(b"a longer request")?,
        (200, b"A LONGER REQUEST".to_vec())
    );
    assert_eq!(filter.answer(b"short")?, (200, b"SHORT".to_vec()));
    assert_eq!(filter.answer(b"")?, (400, vec![]));
    assert_eq!(region.slots_free(), 1);
    Ok(())
}
