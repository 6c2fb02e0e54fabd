;; Guests that do not stop by themselves, for deadlines and kills.
;; expect: turns(1000) -> 1000
;; expect: spin, spin_writing and spin_calling never return
(module
  (memory (export "memory") 1)

  ;; An empty endless loop: no memory access and no call.
  (func (export "spin")
    (loop $again (br $again)))

  ;; Stopped here, the guest leaves written memory behind.
  (func (export "spin_writing")
    (loop $again
      (i32.store (i32.const 1024) (i32.add (i32.load (i32.const 1024)) (i32.const 1)))
      (br $again)))

  ;; Stopped here, the guest is in a callee about half of the time.
  (func (export "spin_calling")
    (loop $again
      (call $step)
      (br $again)))

  (func $step
    (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))))

  ;; Returns after the given number of iterations (at least one), so the loop can be measured.
  (func (export "turns") (param $turns i64) (result i64)
    (local $done i64)
    (loop $again
      (local.set $done (i64.add (local.get $done) (i64.const 1)))
      (br_if $again (i64.lt_u (local.get $done) (local.get $turns))))
    (local.get $done)))
