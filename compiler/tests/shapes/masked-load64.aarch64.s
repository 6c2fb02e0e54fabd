// 0 (run)
// 11 instructions, 6.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    and w7, w3, #0x3ff
    mov w8, w7
    and x9, x3, #0x3ff
    cmp x8, x9
    b.ne L1
    add x9, x2, w7, uxtw
    ldrb w2, [x9, #0x10]
    ldp x29, x30, [sp], #0x10
    ret
L1:
    bl outside                               // stub of trap "out of bounds memory access"
    udf #0xc11f
