// 0 (run)
// 28 instructions, 19.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    str x28, [sp, #-0x10]!
    stp x26, x27, [sp, #-0x10]!
    stp x24, x25, [sp, #-0x10]!
    mov w15, w3
    and x0, x15, #0x3
    cbnz x0, L4
    add x25, x2, w3, uxtw
    mov w26, #0x1
L1:
    ldaxr w27, [x25]
    add w28, w27, w26
    stlxr w24, w28, [x25]
    cbnz x24, L1
    and x14, x15, #0x7
    cbnz x14, L3
    add x25, x25, #0x8
    mov x26, x4
L2:
    ldaxr x27, [x25]
    add x28, x27, x26
    stlxr w24, x28, [x25]
    cbnz x24, L2
    mov x2, x27
    ldp x24, x25, [sp], #0x10
    ldp x26, x27, [sp], #0x10
    ldr x28, [sp], #0x10
    ldp x29, x30, [sp], #0x10
    ret
L3:
    bl outside                               // stub of trap "unaligned atomic"
    udf #0xc11f
L4:
    bl outside                               // stub of trap "unaligned atomic"
    udf #0xc11f
