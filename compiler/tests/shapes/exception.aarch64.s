// 0 (checked)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    sub sp, sp, #0x10
    mov x7, x2
    cmp w3, #0x0
    mov x2, x3
    b.lt L1
    add sp, sp, #0x10
    ldp x29, x30, [sp], #0x10
    ret
L1:
    mov x4, sp
    stur w2, [sp]
    mov x3, #0x0
    mov x2, x7
    bl outside                               // trampoline of throw
    udf #0xc11f

// 1 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    stp x27, x28, [sp, #-0x10]!
    stp x25, x26, [sp, #-0x10]!
    stp x23, x24, [sp, #-0x10]!
    stp x21, x22, [sp, #-0x10]!
    stp x19, x20, [sp, #-0x10]!
    stp d14, d15, [sp, #-0x10]!
    stp d12, d13, [sp, #-0x10]!
    stp d10, d11, [sp, #-0x10]!
    stp d8, d9, [sp, #-0x10]!
    sub sp, sp, #0x10
    stur x2, [sp]
    bl outside                               // 0 (checked)
    add sp, sp, #0x10
    ldp d8, d9, [sp], #0x10
    ldp d10, d11, [sp], #0x10
    ldp d12, d13, [sp], #0x10
    ldp d14, d15, [sp], #0x10
    ldp x19, x20, [sp], #0x10
    ldp x21, x22, [sp], #0x10
    ldp x23, x24, [sp], #0x10
    ldp x25, x26, [sp], #0x10
    ldp x27, x28, [sp], #0x10
    ldp x29, x30, [sp], #0x10
    ret
    ldur x2, [sp]
    ldur x15, [x2, #-0x40]
    mov x14, #0xfffffffffffffd88
    ldr x0, [x2, x14]
    cmp x15, x0
    b.ne L2
    ldur x1, [x2, #-0x38]
    mov x2, #0x0
    cmp x15, x0
    csel x0, x2, x1, ne
    csdb
    ldr w2, [x0]
    add sp, sp, #0x10
    ldp d8, d9, [sp], #0x10
    ldp d10, d11, [sp], #0x10
    ldp d12, d13, [sp], #0x10
    ldp d14, d15, [sp], #0x10
    ldp x19, x20, [sp], #0x10
    ldp x21, x22, [sp], #0x10
    ldp x23, x24, [sp], #0x10
    ldp x25, x26, [sp], #0x10
    ldp x27, x28, [sp], #0x10
    ldp x29, x30, [sp], #0x10
    ret
L2:
    bl outside                               // trampoline of rethrow
    udf #0xc11f
