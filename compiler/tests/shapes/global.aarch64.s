// 0 (run)
// 10 instructions, 7.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov x5, #0xfffffffffffffdb0
    ldr w7, [x2, x5]
    mov x11, x2
    sub w2, w7, w3
    mov x6, #0xfffffffffffffdb0
    str w2, [x11, x6]
    ldp x29, x30, [sp], #0x10
    ret
