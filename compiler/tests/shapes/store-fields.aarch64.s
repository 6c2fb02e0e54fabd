// 0 (run)
// 12 instructions, 7.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    add x8, x2, w3, uxtw
    ldr w9, [x8, #0x4]
    add w9, w9, w4
    str w9, [x8, #0x4]
    mov w9, #0x7
    strb w9, [x8, #0x8]
    sxtw x10, w4
    str x10, [x8, #0x10]
    ldp x29, x30, [sp], #0x10
    ret
