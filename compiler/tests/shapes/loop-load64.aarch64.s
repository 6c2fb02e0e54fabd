// 0 (run)
// 17 instructions, 8.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov x15, x2
    mov x2, #0x0
L1:
    mov w14, w3
    cmp x14, x3
    b.ne L2
    mov x0, x15
    add x1, x0, w3, uxtw
    ldr w0, [x1, #0x8]
    sub w4, w4, #0x1
    add x2, x2, x0
    add x3, x3, #0x4
    cbnz w4, L1
    ldp x29, x30, [sp], #0x10
    ret
L2:
    mov x2, x15
    bl outside                               // stub of trap "out of bounds memory access"
    udf #0xc11f
