//! HTTP handlers of a core module's text. A compiler needs no more than its world.

use super::wit;
use pirn_compiler::parse_text;
use std::sync::LazyLock;
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The imports that such a module may use, and its export.
const WORLD: &str = "package pirn:handlers;
    world handler {
      import wasi:cli/exit@0.2.12;
      import wasi:cli/stdin@0.2.12;
      import wasi:cli/stdout@0.2.12;
      import wasi:random/random@0.2.12;
      import wasi:io/poll@0.2.12;
      import wasi:io/streams@0.2.12;
      import wasi:clocks/monotonic-clock@0.2.12;
      import wasi:http/types@0.2.12;
      import wasi:http/outgoing-handler@0.2.12;
      export wasi:http/incoming-handler@0.2.12;
    }";

/// That world, and the interfaces of WASI, whose files are read once in a process.
static RESOLVED: LazyLock<(Resolve, WorldId)> = LazyLock::new(|| {
    let mut resolve = wit::wasi();
    let package = resolve.push_str("handlers.wit", WORLD).expect("a package");
    let world = resolve.select_world(&[package], Some("handler"));
    (resolve, world.expect("the world"))
});

/// Functions that these modules import.
const IMPORTS: &str = r#"
  (import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.12" "[method]fields.append"
    (func $append (param i32 i32 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.12" "[method]fields.clone" (func $clone (param i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[resource-drop]fields" (func $drop-fields (param i32)))
  (import "wasi:http/types@0.2.12" "[method]incoming-request.authority"
    (func $incoming-authority (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[method]incoming-request.path-with-query"
    (func $incoming-path (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[method]incoming-request.scheme"
    (func $incoming-scheme (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[constructor]outgoing-response"
    (func $response (param i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-response.headers"
    (func $headers (param i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[resource-drop]outgoing-response"
    (func $drop-response (param i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-response.set-status-code"
    (func $status (param i32 i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-response.body"
    (func $body (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-body.write" (func $stream (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[static]outgoing-body.finish"
    (func $finish (param i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.12" "[static]response-outparam.set"
    (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
    (func $request (param i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-request.set-path-with-query"
    (func $path (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-request.set-authority"
    (func $authority (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-request.set-method"
    (func $method (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-request.set-scheme"
    (func $scheme (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]outgoing-request.body"
    (func $request-body (param i32 i32)))
  (import "wasi:http/types@0.2.12" "[constructor]request-options" (func $options (result i32)))
  (import "wasi:http/types@0.2.12" "[method]request-options.set-connect-timeout"
    (func $connect-timeout (param i32 i32 i64) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]request-options.set-first-byte-timeout"
    (func $first-byte-timeout (param i32 i32 i64) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]request-options.set-between-bytes-timeout"
    (func $between-bytes-timeout (param i32 i32 i64) (result i32)))
  (import "wasi:http/outgoing-handler@0.2.12" "handle"
    (func $handle (param i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.12" "[method]future-incoming-response.subscribe"
    (func $subscribe (param i32) (result i32)))
  (import "wasi:http/types@0.2.12" "[method]future-incoming-response.get"
    (func $get (param i32 i32)))
  (import "wasi:cli/stdin@0.2.12" "get-stdin" (func $stdin (result i32)))
  (import "wasi:cli/stdout@0.2.12" "get-stdout" (func $stdout (result i32)))
  (import "wasi:random/random@0.2.12" "get-random-bytes" (func $random (param i64 i32)))
  (import "wasi:io/streams@0.2.12" "[method]output-stream.splice"
    (func $splice (param i32 i32 i64 i32)))
  (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-zeroes-and-flush"
    (func $zeros (param i32 i64 i32)))
  (import "wasi:io/streams@0.2.12" "[resource-drop]output-stream"
    (func $drop-stream (param i32)))
  (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
    (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
  (import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))
"#;

/// What these modules share: results of functions are at 0, and allocations begin at 4096.
const SHARED: &str = r#"
  (memory (export "memory") 4)
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param $old i32) (param i32 i32) (param $bytes i32) (result i32)
    (global.get $next)
    (global.set $next
      (i32.and (i32.add (global.get $next) (i32.add (local.get $bytes) (i32.const 15)))
        (i32.const -16))))
  (func $sleep (param $ns i64) (call $block (call $timer (local.get $ns))))
  ;; The word after the discriminant of the last result, which must be 0.
  (func $ok (result i32)
    (if (i32.load8_u (i32.const 0)) (then unreachable))
    (i32.load (i32.const 4)))
  (func $sent (param $out i32) (param $response i32)
    (call $set (local.get $out) (i32.const 0) (local.get $response) (i32.const 0) (i64.const 0)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
"#;

/// A handler: a core module with the functions above, and these.
pub(crate) fn handler(core: &str) -> Vec<u8> {
    let text = format!("(module {IMPORTS} {SHARED} {core})");
    let wasm = parse_text(text.as_bytes()).expect("it is well-formed");
    let mut wasm = wasm.into_owned();
    let (resolve, world) = &*RESOLVED;
    embed_component_metadata(&mut wasm, resolve, *world, StringEncoding::UTF8).expect("it fits");
    wasm
}
