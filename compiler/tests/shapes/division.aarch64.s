// 0 (run)
// 24 instructions, 39.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    cbz w4, L3
    mov w13, #0xffffffff
    cmp w4, w13
    cset x14, eq
    mov w15, #0x80000000
    cmp w3, w15
    cset x15, eq
    and w15, w14, w15
    tst w15, #0xff
    b.ne L2
    cbz w4, L4
    cmn w4, #0x1
    ccmp w3, #0x1, #0x0, eq
    b.vs L5
    sdiv w0, w3, w4
    cbz w4, L1
    cbz w4, L6
    sdiv w1, w3, w4
    msub w1, w1, w4, w3
    add w2, w0, w1
    ldp x29, x30, [sp], #0x10
    ret
L1:
    bl outside                               // stub of trap "integer divide by zero"
    udf #0xc11f
L2:
    bl outside                               // stub of trap "integer overflow"
    udf #0xc11f
L3:
    bl outside                               // stub of trap "integer divide by zero"
    udf #0xc11f
L4:
    udf #0xc11f
L5:
    udf #0xc11f
L6:
    udf #0xc11f
