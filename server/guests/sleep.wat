;; Sleeps for an hour, twice. expect: 504
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $subscribe (param $at i32)
    (i32.store (i32.add (local.get $at) (i32.const 16)) (i32.const 1))
    (i64.store (i32.add (local.get $at) (i32.const 24)) (i64.const 3600000000000)))
  (func (export "_start")
    (call $subscribe (i32.const 1024)) (call $subscribe (i32.const 1072))
    ;; Waits for one subscription, and then for both.
    (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 8)))
    (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 2) (i32.const 8)))))
