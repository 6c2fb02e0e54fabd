;; Prints until its output is refused. expect: 502
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "Content-Type: text/plain\n\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 65536))
    (loop $again
      (br_if $again (i32.eqz (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))))
