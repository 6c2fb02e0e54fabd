// 0 (fib)
L1:
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    stp x19, x20, [sp, #-0x10]!
    mov x20, x2
    cmp w3, #0x2
    mov x19, x3
    b.lo L2
    mov x0, x19
    sub w3, w0, #0x1
    mov x2, x20
    bl L1                                    // 0 (fib)
    mov x3, x19
    mov x19, x2
    sub w3, w3, #0x2
    mov x2, x20
    bl L1                                    // 0 (fib)
    mov x0, x19
    add w3, w0, w2
    b L3
L2:
    mov x3, x19
L3:
    mov x2, x3
    ldp x19, x20, [sp], #0x10
    ldp x29, x30, [sp], #0x10
    ret
