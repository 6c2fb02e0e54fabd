;; Grows by 1 MiB and writes to it until growth is refused. Then it traps, like an allocator that
;; gets no memory. expect: 502
(module (memory (export "memory") 1)
  (func (export "_start") (local $page i32)
    (loop $again
      (local.set $page (memory.grow (i32.const 16)))
      (if (i32.eq (local.get $page) (i32.const -1)) (then (unreachable)))
      (i32.store (i32.shl (local.get $page) (i32.const 16)) (i32.const 1))
      (br $again))))
