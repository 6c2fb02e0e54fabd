;; A command that copies its standard input to its standard output. It returns an error if a write
;; fails, and traps if a read fails.
(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error-type))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $error-type (type $outer))
    (export "error" (type $error (eq $outer)))
    (type $variant (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $failure (eq $variant)))
    (export "input-stream" (type $in (sub resource)))
    (export "output-stream" (type $out (sub resource)))
    (export "[method]input-stream.blocking-read" (func
      (param "self" (borrow $in)) (param "len" u64)
      (result (result (list u8) (error $failure)))))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $out)) (param "contents" (list u8))
      (result (result (error $failure)))))))
  (alias export $streams "input-stream" (type $in-type))
  (alias export $streams "output-stream" (type $out-type))
  (import "wasi:cli/stdin@0.2.0" (instance $stdin
    (alias outer 1 $in-type (type $outer))
    (export "input-stream" (type $in (eq $outer)))
    (export "get-stdin" (func (result (own $in))))))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $out-type (type $outer))
    (export "output-stream" (type $out (eq $outer)))
    (export "get-stdout" (func (result (own $out))))))

  ;; The bytes of a read are at 4096, and results of functions at 0.
  (core module $memory
    (memory (export "memory") 2)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $memory (instantiate $memory))
  (core func $get-in (canon lower (func $stdin "get-stdin")))
  (core func $get-out (canon lower (func $stdout "get-stdout")))
  (core func $read (canon lower (func $streams "[method]input-stream.blocking-read")
    (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory (core memory $memory "memory"))))
  (core module $main
    (import "w" "memory" (memory 1))
    (import "w" "in" (func $get-in (result i32)))
    (import "w" "out" (func $get-out (result i32)))
    (import "w" "read" (func $read (param i32 i64 i32)))
    (import "w" "write" (func $write (param i32 i32 i32 i32)))
    (func (export "run") (result i32)
      (local $in i32) (local $out i32)
      (local.set $in (call $get-in))
      (local.set $out (call $get-out))
      (loop $next
        (call $read (local.get $in) (i64.const 4096) (i32.const 0))
        (if (i32.load8_u (i32.const 0)) (then
          ;; The stream is closed, or the read has failed.
          (if (i32.load8_u (i32.const 4)) (then (return (i32.const 0))) (else unreachable))))
        (call $write
          (local.get $out) (i32.load (i32.const 4)) (i32.load (i32.const 8)) (i32.const 0))
        (if (i32.load8_u (i32.const 0)) (then (return (i32.const 1))))
        (br $next))
      unreachable))
  (core instance $main (instantiate $main (with "w" (instance
    (export "memory" (memory $memory "memory"))
    (export "in" (func $get-in))
    (export "out" (func $get-out))
    (export "read" (func $read))
    (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))
