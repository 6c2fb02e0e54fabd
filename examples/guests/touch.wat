;; Writes the given number of 4 KiB pages, which the reset must then restore.
;; The image is one byte in each of the first three pages; the rest starts as zeros.
;; expect: touch(8) -> 8
;; expect: sum(1104) -> 6
;; expect: sum(1104) -> 14 after touch(8) in the same instance, 6 again in the next one
;; expect: touch(1105) -> trap: out of bounds memory access
(module
  (memory (export "memory") 69) ;; 69 * 16 = 1104 pages of 4 KiB
  (data (i32.const 0) "\01")
  (data (i32.const 4096) "\02")
  (data (i32.const 8192) "\03")

  ;; Adds one to the first byte of each of the first $pages pages.
  (func (export "touch") (param $pages i32) (result i32)
    (local $page i32)
    (block $done
      (loop $again
        (br_if $done (i32.ge_u (local.get $page) (local.get $pages)))
        (call $bump (i32.shl (local.get $page) (i32.const 12)))
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (br $again)))
    (local.get $page))

  (func $bump (param $at i32)
    (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at)) (i32.const 1))))

  ;; Reads the first byte of each of the first $pages pages.
  (func (export "sum") (param $pages i32) (result i32)
    (local $page i32) (local $sum i32)
    (block $done
      (loop $again
        (br_if $done (i32.ge_u (local.get $page) (local.get $pages)))
        (local.set $sum (i32.add (local.get $sum) (i32.load8_u (i32.shl (local.get $page) (i32.const 12)))))
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (br $again)))
    (local.get $sum)))
