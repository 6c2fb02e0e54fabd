;; A command that sleeps for an hour.
(component
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
  (alias export $poll "pollable" (type $pollable-type))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable-type (type $outer))
    (export "pollable" (type $pollable (eq $outer)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core module $main
    (import "w" "block" (func $block (param i32)))
    (import "w" "subscribe" (func $subscribe (param i64) (result i32)))
    (func (export "run") (result i32)
      (call $block (call $subscribe (i64.const 3600_000_000_000)))
      (i32.const 0)))
  (core instance $main (instantiate $main (with "w" (instance
    (export "block" (func $block))
    (export "subscribe" (func $subscribe))))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))
