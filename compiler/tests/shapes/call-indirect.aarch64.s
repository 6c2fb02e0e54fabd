// 0 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov x0, #0xfffffffffffffdb0
    ldr x0, [x2, x0]
    mov x1, #0xfffffffffffffdb8
    ldr x1, [x2, x1]
    mov w4, w4
    cmp x4, x1
    b.hs L3
    add x5, x0, x4, lsl #3
    cmp x4, x1
    csel x0, x0, x5, hs
    csdb
    ldr x0, [x0]
    cbz x0, L2
    ldr w1, [x0, #0x10]
    mov x4, #0xfffffffffffffdac
    ldr w4, [x2, x4]
    cmp w1, w4
    b.ne L1
    mov x2, #0x0
    cmp w1, w4
    csel x0, x2, x0, ne
    csdb
    ldr x1, [x0]
    ldr x2, [x0, #0x8]
    blr x1
    ldp x29, x30, [sp], #0x10
    ret
L1:
    bl outside                               // stub of trap "indirect call type mismatch"
    udf #0xc11f
L2:
    bl outside                               // stub of trap "uninitialized element"
    udf #0xc11f
L3:
    bl outside                               // stub of trap "undefined element"
    udf #0xc11f
