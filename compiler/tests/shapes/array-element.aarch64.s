// 0 (run)
// 16 instructions, 8.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    cbz x3, L2
    ldur w11, [x3, #0x2]
    cmp w4, w11
    b.hs L1
    mov w13, w4
    mov w14, w11
    add x15, x3, w4, uxtw
    mov x0, #0x0
    cmp x13, x14
    csel x14, x0, x15, hs
    csdb
    ldrb w2, [x14, #0x6]
    ldp x29, x30, [sp], #0x10
    ret
L1:
    bl outside                               // stub of trap "out of bounds array access"
    udf #0xc11f
L2:
    bl outside                               // stub of trap "null array reference"
    udf #0xc11f
