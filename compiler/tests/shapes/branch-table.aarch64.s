// 0 (run)
// 24 instructions, 14.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    cmp w3, #0x3
    mov x12, #0x3
    csel x12, x3, x12, lo
    csdb
    adr x11, L1
    ldrsw x12, [x11, w12, uxtw #2]
    add x11, x11, x12
    br x11
L1:
    .long L4-L1
    .long L3-L1
    .long L2-L1
    .long L5-L1
L2:
    mov w11, #0x21
    mul w2, w4, w11
    ldp x29, x30, [sp], #0x10
    ret
L3:
    mov w12, #0x16
    eor w2, w4, w12
    ldp x29, x30, [sp], #0x10
    ret
L4:
    add w2, w4, #0xb
    ldp x29, x30, [sp], #0x10
    ret
L5:
    ror w2, w4, #0x1c
    ldp x29, x30, [sp], #0x10
    ret
