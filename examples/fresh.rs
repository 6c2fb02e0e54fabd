//! What an instance remembers. The same requests go to one instance that serves all of them, and
//! to a fresh instance each. The guide `docs/guide/why-fresh.md` quotes the output.
//!
//! A server would open a module that `aotc` has compiled. This example compiles its guest first, so
//! that it runs on its own.

use pirn_runtime::{CallError, Instance, Linker, Module, Prepared, Region, TypedFunc, Value};
use std::error::Error;
use std::fmt::Write;

/// A handler with three faults that real handlers have. Its author has tested each request alone,
/// where none of the faults shows.
const GUEST: &str = r#"(module
  (memory (export "memory") 1)
  (global $count (export "count") (mut i32) (i32.const 0))
  (global $locked (mut i32) (i32.const 0))
  (func (export "handle") (param $len i32) (result i32)
    ;; It counts requests, for a message to its user.
    (global.set $count (i32.add (global.get $count) (i32.const 1)))
    ;; It takes a lock, and fails before it gives the lock back.
    (if (global.get $locked) (then (return (i32.const 0))))
    (global.set $locked (i32.const 1))
    (if (i32.eq (i32.load8_u (i32.const 1024)) (i32.const 33)) (then (unreachable)))
    ;; It copies a body over an earlier one, and replies without looking at the length.
    (memory.copy (i32.const 0) (i32.const 1024) (local.get $len))
    (global.set $locked (i32.const 0))
    (i32.const 24)))"#;

/// Address at which the guest expects a body.
const BODY: u32 = 1024;

/// Users and their bodies, in the order in which they arrive.
const REQUESTS: [(&str, &str); 4] = [
    ("alice", "card 4929 1234 5678 9012"),
    ("bob", "hello"),
    ("mallory", "!"),
    ("carol", "hello"),
];

/// The prepared guest.
struct Handler {
    prepared: Prepared<()>,
    handle: TypedFunc<u32, u32>,
}

impl Handler {
    fn new(region: &Region) -> Result<Self, Box<dyn Error>> {
        let wasm = pirn_compiler::parse_text(GUEST.as_bytes())?;
        let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
        let prepared = region.prepare(&Module::from_bytes(&so)?, &Linker::new())?;
        let handle = prepared.func("handle")?;
        Ok(Self { prepared, handle })
    }

    /// What a user gets from an instance.
    fn answer(&self, instance: &mut Instance<()>, body: &str) -> Result<String, Box<dyn Error>> {
        instance.memory_mut().write(BODY, body.as_bytes())?;
        let len = match instance.call(&self.handle, body.len().try_into()?) {
            Ok(0) => return Ok("503 busy".to_owned()),
            Ok(len) => len,
            Err(CallError::Trap(_)) => return Ok("500".to_owned()),
            Err(error) => return Err(error.into()),
        };
        let Some(Value::I32(count)) = instance.global("count") else {
            return Err("the guest has no count".into());
        };
        let reply = instance.memory().slice(0, len)?.to_vec();
        let text = String::from_utf8(reply)?;
        Ok(format!(
            "200 {:?}, request {count}",
            text.trim_end_matches('\0')
        ))
    }
}

/// Answers all requests, and returns a line for each.
fn answers(handler: &Handler, mut reused: Option<Instance<()>>) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    for (user, body) in REQUESTS {
        let answer = match &mut reused {
            Some(instance) => handler.answer(instance, body)?,
            None => handler.answer(&mut handler.prepared.instantiate(())?, body)?,
        };
        writeln!(lines, "  {user:<8} gets {answer}")?;
    }
    Ok(lines)
}

/// The output of this program.
fn compared() -> Result<String, Box<dyn Error>> {
    let region = Region::builder().slots(1).build()?;
    let handler = Handler::new(&region)?;
    let reused = answers(&handler, Some(handler.prepared.instantiate(())?))?;
    let fresh = answers(&handler, None)?;
    Ok(format!(
        "one instance for all requests:\n{reused}a fresh instance for each request:\n{fresh}"
    ))
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", compared()?);
    Ok(())
}

#[test]
fn the_guide_quotes_the_output() -> Result<(), Box<dyn Error>> {
    let guide = include_str!("../docs/guide/why-fresh.md");
    let quoted = format!("```text\n{}```\n", compared()?);
    assert!(guide.contains(&quoted), "{quoted}");
    Ok(())
}

#[test]
fn only_a_reused_instance_tells_one_user_what_another_sent() -> Result<(), Box<dyn Error>> {
    let region = Region::builder().slots(1).build()?;
    let handler = Handler::new(&region)?;
    let reused = answers(&handler, Some(handler.prepared.instantiate(())?))?;
    let fresh = answers(&handler, None)?;
    let line = |text: &str, user: &str| {
        let found = text.lines().find(|line| line.contains(user));
        found.map(str::to_owned).ok_or("a user has no line")
    };
    assert!(line(&reused, "bob")?.contains("4929") || line(&reused, "bob")?.contains("9012"));
    assert!(line(&reused, "carol")?.contains("busy"));
    assert!(fresh.lines().filter(|line| line.contains("9012")).count() == 1);
    assert!(line(&fresh, "carol")?.contains("\"hello\", request 1"));
    // One slot served all of the fresh instances.
    assert_eq!(region.slots_free(), 1);
    Ok(())
}
