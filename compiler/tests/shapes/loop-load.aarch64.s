// 0 (run)
// 13 instructions, 9.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov x13, x2
    mov x2, #0x0
    mov x15, x13
L1:
    add x13, x15, w3, uxtw
    ldr w13, [x13, #0x8]
    sub w4, w4, #0x1
    add x2, x2, x13
    add w3, w3, #0x4
    cbnz w4, L1
    ldp x29, x30, [sp], #0x10
    ret
