// 0 (run)
// 19 instructions, 10.1 cycles (llvm-mca, neoverse-n1)
L1:
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    fcmp d0, d0
    b.vs L3
    ldr d16, L4
    fcmp d0, d16
    cset x14, ls
    mov x13, #0x41e0000000000000
    fmov d16, x13
    fcmp d0, d16
    cset x15, ge
    orr w15, w14, w15
    tst w15, #0xff
    b.ne L2
    fcvtzs w0, d0
    fcvtzu w1, d0
    add w2, w0, w1
    ldp x29, x30, [sp], #0x10
    ret
L2:
    bl outside                               // stub of trap "integer overflow"
    udf #0xc11f
L3:
    bl outside                               // stub of trap "invalid conversion to integer"
    udf #0xc11f
    .byte L1,0x00,0x00,0x00
L4:
    .byte L1,0x00,0x20,0x00,0x00,0x00,0xe0,0xc1
