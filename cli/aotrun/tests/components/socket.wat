;; A command that makes a TCP socket. It returns an error if it gets none.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (type $codes (enum
      "unknown"
      "access-denied"
      "not-supported"
      "invalid-argument"
      "out-of-memory"
      "timeout"
      "concurrency-conflict"
      "not-in-progress"
      "would-block"
      "invalid-state"
      "new-socket-limit"
      "address-not-bindable"
      "address-in-use"
      "remote-unreachable"
      "connection-refused"
      "connection-reset"
      "connection-aborted"
      "datagram-too-large"
      "name-unresolvable"
      "temporary-resolver-failure"
      "permanent-resolver-failure"))
    (export "error-code" (type (eq $codes)))
    (type $families (enum "ipv4" "ipv6"))
    (export "ip-address-family" (type (eq $families)))))
  (alias export $network "error-code" (type $code-type))
  (alias export $network "ip-address-family" (type $family-type))
  (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
  (alias export $tcp "tcp-socket" (type $socket-type))
  (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
    (alias outer 1 $code-type (type $outer-code))
    (export "error-code" (type $code (eq $outer-code)))
    (alias outer 1 $family-type (type $outer-family))
    (export "ip-address-family" (type $family (eq $outer-family)))
    (alias outer 1 $socket-type (type $outer-socket))
    (export "tcp-socket" (type $socket (eq $outer-socket)))
    (export "create-tcp-socket" (func
      (param "address-family" $family) (result (result (own $socket) (error $code)))))))
  (core module $memory (memory (export "memory") 1))
  (core instance $memory (instantiate $memory))
  (core func $create (canon lower (func $create "create-tcp-socket")
    (memory (core memory $memory "memory"))))
  (core module $main
    (import "w" "memory" (memory 1))
    (import "w" "create" (func $create (param i32 i32)))
    (func (export "run") (result i32)
      (call $create (i32.const 0) (i32.const 0))
      (i32.load8_u (i32.const 0))))
  (core instance $main (instantiate $main (with "w" (instance
    (export "memory" (memory $memory "memory"))
    (export "create" (func $create))))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))
