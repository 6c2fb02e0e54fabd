// 0 (run)
// 27 instructions, 12.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov w4, #0x0
    cbz x3, L1
    and x0, x3, #0x7
    mov w4, #0x0
    cbnz x0, L1
    and x0, x3, #0x7
    mov x1, #0x0
    cmp x0, xzr
    csel x3, x1, x3, ne
    csdb
    ldr w0, [x3]
    mov x1, #0xfffffffffffffdb8
    ldr w1, [x2, x1]
    cmp w0, w1
    cset x4, eq
L1:
    tst w4, #0xff
    b.eq L3
    mov x0, #0x0
    tst w4, #0xff
    csel x0, x0, x3, eq
    csdb
    cbz x0, L2
    ldr x2, [x0, #0x10]
    ldp x29, x30, [sp], #0x10
    ret
L2:
    bl outside                               // stub of trap "null structure reference"
    udf #0xc11f
L3:
    bl outside                               // stub of trap "cast failure"
    udf #0xc11f

// 1 (open)
// 40 instructions, 23.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov w4, #0x0
    cbz x3, L4
    and x0, x3, #0x7
    mov w4, #0x0
    cbnz x0, L4
    and x0, x3, #0x7
    mov x1, #0x0
    cmp x0, xzr
    csel x3, x1, x3, ne
    csdb
    ldr w1, [x3]
    mov x0, #0xfffffffffffffdbc
    ldr w0, [x2, x0]
    cmp w1, w0
    cset x4, eq
    cmp w1, w0
    b.eq L4
    ldur x5, [x2, #-0x48]
    ldr x1, [x5, w1, uxtw #3]
    mov w4, #0x0
    cbz w1, L4
    lsr x4, x1, #0x20
    ldr w4, [x5, x4]
    cmp w4, w0
    cset x0, eq
    cmp w1, #0x0
    cset x1, ne
    and w4, w0, w1
L4:
    tst w4, #0xff
    b.eq L6
    mov x0, #0x0
    tst w4, #0xff
    csel x0, x0, x3, eq
    csdb
    cbz x0, L5
    ldr w2, [x0, #0x8]
    ldp x29, x30, [sp], #0x10
    ret
L5:
    bl outside                               // stub of trap "null structure reference"
    udf #0xc11f
L6:
    bl outside                               // stub of trap "cast failure"
    udf #0xc11f
