// 0 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    adrp x0, outside                         // table 0
    add x0, x0, :lo12:outside                // table 0
    mov w1, w4
    mov x4, #0x3
    cmp x1, #0x3
    csel x1, x4, x1, hs
    csdb
    lsl x4, x1, #0x3
    add x1, x0, x1, lsl #3
    ldr w1, [x1, #0x4]
    cbnz w1, L1
    ldrsw x5, [x0, x4]
    mov x4, #0x0
    add x0, x0, x5
    cmp w1, wzr
    csel x0, x4, x0, ne
    csdb
    blr x0
    ldp x29, x30, [sp], #0x10
    ret
L1:
    mov w3, w1
    bl outside                               // stub of traps in calls by a table
    udf #0xc11f

// 1 (one)
// 5 instructions, 5.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    add w2, w3, #0x1
    ldp x29, x30, [sp], #0x10
    ret

// 2 (two)
// 5 instructions, 5.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mul w2, w3, w3
    ldp x29, x30, [sp], #0x10
    ret

// 3 (three)
// 5 instructions, 5.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    clz w2, w3
    ldp x29, x30, [sp], #0x10
    ret
